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

use crate::awaited::{Awaited, Waiting};
use crate::checks::failed_check;
use crate::cluster::Cluster;
use crate::configuration::{DeletionGroup, Export, Manifest, Policy, ReadinessChecks, UpdateStrategy};
use crate::deletion::{Deletion, delete_round};
use crate::error::ApplyError;
use crate::exports::{Exported, read_exports};
use crate::object::{Reference, is_being_deleted, label, merge_over, without_server_fields};
use crate::prepare::{Groups, Member, Owner, annotate, expand, kind_of, prepare};
use crate::readiness::has_condition;
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

#[derive(Debug, Clone)]
pub enum Progress {
    /// All is there and in order; with what is exported.
    Done(Map<String, Value>),
    /// Call again.
    Waiting(Waiting),
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
    let resources: Vec<&Reference> = record.iter().map(|managed| &managed.resource).collect();
    let owner = Some(&task.owner);
    let unready = failed_check(task.cluster, task.others, task.checks, &resources, owner, &seen).await?;
    if let Some(waiting) = unready {
        return waits(task.deadline, waiting);
    }
    let exports = match read_exports(task.cluster, task.others, task.exports, &seen).await? {
        Exported::Values(exports) => exports,
        Exported::Awaited(waiting) => return waits(task.deadline, waiting),
    };
    patch_after(task, &groups, record, &seen).await?;
    Ok(Progress::Done(exports))
}

/// A wait that is not over when the time of the item is, is its end.
fn waits(deadline: Deadline, waiting: Waiting) -> Result<Progress, ApplyError> {
    deadline.check(&waiting.what)?;
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
                waiting.get_or_insert(*what);
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
    let waiting = match waiting {
        Some(waiting) => Some(waiting),
        None => unestablished(task.cluster, seen).await,
    };
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

/// Definitions that are not established yet define nothing.
async fn unestablished(cluster: &Cluster, seen: &Seen) -> Option<Waiting> {
    let mut waiting: Option<Waiting> = None;
    for object in seen.values().filter(|object| is_unestablished(object)) {
        let reference = Reference::of(object);
        let waiting = waiting
            .get_or_insert_with(|| format!("{reference}: the definition is not established yet").into());
        let is_over = |object: &Value| !is_unestablished(object);
        waiting.awaited.extend(Awaited::object(cluster, &reference, Some(object), is_over).await);
    }
    waiting
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
    Waits(Box<Waiting>),
    Stored {
        object: Value,
        applied: Option<Applied>,
    },
}

impl Applying {
    fn waits(what: String, awaited: Option<Awaited>) -> Self {
        Self::Waits(Box::new(Waiting { awaited: awaited.into_iter().collect(), ..what.into() }))
    }
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
        return Ok(Applying::waits(format!("{reference}: the cluster does not know the kind yet"), None));
    };
    let Some(live) = task.cluster.get_of(&kind, reference).await? else {
        task.deadline.check(&step(task, "create", reference))?;
        let mut object = settings.manifest.clone();
        annotate(&mut object, &settings.annotate_before_create);
        let stored = match task.cluster.create(&kind, &object).await {
            // Somebody was quicker: the next round decides by the policy what that means.
            Err(ApiError::AlreadyExists(_)) => {
                return Ok(Applying::waits(
                    format!("{reference} was created by somebody else meanwhile"),
                    None,
                ));
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
        let what = format!("{reference} is being deleted, and is made anew when it is gone");
        return Ok(Applying::waits(what, Awaited::gone(task.cluster, &live).await));
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
