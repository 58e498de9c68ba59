//! Objects that a round waits for, so that the caller need not run another round before one of them
//! has changed.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::{Cluster, ResourceKind};
use crate::object::{Reference, resource_version};

/// Test whether an object is in the awaited state.
type Condition = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Reason why a round is not the last one.
#[derive(Debug, Clone, Default)]
pub struct Waiting {
    /// Description for users.
    pub what: String,
    /// Objects to wait for: the next round is pointless until the waits for all of them are over.
    /// Empty if only another round can find out.
    pub awaited: Vec<Awaited>,
    /// Time at which the next round is due even if no awaited object has changed.
    pub until: Option<Timestamp>,
}

/// Start of step descriptions, as Landscaper writes them in its time-out messages.
pub(crate) const READINESS: &str = "deployer: during readiness check - ";
pub(crate) const DELETION: &str = "deployer: start deleting - ";
const RELEASE: &str = "helm deployer: ";

impl Waiting {
    /// Returns a noun phrase for the wait: `readiness of shop/web of type Deployment: …`.
    pub fn noun(&self) -> String {
        let what = &self.what;
        let resource = |rest: &str| rest.strip_prefix("resource ").map(str::to_owned);
        if let Some(rest) = what.strip_prefix(READINESS) {
            return resource(rest).map_or_else(
                || format!("the readiness check {rest}"),
                |rest| format!("readiness of {rest}"),
            );
        }
        if let Some(rest) = what.strip_prefix(DELETION) {
            return format!("the end of {}", resource(rest).unwrap_or_else(|| rest.to_owned()));
        }
        what.strip_prefix(RELEASE).unwrap_or(what).to_owned()
    }
}

impl From<String> for Waiting {
    fn from(what: String) -> Self {
        Self { what, ..Self::default() }
    }
}

/// An object that a round waits for. The wait is over when the object is in the awaited state, and
/// when it is deleted.
#[derive(Clone)]
pub struct Awaited {
    pub cluster: Cluster,
    pub kind: ResourceKind,
    /// Namespace; `None` for all namespaces, and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name; `None` for any object with the labels.
    pub name: Option<String>,
    /// Labels of the object (`key=value,…`), which other awaited objects may share, so that one
    /// watch shows them all.
    pub labels: Option<String>,
    /// resourceVersion when the round last read the object; `None` if the object did not exist.
    pub version: Option<String>,
    condition: Condition,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, labels, version, .. } = self;
        let mut text = f.debug_struct("Awaited");
        text.field("kind", &kind.kind).field("namespace", namespace).field("name", name);
        text.field("labels", labels).field("version", version).finish_non_exhaustive()
    }
}

impl Awaited {
    /// Returns the wait for an object to fulfil a condition; `live` is its last seen state. Returns
    /// `None` if the cluster does not know the kind or does not answer.
    pub async fn object(
        cluster: &Cluster,
        reference: &Reference,
        live: Option<&Value>,
        condition: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Option<Self> {
        let kind = cluster.kind(&reference.api_version, &reference.kind).await.ok()??;
        Some(Self {
            // The wait outlives the round, so it must not keep the round's memory budget.
            cluster: cluster.for_work(),
            namespace: reference.namespace.clone().filter(|_| kind.is_namespaced),
            kind,
            name: Some(reference.name.clone()),
            labels: None,
            version: live.and_then(resource_version).map(str::to_owned),
            condition: Arc::new(condition),
        })
    }

    /// Returns the wait for the removal of an object that was seen.
    pub async fn gone(cluster: &Cluster, live: &Value) -> Option<Self> {
        Self::object(cluster, &Reference::of(live), Some(live), |_| false).await
    }

    /// Returns the wait for any object with these labels to fulfil a condition.
    pub fn any(
        cluster: &Cluster,
        kind: ResourceKind,
        namespace: Option<&str>,
        labels: String,
        condition: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            // The wait outlives the round, so it must not keep the round's memory budget.
            cluster: cluster.for_work(),
            kind,
            namespace: namespace.map(str::to_owned),
            name: None,
            labels: Some(labels),
            version: None,
            condition: Arc::new(condition),
        }
    }

    /// Returns the same wait with labels, so that one watch on objects with these labels can serve
    /// it.
    #[must_use]
    pub fn with_labels(self, labels: Option<String>) -> Self {
        Self { labels, ..self }
    }

    /// Reports whether a change concerns the awaited object and ends the wait. If `is_deleted`,
    /// `object` is its last state.
    pub fn is_over(&self, object: &Value, is_deleted: bool) -> bool {
        let reference = Reference::of(object);
        let is_this = self.name.as_ref().is_none_or(|name| *name == reference.name)
            && (self.namespace.is_none() || self.namespace == reference.namespace);
        is_this && (is_deleted || (self.condition)(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_a_noun() {
        let noun = |what: &str| Waiting::from(what.to_owned()).noun();
        assert_eq!(
            noun(&format!("{READINESS}resource shop/web of type Deployment: it does not exist")),
            "readiness of shop/web of type Deployment: it does not exist"
        );
        assert_eq!(
            noun(&format!("{READINESS}ours: no object has the labels")),
            "the readiness check ours: no object has the labels"
        );
        assert_eq!(
            noun(&format!("{DELETION}resource shop/web of type Deployment, held by a")),
            "the end of shop/web of type Deployment, held by a"
        );
        assert_eq!(noun("helm deployer: pre-install hook a.yaml"), "pre-install hook a.yaml");
        assert_eq!(noun("the new list of objects to be saved"), "the new list of objects to be saved");
    }
}
