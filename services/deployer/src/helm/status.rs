//! Provider status of chart items: the record from which later rounds, other items and other
//! processes know what an item has.
//!
//! Rounds write it by [`written`]; [`crate::siblings`] reads those of other items.

use groundwork_api::{AnyJson, DeployItem, ResourceExt as _};
use groundwork_apply::{ManagedResource, ReleaseName, fitting};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::configuration::{API_VERSION, Configuration};
use super::history::Author;
use crate::whereabouts::CLUSTER;

/// The member of a provider status with what others have handed over.
pub(crate) const INHERITED: &str = "inherited";
/// The member with the job in which everything that an item lists was applied.
pub(crate) const LISTED_IN_JOB: &str = "listedInJob";
/// The member of the provider status that gives a rollback time of its own.
const ROLLBACK: &str = "rollback";

/// Objects that the status remembers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'k> {
    /// As the contract has it: what is applied without a release, or the workloads of one.
    pub(super) managed: &'k [ManagedResource],
    /// All that a release has applied.
    pub(super) applied: &'k [ManagedResource],
    /// Objects that a release does not list, and that the item is to give up.
    pub(super) inherited: &'k [ManagedResource],
    /// All that the item lists was applied in this job.
    pub(super) is_complete: bool,
    /// When a rollback has to be done.
    pub(super) rollback_until: Option<Timestamp>,
}

/// What the status says of the release that the configuration names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OwnRelease {
    Is(Value),
    AsBefore,
    Forgotten,
}

/// The provider status. Releases that the item had under other names stay known, until it goes.
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

/// A provider status with managed resources.
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

/// When the rollback that is under way in the current job has to be done.
pub(super) fn rollback_until(item: &DeployItem) -> Option<Timestamp> {
    let rollback = known_status(item, ROLLBACK);
    let is_of_job = rollback["job"] == json!(author(item).job);
    rollback["until"].as_str().filter(|_| is_of_job)?.parse().ok()
}

/// Releases that the item has, as its status remembers them.
pub(super) fn releases(item: &DeployItem) -> Vec<Value> {
    known_status(item, "releases").as_array().cloned().unwrap_or_default()
}

/// True of an item that keeps the release now.
pub(crate) fn keeps(item: &DeployItem, release: &ReleaseName) -> bool {
    releases(item).iter().any(|kept| {
        kept["current"] == true
            && kept["namespace"] == release.namespace.as_str()
            && kept["name"] == release.name.as_str()
    })
}

/// True of an item whose status we have written, with what Landscaper does not write.
pub(super) fn has_own_record(item: &DeployItem) -> bool {
    ["releases", LISTED_IN_JOB, "applied", CLUSTER].iter().any(|member| !known_status(item, member).is_null())
}

pub(super) fn applied(item: &DeployItem) -> Vec<ManagedResource> {
    resources(item, "applied")
}

fn resources(item: &DeployItem, member: &str) -> Vec<ManagedResource> {
    serde_json::from_value(known_status(item, member)).unwrap_or_default()
}

/// All that an item has applied, in whichever mode, as its status remembers it.
pub(crate) fn known(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item)])
}

/// The same, and what others have handed over to it.
pub(super) fn estate(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item), resources(item, INHERITED)])
}

/// Objects of an item that are none of a release: those applied without one, and those that others
/// have handed over.
pub(super) fn estate_beside_release(item: &DeployItem) -> Vec<ManagedResource> {
    // Workloads of a release are in both lists.
    let of_releases = applied(item);
    let mut managed = resources(item, "managedResources");
    managed.retain(|managed| !of_releases.iter().any(|known| known.resource.is_same(&managed.resource)));
    joined([managed, resources(item, INHERITED)])
}

/// True if the status says what the item lists in the current job.
pub(crate) fn is_listed(item: &DeployItem) -> bool {
    known_status(item, LISTED_IN_JOB) == json!(author(item).job)
}

/// Each object once, as it is known first.
pub(super) fn joined<const N: usize>(lists: [Vec<ManagedResource>; N]) -> Vec<ManagedResource> {
    let mut all: Vec<ManagedResource> = Vec::new();
    for managed in lists.into_iter().flatten() {
        if !all.iter().any(|known| known.resource.is_same(&managed.resource)) {
            all.push(managed);
        }
    }
    all
}
