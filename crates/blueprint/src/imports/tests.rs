use serde_json::json;

use super::*;
use crate::testing::{load, supplied};

fn imports(blueprint: &str, given: &str) -> Result<Imports, String> {
    let blueprint = load(&format!("imports:\n{blueprint}"), &[]).unwrap();
    construct(&blueprint, "inst", &supplied(given), None).map_err(|errors| {
        errors.iter().map(|error| format!("{}: {error}", error.reason())).collect::<Vec<_>>().join("\n")
    })
}

/// Checks the value of `imports` in templates. `expected` is its JSON.
#[track_caller]
fn check(blueprint: &str, given: &str, expected: &str) {
    let values = imports(blueprint, given).map(|imports| Value::Object(imports.values).to_string());
    assert_eq!(values.as_deref(), Ok(expected), "{blueprint}\n{given}");
}

#[track_caller]
fn check_error(blueprint: &str, given: &str, expected: &str) {
    assert_eq!(imports(blueprint, given).unwrap_err(), expected, "{blueprint}\n{given}");
}

const MISSING_B: &str =
    r#"ImportNotFound: blueprint defines import "b" of type data, which is not satisfied"#;

/// Case I-65: Targets are imported unchanged. A mapping of the same name neither replaces nor adds
/// one.
#[test]
fn mappings_leave_targets_alone() {
    for (blueprint, given) in [
        ("- {name: a, targetType: t}", "target: {a: landscaper.gardener.cloud/t}"),
        ("- {name: a, type: targetMap, targetType: t}", "map: {a: {red: landscaper.gardener.cloud/t}}"),
    ] {
        let plain = imports(blueprint, given).unwrap();
        let mapped =
            imports(blueprint, &format!("{given}\nmapped: {{a: {{spec: {{type: other}}}}}}")).unwrap();
        assert_eq!((plain.values.len(), mapped.values), (1, plain.values), "{blueprint}");
        let missing = imports(blueprint, "mapped: {a: {spec: {type: landscaper.gardener.cloud/t}}}");
        assert!(missing.unwrap_err().starts_with("ImportNotFound: "), "{blueprint}");
    }
}

