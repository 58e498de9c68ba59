//! One round of an item: what is missing or differs is written, and what the item waits for is told (`installations.md` 7.9).
//!
//! ```text
//! manifests ──expand, prepare──> groups ──apply──> objects as stored ──> what is no longer listed goes
//!   ──> ready? ──> exports ──> patches ──> done
//! ```
//!
//! A round never waits by itself: whoever calls it calls again. So nothing is lost when a process ends between two of them, and an
//! object is read once a round, for the comparison, for its readiness and for what is exported of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use groundwork_controller::ApiError;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::configuration::{
    CustomCheck, DeletionGroup, Export, Manifest, Policy, ReadinessChecks, UpdateStrategy,
};
use crate::deletion::{Deletion, delete_round};
use crate::error::ApplyError;
use crate::exports::read_exports;
use crate::object::{Reference, is_being_deleted, label, merge_over, without_server_fields};
use crate::prepare::{Groups, Member, Owner, annotate, expand, kind_of, prepare};
use crate::readiness::{has_condition, meets, not_ready};
use crate::record::{Applied, ManagedResource, applied};
use crate::update::{Write, update};

/// Objects of one group that are written side by side.
const SIDE_BY_SIDE: usize = 16;

/// Clusters of other Targets, by the names of these.
pub type OtherClusters = BTreeMap<String, Arc<Cluster>>;

/// What an item is to bring about.
#[derive(Debug)]
pub struct Task<'a> {
    pub cluster: &'a Cluster,
    pub others: &'a OtherClusters,
    pub owner: Owner,
    pub manifests: &'a [Manifest],
    /// For objects of namespaces that name none.
    pub default_namespace: Option<&'a str>,
    pub strategy: UpdateStrategy,
    pub checks: &'a ReadinessChecks,
    pub exports: &'a [Export],
    /// How objects go that are listed no more.
    pub deletion_groups: &'a [DeletionGroup],
    /// What former jobs have applied.
    pub former: &'a [ManagedResource],
    pub deadline: Deadline,
}

/// When an item has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline(pub Option<Timestamp>);

impl Deadline {
    /// Whether there is still time for a step.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Timeout`] with the name of the step.
    pub fn check(self, step: &str) -> Result<(), ApplyError> {
        match self.0 {
            Some(at) if Timestamp::now() >= at => Err(ApplyError::Timeout(step.to_owned())),
            _ => Ok(()),
        }
    }
}

/// What came of a round.
#[derive(Debug)]
pub struct Round {
    /// What is applied now; what could not be deleted yet is still in it.
    pub managed: Vec<ManagedResource>,
    pub outcome: Result<Progress, ApplyError>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// All is there and in order; with what is exported.
    Done(Map<String, Value>),
    /// Call again; with what is waited for, in words for people.
    Waiting(String),
}

/// Objects that a round has seen.
pub type Seen = HashMap<Reference, Value>;

/// Brings the objects of a task closer to what they should be.
pub async fn round(task: &Task<'_>) -> Round {
    let mut record = task.former.to_vec();
    let outcome = advance(task, &mut record).await;
    Round { managed: record, outcome }
}

async fn advance(task: &Task<'_>, record: &mut Vec<ManagedResource>) -> Result<Progress, ApplyError> {
    let objects =
        expand(task.manifests).map_err(|problems| ApplyError::Configuration(problems.join("; ")))?;
    let groups = prepare(task.cluster, objects, &task.owner, task.default_namespace).await?;
    let mut seen = Seen::new();
    let mut listed = Vec::new();
    for group in &groups {
        let (managed, failure) = apply_group(task, group, &mut seen).await;
        listed.extend(managed);
        if let Some(failure) = failure {
            remember(record, listed);
            return failure;
        }
    }
    let dropped = dropped(record, &listed);
    remember(record, listed);
    if !dropped.is_empty() {
        let deletion = Deletion {
            cluster: task.cluster,
            others: task.others,
            owner: &task.owner,
            groups: task.deletion_groups,
            deadline: task.deadline,
        };
        let progress = delete_round(&deletion, &dropped).await?;
        record.retain(|managed| !dropped.contains(managed) || progress.left.contains(&managed.resource));
        if let Some(waiting) = progress.waiting {
            return waits(task.deadline, waiting);
        }
        // What may not be deleted is nobody's any more.
        record.retain(|managed| !dropped.contains(managed));
    }
    if let Some(waiting) = first_not_ready(task, record, &seen).await? {
        return waits(task.deadline, waiting);
    }
    let exports = match read_exports(task.cluster, task.others, task.exports, &seen).await? {
        Ok(exports) => exports,
        Err(waiting) => return waits(task.deadline, waiting),
    };
    patch_after(task, &groups, record, &seen).await?;
    Ok(Progress::Done(exports))
}

/// A wait that is not over when the time of the item is, is its end.
pub(crate) fn waits(deadline: Deadline, waiting: String) -> Result<Progress, ApplyError> {
    deadline.check(&waiting)?;
    Ok(Progress::Waiting(waiting))
}

