//! Cluster objects that a caller supplies, instead of those of a real cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::mutate::{Cluster, Listed};

/// Cluster made of objects from files or from a request.
#[derive(Debug, Clone, Default)]
pub struct GivenObjects {
    /// Namespace of the variant: objects of other namespaces are out of its reach.
    pub namespace: String,
    /// An object without a namespace makes its kind cluster-scoped.
    pub objects: Vec<Value>,
    /// Kinds whose list fails, with the error text.
    pub refused: BTreeMap<String, String>,
}

impl Cluster for GivenObjects {
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
