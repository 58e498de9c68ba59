use serde_json::json;

use super::*;

fn check(document: &Value, expected: &str) {
    let outcome = match ComponentDescriptor::from_json(document) {
        Ok(descriptor) => {
            assert_eq!(&serde_json::to_value(&descriptor).unwrap(), document);
            format!("{} {}", descriptor.name(), descriptor.version())
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(outcome, expected, "{document}");
}

#[test]
fn both_forms_are_read_without_loss() {
    let access = json!({"type": "localBlob", "localReference": "sha256:1", "unknown": [null, 1.0]});
    let label = json!({"name": "l", "value": null, "version": "v1", "signing": true, "merge": {"a": 1}});
    let resource = json!({
        "name": "image", "version": "1", "type": "ociImage", "relation": "local", "access": access,
        "labels": [label], "extraIdentity": {"arch": "amd64"}, "unknown": {},
        "srcRefs": [{"identitySelector": {"name": "src"}, "labels": []}],
        "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": "ociArtifactDigest/v1", "value": "0f"},
    });
    let reference = json!({"name": "r", "componentName": "example.org/b", "version": "2", "labels": [label]});
    check(
        &json!({
            "meta": {"schemaVersion": "v2"},
            "component": {
                "name": "example.org/a", "version": "1", "provider": "{\"name\":\"me\"}", "creationTime": null,
                "repositoryContexts": [{"type": "OCIRegistry", "baseUrl": "x"}], "sources": [],
                "componentReferences": [reference], "resources": [resource],
            },
            "signatures": [{
                "name": "s",
                "digest": {"hashAlgorithm": "a", "normalisationAlgorithm": "b", "value": "c"},
                "signature": {"algorithm": "a", "value": "b", "mediaType": "c"},
            }],
        }),
        "example.org/a 1",
    );
    check(
        &json!({
            "apiVersion": "ocm.software/v3alpha1", "kind": "ComponentVersion",
            "metadata": {"name": "example.org/a", "version": "1", "provider": {"name": "me"}},
            "repositoryContexts": [],
            "spec": {"resources": [resource], "references": [reference], "sources": []},
        }),
        "example.org/a 1",
    );
}

#[test]
fn an_inline_descriptor_may_be_minimal() {
    let document = json!({"meta": {"schemaVersion": "v2"}, "component": {"name": "a", "version": "1"}});
    check(&document, "a 1");
}

#[test]
fn documents_of_other_forms() {
    check(&json!({}), "no component descriptor: neither `meta.schemaVersion` nor `apiVersion` is given");
    check(
        &json!({"apiVersion": "ocm.software/v3alpha1", "meta": {"schemaVersion": "v2"}}),
        "no component descriptor: both `meta.schemaVersion` and `apiVersion` are given",
    );
    let known = "known are \"v2\" and \"ocm.software/v3alpha1\"";
    check(
        &json!({"meta": {"schemaVersion": "v1"}}),
        &format!("the schema version \"v1\" of the component descriptor is not known; {known}"),
    );
    check(
        &json!({"apiVersion": "ocm.software/v3alpha1", "kind": "Component"}),
        "kind \"Component\" of the component descriptor: must be ComponentVersion",
    );
    check(
        &json!({"meta": {"schemaVersion": "v2"}, "component": {"name": 5}}),
        "the component descriptor cannot be read: invalid type: integer `5`, expected a string",
    );
}

#[test]
fn the_older_name_of_source_references_counts_where_the_newer_is_absent() {
    let count =
        |document: Value| serde_json::from_value::<Resource>(document).unwrap().source_references().len();
    assert_eq!(count(json!({"srcRef": [{}, {}]})), 2);
    assert_eq!(count(json!({"srcRef": [{}, {}], "srcRefs": [{}]})), 1);
    assert_eq!(count(json!({"srcRef": [{}], "srcRefs": []})), 0);
    assert_eq!(count(json!({})), 0);
}
