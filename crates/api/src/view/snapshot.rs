//! Object as an event shows it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::projection::{is_own_annotation, project};

/// Content of an event about an object, and the body of its message.
///
/// A snapshot has no values. Services that decide something read the object from the API server.
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
    /// Entries of `metadata.annotations` that the publisher lets through: those of our groups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `metadata.finalizers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Fields that [`WATCHED`](super::WATCHED) lists for the kind. The views read them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

/// Owner reference.
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
    /// True if the owner is the controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
}

/// Maximum number of labels, and of finalizers, of other systems that a
/// [reduced](Snapshot::reduced) snapshot keeps.
const MOST_FOREIGN: usize = 16;
/// Maximum number of entries of each list of names that a reduced snapshot keeps.
const MOST_KEPT: usize = 64;
/// Maximum bytes of an annotation's value that a reduced snapshot keeps. Values that services read
/// are shorter.
const LONGEST_KEPT: usize = 256;

fn cloned<'a>(entries: impl Iterator<Item = (&'a String, &'a String)>) -> BTreeMap<String, String> {
    entries.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Snapshot {
    /// Creates the snapshot of an object: its metadata, and the parts of its content at the paths
    /// in `fields`.
    pub fn new(metadata: ObjectMeta, fields: &[&str], content: &Value) -> Self {
        let annotations = metadata.annotations.unwrap_or_default().into_iter();
        Self {
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation,
            deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0.to_string()),
            owner_references: metadata
                .owner_references
                .unwrap_or_default()
                .into_iter()
                .map(Owner::from)
                .collect(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: annotations.filter(|(name, _)| is_own_annotation(name)).collect(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            fields: project(fields, content),
        }
    }

    /// Returns a smaller snapshot for an event that would be too large, without most of the
    /// metadata that no service reads: labels and finalizers of other systems, long values of
    /// annotations, and all but the last of many owners.
    #[must_use]
    pub fn reduced(&self) -> Self {
        let own_or_first = |index: usize, name: &str| index < MOST_FOREIGN || is_own_annotation(name);
        let (controllers, others): (Vec<Owner>, Vec<Owner>) =
            self.owner_references.iter().cloned().partition(|owner| owner.controller);
        let labels = self.labels.iter().filter(|(name, _)| is_own_annotation(name));
        let annotations = self.annotations.iter().filter(|(_, value)| value.len() <= LONGEST_KEPT);
        let finalizers = self.finalizers.iter().enumerate();
        Self {
            owner_references: controllers.into_iter().chain(others).take(MOST_FOREIGN).collect(),
            labels: cloned(labels.take(MOST_KEPT)),
            annotations: cloned(annotations.take(MOST_KEPT)),
            finalizers: finalizers
                .filter(|(index, name)| own_or_first(*index, name))
                .map(|(_, name)| name.clone())
                .take(MOST_KEPT)
                .collect(),
            ..self.clone()
        }
    }

    /// Reports whether the object is deleted and waits for its finalizers.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Reports whether the object has a finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Returns a label; empty if it is missing, since both mean the same (`installations.md` 4.3).
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns an annotation of ours; empty if it is missing.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Reports whether an annotation is `true`; any other value counts as false.
    pub fn is_annotated(&self, name: &str) -> bool {
        self.annotation(name) == "true"
    }

    /// Returns the owner that controls the object.
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

impl Owner {
    /// Reports whether the owner is of this kind, in any version.
    pub fn is_a<K: crate::Kind>(&self) -> bool {
        self.kind == K::KIND && self.api_version.split_once('/').map_or("", |(group, _)| group) == K::GROUP
    }
}

impl From<OwnerReference> for Owner {
    fn from(owner: OwnerReference) -> Self {
        Self {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_listed_is_shown() {
        let metadata = serde_json::from_value(json!({
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2,
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"l": "v"},
            "finalizers": ["f"],
            "annotations": {
                "landscaper.gardener.cloud/operation": "reconcile",
                "kubectl.kubernetes.io/last-applied-configuration": "canary",
            },
            "managedFields": [{"manager": "canary"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true,
                "blockOwnerDeletion": true}],
        }))
        .unwrap();
        let content = json!({"spec": {"shown": "yes", "hidden": "canary"}});
        let shown = serde_json::to_value(Snapshot::new(metadata, &["spec.shown"], &content)).unwrap();
        assert_eq!(
            shown,
            json!({
                "uid": "u", "resourceVersion": "7", "generation": 2, "deletionTimestamp": "2026-01-02T03:04:05Z",
                "labels": {"l": "v"},
                "finalizers": ["f"],
                "annotations": {"landscaper.gardener.cloud/operation": "reconcile"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true}],
                "fields": {"spec": {"shown": "yes"}},
            })
        );
    }

    #[test]
    fn an_empty_snapshot_is_short() {
        let snapshot = Snapshot { uid: "u".into(), resource_version: "7".into(), ..Snapshot::default() };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(text, r#"{"uid":"u","resourceVersion":"7"}"#);
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    }
}