/// Former resources that the item lists no more.
fn dropped(record: &[ManagedResource], listed: &[ManagedResource]) -> Vec<ManagedResource> {
    let is_listed =
        |managed: &ManagedResource| listed.iter().any(|one| one.resource.is_same(&managed.resource));
    record.iter().filter(|managed| !is_listed(managed)).cloned().collect()
}

/// What is listed comes first, in the order of its groups; what was applied before and may be left stays known.
fn remember(record: &mut Vec<ManagedResource>, listed: Vec<ManagedResource>) {
    record.retain(|managed| !listed.iter().any(|one| one.resource.is_same(&managed.resource)));
    record.splice(0..0, listed);
}

type GroupFailure = Result<Progress, ApplyError>;

/// Applies the members of a group side by side. The failure is what stops the round behind the group.
async fn apply_group(
    task: &Task<'_>,
    group: &[Member],
    seen: &mut Seen,
) -> (Vec<ManagedResource>, Option<GroupFailure>) {
    let work: Vec<_> = group
        .iter()
        .enumerate()
        .map(|(index, member)| apply(task, member).map(move |answer| (index, answer)))
        .collect();
    let mut answers: Vec<_> = stream::iter(work).buffer_unordered(SIDE_BY_SIDE).collect().await;
    answers.sort_by_key(|(index, _)| *index);
    let (mut managed, mut errors, mut waiting) = (Vec::new(), Vec::new(), None);
    for (index, answer) in answers {
        let member = &group[index];
        match answer {
            Ok(Applying::Skipped) => {}
            Ok(Applying::Waits(what)) => {
                waiting.get_or_insert(what);
                // It is ours already, as far as one can know.
                managed.extend(
                    task.former.iter().find(|known| known.resource.is_same(&member.reference)).cloned(),
                );
            }
            Ok(Applying::Stored { object, applied }) => {
                managed.push(managed_resource(member, applied));
                seen.insert(member.reference.clone(), object);
            }
            Err(error) => {
                managed.extend(
                    task.former.iter().find(|known| known.resource.is_same(&member.reference)).cloned(),
                );
                errors.push(error);
            }
        }
    }
    managed.sort_by(|left, right| left.resource.cmp(&right.resource));
    // Definitions that are not established yet define nothing.
    let unestablished = seen.values().find(|object| is_unestablished(object)).map(Reference::of);
    let waiting =
        waiting.or_else(|| unestablished.map(|crd| format!("{crd}: the definition is not established yet")));
    let failure = match ApplyError::of_all(errors) {
        Some(error) => Some(Err(error)),
        None => waiting.map(|what| waits(task.deadline, what)),
    };
    (managed, failure)
}

fn is_unestablished(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
        && !has_condition(object, "Established", "True")
        && !has_condition(object, "NamesAccepted", "False")
}

fn managed_resource(member: &Member, applied: Option<Applied>) -> ManagedResource {
    let manifest = &member.manifest;
    ManagedResource {
        annotate_before_delete: manifest.annotate_before_delete.clone(),
        patch_before_delete: manifest.patch_before_delete.clone(),
        policy: manifest.policy,
        resource: member.reference.clone(),
        applied,
    }
}

/// What applying one object came to.
enum Applying {
    /// Its policy leaves it alone, and it is none of the item's.
    Skipped,
    Waits(String),
    Stored {
        object: Value,
        applied: Option<Applied>,
    },
}

/// What a time-out calls the next write.
fn step(task: &Task<'_>, verb: &str, reference: &Reference) -> String {
    format!("{} deployer: start apply manifests - {verb} {reference}", task.owner.deployer())
}

async fn apply(task: &Task<'_>, member: &Member) -> Result<Applying, ApplyError> {
    let (reference, settings) = (&member.reference, &member.manifest);
    if settings.policy == Policy::Ignore {
        return Ok(Applying::Skipped);
    }
    let Some(kind) = kind_of(task.cluster, member).await? else {
        return Ok(Applying::Waits(format!("{reference}: the cluster does not know the kind yet")));
    };
    let Some(live) = task.cluster.get_of(&kind, reference).await? else {
        task.deadline.check(&step(task, "create", reference))?;
        let mut object = settings.manifest.clone();
        annotate(&mut object, &settings.annotate_before_create);
        let stored = match task.cluster.create(&kind, &object).await {
            // Somebody was quicker: the next round decides by the policy what that means.
            Err(ApiError::AlreadyExists(_)) => {
                return Ok(Applying::Waits(format!("{reference} was created by somebody else meanwhile")));
            }
            answer => answer?,
        };
        let applied = Some(Applied::new(&settings.manifest, &stored));
        return Ok(Applying::Stored { object: stored, applied });
    };
    let is_own = label(&live, task.owner.label) == Some(&task.owner.item);
    match settings.policy {
        Policy::Fallback if !is_own => return Ok(Applying::Skipped),
        Policy::Immutable => return Ok(Applying::Stored { object: live, applied: None }),
        _ => {}
    }
    if is_being_deleted(&live) {
        return Ok(Applying::Waits(format!(
            "{reference} is being deleted, and is made anew when it is gone"
        )));
    }
    let now = Applied::new(&settings.manifest, &live);
    if applied(task.former, reference) == Some(&now) {
        return Ok(Applying::Stored { object: live, applied: Some(now) });
    }
    let write = update(task.strategy, &settings.manifest, &live);
    if write != Write::Nothing {
        task.deadline.check(&step(task, "update", reference))?;
    }
    let stored = match write {
        Write::Nothing => live,
        Write::Replace(object) => task.cluster.replace(&kind, &object).await?,
        Write::Patch(patch) => {
            task.cluster.patch(&kind, reference, crate::cluster::PatchKind::Merge, &patch).await?
        }
    };
    let applied = Some(Applied::new(&settings.manifest, &stored));
    Ok(Applying::Stored { object: stored, applied })
}

