//! The cluster that an item was deployed to, and the cluster that its Target leads to now
//! (`installations.md` 7.9, clusters).
//!
//! ```text
//! providerStatus.cluster ──the same?──> yes: as ever
//!                                 └──> no: refused, until the Target leads back
//!                                          or the annotation says `move` or `abandon`
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use groundwork_api::metadata::annotation;
use groundwork_api::{AnyJson, DeployItem, ResourceExt as _};
use groundwork_apply::{Cluster, ClusterIdentity, Reference};
use groundwork_controller::Metadata;
use groundwork_deploy::{Failure, Round, RoundOutcome, Step};
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::{Value, json};

use crate::common::own_cluster;

/// Member of a provider status with the cluster that the item was deployed to.
pub(crate) const CLUSTER: &str = "cluster";
/// Member with the objects in clusters that the item has left.
const LEFT_BEHIND: &str = "leftBehind";
/// Members that list objects.
const OBJECTS: [&str; 3] = ["managedResources", "applied", "inherited"];
/// Limit for the names of objects that a status keeps for each cluster and a message shows. Further
/// objects are only counted.
const MOST_KEPT: usize = 100;
const MOST_TOLD: usize = 10;
/// Number of left clusters kept in a status; older ones are dropped.
const MOST_CLUSTERS: usize = 10;

/// Cluster in which a round works.
pub(crate) struct RoundCluster<'a> {
    cluster: Arc<Cluster>,
    /// The item. It lacks the record of the cluster that it has just left, if there is one.
    item: Cow<'a, DeployItem>,
    entry: Entry,
}

/// Part of the provider status about clusters.
struct Entry {
    identity: ClusterIdentity,
    /// True if the record certainly belongs to this cluster.
    is_known: bool,
    left: Vec<Value>,
}

/// Cluster from which a deleted item removes its objects.
pub(crate) enum Leaving {
    /// The objects are in this cluster.
    From(Arc<Cluster>),
    /// The objects are in another cluster, and stay there.
    Nothing,
}

impl<'a> RoundCluster<'a> {
    /// Returns the place of a job.
    ///
    /// # Errors
    ///
    /// The Target leads to another cluster than before, or to none.
    pub(crate) async fn of(round: &Round<'a>) -> Result<Self, OperationError> {
        let cluster = own_cluster(round).await?;
        let identity = identity(&cluster).await?;
        let before = recorded(round.item);
        let mut left = left_behind(round.item);
        match before {
            Some(before) if !before.is_same(&identity) => {
                if wish(round.item) != Some(annotation::MOVE) {
                    return Err(refusal(round.item, &before, &identity));
                }
                left.push(tell_left(round, &before).await);
                left.drain(..left.len().saturating_sub(MOST_CLUSTERS));
                let item = Cow::Owned(without_record(round.item));
                let identity = (*identity).clone();
                Ok(Self { cluster, item, entry: Entry { identity, is_known: true, left } })
            }
            before => {
                let is_known = before.is_some() || lying(round.item).is_empty();
                // If the annotation stayed, it would let the item leave this cluster, too, when its
                // Target changes later.
                if is_known && wish(round.item).is_some() {
                    answered(round).await?;
                }
                let item = Cow::Borrowed(round.item);
                let identity =
                    before.map_or_else(|| (*identity).clone(), |before| identity.with_known(&before));
                Ok(Self { cluster, item, entry: Entry { identity, is_known, left } })
            }
        }
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster)
    }

    pub(crate) fn item(&self) -> &DeployItem {
        &self.item
    }

    /// Adds the cluster to the provider status of a round's result. A record that was written
    /// before clusters were recorded gets its cluster when a job has finished.
    pub(crate) fn note(&self, result: Result<Step, Failure>) -> Result<Step, Failure> {
        self.entry.note(result)
    }
}

impl Entry {
    fn note(&self, result: Result<Step, Failure>) -> Result<Step, Failure> {
        match result {
            Ok(mut step) => {
                let is_known = self.is_known || matches!(step.outcome, RoundOutcome::Done);
                step.provider_status = self.noted(step.provider_status, is_known);
                Ok(step)
            }
            Err(mut failure) => {
                failure.provider_status = self.noted(failure.provider_status, self.is_known);
                Err(failure)
            }
        }
    }

