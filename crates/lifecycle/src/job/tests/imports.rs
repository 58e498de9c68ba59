use groundwork_api::metadata::label;
use serde_json::{Value, json};

use super::*;

/// Returns an Installation with these imports. Its blueprint accepts any value under the name
/// `value` and shows it.
fn importing(imports: &str) -> String {
    installation(&format!(
        "  imports: {imports}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: value, type: data, schema: {{}}}}
          deployExecutions:
          - name: default
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                config: {{value: {{{{ toJson .imports.value }}}}}}
"
    ))
}

const OBJECTS: &str = r#"
{kind: DataObject, metadata: {name: object}, data: {a: [1, 2]}}
---
{kind: DataObject, metadata: {name: 5xqikps3z4hqttgp5fpnpbgxtw63wbpj}, data: hashed}
---
{kind: Secret, metadata: {name: secret}, data: {port: "8080", user: admin, nested: "{a: 1}"}}
---
{kind: Secret, metadata: {name: broken}, data: {password: "a: {hunter2"}}
---
{kind: ConfigMap, metadata: {name: map}, data: {plain: text, other: "[1, true]"}}"#;

#[track_caller]
fn check(import: &str, expected: &Value) {
    let imports = format!("{{data: [{{name: value, {import}}}]}}");
    let config = world(&[&importing(&imports), EMPTY_CONTEXT, OBJECTS]).config();
    assert_eq!(&config["value"], expected, "{import}");
}

/// Cases I-05, I-08, I-66 to I-68, I-70, I-71, I-74: all sources of data. Entries are parsed as
/// YAML, and an empty key counts as absent.
#[test]
fn data_sources() {
    let whole_secret = json!({"port": 8080, "user": "admin", "nested": {"a": 1}});
    let whole_map = json!({"plain": "text", "other": [1, true]});
    check("dataRef: object", &json!({"a": [1, 2]}));
    check("dataRef: UPPER_x", &json!("hashed"));
    check("dataRef: '#5xqikps3z4hqttgp5fpnpbgxtw63wbpj'", &json!("hashed"));
    check("secretRef: {name: secret}", &whole_secret);
    check("secretRef: {name: secret, key: ''}", &whole_secret);
    check("secretRef: {name: secret, key: port}", &json!(8080));
    check("secretRef: {name: secret, key: nested}", &json!({"a": 1}));
    check("configMapRef: {name: map}", &whole_map);
    check("configMapRef: {name: map, key: ''}", &whole_map);
    check("configMapRef: {name: map, key: other}", &json!([1, true]));
}

#[track_caller]
fn check_failure(imports: &str, expected: &str) {
    let (place, message) = world(&[&importing(imports), EMPTY_CONTEXT, OBJECTS]).error();
    assert_eq!((place.as_str(), message.as_str()), ("init/ImportsSatisfied", expected));
}

/// Case I-68: the message names object, key and position in the text, but never shows the text
/// itself.
#[test]
fn missing_and_broken_sources() {
    let data = |import: &str| format!("{{data: [{{name: value, {import}}}]}}");
    for (import, problem) in [
        ("dataRef: nothing", "unable to fetch data object nothing (nothing): not found in namespace team"),
        ("secretRef: {name: nothing}", "secret team/nothing not found"),
        ("secretRef: {name: secret, key: nothing}", "key nothing in secret team/secret does not exist"),
        ("configMapRef: {name: nothing, key: a}", "configmap team/nothing not found"),
        ("configMapRef: {name: map, key: nothing}", "key nothing in configmap team/map does not exist"),
    ] {
        check_failure(&data(import), &format!("data import \"value\": {problem}"));
    }
    for import in ["secretRef: {name: broken}", "secretRef: {name: broken, key: password}"] {
        let (_, message) = world(&[&importing(&data(import)), EMPTY_CONTEXT, OBJECTS]).error();
        let start =
            "data import \"value\": key password in secret team/broken is not valid YAML: line 1, column ";
        assert!(message.starts_with(start) && !message.contains("hunter2"), "{message}");
    }
}

