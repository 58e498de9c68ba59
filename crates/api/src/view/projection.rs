//! Reduces an object to the parts that its events show: names, references, jobs and phases, but
//! never values.

use serde_json::{Map, Value};

use super::{
    Context, DeployItem, Execution, Installation, PackageRevisionSet, PackageVariant, PackageVariantSet,
    Repository, TargetSync,
};
use crate::Kind;

/// Kind whose changes are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// True if its objects are namespaced.
    pub is_namespaced: bool,
    /// Fields that an event shows beside the metadata. If there are none, the watcher reads only
    /// metadata. See [`project`].
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

/// Kinds that the services need.
pub const WATCHED: [Watched; 15] = [
    ours::<crate::Installation>(Installation::FIELDS),
    ours::<crate::Execution>(Execution::FIELDS),
    ours::<crate::DeployItem>(DeployItem::FIELDS),
    ours::<crate::DataObject>(&[]),
    ours::<crate::Target>(&[]),
    ours::<crate::TargetSync>(TargetSync::FIELDS),
    ours::<crate::Context>(Context::FIELDS),
    ours::<crate::ComponentVersionOverwrites>(&[]),
    ours::<crate::PackageVariantSet>(PackageVariantSet::FIELDS),
    ours::<crate::PackageVariant>(PackageVariant::FIELDS),
    ours::<crate::PackageRevisionSet>(PackageRevisionSet::FIELDS),
    ours::<crate::Repository>(Repository::FIELDS),
    core("Namespace", "namespaces", false),
    core("Secret", "secrets", true),
    core("ConfigMap", "configmaps", true),
];

/// Returns the parts of an object that `fields` name. Leaves out missing parts, and values that are
/// not a text, number or boolean.
///
/// In a path, `[]` stands for the elements of a list and `*` for the members of a map. A path that
/// ends in `{}` shows only that a part exists, without its content.
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

/// Returns the object reduced to the values on a path.
fn pick(value: &Value, path: &[&str]) -> Option<Value> {
    let Some((step, rest)) = path.split_first() else {
        // Show only scalars; a structure in this place is not a name.
        return (value.is_string() || value.is_number() || value.is_boolean()).then(|| value.clone());
    };
    if *step == "*" {
        let members = value.as_object()?.iter();
        let members = members.filter_map(|(name, member)| Some((name.clone(), pick(member, rest)?)));
        return Some(Value::Object(members.collect()));
    }
    let empty = || Value::Object(Map::new());
    let (name, inner) = if let Some(name) = step.strip_suffix("[]") {
        let elements = value.get(name)?.as_array()?.iter();
        (name, Value::Array(elements.map(|element| pick(element, rest).unwrap_or_else(empty)).collect()))
    } else if let Some(name) = step.strip_suffix("{}") {
        (name, value.get(name)?.as_object().map(|_| empty())?)
    } else {
        (*step, pick(value.get(*step)?, rest)?)
    };
    Some(Value::Object(Map::from_iter([(name.to_owned(), inner)])))
}

fn merge(shown: &mut Map<String, Value>, found: Map<String, Value>) {
    for (name, value) in found {
        match shown.get_mut(&name) {
            Some(old) => merge_value(old, value),
            None => {
                shown.insert(name, value);
            }
        }
    }
}

/// Merges the values of two paths: elements of a list by position. An element without shown parts
/// is an empty object.
fn merge_value(shown: &mut Value, found: Value) {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => merge(shown, found),
        (Value::Array(shown), Value::Array(found)) => {
            for (shown, found) in shown.iter_mut().zip(found) {
                merge_value(shown, found);
            }
        }
        (Value::String(_) | Value::Number(_) | Value::Bool(_), Value::Object(found)) if found.is_empty() => {}
        (shown, found) => *shown = found,
    }
}
/// Reports whether an annotation belongs to us, or to the systems whose objects we handle.
pub fn is_own_annotation(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    ["landscaper.gardener.cloud", "porch.kpt.dev", "kpt.dev", "groundwork.dev", "groundwork"]
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
            Value::Object(project(Installation::FIELDS, &object)),
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
    fn lists_maps_and_parts() {
        let check = |fields: &[&str], object: Value, expected: Value| {
            assert_eq!(Value::Object(project(fields, &object)), expected, "{fields:?} of {object}");
        };
        let lists = ["a[].n", "a[].l[]", "a[].l[].*"];
        check(
            &lists,
            json!({"a": [{"n": 1, "l": ["x", "y"]}, {"l": [{"k": "x"}, {"k": {"deep": "no"}}]}, "odd"]}),
            json!({"a": [{"n": 1, "l": ["x", "y"]}, {"l": [{"k": "x"}, {}]}, {}]}),
        );
        check(&["l[].*", "l[]"], json!({"l": ["x", {"k": "y"}]}), json!({"l": ["x", {"k": "y"}]}));
        check(&["m.*"], json!({"m": {"a": "x", "b": ["no"], "c": {"no": 1}}}), json!({"m": {"a": "x"}}));
        check(&["p{}", "p.n"], json!({"p": {"hidden": "no"}}), json!({"p": {}}));
        check(&["p{}", "p.n"], json!({"p": {"n": true}}), json!({"p": {"n": true}}));
        check(&["p{}", "p.n"], json!({"p": "no"}), json!({}));
        check(&["m.*", "l[].n", "p.q.r"], json!({"m": 1, "l": {}, "p": {"q": []}}), json!({}));
    }

    #[test]
    fn own_annotations() {
        for own in [
            "landscaper.gardener.cloud/operation",
            "data.landscaper.gardener.cloud/hash",
            "kpt.dev/x",
            "groundwork/follow-tag",
        ] {
            assert!(is_own_annotation(own), "{own}");
        }
        for other in ["kubectl.kubernetes.io/last-applied-configuration", "notkpt.dev/x", "plain"] {
            assert!(!is_own_annotation(other), "{other}");
        }
    }
}
