//! What a round waits for, so that whoever calls rounds need not call again before it has come.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::{Cluster, ResourceKind};
use crate::object::{Reference, resource_version};

/// Whether an object is as it was waited for.
type Condition = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Why a round is not the last one.
#[derive(Debug, Clone, Default)]
pub struct Waiting {
    /// In words for people.
    pub what: String,
    /// The next round comes to nothing before all of these are over. Empty if nobody can tell but by looking again.
    pub awaited: Vec<Awaited>,
    /// The round after this time ends the waiting in any case.
    pub until: Option<Timestamp>,
}

/// Words at the head of steps, which time-outs tell as those of the original do.
pub(crate) const READINESS: &str = "deployer: during readiness check - ";
pub(crate) const DELETION: &str = "deployer: start deleting - ";
const RELEASE: &str = "helm deployer: ";

impl Waiting {
    /// A noun for it: `readiness of shop/web of type Deployment: …`.
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

/// An object that a round waits for. It is over when the object is as it should be, and when it is deleted.
#[derive(Clone)]
pub struct Awaited {
    pub cluster: Cluster,
    pub kind: ResourceKind,
    /// `None` for all namespaces, and for kinds without.
    pub namespace: Option<String>,
    /// `None` for any object with the labels.
    pub name: Option<String>,
    /// Labels that the object has, and that others may have that are waited for, too: `key=value,…`.
    pub labels: Option<String>,
    /// The resourceVersion at which it was looked at; `None` if it was not there.
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
    /// Waits for an object to be as a condition says; `live` is how it was seen. `None` if the cluster does not know the kind, or does not answer.
    pub async fn object(
        cluster: &Cluster,
        reference: &Reference,
        live: Option<&Value>,
        condition: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Option<Self> {
        let kind = cluster.kind(&reference.api_version, &reference.kind).await.ok()??;
        Some(Self {
            // It outlives the round.
            cluster: cluster.for_work(),
            namespace: reference.namespace.clone().filter(|_| kind.is_namespaced),
            kind,
            name: Some(reference.name.clone()),
            labels: None,
            version: live.and_then(resource_version).map(str::to_owned),
            condition: Arc::new(condition),
        })
    }

    /// Waits for an object to be gone that was seen.
    pub async fn gone(cluster: &Cluster, live: &Value) -> Option<Self> {
        Self::object(cluster, &Reference::of(live), Some(live), |_| false).await
    }

    /// Waits for any object with labels to be as a condition says.
    pub fn any(
        cluster: &Cluster,
        kind: ResourceKind,
        namespace: Option<&str>,
        labels: String,
        condition: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            // It outlives the round.
            cluster: cluster.for_work(),
            kind,
            namespace: namespace.map(str::to_owned),
            name: None,
            labels: Some(labels),
            version: None,
            condition: Arc::new(condition),
        }
    }

    /// The same, which one watch on objects with these labels shows, too.
    #[must_use]
    pub fn with_labels(self, labels: Option<String>) -> Self {
        Self { labels, ..self }
    }

    /// Whether a change of an object is one of this, and ends the waiting. `is_deleted` goes with its last state.
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
        assert_eq!(
            noun("the new list of objects is written down"),
            "the new list of objects is written down"
        );
    }
}