/// What is not in order yet, in words for people.
async fn first_not_ready(
    task: &Task<'_>,
    record: &[ManagedResource],
    seen: &Seen,
) -> Result<Option<String>, ApplyError> {
    let resources: Vec<&Reference> = record.iter().map(|managed| &managed.resource).collect();
    failed_check(task.cluster, task.others, task.checks, &resources, seen).await
}

/// What of some objects is not in order yet, in words for people: by the rules of their kinds, unless these are switched off, and by custom
/// checks. Objects that were not seen do not exist.
///
/// # Errors
///
/// A cluster does not answer.
pub async fn failed_check(
    own: &Cluster,
    others: &OtherClusters,
    checks: &ReadinessChecks,
    resources: &[&Reference],
    seen: &Seen,
) -> Result<Option<String>, ApplyError> {
    if !checks.disable_default {
        for resource in resources {
            let reason = match seen.get(resource) {
                Some(object) => not_ready(object),
                None => Some("it does not exist".to_owned()),
            };
            if let Some(reason) = reason {
                return Ok(Some(format!("deployer: during readiness check - resource {resource}: {reason}")));
            }
        }
    }
    for check in checks.custom.iter().filter(|check| !check.disabled) {
        let cluster = cluster_of(own, others, check.target_name.as_deref())?;
        if let Some(reason) = custom_check(cluster, check, seen).await? {
            return Ok(Some(format!("deployer: during readiness check - {}: {reason}", check.name)));
        }
    }
    Ok(None)
}

/// The cluster of a named Target, or the item's own.
pub(crate) fn cluster_of<'a>(
    own: &'a Cluster,
    others: &'a OtherClusters,
    target_name: Option<&str>,
) -> Result<&'a Cluster, ApplyError> {
    let Some(name) = target_name else { return Ok(own) };
    let missing = || ApplyError::Configuration(format!("the target {name} does not exist"));
    others.get(name).map(|cluster| &**cluster).ok_or_else(missing)
}

async fn custom_check(
    cluster: &Cluster,
    check: &CustomCheck,
    seen: &Seen,
) -> Result<Option<String>, ApplyError> {
    let mut objects = Vec::new();
    for reference in &check.resource_selector {
        let known = seen.get(reference).filter(|_| check.target_name.is_none());
        let found = match known {
            Some(object) => Some(object.clone()),
            None => cluster.get(reference).await?,
        };
        let Some(object) = found else { return Ok(Some(format!("resource {reference} does not exist"))) };
        objects.push(object);
    }
    if let Some(selector) = &check.label_selector {
        let Some(kind) = cluster.kind(&selector.api_version, &selector.kind).await? else {
            return Ok(Some(format!(
                "the cluster has no kind {} in {}",
                selector.kind, selector.api_version
            )));
        };
        let labels: Vec<String> =
            selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        objects.extend(cluster.list(&kind, None, &labels.join(",")).await?);
    }
    if objects.is_empty() {
        return Ok(Some("no object has the labels".to_owned()));
    }
    for object in &objects {
        let missed = check.requirements.iter().find(|requirement| !meets(requirement, object));
        if let Some(requirement) = missed {
            let (reference, path) = (Reference::of(object), &requirement.json_path);
            return Ok(Some(format!("resource {reference}: {path} does not meet {}", requirement.operator)));
        }
    }
    Ok(None)
}

/// Patches that follow when all is ready and exported.
async fn patch_after(
    task: &Task<'_>,
    groups: &Groups,
    record: &mut [ManagedResource],
    seen: &Seen,
) -> Result<(), ApplyError> {
    for member in groups.iter().flatten() {
        let settings = &member.manifest;
        let (Some(patch), Some(live)) = (&settings.patch_after_deployment, seen.get(&member.reference))
        else {
            continue;
        };
        let current = without_server_fields(live);
        let mut wanted = current.clone();
        merge_over(&mut wanted, patch);
        if wanted == current {
            continue;
        }
        let Some(kind) = kind_of(task.cluster, member).await? else { continue };
        let merge = crate::cluster::PatchKind::Merge;
        let stored = task.cluster.patch(&kind, &member.reference, merge, patch).await?;
        // What the patch made of it is how it should be: the next job finds nothing to do.
        if let Some(managed) = record.iter_mut().find(|managed| managed.resource == member.reference) {
            managed.applied = Some(Applied::new(&settings.manifest, &stored));
        }
    }
    Ok(())
}
