use crate::{Blueprint, Filesystem, Severity};

/// Returns all findings, one a line: severity, place, message. The place includes the text from its
/// column on.
fn findings(blueprint: &str, files: &[(&str, &str)]) -> Vec<String> {
    let mut tree = Filesystem::default();
    tree.insert("blueprint.yaml", blueprint).unwrap();
    for (path, content) in files {
        tree.insert(path, *content).unwrap();
    }
    let found = Blueprint::check(&tree).unwrap();
    let one = |finding: &crate::Finding| {
        let severity = if finding.severity == Severity::Error { "" } else { "warning: " };
        let place = finding.excerpt.as_ref().map_or_else(String::new, |excerpt| {
            let from = excerpt.column.map_or(0, |column| column - 1);
            let rest: String = excerpt.text.chars().skip(from).collect();
            format!("{}:{} {rest:?} ", excerpt.origin, excerpt.line)
        });
        format!("{severity}{place}{finding}")
    };
    found.iter().map(one).collect()
}

#[track_caller]
fn check(blueprint: &str, files: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(findings(blueprint, files), expected, "{blueprint}");
}

/// Case B-09: a blueprint needs its file.
#[test]
fn what_is_no_blueprint() {
    assert!(Blueprint::check(&Filesystem::default()).is_err());
    check(
        "imports: [\n",
        &[],
        &[
            r#"blueprint.yaml:1 "[" unable to decode blueprint definition: blueprint.yaml: unclosed bracket '['"#,
        ],
    );
    check(
        "kind: Installation\n",
        &[],
        &[
            r#"blueprint.yaml:1 "Installation" unable to decode blueprint definition: blueprint.yaml: kind must be "Blueprint" if it is given"#,
        ],
    );
}

/// Cases C-06, B-31: errors and warnings of loading come with their place, in the order of the
/// lines.
#[test]
fn rules_of_the_file() {
    check(
        "\
deployExecutions:
- {type: GoTemplate, template: ''}
imports:
- {name: a, schema: {}, default: {value: 1}}
- name: b
  type: target
  schema: {}
- {name: c, schema: {}, imports: [{name: d, schema: {type: 5}}]}
",
        &[],
        &[
            "warning: blueprint.yaml:2 \"{type: GoTemplate, template: ''}\" deployExecutions[0].name: name must be defined",
            "warning: blueprint.yaml:4 \"{name: a, schema: {}, default: {value: 1}}\" imports[0][a]: the default of a required import is never used",
            "blueprint.yaml:5 \"name: b\" imports[1][b]: Required value: TargetType must not be empty for type target",
            "blueprint.yaml:5 \"name: b\" imports[1][b]: Invalid value: {}: unexpected config 'Schema', only [TargetType] should be set",
            "blueprint.yaml:8 \"{name: c, schema: {}, imports: [{name: d, schema: {type: 5}}]}\" imports[2][c]: Invalid value: \"c\": conditional imports on required import",
            "blueprint.yaml:8 \"schema: {type: 5}}]}\" imports[2][c].conditionalImports[0][d].schema: Invalid value: {\"type\":5}: schema is not a valid JSON schema: 5 is not valid under any of the schemas listed in the 'anyOf' keyword at /type",
        ],
    );
}

/// Dangling references are reported, except those to components, which are unknown here.
#[test]
fn references_of_schemas() {
    check(
        "\
localTypes: {port: {type: integer}}
imports:
- {name: a, schema: {$ref: 'local://port'}}
- {name: b, schema: {$ref: 'local://nope'}}
- {name: c, schema: {$ref: 'blueprint://t.json'}}
- {name: d, schema: {$ref: 'blueprint://missing.json'}}
- {name: e, schema: {properties: {x: {$ref: 'cd://resources/x#/definitions/y'}}}}
exports:
- {name: f, schema: {$ref: 'local://nope'}}
",
        &[("t.json", "{\"type\": \"string\"}")],
        &[
            "blueprint.yaml:4 \"schema: {$ref: 'local://nope'}}\" imports[1][b].schema: error compiling jsonschema: error resolving reference at .$ref: type nope is not defined in local types",
            "blueprint.yaml:6 \"schema: {$ref: 'blueprint://missing.json'}}\" imports[3][d].schema: error compiling jsonschema: error resolving reference at .$ref: unable to read local schema from missing.json: file does not exist",
            "blueprint.yaml:9 \"schema: {$ref: 'local://nope'}}\" exports[0][f].schema: error compiling jsonschema: error resolving reference at .$ref: type nope is not defined in local types",
        ],
    );
}

