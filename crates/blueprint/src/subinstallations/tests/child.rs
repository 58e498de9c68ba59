//! Tests of `blueprints.md` 9.4 and 9.5: the table, the errors and the object.

use groundwork_api::{Installation, InstallationSpec};
use groundwork_component::{Reference, RepositoryContext};
use serde_json::{Value, json};

use super::super::{ChildError, Parent, child_object_name};
use super::templates;
use crate::Components;
use crate::testing::{components, yaml};

const APP: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/app
  version: 1.0.0
  provider: internal
  repositoryContexts: []
  sources: []
  resources: [{name: bp, type: blueprint, version: 1.0.0, relation: local, access: {type: none}}]
  componentReferences: [{name: db, componentName: example.org/db, version: 1.0.0}, {name: gone, componentName: example.org/gone, version: 1.0.0}]
";
const DB: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/db
  version: 1.0.0
  provider: internal
  repositoryContexts: []
  sources: []
  resources: [{name: bp, type: blueprint, version: 1.0.0, relation: local, access: {type: none}}]
  componentReferences: [{name: net, componentName: example.org/net, version: 3.0.0}]
";
const NET: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/net
  version: 3.0.0
  provider: internal
  repositoryContexts: []
  sources: []
  resources: [{name: bp, type: blueprint, version: 1.0.0, relation: local, access: {type: none}}]
  componentReferences: []
";
/// Overwriting version of `db`, with another resource.
const DB_2: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/db
  version: 2.0.0
  provider: internal
  repositoryContexts: []
  sources: []
  resources: [{name: new, type: blueprint, version: 2.0.0, relation: local, access: {type: none}}]
  componentReferences: []
";

fn parent(text: &str) -> Installation {
    let document = json!({"metadata": {"name": "shop", "namespace": "prod"}, "spec": yaml(text)});
    serde_json::from_value(document).unwrap()
}

fn repository() -> Value {
    json!({"type": "ociRegistry", "baseUrl": "registry.example.org/components"})
}

/// Returns the spec of a child with this blueprint, whose parent uses `example.org/app:1.0.0` of
/// [`repository`].
fn spec(
    installation: &Installation,
    components: &Components,
    blueprint: &str,
) -> Result<InstallationSpec, ChildError> {
    let effective = Reference {
        repository: RepositoryContext::new(repository()),
        name: "example.org/app".to_owned(),
        version: "1.0.0".to_owned(),
    };
    let effective = components.root().map(|_| &effective);
    let template = templates(&format!("[{{name: db, blueprint: {blueprint}}}]")).remove(0);
    Parent::new(installation, effective, components)?.child_spec(&template)
}

fn parts(spec: &InstallationSpec) -> (Value, Value) {
    let spec = serde_json::to_value(spec).unwrap();
    (spec["blueprint"].clone(), spec["componentDescriptor"].clone())
}

const PARENT: &str = "{componentDescriptor: {ref: {componentName: example.org/app, version: 1.0.0}}, blueprint: {ref: {resourceName: bp}}}";

/// `blueprints.md` 9.4, first row (case B-102): the child gets the component of the parent
/// unchanged, or none.
#[test]
fn inline_blueprints() {
    let files = "{filesystem: {blueprint.yaml: ''}}";
    let components = components(&[APP, DB, NET], &[]);
    let reference = json!({"ref": {"componentName": "example.org/app", "version": "1.0.0", "repositoryContext": {"type": "x"}}});
    for definition in [reference, json!({"inline": yaml(APP)})] {
        let installation = parent(&json!({"componentDescriptor": definition}).to_string());
        let (blueprint, component) = parts(&spec(&installation, &components, files).unwrap());
        assert_eq!(blueprint, json!({"inline": {"filesystem": {"blueprint.yaml": ""}}}));
        assert_eq!(component, definition);
    }
    let spec = spec(&parent("{}"), &Components::default(), files).unwrap();
    assert_eq!(spec.component_descriptor, None);
}

