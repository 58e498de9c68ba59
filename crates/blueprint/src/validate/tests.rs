use crate::LoadError;
use crate::testing::load;

/// Returns all findings of a blueprint, one a line, then the warnings.
fn findings(text: &str) -> String {
    match load(text, &[]) {
        Ok(blueprint) => blueprint
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}"))
            .collect::<Vec<_>>()
            .join("\n"),
        Err(LoadError::Invalid { errors, .. }) => {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
        Err(other) => panic!("{text}: {other}"),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(findings(text), expected, "{text}");
}

/// Case B-24, rules V1 to V3 (`blueprints.md` 1.8): names and types of imports.
#[test]
fn names_and_types_of_imports() {
    check(
        "imports: [{name: a, schema: {}}, {name: a, schema: true}]",
        r#"imports[1][a]: Duplicate value: "duplicate import name""#,
    );
    check("imports: [{schema: {}}]", "imports[0].name: Required value: name must not be empty");
    check(
        "imports: [{name: a, type: foo, schema: {}}]",
        r#"imports[0][a].type: Unsupported value: "foo": supported values: "data", "target", "targetList", "targetMap""#,
    );
    check("imports: [{name: a, type: data, schema: {}}, {name: b, type: targetList, targetType: t}]", "");
}

/// Cases B-31, B-32, rules V4 to V9: data needs a schema, a Target needs a type, and neither may
/// have both.
#[test]
fn schema_and_target_type_of_imports() {
    check(
        "imports: [{name: a, type: data}]",
        "imports[0][a]: Required value: Schema must not be empty for type data",
    );
    for type_name in ["target", "targetMap", "targetList"] {
        check(
            &format!("imports: [{{name: a, type: {type_name}}}]"),
            &format!("imports[0][a]: Required value: TargetType must not be empty for type {type_name}"),
        );
        check(
            &format!("imports: [{{name: a, type: {type_name}, targetType: x/t, schema: {{}}}}]"),
            "imports[0][a]: Invalid value: {}: unexpected config 'Schema', only [TargetType] should be set",
        );
    }
    check(
        "imports: [{name: a, type: data, targetType: x/t, schema: {}}]",
        r#"imports[0][a]: Invalid value: "x/t": unexpected config 'TargetType', only [Schema] should be set"#,
    );
    check(
        "imports: [{name: a}]",
        "imports[0][a]: Required value: either schema or targetType must not be empty",
    );
    check(
        "imports: [{name: a, schema: {}, targetType: x/t}]",
        "imports[0][a]: Invalid value: null: either schema or targetType must be specified, not both",
    );
}

/// Cases B-30, C-01, C-06, C-09, rules V10, V11: names are unique over the whole tree, and owners
/// are optional.
#[test]
fn nested_imports() {
    check(
        "imports: [{name: a, schema: {}, imports: [{name: b, schema: {}}]}]",
        r#"imports[0][a]: Invalid value: "a": conditional imports on required import"#,
    );
    check(
        "imports: [{name: a, required: false, schema: {}, imports: [{name: c, schema: {}}, {name: a, schema: {}}]}, \
         {name: c, schema: {}}]",
        "imports[0][a].conditionalImports[1][a]: Duplicate value: \"duplicate import name\"\n\
         imports[1][c]: Duplicate value: \"duplicate import name\"",
    );
    let nested =
        |inner: &str| format!("imports: [{{name: a, required: false, schema: {{}}, imports: [{inner}]}}]");
    let at = "imports[0][a].conditionalImports[0]";
    for (inner, expected) in [
        ("{schema: {}}", ".name: Required value: name must not be empty"),
        ("{name: b}", "[b]: Required value: either schema or targetType must not be empty"),
        ("{name: b, type: data}", "[b]: Required value: Schema must not be empty for type data"),
        ("{name: b, type: target}", "[b]: Required value: TargetType must not be empty for type target"),
        (
            "{name: b, schema: {}, imports: [{name: c, schema: {}}]}",
            r#"[b]: Invalid value: "b": conditional imports on required import"#,
        ),
        (
            "{name: b, required: false, schema: {}, imports: [{name: c}]}",
            "[b].conditionalImports[0][c]: Required value: either schema or targetType must not be empty",
        ),
    ] {
        check(&nested(inner), &format!("{at}{expected}"));
    }
}

/// Cases B-37 to B-42, C-11, I-99, rules V12 to V16: an export has no field `required`.
#[test]
fn exports() {
    for (export, expected) in [
        ("{schema: {}}", "exports[0].name: Required value: name must not be empty"),
        (
            "{name: a, type: targetMap, targetType: t}",
            r#"exports[0][a].type: Unsupported value: "targetMap": supported values: "data", "target""#,
        ),
        ("{name: a, type: data}", "exports[0][a]: Required value: Schema must not be empty for type data"),
        (
            "{name: a, type: target}",
            "exports[0][a]: Required value: TargetType must not be empty for type target",
        ),
        (
            "{name: a, type: data, schema: {}, targetType: x/t}",
            r#"exports[0][a]: Invalid value: "x/t": unexpected config 'TargetType', only [Schema] should be set"#,
        ),
        (
            "{name: a, type: target, schema: {}, targetType: x/t}",
            "exports[0][a]: Invalid value: {}: unexpected config 'Schema', only [TargetType] should be set",
        ),
        (
            "{name: a}",
            "exports[0][a]: Required value: exactly one of [schema, targetType] must be set (currently set: none)",
        ),
        (
            "{name: a, schema: {}, targetType: t}",
            "exports[0][a]: Required value: exactly one of [schema, targetType] must be set (currently set: none)",
        ),
        ("{name: a, schema: {}, required: false}", ""),
        ("{name: a, targetType: t}", ""),
    ] {
        check(&format!("exports: [{export}]"), expected);
    }
    check(
        "exports: [{name: a, schema: {}}, {name: a, schema: {}}]",
        r#"exports[1][a]: Duplicate value: "duplicated export name""#,
    );
}

/// Rules V17 to V19, G1 to G3: equal for all four lists.
#[test]
fn executions() {
    for list in ["importExecutions", "deployExecutions", "exportExecutions", "subinstallationExecutions"] {
        for (executors, expected) in [
            ("[{type: GoTemplate, template: x}]", format!("warning: {list}[0].name: name must be defined")),
            ("[{name: a, template: x}]", format!("{list}[0][a].type: Required value: type must be defined")),
            (
                "[{name: a, type: Spiff}, {name: a, type: Spiff}]",
                format!(r#"{list}[1][a]: Duplicate value: "duplicated executor name""#),
            ),
            (
                "[{name: a, type: Spiff, file: x, template: y}]",
                format!(r#"{list}[0][a]: Invalid value: "x": exactly one of [file, template] must be set"#),
            ),
            (
                "[{name: a, type: spiff}]",
                format!(
                    r#"{list}[0][a].type: Unsupported value: "spiff": supported values: "GoTemplate", "Spiff""#
                ),
            ),
            ("[{name: a, type: GoTemplate, file: ''}, {name: b, type: Spiff, template: {}}]", String::new()),
        ] {
            check(&format!("{list}: {executors}"), &expected);
        }
    }
    check("importExecutions: [{name: a, type: Spiff}]\ndeployExecutions: [{name: a, type: Spiff}]", "");
}

/// Rule G4: an invalid schema is found before there are any values.
#[test]
fn schemas() {
    for (blueprint, path) in [
        ("imports: [{name: a, type: data, schema: 5}]", "imports[0][a].schema: Invalid value: 5"),
        (
            "imports: [{name: a, schema: {type: strin}}]",
            r#"imports[0][a].schema: Invalid value: {"type":"strin"}"#,
        ),
        (
            "exports: [{name: a, schema: {required: 1}}]",
            r#"exports[0][a].schema: Invalid value: {"required":1}"#,
        ),
        ("localTypes: {a: {minimum: x}}", r#"localTypes.a: Invalid value: "a""#),
    ] {
        let text = findings(blueprint);
        assert!(text.starts_with(&format!("{path}: schema is not a valid JSON schema: ")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    check("imports: [{name: a, schema: false}, {name: b, schema: {format: int32}}]", "");
    check(
        "imports: [{name: a, schema: {$schema: 'https://example.org/x'}}]",
        "warning: imports[0][a].schema: the dialect \"https://example.org/x\" is not known, so the schema is read as one without \
         $schema: name one such as https://json-schema.org/draft/2019-09/schema",
    );
}

/// Rule G5: warnings, because Landscaper ignores such defaults.
#[test]
fn defaults_without_effect() {
    check(
        "imports: [{name: a, schema: {}, default: {value: 1}}]",
        "warning: imports[0][a]: the default of a required import is never used",
    );
    check(
        "imports: [{name: a, required: false, targetType: t, default: {value: 1}}]",
        "warning: imports[0][a]: only data imports can have a default",
    );
    check("imports: [{name: a, required: false, schema: {}, default: {value: 1}}]", "");
}

#[track_caller]
fn check_template(members: &str, expected: &str) {
    check(&format!("subinstallations: [{{name: sub, blueprint: {{ref: x}}, {members}}}]"), expected);
}

/// Rules V20 to V24 (`blueprints.md` 1.8): installation templates.
#[test]
fn installation_templates() {
    let at = "subinstallations[0]";
    for (entry, expected) in [
        (
            "{}",
            format!(
                "{at}: Required value: exactly one of [file, inline template] must be set (currently set: none)"
            ),
        ),
        ("{file: a.yaml}", String::new()),
        ("{file: a.yaml, comment: ignored}", String::new()),
        ("{blueprint: {ref: x}}", format!("{at}.name: Required value: name must be defined")),
        ("{name: sub}", format!("{at}.blueprint: Required value: a blueprint must be defined")),
        (
            "{name: sub, blueprint: {ref: ''}}",
            format!("{at}.blueprint: Required value: a blueprint must be defined"),
        ),
        ("{name: sub, blueprint: {filesystem: {}}}", String::new()),
        (
            "{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: InstallationTemplate, name: sub, blueprint: {ref: x}}",
            String::new(),
        ),
        (
            "{kind: Installation, name: sub, blueprint: {ref: x}}",
            format!(
                r#"{at}.kind: Unsupported value: "Installation": supported values: "InstallationTemplate""#
            ),
        ),
    ] {
        check(&format!("subinstallations: [{entry}]"), &expected);
    }
    let long = "a".repeat(64);
    assert_eq!(
        findings(&format!("subinstallations: [{{name: {long}, blueprint: {{ref: x}}}}]")),
        format!(
            "{at}.name: Invalid value: {long:?}: must be no more than 63 characters\n{at}.name: Invalid value: \
             {long:?}: must be no more than 52 characters"
        )
    );
    let both = findings("subinstallations: [{file: a.yaml, name: sub}]");
    assert_eq!(
        both,
        format!(
            "{at}: Invalid value: null: exactly one of [file, inline template] must be set (currently set: \
             [file, inline template])"
        )
    );
    for name in ["-a", "a-", "A", "a.b", "a_b"] {
        let text = findings(&format!("subinstallations: [{{name: {name}, blueprint: {{ref: x}}}}]"));
        assert!(
            text.starts_with(&format!("{at}.name: Invalid value: {name:?}: a lowercase RFC 1123 label")),
            "{text}"
        );
    }
    let (fits, long) = ("a".repeat(52), "a".repeat(53));
    check(&format!("subinstallations: [{{name: {fits}, blueprint: {{ref: x}}}}]"), "");
    check(
        &format!("subinstallations: [{{name: {long}, blueprint: {{ref: x}}}}]"),
        &format!("{at}.name: Invalid value: {long:?}: must be no more than 52 characters"),
    );
}

/// Rules V25 to V34 (`blueprints.md` 1.8): imports of templates.
#[test]
fn imports_of_templates() {
    let data = "subinstallations[0].imports.data";
    for (entries, expected) in [
        ("[{name: a}]", format!("{data}[0].dataRef: Required value: dataRef must not be empty")),
        (
            "[{name: a, dataRef: x, secretRef: {name: s}}]",
            format!(
                "{data}[0].secretRef: Forbidden: secret references are not allowed in a installation template"
            ),
        ),
        (
            "[{name: a, dataRef: x, configMapRef: {name: s}}]",
            format!(
                "{data}[0].configMapRef: Forbidden: configMap references are not allowed in a installation template"
            ),
        ),
        ("[{dataRef: x}]", format!("{data}[0].name: Required value: name must not be empty")),
        ("[{name: a, dataRef: x}, {name: a, dataRef: z}]", format!("{data}[1]: Duplicate value: \"a\"")),
    ] {
        check_template(&format!("imports: {{data: {entries}}}"), &expected);
    }
    check_template(
        "imports: {data: [{name: a, dataRef: x}], targets: [{name: a, target: x}]}",
        "subinstallations[0].imports.targets[0]: Duplicate value: \"a\"",
    );
    let targets = "subinstallations[0].imports.targets[0]";
    let one_of = "exactly one of [target, targets, targetMap, targetMapRef, targetListRef] must be set";
    let key_rule = "key must contain only lower-case alphanumeric characters, dots, or dashes; it must begin and end \
                    with a lower-case alphanumeric character; it must not be empty, and not longer than 63 characters";
    for (entry, expected) in [
        ("{target: x}", format!("{targets}.name: Required value: name must not be empty")),
        ("{name: a}", format!("{targets}: Required value: {one_of} (currently set: none)")),
        (
            "{name: a, target: x, targetMapRef: z}",
            format!("{targets}: Invalid value: null: {one_of} (currently set: [target, targetMapRef])"),
        ),
        (
            "{name: a, targets: [x, '']}",
            format!("{targets}.targets[1]: Required value: target must not be empty"),
        ),
        ("{name: a, targets: []}", String::new()),
        ("{name: a, targetListRef: x}", String::new()),
        (
            "{name: a, targetMap: {-a: x}}",
            format!("{targets}.targetMap[-a]: Invalid value: \"-a\": {key_rule}"),
        ),
        (
            "{name: a, targetMap: {a.b-c: ''}}",
            format!("{targets}.targetMap[a.b-c]: Required value: target must not be empty"),
        ),
    ] {
        check_template(&format!("imports: {{targets: [{entry}]}}"), &expected);
    }
}

/// Rules V35 to V37 (`blueprints.md` 1.8): exports of templates.
#[test]
fn exports_of_templates() {
    let at = "subinstallations[0].exports";
    for (exports, expected) in [
        ("data: [{name: a}]", format!("{at}.data[0].dataRef: Required value: dataRef must not be empty")),
        ("data: [{dataRef: a}]", format!("{at}.data[0].name: Required value: name must not be empty")),
        ("targets: [{name: a}]", format!("{at}.targets[0].target: Required value: target must not be empty")),
        ("targets: [{target: a}]", format!("{at}.targets[0].name: Required value: name must not be empty")),
        (
            "data: [{name: a, dataRef: x}, {name: a, dataRef: z}]",
            format!("{at}.data[1]: Duplicate value: \"a\""),
        ),
        (
            "data: [{name: a, dataRef: x}], targets: [{name: a, target: z}]",
            format!("{at}.targets[0]: Duplicate value: \"a\""),
        ),
    ] {
        check_template(&format!("exports: {{{exports}}}"), &expected);
    }
}

/// All findings are reported at once, as one text.
#[test]
fn all_findings_are_reported() {
    let error = load("imports: [{name: a}]\nexports: [{schema: {}}]", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "blueprint is invalid: [imports[0][a]: Required value: either schema or targetType must not be empty, \
         exports[0].name: Required value: name must not be empty]"
    );
}

/// A finding about an element without a name shows its index only. Nulls are omitted, as in Go.
#[test]
fn nameless_and_null() {
    for (text, expected) in [
        (
            "imports: [~]",
            "imports[0].name: Required value: name must not be empty\nimports[0]: Required value: either schema or \
             targetType must not be empty",
        ),
        (
            "exports: [{type: foo}]",
            "exports[0].name: Required value: name must not be empty\nexports[0].type: Unsupported value: \"foo\": \
             supported values: \"data\", \"target\"",
        ),
        ("deployExecutions: [~]", "deployExecutions[0].type: Required value: type must be defined"),
        ("annotations: {a: ~}", ""),
        (
            "subinstallations: [{name: a, blueprint: {ref: x}, exports: {data: [~]}}]",
            "subinstallations[0].exports.data[0].name: Required value: name must not be empty\n\
             subinstallations[0].exports.data[0].dataRef: Required value: dataRef must not be empty",
        ),
    ] {
        check(text, expected);
    }
}
