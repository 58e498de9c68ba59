//! Tests of `blueprints.md` 9.1.

use groundwork_api::InstallationTemplate;
use serde_json::json;

use super::super::decode_template;
use crate::testing;

/// Returns the names of the templates, or the error.
fn collected(blueprint: &str, files: &[(&str, &str)]) -> String {
    match testing::load(blueprint, files).unwrap().static_templates() {
        Ok(templates) => templates.iter().map(InstallationTemplate::name).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

/// Cases B-104, B-108, B-109: files and inline templates, in order.
#[test]
fn files_and_inline_templates() {
    let inline = "{name: b, blueprint: {filesystem: {}}}";
    let file = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: InstallationTemplate\nname: a\nblueprint: {ref: cd://resources/x}\n---\nname: 5";
    for entries in ["{file: /sub/a.yaml}", "{file: sub/a.yaml, comment: ignored}"] {
        let blueprint = format!("subinstallations: [{entries}, {inline}]");
        assert_eq!(collected(&blueprint, &[("sub/a.yaml", file)]), "a b");
    }
    assert_eq!(collected("{}", &[]), "");
}

/// Case B-110: static templates are not rendered.
#[test]
fn static_templates_are_not_templated() {
    let blueprint = "subinstallations: [{name: a, blueprint: {filesystem: '{{ x }}'}}]";
    let templates = testing::load(blueprint, &[]).unwrap().static_templates().unwrap();
    let blueprint = templates[0].blueprint.as_ref().unwrap();
    assert_eq!(blueprint.filesystem.get(), Some(&json!("{{ x }}")));
}

/// `blueprints.md` 9.1, step 2: all problems of all entries are reported, including V21 to V37 for
/// files.
#[test]
fn problems_of_files() {
    let start = "unable to get default subinstallation templates: ";
    let undecodable =
        r#"subinstallations[0].file: Invalid value: "f": unable to decode installation template: "#;
    for (content, expected) in [
        ("name: 5", format!("{undecodable}name: a text is expected, found a number")),
        ("[]", format!("{undecodable}a map is expected, found a list")),
        ("kind: Installation", format!("{undecodable}kind must be \"InstallationTemplate\" if it is given")),
        (
            "",
            "[subinstallations[0].name: Required value: name must be defined, \
             subinstallations[0].blueprint: Required value: a blueprint must be defined]"
                .to_owned(),
        ),
        (
            "{name: a, blueprint: {ref: x}, exports: {data: [{name: a}]}}",
            "subinstallations[0].exports.data[0].dataRef: Required value: dataRef must not be empty"
                .to_owned(),
        ),
    ] {
        let text = collected("subinstallations: [{file: f}]", &[("f", content)]);
        assert_eq!(text, format!("{start}{expected}"), "{content}");
    }
    let text = collected("subinstallations: [{file: f}]", &[("f", "a: [")]);
    assert!(text.starts_with(&format!("{start}{undecodable}")), "{text}");
    assert_eq!(
        collected("subinstallations: [{file: nope}, {file: /dir}]", &[("dir/f", "")]),
        format!(
            "{start}[subinstallations[0].file: Not found: \"nope\", \
             subinstallations[1].file: Invalid value: \"/dir\": /dir is a directory]"
        )
    );
}

/// Loading rejects such entries (V20). A blueprint created in another way gives Landscaper's error
/// text.
#[test]
fn neither_file_nor_template() {
    let mut blueprint = testing::load("{}", &[]).unwrap();
    for entry in ["{}", "{comment: x}", "{file: ''}"] {
        blueprint.definition.subinstallations =
            vec![serde_json::from_value(testing::yaml(entry)).unwrap()].into();
        assert_eq!(
            blueprint.static_templates().unwrap_err().to_string(),
            "unable to get default subinstallation templates: \
             neither a inline installation template nor a file is defined in index 0",
            "{entry}"
        );
    }
}

/// `blueprints.md` 9.1, step 1 (case B-111): types are strict, and error texts contain no values.
#[test]
fn rendered_templates() {
    for (document, problem) in [
        ("name: 5", "name: a text is expected, found a number"),
        ("name: {secret: x}", "name: a text is expected, found a map"),
        ("secret", "a map is expected, found a text"),
        ("apiVersion: secret", "apiVersion must be \"landscaper.gardener.cloud/v1alpha1\" if it is given"),
        ("kind: secret", "kind must be \"InstallationTemplate\" if it is given"),
        ("kind: 5", "kind: a text is expected, found a number"),
        ("blueprint: secret", "blueprint: a map is expected, found a text"),
        ("blueprint: {ref: [secret]}", "blueprint.ref: a text is expected, found a list"),
        ("blueprint: [secret]", "blueprint: a map is expected, found a list"),
        ("imports: []", "imports: a map is expected, found a list"),
        ("exports: {targets: [[secret]]}", "exports.targets[0]: a map is expected, found a list"),
        (
            "imports: {data: [{secretRef: [secret]}]}",
            "imports.data[0].secretRef: a map is expected, found a list",
        ),
        ("imports: {data: secret}", "imports.data: a list is expected, found a text"),
        ("imports: {data: [{name: a}, secret]}", "imports.data[1]: a map is expected, found a text"),
        (
            "imports: {targets: [{targetMap: {secret: 5}}]}",
            "imports.targets[0].targetMap[...]: a text is expected, found a number",
        ),
        ("importDataMappings: secret", "importDataMappings: a map is expected, found a text"),
        (
            "optimization: {hasNoSiblingImports: secret}",
            "optimization.hasNoSiblingImports: true or false is expected, found a text",
        ),
        // The quoted value imitates the decoder's words about a type.
        (
            "optimization: {hasNoSiblingImports: ', expected a map secret'}",
            "optimization.hasNoSiblingImports: true or false is expected, found a text",
        ),
    ] {
        let text = decode_template(3, &testing::yaml(document)).unwrap_err().to_string();
        assert_eq!(text, format!("unable to decode installation template 3: {problem}"), "{document}");
        assert!(!text.replace("secretRef", "").contains("secret"), "{text}");
    }
    for (document, name) in [
        ("null", ""),
        ("{apiVersion: '', kind: '', name: a}", "a"),
        // Names of fields are case-sensitive.
        ("{Name: a, NAME: 5}", ""),
        ("{name: a, unknown: 5}", "a"),
    ] {
        assert_eq!(decode_template(0, &testing::yaml(document)).unwrap().name(), name, "{document}");
    }
}
