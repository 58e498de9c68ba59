use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::load;

/// Formats imports on one line: name, type, `?` for an optional one, type of the Target, nested
/// ones in parentheses.
fn summary(imports: &[ImportDefinition]) -> String {
    let one = |import: &ImportDefinition| {
        let mut text = format!("{} {}", import.name, import.type_.as_deref().unwrap_or("-"));
        if import.required == Some(false) {
            text.push('?');
        }
        if let Some(target_type) = &import.target_type {
            text = format!("{text} {target_type}");
        }
        if !import.imports.is_empty() {
            text = format!("{text} ({})", summary(&import.imports));
        }
        text
    };
    imports.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check_defaults(text: &str, expected: &str) {
    let blueprint = load(text, &[]).unwrap();
    assert_eq!(summary(&blueprint.definition.imports), expected, "{text}");
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(load(text, &[]).unwrap_err().to_string(), expected, "{text}");
}

/// Cases B-20 to B-22, B-25, B-26, B-33, C-01, C-05, C-07, C-09: `blueprints.md` 1.6.
#[test]
fn import_defaults() {
    for (text, expected) in [
        ("imports: [{name: a, schema: {type: string}}]", "a data"),
        ("imports: [{name: a, scheme: {type: string}}]", "a data"),
        ("imports: [{name: a, schema: true}]", "a data"),
        ("imports: [{name: a, targetType: t}]", "a target landscaper.gardener.cloud/t"),
        ("imports: [{name: a, targetType: my.org/t}]", "a target my.org/t"),
        ("imports: [{name: a, type: targetMap, targetType: t}]", "a targetMap landscaper.gardener.cloud/t"),
        ("imports: [{name: a, type: targetList, targetType: t}]", "a targetList landscaper.gardener.cloud/t"),
        ("imports: [{name: a, required: false, schema: {}}]", "a data?"),
        (
            "imports: [{name: a, required: false, schema: {}, imports: [{name: b, targetType: t, required: false, \
             imports: [{name: c, schema: {}}]}]}]",
            "a data? (b target? landscaper.gardener.cloud/t (c data))",
        ),
        ("", ""),
        ("{}", ""),
    ] {
        check_defaults(text, expected);
    }
    let blueprint = load("exports: [{name: a, schema: {}}, {name: b, targetType: t}]", &[]).unwrap();
    let exports: Vec<_> = blueprint
        .definition
        .exports
        .iter()
        .map(|export| (export.type_.as_deref().unwrap(), export.target_type.as_deref()))
        .collect();
    assert_eq!(exports, [("data", None), ("target", Some("landscaper.gardener.cloud/t"))]);
}

#[test]
fn dialect_default() {
    let dialect = |text: &str| load(text, &[]).unwrap().definition.json_schema_version.unwrap();
    assert_eq!(dialect(""), DEFAULT_DIALECT);
    assert_eq!(dialect("jsonSchemaVersion: ''"), DEFAULT_DIALECT);
    assert_eq!(
        dialect("jsonSchemaVersion: http://json-schema.org/draft-07/schema#"),
        "http://json-schema.org/draft-07/schema#"
    );
}

/// `blueprints.md` 1.1: version and kind may be absent, and unknown fields are ignored.
#[test]
fn lenient_decoding() {
    for text in [
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n",
        "kind: Blueprint",
        "apiVersion: null\nkind: ''",
        "jsonSchema: https://example.org\nmore: {x: 1}",
        "imports: [{name: a, schema: {}, colour: red}]",
        "imports: null\ndeployExecutions: null",
        "imports: []\n---\nno: blueprint\n",
    ] {
        assert!(load(text, &[]).is_ok(), "{text}");
    }
}

/// Case B-09, error BP-005 (`blueprints.md` 10): the file cannot be decoded.
#[test]
fn undecodable() {
    let prefix = "unable to decode blueprint definition: blueprint.yaml:";
    check_error("kind: Other", &format!("{prefix} kind must be \"Blueprint\" if it is given"));
    check_error(
        "apiVersion: landscaper.gardener.cloud/v1",
        &format!("{prefix} apiVersion must be \"landscaper.gardener.cloud/v1alpha1\" if it is given"),
    );
    for text in ["a: [", "- a", "text", "imports: {a: b}", "imports: [{name: {}}]", "kind: {}"] {
        let error = load(text, &[]).unwrap_err();
        assert!(error.to_string().starts_with(prefix), "{text}: {error}");
        assert!(matches!(error, LoadError::Undecodable { position: Some(_), .. }), "{text}");
    }
    let missing = Blueprint::load(Filesystem::default()).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "unable to read blueprint definition: blueprint.yaml: file does not exist"
    );
    let mut tree = Filesystem::default();
    tree.insert("blueprint.yaml/file", "").unwrap();
    let directory = Blueprint::load(tree).unwrap_err();
    assert_eq!(
        directory.to_string(),
        "unable to read blueprint definition: blueprint.yaml: blueprint.yaml is a directory"
    );
}

