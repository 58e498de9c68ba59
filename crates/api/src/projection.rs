//! What the world is shown of an object when it changes: names, references, jobs and phases, never a value.

use serde_json::{Map, Value};

use crate::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind,
    PackageVariant, PackageVariantSet, Repository, Target,
};

/// A kind whose changes are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// API group; empty for the core.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Objects of it lie in namespaces.
    pub is_namespaced: bool,
    /// Fields that an event shows beside the metadata; without any, only metadata is asked for. `[]` goes through a
    /// list.
    pub fields: &'static [&'static str],
}

const fn ours<K: Kind>(fields: &'static [&'static str]) -> Watched {
    Watched {
        group: K::GROUP,
        version: K::VERSION,
        kind: K::KIND,
        plural: K::PLURAL,
        is_namespaced: true,
        fields,
    }
}

const fn core(kind: &'static str, plural: &'static str, is_namespaced: bool) -> Watched {
    Watched { group: "", version: "v1", kind, plural, is_namespaced, fields: &[] }
}

/// The kinds that the services need.
pub const WATCHED: [Watched; 13] = [
    ours::<Installation>(&[
        "spec.context",
        "spec.componentDescriptor.ref.componentName",
        "spec.componentDescriptor.ref.version",
        "spec.blueprint.ref.resourceName",
        "spec.imports.data[].name",
        "spec.imports.data[].dataRef",
        "spec.imports.data[].secretRef.name",
        "spec.imports.data[].configMapRef.name",
        "spec.imports.targets[].name",
        "spec.imports.targets[].target",
        "spec.exports.data[].name",
        "spec.exports.data[].dataRef",
        "spec.exports.targets[].name",
        "spec.exports.targets[].target",
        "status.phase",
        "status.jobID",
        "status.jobIDFinished",
        "status.observedGeneration",
        "status.executionRef.name",
    ]),
    ours::<Execution>(&["spec.context", "status.phase", "status.jobID", "status.jobIDFinished"]),
    ours::<DeployItem>(&[
        "spec.type",
        "spec.context",
        "spec.target.name",
        "status.phase",
        "status.jobID",
        "status.jobIDGenerationTime",
        "status.jobIDFinished",
        "status.lastReconcileTime",
        "status.exportRef.name",
    ]),
    ours::<DataObject>(&[]),
    ours::<Target>(&[]),
    ours::<Context>(&["componentVersionOverwrites", "ocmConfig.name", "registryPullSecrets[].name"]),
    ours::<ComponentVersionOverwrites>(&[]),
    ours::<PackageVariantSet>(&[
        "spec.upstream.repo",
        "spec.upstream.package",
        "spec.targets[].objectSelector.apiVersion",
        "spec.targets[].objectSelector.kind",
        "status.observedGeneration",
    ]),
    ours::<PackageVariant>(&[
        "spec.upstream.repo",
        "spec.upstream.package",
        "spec.downstream.repo",
        "spec.downstream.package",
        "status.observedGeneration",
    ]),
    ours::<Repository>(&[]),
    core("Namespace", "namespaces", false),
    core("Secret", "secrets", true),
    core("ConfigMap", "configmaps", true),
];

/// The parts of an object that `fields` name. Missing ones are left out.
pub fn project(fields: &[&str], object: &Value) -> Map<String, Value> {
    let mut shown = Map::new();
    for field in fields {
        let path: Vec<&str> = field.split('.').collect();
        if let Some(Value::Object(found)) = pick(object, &path) {
            merge(&mut shown, found);
        }
    }
    shown
}

/// The object with nothing in it but what lies on a path.
fn pick(value: &Value, path: &[&str]) -> Option<Value> {
    let Some((step, rest)) = path.split_first() else {
        // Only plain values are shown; whatever else stands there is not a name.
        return (value.is_string() || value.is_number() || value.is_boolean()).then(|| value.clone());
    };
    let (name, is_list) = step.strip_suffix("[]").map_or((*step, false), |name| (name, true));
    let member = value.get(name)?;
    let inner = if is_list {
        let element = |element: &Value| pick(element, rest).unwrap_or_else(|| Value::Object(Map::new()));
        Value::Array(member.as_array()?.iter().map(element).collect())
    } else {
        pick(member, rest)?
    };
    Some(Value::Object(Map::from_iter([(name.to_owned(), inner)])))
}

fn merge(shown: &mut Map<String, Value>, found: Map<String, Value>) {
    for (name, value) in found {
        match (shown.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(Value::Array(old)), Value::Array(new)) => {
                for (old, new) in old.iter_mut().zip(new) {
                    if let (Value::Object(old), Value::Object(new)) = (old, new) {
                        merge(old, new);
                    }
                }
            }
            (_, value) => {
                shown.insert(name, value);
            }
        }
    }
}

/// Whether an annotation is one of ours, or of the systems whose objects we handle.
pub fn is_own_annotation(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    ["landscaper.gardener.cloud", "porch.kpt.dev", "kpt.dev", "groundwork.dev"]
        .iter()
        .any(|own| domain == *own || domain.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_named_fields_are_shown() {
        let object = json!({
            "spec": {
                "context": "default",
                "blueprint": {"inline": {"filesystem": "secret"}, "ref": {"resourceName": {"odd": "secret"}}},
                "imports": {"data": [
                    {"name": "a", "secretRef": {"name": "s", "key": "k"}},
                    {"name": "b", "dataRef": "d"},
                ]},
            },
            "status": {"phase": "Init", "lastError": {"message": "secret"}, "observedGeneration": 3},
        });
        assert_eq!(
            Value::Object(project(WATCHED[0].fields, &object)),
            json!({
                "spec": {
                    "context": "default",
                    "imports": {"data": [{"name": "a", "secretRef": {"name": "s"}}, {"name": "b", "dataRef": "d"}]},
                },
                "status": {"phase": "Init", "observedGeneration": 3},
            })
        );
        assert!(project(WATCHED[3].fields, &json!({"data": "secret"})).is_empty());
    }

    #[test]
    fn own_annotations() {
        for own in ["landscaper.gardener.cloud/operation", "data.landscaper.gardener.cloud/hash", "kpt.dev/x"]
        {
            assert!(is_own_annotation(own), "{own}");
        }
        for other in ["kubectl.kubernetes.io/last-applied-configuration", "notkpt.dev/x", "plain"] {
            assert!(!is_own_annotation(other), "{other}");
        }
    }
}
