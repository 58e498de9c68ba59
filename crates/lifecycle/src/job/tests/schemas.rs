use super::*;

/// Returns a component with a schema resource. `resource` describes the content.
fn db(version: &str, resource: &str) -> String {
    format!(
        "{{kind: Component, in: R1, id: 'example.org/db:{version}', references: {{types: 'example.org/types:1.0.0'}}, \
         resources: [{{name: schema, type: landscaper.gardener.cloud/jsonschema, {resource}}}]}}"
    )
}

const SHOP: &str =
    "{kind: Component, in: R1, id: 'example.org/shop:1.0.0', references: {db: 'example.org/db:1.0.0'}}";
const TYPES: &str = "{kind: Component, in: R1, id: 'example.org/types:1.0.0', resources: \
                     [{name: types, type: landscaper.gardener.cloud/jsonschema, \
                     text: '{\"definitions\": {\"size\": {\"maximum\": 5}}}'}]}";
const SIZE: &str = "{kind: DataObject, metadata: {name: size}, data: 7}";
const REFERENCE: &str = "cd://componentReferences/db/resources/schema";

fn importing(component: &str, reference: &str) -> String {
    installation(&format!(
        "{component}
  imports: {{data: [{{name: size, dataRef: size}}]}}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: size, type: data, schema: {{$ref: '{reference}'}}}}
"
    ))
}

/// Validates a size of 7 and returns the error message, or `None` if the size is accepted.
fn check_size(reference: &str, documents: &[&str]) -> Option<String> {
    let installation = importing(SHOP_REFERENCE, reference);
    let mut all = vec![installation.as_str(), SHOP, TYPES, SIZE];
    all.extend_from_slice(documents);
    world(&all).render().error.map(|error| error.cause.message)
}

#[track_caller]
fn check_refused(reference: &str, documents: &[&str], part: &str) {
    let message = check_size(reference, documents).expect("the value is refused");
    assert!(message.contains(part), "{message} lacks {part}");
}

/// Case O-07, divergence D-1 (`components.md` 10.1): the overwriting version has a stricter schema,
/// which rejects a value that the original version accepts.
#[test]
fn schemas_follow_overwrites() {
    let (old, new) = (db("1.0.0", "text: '{\"maximum\": 9}'"), db("2.0.0", "text: '{\"maximum\": 6}'"));
    assert_eq!(check_size(REFERENCE, &[CONTEXT, &old, &new]), None);
    let rules = overwrites("example.org/db", "2.0.0");
    let documents = [CONTEXT_WITH_OVERWRITES, &rules, &old, &new];
    check_refused(REFERENCE, &documents, "Must be less than or equal to 6");
}

/// Schema resources may be plain or packed, JSON or YAML, with any media type.
#[test]
fn forms_of_schema_resources() {
    for resource in [
        "text: '{\"maximum\": 6}'",
        "text: '{\"maximum\": 6}', gzip: true",
        "text: '{\"maximum\": 6}', gzip: true, mediaType: application/vnd.gardener.landscaper.jsonscheme.v1+json",
        "text: '{\"maximum\": 6}', mediaType: image/png",
        "text: 'maximum: 6'",
    ] {
        check_refused(REFERENCE, &[CONTEXT, &db("1.0.0", resource)], "Must be less than or equal to 6");
    }
}

/// References inside a schema are resolved in the component that owns the document. The fragment
/// selects a part.
#[test]
fn references_inside_schemas() {
    let nested = "cd://componentReferences/types/resources/types#/definitions/size";
    let owner = db("1.0.0", &format!("text: '{{\"$ref\": \"{nested}\"}}'"));
    check_refused(REFERENCE, &[CONTEXT, &owner], "Must be less than or equal to 5");
    let circle = db("1.0.0", "text: '{\"$ref\": \"cd://resources/schema\"}'");
    check_refused(
        REFERENCE,
        &[CONTEXT, &circle],
        "cyclic references detected: reference \"cd://resources/schema\" from component example.org/db:1.0.0 is part \
         of a cycle",
    );
}

#[test]
fn schemas_out_of_reach() {
    let plain = db("1.0.0", "text: '{}'");
    let large = format!("text: '\"{}\"'", "x".repeat(5 << 20));
    for (reference, resource, part) in [
        ("cd://resources/schema", plain.as_str(), "local resource schema cannot be found"),
        ("cd://componentReferences/db", &plain, "the selector seems to target a component descriptor"),
        ("cd://componentReferences/x/resources/a", &plain, "component reference x cannot be found"),
        ("cd://sources/a", &plain, "unknown keyword sources"),
        (
            REFERENCE,
            &db("1.0.0", "text: '{'"),
            "JSON schema resource \"schema\" of component example.org/db:1.0.0: line ",
        ),
        (REFERENCE, &db("1.0.0", &large), "it is larger than 4194304 bytes"),
        (REFERENCE, &db("1.0.0", &(large.clone() + ", gzip: true")), "it is larger than 4194304 bytes"),
        (REFERENCE, &db("1.0.0", "access: {type: npm}"), "access method \"npm\" not supported"),
        (REFERENCE, &db("1.0.0", "access: {type: wget}"), "has no url"),
        (
            REFERENCE,
            &plain.replace("landscaper.gardener.cloud/jsonschema", "text"),
            "no handler found for resource type text: resource \"schema\" of component example.org/db:1.0.0 ",
        ),
    ] {
        let prefix = format!("unable to fetch jsonschema for '{reference}': ");
        check_refused(reference, &[CONTEXT, resource], &prefix);
        check_refused(reference, &[CONTEXT, resource], part);
    }
}

#[test]
fn without_a_component() {
    let (_, message) = world(&[&importing("", REFERENCE), EMPTY_CONTEXT, SIZE]).error();
    assert!(message.contains("no component descriptor defined to resolve the ref"), "{message}");
}