/// `blueprints.md` 9.4, second row (cases B-101, B-106, B-112).
#[test]
fn references() {
    let components = components(&[APP, DB, NET], &[]);
    for (address, component, version) in [
        ("cd://resources/bp", "example.org/app", "1.0.0"),
        ("cd://componentReferences/db/resources/bp", "example.org/db", "1.0.0"),
        ("cd://componentReferences/db/componentReferences/net/resources/bp", "example.org/net", "3.0.0"),
    ] {
        let spec = spec(&parent(PARENT), &components, &format!("{{ref: '{address}'}}")).unwrap();
        assert_eq!(
            parts(&spec),
            (
                json!({"ref": {"resourceName": "bp"}}),
                json!({"ref": {"repositoryContext": repository(), "componentName": component, "version": version}})
            ),
            "{address}"
        );
    }
}

/// Case O-06: the resource is searched in the overwritten component. The reference is passed on as
/// written (`components.md` 2.6).
#[test]
fn overwrites() {
    let components = components(&[APP, DB_2], &[("example.org/db", "1.0.0", "2.0.0")]);
    let child = |resource: &str| {
        spec(
            &parent(PARENT),
            &components,
            &format!("{{ref: 'cd://componentReferences/db/resources/{resource}'}}"),
        )
    };
    let (_, component) = parts(&child("new").unwrap());
    assert_eq!(component["ref"]["version"], "1.0.0");
    assert_eq!(
        child("bp").unwrap_err().to_string(),
        "unable to resolve blueprint ref in component descriptor example.org/app: local resource bp cannot be found"
    );
}

/// Errors SUB-004 of `blueprints.md` 9.4.
#[test]
fn addresses_that_lead_nowhere() {
    let components = components(&[APP, DB, NET], &[]);
    let long = format!("cd://resources/{}", "x".repeat(2083));
    for (address, problem) in [
        (long.as_str(), "too long uri, got 2098 but expected max 2083"),
        ("https://resources/bp", "scheme must be cd but given https"),
        ("cd://resources", "even number of path arguments expected"),
        ("cd://sources/bp", "unknown keyword sources"),
        ("cd://componentReferences/x/resources/bp", "component reference x cannot be found"),
        ("cd://componentReferences/gone/resources/bp", "component gone cannot be found"),
        ("cd://resources/x", "local resource x cannot be found"),
        (
            "cd://resources/bp/resources/bp",
            "the selector seems to contain more path segements after a external resource",
        ),
        ("cd://componentReferences/db", "expected a resource from the component descriptor example.org/db"),
    ] {
        let error = spec(&parent(PARENT), &components, &format!("{{ref: '{address}'}}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unable to resolve blueprint ref in component descriptor example.org/app: {problem}")
        );
    }
    for (blueprint, problem) in [
        ("{ref: 'cd://resources/bp'}", "no component descriptor defined to resolve the blueprint ref"),
        ("{}", "a blueprint must be defined"),
        ("null", "a blueprint must be defined"),
        (
            "{ref: x, filesystem: {}}",
            "exactly one of [ref, filesystem] must be set (currently set: [ref, filesystem])",
        ),
    ] {
        let error = spec(&parent("{}"), &Components::default(), blueprint).unwrap_err();
        assert_eq!(error.to_string(), problem, "{blueprint}");
    }
}

