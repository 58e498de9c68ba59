//! Objects of files and lines, as injection sees those of a cluster.

use std::collections::BTreeMap;

use groundwork_krm::{Cluster, Listed};
use serde_json::Value;

/// A cluster that holds what was given.
pub(super) struct Given {
    /// That of the variant.
    pub(super) namespace: String,
    /// One without a namespace is cluster-scoped, and so is its kind.
    pub(super) objects: Vec<Value>,
    /// Lists of a kind that fail, with the text.
    pub(super) refused: BTreeMap<String, String>,
}

impl Cluster for Given {
    fn list(&self, api_version: &str, kind: &str) -> Listed<'_> {
        if let Some(text) = self.refused.get(kind) {
            return Listed::Failed(text.clone());
        }
        let text = |object: &Value, pointer: &str| -> String {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is_of_kind =
            |object: &&Value| text(object, "/apiVersion") == api_version && text(object, "/kind") == kind;
        let of_kind: Vec<&Value> = self.objects.iter().filter(is_of_kind).collect();
        if of_kind.iter().any(|object| text(object, "/metadata/namespace").is_empty()) {
            return Listed::ClusterScoped;
        }
        let in_reach = |object: &&Value| text(object, "/metadata/namespace") == self.namespace;
        Listed::Objects(of_kind.into_iter().filter(in_reach).collect())
    }
}
