//! From an object of the API server to what an event shows of it.

use groundwork_api::{is_own_annotation, project};
use groundwork_bus::{Owner, Snapshot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

/// What an event shows: metadata, and of the content nothing but `fields`.
pub(crate) fn snapshot(metadata: ObjectMeta, fields: &[&str], content: &Value) -> Snapshot {
    let annotations = metadata.annotations.unwrap_or_default().into_iter();
    Snapshot {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0.to_string()),
        owner_references: metadata.owner_references.unwrap_or_default().into_iter().map(owner).collect(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: annotations.filter(|(name, _)| is_own_annotation(name)).collect(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        fields: project(fields, content),
    }
}

fn owner(owner: OwnerReference) -> Owner {
    Owner {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller.unwrap_or_default(),
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
        let shown = serde_json::to_value(snapshot(metadata, &["spec.shown"], &content)).unwrap();
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
}
