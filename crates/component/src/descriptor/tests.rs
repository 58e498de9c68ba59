use serde_json::json;

use super::*;

fn v2() -> Value {
    json!({
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": "example.org/shop", "version": "v1.2.0", "provider": "example.org", "future": {"kept": true},
            "repositoryContexts": [{"type": "ociRegistry", "baseUrl": "reg.example.org/prod"}],
            "sources": null,
            "componentReferences": [{"name": "db", "componentName": "example.org/db", "version": "v2.0.0"}],
            "resources": [
                {"name": "bp", "version": "v1.2.0", "type": "blueprint", "relation": "local",
                 "srcRef": [{"identitySelector": {"name": "src"}}], "access": {"type": "localBlob"}},
                {"name": "image", "version": "v1", "type": "ociImage", "relation": "external",
                 "extraIdentity": {"arch": "arm"}, "access": {"type": "ociArtifact", "imageReference": "a:1"}},
                {"name": "twin", "version": "v1", "type": "x", "relation": "local", "access": {"type": "none"}},
                {"name": "twin", "version": "v2", "type": "x", "relation": "local", "access": {"type": "none"}},
            ],
        },
    })
}

fn strict(document: Value) -> Result<Descriptor, DescriptorError> {
    Descriptor::from_document(document, Leniency::Strict)
}

#[test]
fn v2_parts() {
    let descriptor = strict(v2()).unwrap();
    assert_eq!((descriptor.name(), descriptor.version()), ("example.org/shop", "v1.2.0"));
    assert_eq!(descriptor.repository_context().unwrap().type_name(), "ociRegistry");
    assert_eq!(descriptor.reference("db").unwrap().component_name, "example.org/db");
    assert_eq!(descriptor.document()["component"]["sources"], json!([]));
}

/// `components.md` 5.4: loss-free both ways for known members.
#[test]
fn both_shapes_carry_the_same() {
    let descriptor = strict(v2()).unwrap();
    let v3 = descriptor.to_schema(SchemaVersion::V3);
    assert_eq!(v3["metadata"]["provider"], json!({"name": "example.org"}));
    assert_eq!(v3["spec"]["references"][0]["componentName"], "example.org/db");
    let back = strict(v3).unwrap();
    assert_eq!(back.schema(), SchemaVersion::V3);
    let mut expected = descriptor.to_schema(SchemaVersion::V2);
    expected["component"].as_object_mut().unwrap().remove("future");
    assert_eq!(back.to_schema(SchemaVersion::V2), expected);
    assert_eq!(
        expected["component"]["resources"][0]["srcRefs"],
        expected["component"]["resources"][0]["srcRef"]
    );
}

#[test]
fn provider_with_labels_becomes_text_in_v2() {
    let v3 = json!({
        "apiVersion": "ocm.software/v3alpha1", "kind": "ComponentVersion",
        "metadata": {"name": "example.org/a", "version": "1.0.0", "provider": {"name": "p", "labels": [{"name": "l", "value": 1}]}},
    });
    let descriptor = strict(v3.clone()).unwrap();
    let v2 = descriptor.to_schema(SchemaVersion::V2);
    assert_eq!(v2["component"]["provider"], r#"{"labels":[{"name":"l","value":1}],"name":"p"}"#);
    let back = strict(v2).unwrap().to_schema(SchemaVersion::V3);
    assert_eq!(back["metadata"]["provider"], v3["metadata"]["provider"]);
}

fn error(document: Value) -> String {
    strict(document).unwrap_err().to_string()
}

#[test]
fn markers() {
    assert_eq!(
        error(json!({"meta": {"schemaVersion": "v7"}})),
        "component descriptor schema version \"v7\" not supported"
    );
    assert_eq!(
        error(json!({"apiVersion": "ocm.software/v3alpha1", "meta": {"schemaVersion": "v2"}})),
        "apiVersion and meta.schemaVersion defined"
    );
    assert_eq!(error(json!([])), "component descriptor is not a map");
}

/// E16 lists every problem at once.
#[test]
fn all_problems_at_once() {
    let text = error(json!({
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": "Example.org/shop", "version": "latest", "repositoryContexts": [], "sources": [],
            "componentReferences": [{"name": "a", "version": "1"}],
            "resources": [
                {"name": "bp", "version": "1", "type": "t", "relation": "near", "access": {"type": "x"}},
                {"name": "bp", "version": "1", "type": "t", "relation": "local"},
            ],
        },
    }));
    for part in [
        "component.name: ",
        "component.version: \"latest\" is not a semantic version",
        "component.provider: must be set",
        "component.componentReferences[0].name",
        "component.componentReferences[0].componentName: must be set",
        "component.resources[0].relation",
        "component.resources[1].access: must specify a access",
        "component.resources[1]: duplicate resource {\"name\":\"bp\",\"version\":\"1\"}",
    ] {
        assert!(text.contains(part), "{part} missing in {text}");
    }
}

#[test]
fn inline_descriptors_may_be_short() {
    let document = json!({
        "meta": {"schemaVersion": "v2"},
        "component": {"name": "example.org/a", "version": "1.0.0", "resources": [{"name": "bp", "type": "blueprint", "access": {"type": "localBlob"}}]},
    });
    assert!(strict(document.clone()).is_err());
    let descriptor = Descriptor::from_document(document, Leniency::Inline).unwrap();
    let resource = descriptor.resource("bp").unwrap();
    assert_eq!(
        (&resource.element["relation"], &resource.element["version"]),
        (&json!("external"), &json!("1.0.0"))
    );
}

/// The overwrites document puts in a component name without a domain (O-19); its descriptor must be readable.
#[test]
fn names_without_domain_are_readable() {
    let mut document = v2();
    document["component"]["name"] = json!("my-own-echo-server");
    assert_eq!(strict(document).unwrap().name(), "my-own-echo-server");
}

#[test]
fn resources_by_name() {
    let descriptor = strict(v2()).unwrap();
    assert_eq!(descriptor.resource("bp").unwrap().type_name, "blueprint");
    for (name, reason) in [
        ("nope", r#"not found; the component has "bp", "image", "twin", "twin""#),
        ("image", r#"the name alone does not identify it; found {"arch":"arm","name":"image"}"#),
        (
            "twin",
            r#"the name alone does not identify it; found {"name":"twin","version":"v1"}, {"name":"twin","version":"v2"}"#,
        ),
    ] {
        let text = descriptor.resource(name).unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "failed to get resource with name {name:?} of component example.org/shop:v1.2.0: {reason}"
            )
        );
    }
}