    fn noted(&self, status: Option<AnyJson>, is_known: bool) -> Option<AnyJson> {
        let status = status?;
        let Some(Value::Object(mut members)) = status.get().cloned() else { return Some(status) };
        if is_known {
            members.insert(CLUSTER.to_owned(), json!(self.identity));
        }
        if !self.left.is_empty() {
            members.insert(LEFT_BEHIND.to_owned(), json!(self.left));
        }
        Some(AnyJson::from(Value::Object(members)))
    }
}

/// Returns the cluster of the item's Target, if it is the cluster that the item was deployed to.
///
/// # Errors
///
/// As [`RoundCluster::of`].
pub(crate) async fn same_cluster(round: &Round<'_>) -> Result<Arc<Cluster>, OperationError> {
    let cluster = own_cluster(round).await?;
    let identity = identity(&cluster).await?;
    match recorded(round.item) {
        Some(before) if !before.is_same(&identity) => Err(refusal(round.item, &before, &identity)),
        _ => Ok(cluster),
    }
}

/// Returns the cluster from which a deleted item is to be removed.
///
/// # Errors
///
/// As [`RoundCluster::of`].
pub(crate) async fn leaving(round: &Round<'_>) -> Result<Leaving, OperationError> {
    let cluster = own_cluster(round).await?;
    let identity = identity(&cluster).await?;
    match recorded(round.item) {
        Some(before) if !before.is_same(&identity) => {
            if wish(round.item) != Some(annotation::ABANDON) {
                return Err(refusal(round.item, &before, &identity));
            }
            tell_left(round, &before).await;
            Ok(Leaving::Nothing)
        }
        _ => Ok(Leaving::From(cluster)),
    }
}

async fn identity(cluster: &Cluster) -> Result<Arc<ClusterIdentity>, OperationError> {
    let found = cluster.identity().await;
    found.map_err(|error| OperationError::transient("Connect", Reason::TargetCluster, error.to_string()))
}

fn known(item: &DeployItem) -> Option<&Value> {
    item.status.as_ref()?.provider_status.get()
}

/// Returns the cluster that the item was deployed to; `None` if none of its objects are recorded.
/// So a Target that led to a wrong cluster, in which no object was written, can simply be
/// corrected.
fn recorded(item: &DeployItem) -> Option<ClusterIdentity> {
    if lying(item).is_empty() {
        return None;
    }
    serde_json::from_value(known(item)?[CLUSTER].clone()).ok()
}

fn left_behind(item: &DeployItem) -> Vec<Value> {
    known(item).and_then(|status| status[LEFT_BEHIND].as_array()).cloned().unwrap_or_default()
}

fn wish(item: &DeployItem) -> Option<&str> {
    item.annotations().get(annotation::OTHER_CLUSTER).map(String::as_str)
}

fn without_record(item: &DeployItem) -> DeployItem {
    let mut item = item.clone();
    if let Some(status) = &mut item.status {
        status.provider_status = AnyJson::default();
    }
    item
}

