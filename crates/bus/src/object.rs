//! What the objects of a cluster are called, and what an event shows of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A kind of objects: API group and plural. Cheap to clone.
///
/// Versions are no part of it: an object is the same in all versions that the API server offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    group: Arc<str>,
    plural: Arc<str>,
}

impl Kind {
    /// A kind by its API group (`""` for core) and plural (`configmaps`).
    ///
    /// Names that cannot be those of a kind are refused where they would become a subject.
    pub fn new(group: impl Into<Arc<str>>, plural: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// The API group, `""` for core.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The plural, as in the path of the API.
    pub fn plural(&self) -> &str {
        &self.plural
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.plural)
        } else {
            write!(f, "{}.{}", self.plural, self.group)
        }
    }
}

/// Which object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub kind: Kind,
    /// `None` for objects of the cluster.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// An object by kind, namespace and name.
    pub fn new(kind: Kind, namespace: Option<&str>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.map(str::to_owned), name: name.into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// What an event shows of an object, and the body of its message.
///
/// It holds no spec and no values: whoever decides something reads the object from the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`, where the kind has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// `metadata.deletionTimestamp`, as the API server wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// `metadata.ownerReferences`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<Owner>,
    /// `metadata.labels`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Those of `metadata.annotations` that the publisher lets through: the ones of our groups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `metadata.finalizers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Reference and status fields that the publisher chose for the kind; never values.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// API version of the owner.
    pub api_version: String,
    /// Kind (not plural) of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether the owner is the one controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_people_write_them() {
        let installations = Kind::new("landscaper.gardener.cloud", "installations");
        let object = ObjectId::new(installations, Some("prod"), "echo");
        assert_eq!(object.to_string(), "installations.landscaper.gardener.cloud prod/echo");
        assert_eq!(ObjectId::new(Kind::new("", "namespaces"), None, "prod").to_string(), "namespaces prod");
    }

    #[test]
    fn an_empty_snapshot_is_short() {
        let snapshot = Snapshot { uid: "u".into(), resource_version: "7".into(), ..Snapshot::default() };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(text, r#"{"uid":"u","resourceVersion":"7"}"#);
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    }
}