/// Cases B-16, B-17: templates in both languages, inline and in files.
#[test]
fn templates() {
    check(
        "\
deployExecutions:
- {name: gone, type: GoTemplate, file: gone.tpl}
- {name: none, type: GoTemplate}
- {name: list, type: GoTemplate, template: [1]}
- name: block
  type: GoTemplate
  template: |
    deployItems:
    {{ if }}
- {name: line, type: GoTemplate, template: '{{ nope }}'}
- {name: file, type: GoTemplate, file: /d/a.tpl}
exportExecutions:
- name: structure
  type: Spiff
  template:
    exports:
      a: (( 1 + ))
- name: text
  type: Spiff
  template: |
    exports:
      a: (( 1 + ))
      b: [
- {name: file, type: Spiff, file: a.yaml}
- {name: two, type: Spiff, template: \"a: 1\\n---\\nb: 1\\n\"}
",
        &[("d/a.tpl", "a\n{{ end }}\n"), ("a.yaml", "exports:\n  b: (( a b ( ))\n")],
        &[
            "blueprint.yaml:2 \"file: gone.tpl}\" deployExecutions[0][gone]: unable to read template file \"gone.tpl\" of execution \"gone\": file does not exist",
            "blueprint.yaml:3 \"{name: none, type: GoTemplate}\" deployExecutions[1][none]: no template found in execution \"none\": set file or template",
            "blueprint.yaml:4 \"template: [1]}\" deployExecutions[2][list]: the template of execution \"list\" is not a text",
            "blueprint.yaml:9 \"    {{ if }}\" deployExecutions[3][block]: template: execution:2: missing value for if",
            "blueprint.yaml:10 \"- {name: line, type: GoTemplate, template: '{{ nope }}'}\" deployExecutions[4][line]: template: execution:1: function \"nope\" not defined",
            "blueprint.yaml:17 \"a: (( 1 + ))\" exportExecutions[0][structure]: parse error near symbol 5 - symbol 6: ' '",
            "blueprint.yaml:23 \"[\" exportExecutions[1][text]: error parsing template: line 3, column 6: unclosed bracket '['",
            "blueprint.yaml:25 \"a: 1\\\\n---\\\\nb: 1\\\\n\\\"}\" exportExecutions[3][two]: multi document not possible",
            "a.yaml:2 \"(( a b ( ))\" exportExecutions[2][file]: parse error near symbol 7 - symbol 8: ' '",
            "d/a.tpl:2 \"{{ end }}\" deployExecutions[5][file]: template: execution:2: unexpected {{end}}",
        ],
    );
}

/// The check finds the first line of a template inside the file, with any text before it.
#[test]
fn blocks() {
    for (template, place) in [
        ("|\n    a\n    {{ if }}\n", "blueprint.yaml:6 \"    {{ if }}\""),
        ("|- # why\n\n\n    {{ if }}\n", "blueprint.yaml:7 \"    {{ if }}\""),
        ("|2+\n\n      {{ if }}\n", "blueprint.yaml:6 \"      {{ if }}\""),
        ("\"{{ if }}\"\n", "blueprint.yaml:4 \"  template: \\\"{{ if }}\\\"\""),
        (">\n    a\n    {{ if }}\n", "blueprint.yaml:4 \"template: >\""),
        ("'a\n\n    {{ if }}'\n", "blueprint.yaml:4 \"template: 'a\""),
    ] {
        let blueprint = format!("deployExecutions:\n- name: a\n  type: GoTemplate\n  template: {template}");
        let found = findings(&blueprint, &[]);
        assert!(found.len() == 1 && found[0].starts_with(place), "{blueprint}: {found:?}");
    }
}

/// Files that a template includes by name are checked, each once.
#[test]
fn inclusions() {
    check(
        "\
deployExecutions:
- name: a
  type: GoTemplate
  template: |
    {{ include \"gone.tpl\" . }}{{ include \"a.tpl\" . }}{{ include .file . }}
    {{ readFile \"gone.txt\" }}{{ readFile \"a.tpl\" }}
",
        &[("a.tpl", "{{ include \"/a.tpl\" . }}{{ include \"d/b.tpl\" . }}"), ("d/b.tpl", "{{")],
        &[
            "warning: blueprint.yaml:5 \"\\\"gone.tpl\\\" . }}{{ include \\\"a.tpl\\\" . }}{{ include .file . }}\" deployExecutions[0][a]: include \"gone.tpl\" fails if it is reached: file does not exist",
            "warning: blueprint.yaml:6 \"\\\"gone.txt\\\" }}{{ readFile \\\"a.tpl\\\" }}\" deployExecutions[0][a]: readFile \"gone.txt\" fails if it is reached: file does not exist",
            "d/b.tpl:1 \"{{\" deployExecutions[0][a]: template: execution:1: unclosed action",
        ],
    );
}

/// `blueprints.md` 4.6: warnings about marks of state without effect.
#[test]
fn marks_of_state() {
    let spiff = "\
kept: (( &state ( 1 ) ))
map: {<<: (( &state )), inner: (( &state ( 1 ) ))}
deep: {inner: (( &state ( 1 ) ))}
list:
- (( &state ( 1 ) ))
marked:
- <<: (( &state ))
- 1
entry:
- {<<: (( &state )), a: 1}
brief: (( &temporary &state ( 1 ) ))
own: (( &local &state ( 1 ) ))
made: {<<: (( &template )), inner: (( &state ( 1 ) )), broken: (( 1 + ))}
";
    let lost = |line: &str, why: &str| {
        format!("warning: s.yaml:{line} deployExecutions[0][s]: &state has no effect: {why}")
    };
    let only = |field: &str| {
        format!("only fields of the root are stored; mark \"{field}\", or move this node to the root")
    };
    assert_eq!(
        findings("deployExecutions: [{name: s, type: Spiff, file: s.yaml}]", &[("s.yaml", spiff)]),
        [
            lost("3 \"(( &state ( 1 ) ))}\"", &only("deep")),
            lost("5 \"(( &state ( 1 ) ))\"", &only("list")),
            lost("10 \"(( &state )), a: 1}\"", &only("entry")),
            lost("11 \"(( &temporary &state ( 1 ) ))\"", "a node that is also marked &temporary is not stored"),
            lost("12 \"(( &local &state ( 1 ) ))\"", "a node that is also marked &local is not stored"),
            "warning: s.yaml:13 \"(( 1 + ))}\" deployExecutions[0][s]: parse error near symbol 5 - symbol 6: ' '"
                .to_owned(),
        ]
    );
    let whole =
        findings("exportExecutions: [{name: s, type: Spiff, template: '{<<: (( &state )), a: 1}'}]", &[]);
    assert!(
        whole.len() == 1 && whole[0].ends_with("the root is not stored as a whole; mark fields of it"),
        "{whole:?}"
    );
    let import =
        findings("importExecutions: [{name: s, type: Spiff, template: {a: (( &state ( 1 ) ))}}]", &[]);
    assert!(import.len() == 1 && import[0].ends_with("import executions have no state"), "{import:?}");
}

/// Rules V20 to V43 for static templates, inline and in files (cases B-99, B-105, B-108, B-109).
#[test]
fn static_templates() {
    check(
        "\
imports:
- {name: zone, schema: {}}
- {name: opt, schema: {}, required: false, imports: [{name: inner, schema: {}}]}
subinstallations:
- name: a
  blueprint: {ref: 'cd://resources/x'}
  imports:
    data:
    - {name: p, dataRef: zone}
    - {name: q, dataRef: inner}
    - {name: r, dataRef: nobody}
- file: b.yaml
- file: gone.yaml
- {file: b.yaml, name: c}
- file: list.yaml
- file: broken.yaml
",
        &[
            ("b.yaml", "name: a\nexports:\n  data:\n  - {name: x, dataRef: zone}\n"),
            ("list.yaml", "imports: []\n"),
            ("broken.yaml", "a: [\n"),
        ],
        &[
            r#"blueprint.yaml:13 "file: gone.yaml" subinstallations[2].file: Not found: "gone.yaml""#,
            r#"blueprint.yaml:14 "{file: b.yaml, name: c}" subinstallations[3]: Invalid value: null: exactly one of [file, inline template] must be set (currently set: [file, inline template])"#,
            r#"b.yaml:1 "name: a" subinstallations[1].blueprint: Required value: a blueprint must be defined"#,
            r#"b.yaml:1 "name: a" subinstallations.a: Duplicate value: "duplicated subinstallation""#,
            r#"b.yaml:4 "{name: x, dataRef: zone}" subinstallations.a.exports.data[0][x]: Forbidden: export is imported by its parent"#,
            r#"broken.yaml:1 "[" subinstallations[5].file: Invalid value: "broken.yaml": unable to decode installation template: unclosed bracket '['"#,
            r#"list.yaml:1 "imports: []" subinstallations[4].file: Invalid value: "list.yaml": unable to decode installation template: imports: a map is expected, found a list"#,
        ],
    );
}

/// Cases B-08, B-99: an unsatisfied import is reported, unless a rendered child might export the
/// value.
#[test]
fn provided_by_nobody() {
    let child = "\
subinstallations:
- name: a
  blueprint: {ref: 'cd://resources/x'}
  imports: {data: [{name: p, dataRef: gone}], targets: [{name: t, targetMapRef: gone}]}
";
    let missing = |line: &str| format!("blueprint.yaml:4 \"{line}\" subinstallations.a.imports.");
    let data = missing("{name: p, dataRef: gone}], targets: [{name: t, targetMapRef: gone}]}")
        + "data[0][p]: Not found: \"import not satisfied\"";
    let target =
        missing("{name: t, targetMapRef: gone}]}") + "targets[0][t]: Not found: \"import not satisfied\"";
    check(child, &[], &[&data, &target]);
    check(
        &format!("{child}subinstallationExecutions: [{{name: e, type: GoTemplate, template: ''}}]\n"),
        &[],
        &[&target],
    );
    let cycle = "\
subinstallations:
- {name: a, blueprint: {ref: 'cd://resources/x'}, imports: {data: [{name: p, dataRef: q}]}, exports: {data: [{name: p, dataRef: x}]}}
- {name: b, blueprint: {ref: 'cd://resources/x'}, imports: {data: [{name: p, dataRef: x}]}, exports: {data: [{name: p, dataRef: q}]}}
";
    check(
        cycle,
        &[],
        &[
            "blueprint.yaml:1 \"subinstallations:\" the subinstallations have a cycle: a -{depends_on}-> b -{depends_on}-> a",
        ],
    );
}

/// Case B-101: addresses of blueprints, as far as they can be checked without components.
#[test]
fn addresses() {
    let found = findings(
        "\
subinstallations:
- {name: a, blueprint: {ref: 'https://x'}}
- {name: b, blueprint: {ref: 'cd://componentReferences/x'}}
- {name: c, blueprint: {ref: 'cd://componentReferences/x/resources/y'}}
",
        &[],
    );
    assert_eq!(
        found,
        [
            r#"blueprint.yaml:2 "ref: 'https://x'}}" subinstallations.a.blueprint.ref: Invalid value: "https://x": scheme must be cd but given https"#,
            r#"blueprint.yaml:3 "ref: 'cd://componentReferences/x'}}" subinstallations.b.blueprint.ref: Invalid value: "cd://componentReferences/x": the address must end with a resource"#,
        ]
    );
}

/// Case B-102: inline blueprints of templates.
#[test]
fn inline_blueprints() {
    check(
        "\
subinstallations:
- name: a
  blueprint:
    filesystem:
      blueprint.yaml: |
        imports: [{name: x}]
        subinstallations:
        - name: b
          blueprint:
            filesystem:
              blueprint.yaml: 'deployExecutions: [{name: d, type: GoTemplate, file: gone}]'
- {name: c, blueprint: {filesystem: {}}}
- {name: d, blueprint: {filesystem: []}}
",
        &[],
        &[
            r#"blueprint.yaml:12 "filesystem: {}}}" subinstallation "c": unable to read blueprint file from inline defined blueprint: blueprint.yaml: file does not exist"#,
            r#"blueprint.yaml:13 "filesystem: []}}" subinstallation "d": unable to create yamlfs for inline blueprint: a map of files is expected"#,
            r#"blueprint.yaml:1 "{name: x}]" subinstallation "a": imports[0][x]: Required value: either schema or targetType must not be empty"#,
            r#"blueprint.yaml:1 "file: gone}]" subinstallation "a": subinstallation "b": deployExecutions[0][d]: unable to read template file "gone" of execution "d": file does not exist"#,
        ],
    );
    let mut nested = serde_json::json!({"blueprint.yaml": "{}"});
    for _ in 0..17 {
        let child = serde_json::json!({"name": "n", "blueprint": {"filesystem": nested}});
        nested =
            serde_json::json!({"blueprint.yaml": {"$type": "yaml", "value": {"subinstallations": [child]}}});
    }
    let text = nested["blueprint.yaml"]["value"].to_string();
    let found = findings(&text, &[]);
    assert!(found.len() == 1 && found[0].contains("more than 16 levels deep"), "{found:?}");
}
