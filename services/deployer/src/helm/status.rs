//! Provider status of chart items. It records the objects and releases of an item for later rounds,
//! for other items and for other processes.
//!
//! Rounds write it with [`written`]; [`crate::siblings`] reads the statuses of other items.

use groundwork_api::{AnyJson, DeployItem, ResourceExt as _};
use groundwork_apply::{ManagedResource, ReleaseName, fitting};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::configuration::{API_VERSION, Configuration};
use super::history::Author;
use crate::whereabouts::CLUSTER;

/// Member with the objects that other items have handed over.
pub(crate) const INHERITED: &str = "inherited";
/// Member with the job in which all objects that the item lists were applied.
pub(crate) const LISTED_IN_JOB: &str = "listedInJob";
/// Member with the job and deadline of a rollback.
const ROLLBACK: &str = "rollback";

/// Objects that the status records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'k> {
    /// Content of `managedResources`, as the contract defines it: all objects of an item without a
    /// release, or the workloads of a release.
    pub(super) managed: &'k [ManagedResource],
    /// All objects that a release has applied.
    pub(super) applied: &'k [ManagedResource],
    /// Objects that the release does not list and that the item has to give up.
    pub(super) inherited: &'k [ManagedResource],
    /// True if all objects that the item lists were applied in this job.
    pub(super) is_complete: bool,
    /// Deadline of a rollback.
    pub(super) rollback_until: Option<Timestamp>,
}

/// Entry for the release that the configuration names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OwnRelease {
    Is(Value),
    AsBefore,
    Forgotten,
}

/// Builds the provider status. Releases that the item had under other names stay in it until the
/// item is deleted.
pub(super) fn written(
    item: &DeployItem,
    configuration: &Configuration,
    known: Known<'_>,
    own: OwnRelease,
) -> Option<AnyJson> {
    let (managed, applied) = (fitting(known.managed.to_vec()), fitting(known.applied.to_vec()));
    let mut all = Vec::new();
    for mut release in releases(item) {
        if !is_named(&release, configuration) {
            release["current"] = json!(false);
            all.push(release);
        } else if own == OwnRelease::AsBefore {
            all.push(release);
        }
    }
    if let OwnRelease::Is(release) = own {
        all.insert(0, release);
    }
    let mut status = provider_status(&managed);
    if !all.is_empty() {
        status["releases"] = json!(all);
    }
    if !applied.is_empty() {
        status["applied"] = json!(applied);
    }
    if !known.inherited.is_empty() {
        status[INHERITED] = json!(known.inherited);
    }
    if let Some(until) = known.rollback_until {
        status[ROLLBACK] = json!({"job": author(item).job, "until": until.to_string()});
    }
    if known.is_complete {
        status[LISTED_IN_JOB] = json!(author(item).job);
    }
    Some(AnyJson::from(status))
}

/// Returns a provider status with managed resources.
pub(crate) fn provider_status(managed: &[ManagedResource]) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ProviderStatus", "managedResources": managed})
}

fn known_status(item: &DeployItem, member: &str) -> Value {
    let status = item.status.as_ref().and_then(|status| status.provider_status.get());
    status.map(|status| status[member].clone()).unwrap_or_default()
}

pub(super) fn is_named(release: &Value, configuration: &Configuration) -> bool {
    release["name"] == json!(configuration.name) && release["namespace"] == json!(configuration.namespace)
}

pub(super) fn author(item: &DeployItem) -> Author {
    Author {
        uid: item.uid().unwrap_or_default(),
        job: item.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default(),
        name: format!("{}/{}", item.namespace().unwrap_or_default(), item.name_any()),
    }
}

/// Returns the deadline of the rollback in the current job, if there is one.
pub(super) fn rollback_until(item: &DeployItem) -> Option<Timestamp> {
    let rollback = known_status(item, ROLLBACK);
    let is_of_job = rollback["job"] == json!(author(item).job);
    rollback["until"].as_str().filter(|_| is_of_job)?.parse().ok()
}

/// Returns the releases that the status records.
pub(super) fn releases(item: &DeployItem) -> Vec<Value> {
    known_status(item, "releases").as_array().cloned().unwrap_or_default()
}

/// Reports whether an item has the release now.
pub(crate) fn keeps(item: &DeployItem, release: &ReleaseName) -> bool {
    releases(item).iter().any(|kept| {
        kept["current"] == true
            && kept["namespace"] == release.namespace.as_str()
            && kept["name"] == release.name.as_str()
    })
}

/// Reports whether Groundwork has written the status, by members that Landscaper does not write.
pub(super) fn has_own_record(item: &DeployItem) -> bool {
    ["releases", LISTED_IN_JOB, "applied", CLUSTER].iter().any(|member| !known_status(item, member).is_null())
}

pub(super) fn applied(item: &DeployItem) -> Vec<ManagedResource> {
    resources(item, "applied")
}

fn resources(item: &DeployItem, member: &str) -> Vec<ManagedResource> {
    serde_json::from_value(known_status(item, member)).unwrap_or_default()
}

/// Returns all objects that an item has applied in either mode, as its status records them.
pub(crate) fn known(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item)])
}

/// Returns all objects that an item has applied, and those that other items have handed over to it.
pub(super) fn estate(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item), resources(item, INHERITED)])
}

/// Returns the objects of an item that belong to none of its releases: those applied without one,
/// and those that other items handed over.
pub(super) fn estate_beside_release(item: &DeployItem) -> Vec<ManagedResource> {
    // Workloads of a release are in both lists.
    let of_releases = applied(item);
    let mut managed = resources(item, "managedResources");
    managed.retain(|managed| !of_releases.iter().any(|known| known.resource.is_same(&managed.resource)));
    joined([managed, resources(item, INHERITED)])
}

/// Reports whether the status already lists the objects of the current job.
pub(crate) fn is_listed(item: &DeployItem) -> bool {
    known_status(item, LISTED_IN_JOB) == json!(author(item).job)
}

/// Joins lists of objects. Of several entries for one object the first counts.
pub(super) fn joined<const N: usize>(lists: [Vec<ManagedResource>; N]) -> Vec<ManagedResource> {
    let mut all: Vec<ManagedResource> = Vec::new();
    for managed in lists.into_iter().flatten() {
        if !all.iter().any(|known| known.resource.is_same(&managed.resource)) {
            all.push(managed);
        }
    }
    all
}