/// All findings are reported at once, each with its line.
#[test]
fn positions_of_findings() {
    let text =
        "imports:\n- name: a\n  schema: {}\n- name: a\n  schema: true\nexports:\n- name: ''\n  schema: {}\n";
    let LoadError::Invalid { errors, positions, .. } = load(text, &[]).unwrap_err() else { panic!("{text}") };
    assert_eq!(errors.len(), 2);
    assert_eq!(positions.iter().map(|position| position.line).collect::<Vec<_>>(), [4, 7]);
    let text = "subinstallations:\n- name: sub\n  blueprint: {ref: x}\n  imports:\n    targets:\n    - name: a\n      \
                targetMap:\n        good: x\n        Bad: x\n";
    let LoadError::Invalid { positions, .. } = load(text, &[]).unwrap_err() else { panic!("{text}") };
    assert_eq!(positions.iter().map(|position| position.line).collect::<Vec<_>>(), [9]);
}

/// Public blueprints declare an import twice, word for word, which Landscaper never notices.
#[test]
fn the_same_import_twice() {
    let twin = "- {name: a, type: data, required: false, schema: {}, imports: [{name: b, type: data, schema: {}}]}\n";
    let blueprint = load(&format!("imports:\n{twin}{twin}"), &[]).unwrap();
    assert_eq!(blueprint.definition.imports.len(), 1);
    assert_eq!(blueprint.warnings, ["imports[1][a]: the same import is declared twice"]);
}

/// Case B-13: the skeleton of `blueprints.md` 1.1 has every field.
#[test]
fn skeleton() {
    let text = r##"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
annotations: { ocmSchemaVersion: v2 }
jsonSchemaVersion: https://json-schema.org/draft/2019-09/schema
localTypes:
  port: { type: integer, minimum: 1, maximum: 65535 }
imports:
- { name: listen, type: data, schema: { $ref: "local://port" } }
- { name: cluster, type: target, targetType: kubernetes-cluster }
- { name: edges, type: targetMap, targetType: kubernetes-cluster, required: false }
- name: backup
  type: data
  required: false
  schema: { type: string, format: uri }
  imports:
  - { name: backupToken, type: data, schema: { type: string } }
importExecutions:
- { name: checks, type: Spiff, template: { errors: [] } }
deployExecutions:
- { name: main, type: GoTemplate, file: /deploy.tmpl }
exports:
- { name: endpoint, type: data, schema: { type: string } }
exportExecutions:
- { name: out, type: GoTemplate, template: "exports:\n  endpoint: {{ .deployitems.web.url }}" }
subinstallations:
- file: /children/dns.yaml
subinstallationExecutions:
- { name: perEdge, type: GoTemplate, file: /children/edges.tmpl }
"##;
    let blueprint = load(text, &[]).unwrap();
    assert_eq!(blueprint.warnings, Vec::<String>::new());
    assert_eq!(blueprint.definition.imports.len(), 4);
    assert_eq!(
        blueprint.definition.local_types["port"],
        json!({"type": "integer", "minimum": 1, "maximum": 65535})
    );
}

proptest! {
    /// Any text of the file gives a blueprint or an error, never a panic.
    #[test]
    fn nothing_panics(text in "\\PC{0,60}", value in "(imports|exports|deployExecutions|subinstallations|localTypes): ([\\[\\]{}a-z,:'\"&*!0-9 ]{0,40})") {
        let _ = load(&text, &[]);
        let _ = load(&value, &[]).map_err(|error| error.to_string());
    }
}
