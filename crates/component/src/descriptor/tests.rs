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

/// A descriptor below the size limit of its layer is rejected if it would use too much memory.
#[test]
fn what_a_descriptor_takes_in_memory_is_bounded() {
    let resource =
        json!({"name": "a", "version": "v1", "type": "x", "relation": "local", "access": {"type": "none"}});
    let mut document = v2();
    document["component"]["resources"] = json!(vec![resource; 80_000]);
    let error = Descriptor::parse(document.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("more than the limit of 67108864 bytes of memory"), "{error}");
}

/// `components.md` 5.4 (`components.md` 11, item 8): the conversion of known members is lossless in
/// both directions.
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

/// Error E16 (`components.md` 8) lists all problems at once.
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

/// Case O-19: the design document for overwrites uses a component name without a domain, whose
/// descriptor must be readable.
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
        ("image", r#"several resources have this name; found {"arch":"arm","name":"image"}"#),
        (
            "twin",
            r#"several resources have this name; found {"name":"twin","version":"v1"}, {"name":"twin","version":"v2"}"#,
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

/// A resource is found by its whole identity, including the version if that is needed to
/// distinguish it.
#[test]
fn resources_by_identity() {
    let descriptor = strict(v2()).unwrap();
    let find = |pairs: &[(&str, &str)]| {
        let identity = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        descriptor.resource_with_identity(&identity)
    };
    assert_eq!(find(&[("name", "bp")]).unwrap().name, "bp");
    assert_eq!(find(&[("name", "image"), ("arch", "arm")]).unwrap().name, "image");
    assert_eq!(find(&[("name", "twin"), ("version", "v2")]).unwrap().element["version"], "v2");
    for (pairs, reason) in [
        (&[("name", "nope")][..], "no resource has the identity name=nope"),
        (&[("name", "image")], "no resource has the identity name=image"),
        (&[("name", "bp"), ("arch", "arm")], "no resource has the identity arch=arm, name=bp"),
        (&[("name", "twin")], "several resources have the identity name=twin"),
        (&[], "no resource has the identity none"),
    ] {
        let text = find(pairs).unwrap_err().to_string();
        assert!(text.ends_with(reason), "{text}");
    }
}

/// Descriptors of Landscaper's tests, if a copy is available, are accepted or rejected as expected,
/// also after conversion to the other schema. A missing repository context is not an error here
/// (`components.md` 4.2).
#[test]
fn descriptors_of_the_original() {
    let Some(root) = groundwork_testkit::fixture("landscaper/components/localocmrepos") else { return };
    for (file, expected) in [
        ("valid-components/component-descriptor-v3.yaml", Ok("example.com/landscaper-component:1.0.0")),
        (
            "valid-components/referenced-component-descriptor-v3.yaml",
            Ok("example.com/referenced-landscaper-component:1.0.0"),
        ),
        (
            "components-with-invalid-access-type/component-descriptor-v3-with-invalid-access-type.yaml",
            Ok("example.com/landscaper-component-with-invalid-access-type:1.0.0"),
        ),
        (
            "components-without-repoctx/component-descriptor-v3-without-repository-context.yaml",
            Ok("example.com/landscaper-component-without-repository-context:1.0.0"),
        ),
        (
            "components-with-blueprints/component-descriptor-v3-with-blueprints.yaml",
            Ok("example.com/landscaper-component-with-blueprints:1.0.0"),
        ),
        (
            "components-with-jsonschemas/component-descriptor-v3-with-jsonschemas.yaml",
            Ok("example.com/landscaper-component-with-jsonschemas:1.0.0"),
        ),
        ("invalid-components/invalid-component-descriptor-v3.yaml", Err("metadata.provider: must be set")),
    ] {
        let bytes = std::fs::read(root.join(file)).unwrap();
        let answer = Descriptor::parse(&bytes).map_err(|error| error.to_string());
        match (answer, expected) {
            (Ok(descriptor), Ok(id)) => {
                assert_eq!(format!("{}:{}", descriptor.name(), descriptor.version()), id, "{file}");
                let again = strict(descriptor.to_schema(SchemaVersion::V2)).unwrap();
                assert_eq!(again.references().count(), descriptor.references().count(), "{file}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{file}: {error}"),
            (answer, _) => panic!("{file}: {answer:?}"),
        }
    }
}

#[test]
fn versions_in_the_spelling_of_tags() {
    let mut document = v2();
    document["component"]["version"] = json!("1.0.0+7");
    let descriptor = strict(document).unwrap();
    for (version, same) in
        [("1.0.0+7", true), ("1.0.0.build-7", true), ("1.0.0", false), ("1.0.0.build-8", false)]
    {
        assert_eq!(descriptor.is_version("example.org/shop", version), same, "{version}");
    }
    assert!(!descriptor.is_version("example.org/shops", "1.0.0+7"));
}

/// Names that `components.md` 5.3 allows are accepted, and a name cannot contain a path traversal.
#[test]
fn component_names() {
    for (name, valid) in [
        ("example.org/shop/front-end_2", true),
        ("example.org/a-", true),
        ("my-own-echo-server", true),
        ("Example.org/shop", false),
        ("example.org/../shop", false),
        ("example.org//shop", false),
        ("/shop", false),
        ("", false),
    ] {
        let mut document = v2();
        document["component"]["name"] = json!(name);
        assert_eq!(strict(document).is_ok(), valid, "{name}");
    }
}

/// `components.md` 4.9, 5.1: the new spelling takes precedence, and v3 knows only that one.
#[test]
fn both_spellings_of_source_references() {
    let mut document = v2();
    document["component"]["resources"][0]["srcRefs"] = json!([{"identitySelector": {"name": "newer"}}]);
    let descriptor = strict(document).unwrap();
    let newer = json!([{"identitySelector": {"name": "newer"}}]);
    let v2 = &descriptor.to_schema(SchemaVersion::V2)["component"]["resources"][0];
    assert_eq!((&v2["srcRefs"], &v2["srcRef"]), (&newer, &newer));
    let v3 = &descriptor.to_schema(SchemaVersion::V3)["spec"]["resources"][0];
    assert_eq!((&v3["srcRefs"], v3.get("srcRef")), (&newer, None));
}

/// An inline v3 document may also omit lists by null.
#[test]
fn inline_v3_descriptors_may_be_short() {
    let document = json!({
        "apiVersion": "ocm.software/v3alpha1", "kind": "ComponentVersion",
        "metadata": {"name": "example.org/a", "version": "1.0.0"}, "spec": {"references": null, "resources": null},
    });
    assert!(strict(document.clone()).is_err());
    assert!(Descriptor::from_document(document, Leniency::Inline).is_ok());
}
