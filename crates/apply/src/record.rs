//! Record of the objects that an item has applied, as its status stores it (`installations.md` 7.9,
//! managed resources).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::configuration::{Policy, null_is_default};
use crate::object::{Reference, digest, is_of_the_cluster, without_server_fields};
use crate::ownership::Giver;

/// An object that an item has applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedResource {
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Map::is_empty")]
    pub annotate_before_delete: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_before_delete: Option<Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub policy: Policy,
    pub resource: Reference,
    /// Groundwork's addition: fingerprints of the written manifest and of the resulting object, so
    /// that the next job writes only if one of the two has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Groundwork's addition: the item whose mark the object carried when this item took it over.
    /// The earlier item may still list the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,
    /// Groundwork's addition: the item that has handed the object over, for an object that this
    /// item does not list (yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<Giver>,
}

impl ManagedResource {
    /// Creates the record of an object with the policy `manage`, without fingerprints and earlier
    /// owners.
    pub fn new(resource: Reference) -> Self {
        Self {
            annotate_before_delete: Map::new(),
            patch_before_delete: None,
            policy: Policy::Manage,
            resource,
            applied: None,
            taken_from: None,
            inherited_from: None,
        }
    }
}

/// Fingerprints of a manifest and of the object that it became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub manifest: String,
    pub live: String,
}

impl Applied {
    /// Computes the fingerprints of an object that matches its manifest.
    pub fn new(manifest: &Value, live: &Value) -> Self {
        Self { manifest: digest(manifest), live: live_digest(manifest, live) }
    }
}

/// Maximum size in bytes of records with fingerprints in a status. Larger records lose their
/// fingerprints, and then every job writes.
const LARGEST: usize = 500_000;

/// Returns resources that fit into a status, because the API server limits the size of its object.
pub fn fitting(mut resources: Vec<ManagedResource>) -> Vec<ManagedResource> {
    if serde_json::to_string(&resources).is_ok_and(|text| text.len() > LARGEST) {
        for managed in &mut resources {
            managed.applied = None;
        }
    }
    resources
}

/// Returns the fingerprint of a live object. Annotations that the cluster writes about it do not
/// count.
fn live_digest(manifest: &Value, live: &Value) -> String {
    let mut live = without_server_fields(live);
    let written = &manifest["metadata"]["annotations"];
    if let Some(Value::Object(annotations)) = live.pointer_mut("/metadata/annotations") {
        annotations.retain(|name, _| !is_of_the_cluster(name) || written.get(name).is_some());
    }
    // An object without annotations must have the same fingerprint as one whose only annotations
    // are the cluster's.
    let is_empty =
        live.pointer("/metadata/annotations").and_then(Value::as_object).is_some_and(Map::is_empty);
    if let (true, Some(Value::Object(metadata))) = (is_empty, live.get_mut("metadata")) {
        metadata.remove("annotations");
    }
    digest(&live)
}

/// Returns an item's record of an object.
pub(crate) fn known<'a>(former: &'a [ManagedResource], reference: &Reference) -> Option<&'a ManagedResource> {
    former.iter().find(|managed| managed.resource.is_same(reference))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_cluster_says_is_no_change() {
        let manifest = json!({"metadata": {"name": "a"}, "spec": {"x": 1}});
        let before =
            json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {"x": 1, "y": 2}});
        let mut after = before.clone();
        after["metadata"]["resourceVersion"] = json!("2");
        after["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        after["status"] = json!({"ready": true});
        assert_eq!(Applied::new(&manifest, &before), Applied::new(&manifest, &after));
        after["spec"]["y"] = json!(3);
        assert_ne!(Applied::new(&manifest, &before).live, Applied::new(&manifest, &after).live);
    }

    #[test]
    fn large_records_do_without_fingerprints() {
        let resource = Reference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("a".into()),
            name: "b".into(),
        };
        let applied = Some(Applied::new(&json!({}), &json!({})));
        let managed = ManagedResource { applied, ..ManagedResource::new(resource) };
        assert!(fitting(vec![managed.clone(); 100]).iter().all(|managed| managed.applied.is_some()));
        let left = fitting(vec![managed; 5000]);
        assert!(left.iter().all(|managed| managed.applied.is_none()));
        assert!(serde_json::to_string(&left).unwrap().len() < 1_000_000);
    }

    #[test]
    fn records_of_the_original_are_read() {
        let record: Vec<ManagedResource> = serde_json::from_value(json!([
            {"policy": "keep", "resource": {"apiVersion": "v1", "kind": "Namespace", "name": "shop"}},
            {"annotateBeforeDelete": null, "resource": {"apiVersion": "v1", "kind": "Secret", "name": "a", "namespace": "b"}},
        ]))
        .unwrap();
        assert_eq!((record[0].policy, record[1].policy), (Policy::Keep, Policy::Manage));
        assert_eq!(
            serde_json::to_value(&record[0]).unwrap(),
            json!({"policy": "keep", "resource": {"apiVersion": "v1", "kind": "Namespace", "name": "shop"}})
        );
    }
}