/// A lossy conversion of bytes that are not UTF-8 would change a value silently.
#[test]
fn entries_that_are_no_text() {
    let data = |import: &str| format!("{{data: [{{name: value, {import}}}]}}");
    let objects = "{kind: Secret, metadata: {name: binary}, data: {key: /w==, text: YQ==}}";
    for import in ["secretRef: {name: binary}", "secretRef: {name: binary, key: key}"] {
        let mut world = world(&[&importing(&data(import)), EMPTY_CONTEXT]);
        world
            .objects
            .add_secret(serde_json::from_value(groundwork_yaml::from_str(objects).unwrap()).unwrap());
        let (place, message) = world.error();
        assert_eq!(place, "init/ImportsSatisfied");
        let expected = "data import \"value\": key key in secret team/binary is not UTF-8 text (byte 0 is invalid); \
                        import another key of it";
        assert_eq!(message, expected);
    }
}

/// All problems are reported at once, and Targets are looked up like data.
#[test]
fn missing_targets() {
    check_failure(
        "{data: [{name: a, dataRef: x}], targets: [{name: b, target: tt}, {name: c, targets: [tt, uu]}]}",
        "data import \"a\": unable to fetch data object x (x): not found in namespace team; \
         target import \"b\": target team/tt not found; target import \"c\": target team/tt not found",
    );
    check_failure(
        "{targets: [{name: b, targetMapRef: tt}]}",
        "target import \"b\": ImportNotFound: it refers to the import \"tt\" of a parent, which a root installation \
         does not have",
    );
}

const TARGETS: &str = "
{kind: Target, metadata: {name: blue}, spec: {type: example.org/cluster, config: {n: 1}}}
---
{kind: Target, metadata: {name: green}, spec: {type: example.org/cluster, config: {n: 2}}}";

fn importing_targets(type_name: &str, import: &str, item: &str) -> String {
    installation(&format!(
        "  imports: {{targets: [{{name: clusters, {import}}}]}}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: clusters, type: {type_name}, targetType: example.org/cluster}}
          deployExecutions:
          - name: default
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                target: {item}
                config: {{}}
"
    ))
}

/// Cases I-09, I-10, I-75, I-76, I-78, I-80: a single Target, an ordered list, and a map in each of
/// its spellings.
#[test]
fn target_sources() {
    for (type_name, import, item, expected) in [
        ("target", "target: blue", "{import: clusters}", "blue"),
        ("target", "target: '#green'", "{import: clusters}", "green"),
        ("targetList", "targets: [green, '#blue']", "{import: clusters, index: 1}", "blue"),
        ("targetMap", "targetMap: {a: green, b: blue}", "{import: clusters, key: a}", "green"),
        ("targetMap", "targetMaps: {a: green, b: blue}", "{import: clusters, key: b}", "blue"),
        ("targetMap", "targets: [{a: green}, {b: blue}]", "{import: clusters, key: b}", "blue"),
    ] {
        let world = world(&[&importing_targets(type_name, import, item), EMPTY_CONTEXT, TARGETS]);
        let outcome = world.render();
        assert_eq!(outcome.error, None, "{import}");
        let target = outcome.deploy_items[0].spec.target.clone().unwrap();
        assert_eq!((target.name.as_str(), target.namespace.as_deref()), (expected, Some("team")), "{import}");
    }
}

/// `blueprints.md` 3.8: a value that an import execution returns for a declared import is copied
/// like any other import. Additional values are visible to templates but become no objects.
#[test]
fn what_import_executions_add_is_not_copied() {
    let execution = "importExecutions: [{name: more, type: GoTemplate, template: 'bindings: {added: 1, value: changed}'}]";
    let text = importing("{data: [{name: value, dataRef: object}]}")
        .replace(
            "          deployExecutions:\n",
            &format!("          {execution}\n          deployExecutions:\n"),
        )
        .replace("toJson .imports.value", "toJson .imports");
    let world = world(&[&text, EMPTY_CONTEXT, OBJECTS]);
    assert_eq!(world.config()["value"], json!({"added": 1, "value": "changed"}));
    let copies = crate::import_copies(&world.installation, "job", &world.render().imports);
    let copied: Vec<_> = copies
        .iter()
        .map(|copy| match copy {
            crate::ScopedObject::Data(object) => (&object.metadata, object.data.get()),
            crate::ScopedObject::Target(target) => panic!("a target is copied: {target:?}"),
        })
        .map(|(metadata, data)| (metadata.labels.as_ref().unwrap()[label::DATA_KEY].as_str(), data))
        .collect();
    assert_eq!(copied, [("value", Some(&json!("changed")))]);
}

