//! Objects as JSON, with the functions that all parts of the crate share.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Identifies an object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl Reference {
    /// Returns the reference of an object; missing parts are empty.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: namespace_of(object).map(str::to_owned),
            name: text(&object["metadata"]["name"]),
        }
    }

    /// Returns the group of `apiVersion`; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Reports whether both name the same object, in any API version.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.group() == other.group()
            && self.namespace == other.namespace
            && self.name == other.name
    }
}

/// Formats the reference as `NAMESPACE/NAME of type KIND`, as checkpoints and messages write it.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{namespace}{slash}{} of type {}", self.name, self.kind)
    }
}

pub(crate) fn namespace_of(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty())
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(crate) fn resource_version(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str()
}

/// Reports whether the deletion of an object was requested.
pub fn is_being_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns a member as an object, and replaces a missing or other value by an empty object.
pub(crate) fn member<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = match object {
        Value::Object(members) => members.entry(name).or_insert_with(|| Value::Object(Map::new())),
        other => other,
    };
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(members) => members,
        // The value was just made an object above.
        _ => unreachable!("member is not an object"),
    }
}

/// Sets a label or an annotation (`field`).
pub fn set_metadata(object: &mut Value, field: &str, key: &str, value: &str) {
    let metadata = member(object, "metadata");
    let mut whole = Value::Object(std::mem::take(metadata));
    member(&mut whole, field).insert(key.to_owned(), Value::String(value.to_owned()));
    if let Value::Object(members) = whole {
        *metadata = members;
    }
}

/// Merges `over` into `base`: objects member by member, other values as a whole. A null in `over`
/// sets null.
pub(crate) fn merge_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(existing) => merge_over(existing, value),
                    None => drop(base.insert(key.clone(), value.clone())),
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Metadata that the API server writes, which is not part of a user's intent.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Returns the object without its status, and without metadata that the API server writes.
pub(crate) fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(members) = &mut object {
        members.remove("status");
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            metadata.retain(|key, _| !SERVER_METADATA.contains(&key.as_str()));
        }
    }
    object
}

/// Reports whether the cluster writes this annotation about an object, such as the revision of a
/// Deployment.
pub(crate) fn is_of_the_cluster(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Returns a short fingerprint, independent of the order of members: 128 bits in hexadecimal
/// digits.
pub(crate) fn digest(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(value, &mut hasher);
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn feed(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            hasher.update(b"{");
            for (key, value) in sorted {
                feed(&Value::String(key.clone()), hasher);
                feed(value, hasher);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(item, hasher);
            }
            hasher.update(b"]");
        }
        plain => {
            hasher.update(plain.to_string());
            hasher.update(b",");
        }
    }
}

/// Returns the JSON merge patch (RFC 7386) that turns `from` into `to`.
pub(crate) fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old @ Value::Object(_)) if value.is_object() => {
                patch.insert(key.clone(), difference(old, value));
            }
            _ => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_look_at_content_alone() {
        assert_eq!(digest(&json!({"a": 1, "b": [1, "2"]})), digest(&json!({"b": [1, "2"], "a": 1})));
        for other in [json!({"a": 1, "b": [1, 2]}), json!({"a": 1, "b": [[1, "2"]]}), json!({"a": 1})] {
            assert_ne!(digest(&json!({"a": 1, "b": [1, "2"]})), digest(&other), "{other}");
        }
    }

    #[test]
    fn references() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "b"}});
        let reference = Reference::of(&object);
        assert_eq!((reference.to_string().as_str(), reference.group()), ("a/b of type Deployment", "apps"));
        let other = Reference { api_version: "apps/v1beta1".into(), ..reference.clone() };
        assert!(reference.is_same(&other));
        assert!(!reference.is_same(&Reference { api_version: "v1".into(), ..reference.clone() }));
        let cluster =
            Reference::of(&json!({"kind": "Namespace", "metadata": {"name": "n", "namespace": ""}}));
        assert_eq!(
            (cluster.to_string().as_str(), cluster.namespace.as_deref()),
            ("n of type Namespace", None)
        );
    }

    #[test]
    fn annotations_of_the_cluster() {
        for (name, expected) in [
            ("deployment.kubernetes.io/revision", true),
            ("kubernetes.io/x", true),
            ("a.k8s.io/x", true),
            ("notkubernetes.io/x", false),
            ("example.org/kubernetes.io", false),
            ("plain", false),
        ] {
            assert_eq!(is_of_the_cluster(name), expected, "{name}");
        }
    }

    #[test]
    fn metadata_is_made_where_it_is_missing() {
        let mut object = json!({"metadata": {"labels": null}});
        set_metadata(&mut object, "labels", "a", "b");
        set_metadata(&mut object, "annotations", "c", "d");
        assert_eq!(object, json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}));
    }
}