/// `blueprints.md` 9.4, third row: nested descriptors are passed on with their own nested ones, as
/// maps and as texts. So is the parent's own descriptor.
#[test]
fn inline_descriptors() {
    let with = |descriptor: &str, reference: usize, nested: Value| {
        let mut descriptor = yaml(descriptor);
        descriptor["component"]["componentReferences"][reference]["labels"] =
            json!([{"name": "landscaper.gardener.cloud/component-descriptor", "value": nested}]);
        descriptor
    };
    let db = with(DB, 0, Value::from(NET));
    let app = with(APP, 0, db.clone());
    let text = json!({"componentDescriptor": {"inline": app}}).to_string();
    let components = components(&[APP, DB, NET], &[]);
    for (address, name) in [
        ("cd://resources/bp", "example.org/app"),
        ("cd://componentReferences/db/resources/bp", "example.org/db"),
        ("cd://componentReferences/db/componentReferences/net/resources/bp", "example.org/net"),
    ] {
        let spec = spec(&parent(&text), &components, &format!("{{ref: '{address}'}}")).unwrap();
        let (blueprint, component) = parts(&spec);
        assert_eq!(blueprint, json!({"ref": {"resourceName": "bp"}}));
        assert_eq!(component["ref"], Value::Null, "{address}");
        assert_eq!(component["inline"]["component"]["name"], name, "{address}");
        let nested = component.pointer("/inline/component/componentReferences/0/labels/0/value");
        let expected = match name {
            "example.org/app" => Some(db.clone()),
            "example.org/db" => Some(Value::from(NET)),
            _ => None,
        };
        assert_eq!(nested, expected.as_ref(), "{address}");
    }
    // A reference without the label is looked up in repositories instead of the inline descriptors.
    let text = json!({"componentDescriptor": {"inline": yaml(APP)}}).to_string();
    let spec =
        spec(&parent(&text), &components, "{ref: 'cd://componentReferences/db/resources/bp'}").unwrap();
    assert_eq!(
        parts(&spec).1,
        json!({"ref": {"repositoryContext": repository(), "componentName": "example.org/db", "version": "1.0.0"}})
    );
}

/// `blueprints.md` 9.5 (cases B-100, B-106): copied, inherited and absent fields.
#[test]
fn members_of_the_spec() {
    let installation = parent(
        "{context: ctx, verification: {signatureName: s}, automaticReconcile: {}, imports: {data: [{name: own, dataRef: own}]}}",
    );
    let members = "
imports: {data: [{name: i, dataRef: x}], targets: [{name: t, targets: []}]}
importDataMappings: {m: (( i ))}
exports: {data: [{name: e, dataRef: w}]}
exportDataMappings: {o: 5}
optimization: {hasNoSiblingImports: true}";
    let list = format!("[{}]", {
        let mut template = yaml(members);
        template["name"] = json!("db");
        template["blueprint"] = json!({"filesystem": {}});
        template["unknown"] = json!(1);
        template
    });
    let template = templates(&list).remove(0);
    let components = Components::default();
    let parent = Parent::new(&installation, None, &components).unwrap();
    let mut expected = yaml(members);
    expected["context"] = json!("ctx");
    expected["blueprint"] = json!({"inline": {"filesystem": {}}});
    assert_eq!(serde_json::to_value(parent.child_spec(&template).unwrap()).unwrap(), expected);
}

/// `blueprints.md` 9.5 (case B-103): the child has exactly these labels and annotations.
#[test]
fn metadata() {
    let template = templates("[{name: db}]").remove(0);
    let mut installation = parent("{}");
    let components = Components::default();
    let metadata = |installation: &Installation| {
        Parent::new(installation, None, &components).unwrap().child_metadata(&template)
    };
    let own = [("landscaper.gardener.cloud/subinstallation-name", "db")];
    let cached = [("landscaper.gardener.cloud/cache-helm-charts", "true"), own[0]];
    for (annotations, expected) in [
        (json!(null), &own[..]),
        (json!({"landscaper.gardener.cloud/operation": "reconcile"}), &own),
        (json!({"landscaper.gardener.cloud/cache-helm-charts": "true", "other": "x"}), &cached),
    ] {
        installation.metadata.annotations = serde_json::from_value(annotations).unwrap();
        let child = metadata(&installation);
        assert_eq!(
            serde_json::to_value(child.labels).unwrap(),
            json!({"landscaper.gardener.cloud/encompassed-by": "shop"})
        );
        let annotations: Vec<_> =
            child.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(annotations, expected);
    }
}

/// Case B-105: the caller's hash distinguishes children of two parents.
#[test]
fn names() {
    assert_eq!(child_object_name("db", |template| format!("{}", template.len() + 10_000)), "db-10002");
}

/// A parent with a broken descriptor creates no children.
#[test]
fn broken_inline_descriptor() {
    let installation = parent("{componentDescriptor: {inline: {meta: {schemaVersion: v9}}}}");
    let error = Parent::new(&installation, None, &Components::default()).unwrap_err();
    assert_eq!(error.to_string(), "inline component descriptor schema version \"v9\" not supported");
}