/// Returns an Installation with these imports and mappings. Its blueprint shows every data import
/// that has a value.
fn mapping(imports: &str, mappings: &str) -> String {
    installation(&format!(
        "  imports: {imports}
  importDataMappings: {mappings}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: value, type: data, required: false, schema: {{}}}}
          - {{name: other, type: data, required: false, schema: {{type: integer}}}}
          deployExecutions:
          - name: default
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                config: {{{{ toJson .imports }}}}
"
    ))
}

/// Cases I-82, I-84: a mapping overrides the import of the same name, needs no import, and leaves
/// other imports unchanged. Mappings are Spiff templates, and names that the blueprint does not
/// declare are ignored.
#[test]
fn literal_mappings() {
    let object = "{data: [{name: value, dataRef: object}]}";
    for (imports, mappings, expected) in [
        (object, "{}", json!({"value": {"a": [1, 2]}})),
        (object, "{value: fixed}", json!({"value": "fixed"})),
        (object, "{other: 5}", json!({"value": {"a": [1, 2]}, "other": 5})),
        (
            "{}",
            "{value: {cpu: 2, zones: [a, b]}, other: 5}",
            json!({"value": {"cpu": 2, "zones": ["a", "b"]}, "other": 5}),
        ),
        ("{}", "{value: '{{ .other }}', unknown: x}", json!({"value": "{{ .other }}"})),
        (object, "{value: false}", json!({"value": false})),
    ] {
        let config = world(&[&mapping(imports, mappings), EMPTY_CONTEXT, OBJECTS]).config();
        assert_eq!(config, expected, "{imports} {mappings}");
    }
}

/// A mapped value must match the schema like any other value.
#[test]
fn mapped_values_are_validated() {
    let (place, message) = world(&[&mapping("{}", "{other: five}"), EMPTY_CONTEXT]).error();
    assert_eq!(place, "handlePhaseInit/CreateImportsAndSubobjects");
    assert!(
        message.contains("server.other: imported datatype does not have the expected schema"),
        "{message}"
    );
}

/// `blueprints.md` 3.4: expressions see the imports of the Installation by name (cases I-81, I-83,
/// I-85, I-86, I-88).
#[test]
fn mappings_with_expressions_are_evaluated() {
    let object = "{data: [{name: source, dataRef: object}]}";
    for (mappings, expected) in [
        ("{value: (( source.a ))}", json!({"value": [1, 2]})),
        ("{value: {first: '(( source.a.[0] ))'}}", json!({"value": {"first": 1}})),
        ("{value: 'text with (( source ))'}", json!({"value": "text with (( source ))"})),
        ("{value: (( nope || 5 ))}", json!({"value": 5})),
        ("{value: '{{ .source }}'}", json!({"value": "{{ .source }}"})),
        ("{value: '(( source.a.[1] \"-\" source.a.[0] ))'}", json!({"value": "2-1"})),
        (
            "{value: {all: (( source )), id: my-controller, list: [aws, gcp]}}",
            json!({"value": {"all": {"a": [1, 2]}, "id": "my-controller", "list": ["aws", "gcp"]}}),
        ),
    ] {
        let config = world(&[&mapping(object, mappings), EMPTY_CONTEXT, OBJECTS]).config();
        assert_eq!(config, expected, "{mappings}");
    }
    let (place, message) = world(&[&mapping(object, "{value: (( nope ))}"), EMPTY_CONTEXT, OBJECTS]).error();
    assert_eq!(place, "handlePhaseInit/CreateImportsAndSubobjects");
    assert!(
        message.starts_with(
            "Op: CreateImportsAndSubobjects - Reason: ConstructImports - Message: unable to template import mapping \
             template server.value: unresolved nodes:"
        ),
        "{message}"
    );
}