/// Returns the names of the releases and objects that the status records.
fn lying(item: &DeployItem) -> Vec<String> {
    let Some(status) = known(item) else { return Vec::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let releases = status["releases"].as_array().into_iter().flatten();
    let mut names: Vec<String> = releases
        .map(|release| format!("the release {}/{}", text(&release["namespace"]), text(&release["name"])))
        .collect();
    let lists = OBJECTS.iter().filter_map(|member| status[member].as_array()).flatten();
    for resource in lists.filter_map(|one| serde_json::from_value::<Reference>(one["resource"].clone()).ok())
    {
        let name = resource.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn in_words(names: &[String], most: usize) -> String {
    match names.len().checked_sub(most) {
        Some(more @ 1..) => format!("{} and {more} more", names[..most].join(", ")),
        _ => names.join(", "),
    }
}

/// Returns the error for a Target that leads to another cluster than before.
fn refusal(item: &DeployItem, before: &ClusterIdentity, now: &ClusterIdentity) -> OperationError {
    let names = lying(item);
    let lies = match names.is_empty() {
        true => String::new(),
        false => format!(" The former cluster contains {}.", in_words(&names, MOST_TOLD)),
    };
    let (goes_on, value) = match item.metadata.deletion_timestamp.is_some() {
        false => ("to start again in the new cluster", annotation::MOVE),
        true => ("to delete the item without a change in a cluster", annotation::ABANDON),
    };
    let message = format!(
        "the target leads to another cluster than the one that the item was deployed to: it was {before}, and is now \
         {now}. No object was changed in either.{lies} Let the target lead to the former cluster again, or, {goes_on} \
         and leave the objects in the former one behind, set the annotation {}: {value} on the DeployItem",
        annotation::OTHER_CLUSTER
    );
    OperationError::new("Connect", Reason::OtherCluster, message)
}

/// Reports an Event about the objects in a cluster that the item leaves, and returns them for the
/// status.
async fn tell_left(round: &Round<'_>, cluster: &ClusterIdentity) -> Value {
    let names = lying(round.item);
    let what = if names.is_empty() { "nothing".to_owned() } else { in_words(&names, MOST_TOLD) };
    round.warn("ObjectsLeftBehind", &format!("left behind in the cluster {cluster}: {what}")).await;
    let kept: Vec<&String> = names.iter().take(MOST_KEPT).collect();
    json!({CLUSTER: cluster, "objects": kept, "count": names.len()})
}

/// Removes the annotation once the item is in the wanted cluster. If it stayed, it would let the
/// item leave this cluster, too.
async fn answered(round: &Round<'_>) -> Result<(), OperationError> {
    let item = round.item;
    let change =
        Metadata { annotations: vec![(annotation::OTHER_CLUSTER.to_owned(), None)], ..Metadata::default() };
    let namespace = item.namespace().unwrap_or_default();
    let patched = round.objects.patch_metadata::<DeployItem>(&namespace, &item.name_any(), &change).await;
    patched
        .map(drop)
        .map_err(|error| OperationError::transient("Connect", Reason::TargetCluster, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: &str) -> ClusterIdentity {
        let (uid, server) = (Some(uid.to_owned()), format!("https://{uid}"));
        ClusterIdentity { uid, authority: None, server }
    }

    fn item(status: &Value, is_deleted: bool) -> DeployItem {
        let deletion = is_deleted.then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "ns", "deletionTimestamp": deletion},
            "spec": {"type": "t"}, "status": {"providerStatus": status},
        }))
        .unwrap()
    }

    fn entry(item: &DeployItem, is_known: bool) -> Entry {
        Entry { identity: identity("b"), is_known, left: left_behind(item) }
    }

    #[test]
    fn refusals_name_what_lies_there() {
        let resource = |name: String| json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": name}});
        let all: Vec<Value> = (0..12).map(|index| resource(format!("c{index}"))).collect();
        let status = json!({"managedResources": all, "applied": [resource("c0".to_owned())],
            "releases": [{"namespace": "shop", "name": "web"}]});
        for (is_deleted, word) in [(false, "other-cluster: move"), (true, "other-cluster: abandon")] {
            let error = refusal(&item(&status, is_deleted), &identity("a"), &identity("b"));
            for part in [
                word,
                "it was https://a (kube-system a), and is now https://b",
                "the release shop/web, shop/c0",
                "and 3 more.",
            ] {
                assert!(error.message.contains(part), "{part}: {}", error.message);
            }
            assert!(!error.codes.is_empty(), "the job ends");
        }
    }

    /// A record without a cluster gets one only from a job that has finished.
    #[test]
    fn old_records_get_a_place() {
        let item = item(&json!({"managedResources": [], "leftBehind": [{"count": 1}]}), false);
        let status = || Some(AnyJson::from(json!({"managedResources": []})));
        let noted = |entry: &Entry, result: Result<Step, Failure>| {
            let status = match entry.note(result) {
                Ok(step) => step.provider_status,
                Err(failure) => failure.provider_status,
            };
            let status = status.and_then(|status| status.get().cloned()).unwrap_or_default();
            assert_eq!(status["leftBehind"], json!([{"count": 1}]));
            !status["cluster"].is_null()
        };
        let waiting = || Ok(Step::waiting("a".to_owned(), status(), Vec::new()));
        let done = || Ok(Step { outcome: RoundOutcome::Done, ..waiting()? });
        let failed = || {
            let error = OperationError::new("a", Reason::TargetCluster, "b");
            Err(Failure { error, provider_status: status() })
        };
        let (known, unknown) = (entry(&item, true), entry(&item, false));
        assert!(noted(&known, waiting()) && noted(&known, done()) && noted(&known, failed()));
        assert!(!noted(&unknown, waiting()) && noted(&unknown, done()) && !noted(&unknown, failed()));
        let elsewhere = without_record(&item);
        assert!(recorded(&elsewhere).is_none() && lying(&elsewhere).is_empty());
    }
}