/// Cases B-24, B-26 to B-29, B-34: `blueprints.md` 3.3.
#[test]
fn values_of_data_imports() {
    let required = "- {name: a, schema: {}}";
    let optional = "- {name: a, required: false, schema: {}}";
    let with_default = "- {name: a, required: false, schema: {}, default: {value: 5}}";
    for (blueprint, given, expected) in [
        (required, "data: {a: 1}", r#"{"a":1}"#),
        (required, "data: {a: null}", r#"{"a":null}"#),
        (required, "data: {a: 1}\nmapped: {a: 2}", r#"{"a":2}"#),
        (required, "mapped: {a: 2}", r#"{"a":2}"#),
        (required, "data: {a: 1, other: 2}\nmapped: {more: 3}", r#"{"a":1}"#),
        (optional, "{}", "{}"),
        (optional, "target: {a: x}", "{}"),
        (with_default, "{}", r#"{"a":5}"#),
        (with_default, "data: {a: 1}", r#"{"a":1}"#),
        (with_default, "data: {a: null}", r#"{"a":null}"#),
        ("- {name: a, required: false, schema: {}, default: 5}", "{}", r#"{"a":5}"#),
        ("- {name: a, required: false, schema: {}, default: {x: 5}}", "{}", r#"{"a":{"x":5}}"#),
        (
            "- {name: myimport, required: false, schema: {type: object}, default: {value: {username: foo, password: bar}}}",
            "{}",
            r#"{"myimport":{"password":"bar","username":"foo"}}"#,
        ),
    ] {
        check(blueprint, given, expected);
    }
    let missing = r#"ImportNotFound: blueprint defines import "a" of type data, which is not satisfied"#;
    check_error(required, "{}", missing);
    check_error(required, "target: {a: x}", missing);
    check_error("- {name: a, schema: {}, default: {value: 5}}", "{}", missing);
    check_error(
        "- {name: b, schema: {}}\n- {name: c, targetType: t}",
        "data: {c: 1}",
        &format!(
            "{MISSING_B}\nImportNotFound: blueprint defines import \"c\" of type target, which is not satisfied"
        ),
    );
}

/// Cases C-02 to C-05, C-08 to C-10, B-30: `blueprints.md` 3.6.
#[test]
fn conditional_imports() {
    let pair = "- {name: a, required: false, schema: {}, imports: [{name: b, schema: {}}]}";
    check(pair, "data: {a: 1, b: 2}", r#"{"a":1,"b":2}"#);
    check_error(pair, "data: {a: 1}", MISSING_B);
    check(pair, "{}", "{}");
    check(pair, "data: {b: 2}", "{}");
    for owner in ["''", "false", "null", "0"] {
        check_error(pair, &format!("data: {{a: {owner}}}"), MISSING_B);
    }
    let defaulted =
        "- {name: a, required: false, schema: {}, default: {value: 1}, imports: [{name: b, schema: {}}]}";
    check_error(defaulted, "{}", MISSING_B);
    check(defaulted, "data: {b: 2}", r#"{"a":1,"b":2}"#);
    let optional =
        "- {name: a, required: false, schema: {}, imports: [{name: b, required: false, schema: {}}]}";
    check(optional, "data: {a: 1}", r#"{"a":1}"#);
    let deep = "- {name: a, required: false, schema: {}, imports: [{name: b, required: false, schema: {}, \
                imports: [{name: c, schema: {type: string}}]}]}";
    check(deep, "data: {a: 1}", r#"{"a":1}"#);
    check(deep, "data: {a: 1, c: x}", r#"{"a":1}"#);
    check(deep, "data: {a: 1, b: 2, c: x}", r#"{"a":1,"b":2,"c":"x"}"#);
    check_error(
        deep,
        "data: {a: 1, b: 2}",
        r#"ImportNotFound: blueprint defines import "c" of type data, which is not satisfied"#,
    );
    check_error(
        deep,
        "data: {a: 1, b: 2, c: 3}",
        "SchemaValidationFailed: inst.a.b.c: imported datatype does not have the expected schema: (root): Invalid \
         value: <redacted>: Invalid type. Expected: string, given: integer",
    );
}

/// Case C-07, acceptance items 2 and 3: nested imports of every type, below owners of every type.
#[test]
fn conditional_imports_of_all_types() {
    let owners = [
        ("targetType: t", "target: {a: landscaper.gardener.cloud/t}"),
        ("type: targetMap, targetType: t", "map: {a: {red: landscaper.gardener.cloud/t}}"),
        ("type: targetList, targetType: t", "list: {a: [landscaper.gardener.cloud/t]}"),
        ("type: targetMap, targetType: t", "map: {a: {}}"),
    ];
    for (owner, given) in owners {
        let blueprint =
            format!("- {{name: a, required: false, {owner}, imports: [{{name: b, schema: {{}}}}]}}");
        check_error(&blueprint, given, MISSING_B);
        check(&blueprint, "data: {b: 1}", "{}");
        let values = imports(&blueprint, &format!("{given}\ndata: {{b: 1}}")).unwrap().values;
        assert_eq!(values["b"], json!(1), "{owner}");
    }
    let nested = "- {name: a, required: false, schema: {}, imports: [{name: b, targetType: t}, \
                  {name: c, type: targetMap, targetType: t, required: false}]}";
    let given =
        "data: {a: 1}\ntarget: {b: landscaper.gardener.cloud/t}\nmap: {c: {k: landscaper.gardener.cloud/t}}";
    let bound = imports(nested, given).unwrap();
    assert_eq!(bound.targets.keys().collect::<Vec<_>>(), ["b", "c"]);
    check_error(
        nested,
        "data: {a: 1}\ntarget: {b: x/t}",
        "SchemaValidationFailed: inst.a.b: imported target type is x/t but expected landscaper.gardener.cloud/t",
    );
}

/// Cases B-22, B-23, B-33, acceptance item 1: `blueprints.md` 3.5.
#[test]
fn target_imports() {
    let long = "landscaper.gardener.cloud/t";
    let object = |name: &str| json!({"kind": "Target", "metadata": {"name": name, "namespace": "source"}, "spec": {"type": long}});
    check(
        "- {name: a, targetType: t}",
        &format!("target: {{a: {long}}}"),
        &json!({"a": object("a")}).to_string(),
    );
    check(
        "- {name: a, type: targetMap, targetType: t}",
        &format!("map: {{a: {{red: {long}, blue: {long}}}}}"),
        &json!({"a": {"blue": object("a-blue"), "red": object("a-red")}}).to_string(),
    );
    check(
        "- {name: a, type: targetList, targetType: t}",
        &format!("list: {{a: [{long}]}}"),
        &json!({"a": [object("a-0")]}).to_string(),
    );
    check("- {name: a, type: targetList, targetType: t}", "list: {a: []}", r#"{"a":[]}"#);
}

/// Case I-79: the errors of `blueprints.md` 3.5.
#[test]
fn target_types() {
    let single = "- {name: a, targetType: t}";
    let map = "- {name: a, type: targetMap, targetType: t}";
    let list = "- {name: a, type: targetList, targetType: t}";
    let template = "does not match the expected target template schema";
    let fit = "landscaper.gardener.cloud/t";
    for (blueprint, given, problem) in [
        (single, "target: {a: x}", format!("imported target type is x but expected {fit}")),
        (single, "target: {a: null}", format!("imported target {template}")),
        (
            map,
            "map: {a: {blue: x}}",
            format!("type of the element at position blue of the imported targetmap is x but expected {fit}"),
        ),
        (
            map,
            "map: {a: {blue: null}}",
            format!("element at position blue of the imported targetmap {template}"),
        ),
        (
            list,
            "list: {a: [landscaper.gardener.cloud/t, x]}",
            format!("type of the element at position 1 of the imported targetlist is x but expected {fit}"),
        ),
        (list, "list: {a: [null]}", format!("element at position 0 of the imported targetlist {template}")),
    ] {
        check_error(blueprint, given, &format!("SchemaValidationFailed: inst.a: {problem}"));
    }
    // A value of another form does not satisfy the import.
    for (blueprint, given, type_name) in [
        (single, "map: {a: {}}", "target"),
        (map, "list: {a: []}", "targetMap"),
        (list, "target: {a: x}", "targetList"),
    ] {
        check_error(
            blueprint,
            given,
            &format!(
                "ImportNotFound: blueprint defines import \"a\" of type {type_name}, which is not satisfied"
            ),
        );
    }
}

/// Cases B-15, B-21, B-35, B-36, `blueprints.md` 3.7: the default is checked too, and messages
/// contain no values.
#[test]
fn schema_failures() {
    let prefix = "SchemaValidationFailed: inst.limits: imported datatype does not have the expected schema: ";
    let limits =
        "- {name: limits, schema: {type: object, required: [cpu], properties: {cpu: {type: string}}}}";
    check_error(
        limits,
        "data: {limits: {cpu: 1}}",
        &format!(
            "{prefix}limits.cpu: Invalid value: <redacted>: Invalid type. Expected: string, given: integer"
        )
        .replace(": limits.cpu", ": cpu"),
    );
    check_error(
        limits,
        "data: {limits: {}}",
        &format!("{prefix}(root): Invalid value: <redacted>: cpu is required"),
    );
    check_error(
        "- {name: limits, required: false, schema: {type: integer}, default: {value: text}}",
        "{}",
        &format!("{prefix}(root): Invalid value: <redacted>: Invalid type. Expected: integer, given: string"),
    );
    check_error(
        "- {name: limits, schema: {$ref: 'local://nope'}}",
        "data: {limits: 1}",
        "SchemaValidationFailed: inst.limits: validator creation failed: error compiling jsonschema: error resolving \
         reference at .$ref: type nope is not defined in local types",
    );
}

/// Case B-14: the dialect of the blueprint decides the meaning of a keyword.
#[test]
fn default_dialect_of_schemas() {
    let check = |version: &str, fits: bool| {
        let text = format!(
            "jsonSchemaVersion: {version}\nimports: [{{name: a, schema: {{$defs: {{s: {{type: string}}}}, \
             dependentRequired: {{a: [b]}}}}}}]"
        );
        let blueprint = load(&text, &[]).unwrap();
        assert_eq!(
            construct(&blueprint, "i", &supplied("data: {a: {a: 1}}"), None).is_ok(),
            fits,
            "{version}"
        );
    };
    check("https://json-schema.org/draft/2019-09/schema", false);
    check("http://json-schema.org/draft-07/schema#", true);
}

const CANARY: &str = "c4nary-v4lue";

/// `blueprints.md` 10: errors contain no value of an import, for any keyword of the schema.
#[test]
fn values_never_show() {
    for schema in [
        "{type: integer}",
        "{enum: [x]}",
        "{const: x}",
        "{pattern: '^x$'}",
        "{format: ipv4}",
        "{maxLength: 1}",
        "{minLength: 100}",
        "{not: {type: string}}",
        "{anyOf: [{type: integer}]}",
        "{oneOf: [{type: integer}, {type: array}]}",
        "{allOf: [{type: integer}]}",
        "{if: true, then: {type: integer}}",
        "false",
        "{contentEncoding: base64, maxLength: 2}",
    ] {
        let text = imports(&format!("- {{name: a, schema: {schema}}}"), &format!("data: {{a: {CANARY}}}"))
            .unwrap_err();
        assert!(text.starts_with("SchemaValidationFailed: inst.a: ") && !text.contains(CANARY), "{text}");
        let inner = format!("- {{name: a, schema: {{type: object, properties: {{x: {schema}}}}}}}");
        let text = imports(&inner, &format!("data: {{a: {{x: {CANARY}}}}}")).unwrap_err();
        assert!(!text.contains(CANARY), "{text}");
    }
    for schema in
        ["{uniqueItems: true}", "{contains: {type: integer}}", "{maxItems: 1}", "{items: [{type: integer}]}"]
    {
        let given = format!("data: {{a: [{CANARY}, {CANARY}]}}");
        let text = imports(&format!("- {{name: a, schema: {schema}}}"), &given).unwrap_err();
        assert!(!text.contains(CANARY), "{text}");
    }
}
