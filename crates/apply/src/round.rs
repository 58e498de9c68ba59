//! One round of an item: writes missing and differing objects, and returns the wait, if there is
//! one (`installations.md` 7.9).
//!
//! ```text
//! manifests ──expand, prepare──> groups ──apply──> stored objects ──> unlisted objects deleted
//!   ──> ready? ──> exports ──> patches ──> done
//! ```
//!
//! A round never waits by itself; the caller runs the next one. So a process may end between two
//! rounds without losing state. A round reads each object once, for the comparison, for its
//! readiness and for its exports.

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use groundwork_controller::ApiError;
use serde_json::{Map, Value};

use crate::awaited::{Awaited, Waiting};
use crate::checks::failed_check;
use crate::cluster::{Cluster, PatchKind, ResourceKind};
use crate::configuration::{DeletionGroup, Export, Manifest, Policy, ReadinessChecks, UpdateStrategy};
use crate::context::{Deadline, OtherClusters, Seen};
use crate::declared::create_declared;
use crate::deletion::{Deletion, delete_round, held};
use crate::disposal::Told;
use crate::error::ApplyError;
use crate::exports::{Exported, read_exports};
use crate::object::{Reference, is_being_deleted, merge_over, without_server_fields};
use crate::ownership::{Marked, Owner, Whose};
use crate::prepare::{Groups, Member, annotate, expand, kind_of, prepare};
use crate::readiness::has_condition;
use crate::record::{Applied, ManagedResource, known};
use crate::server_side::{ServerSideApply, server_side_apply};
use crate::succession::Succession;
use crate::update::merge;

/// Maximum objects of one group that are written concurrently.
const SIDE_BY_SIDE: usize = 16;
/// Field manager of the deployer that Groundwork takes over from.
const PREDECESSORS: [&str; 1] = ["manifest-deployer-controller"];
/// Field managers of earlier owners: when an object is taken over, their fields are taken over as
/// their marks are.
const FORMER_OWNERS: [&str; 3] = ["manifest-deployer-controller", "helm", "helm-deployer-controller"];

/// Desired objects of an item, with the settings for a round.
#[derive(Debug)]
pub struct Task<'a> {
    pub cluster: &'a Cluster,
    pub others: &'a OtherClusters,
    pub owner: Owner,
    /// Decides which item inherits an object that this item no longer lists.
    pub succession: &'a dyn Succession,
    /// True once other items can see the new list of this item's objects. Before that the item does
    /// not give any object up: an heir that drops the object at the same time would still see it in
    /// the old list, and hand it back.
    pub is_listed: bool,
    pub manifests: &'a [Manifest],
    /// Namespace for namespaced objects that name none.
    pub default_namespace: Option<&'a str>,
    pub strategy: UpdateStrategy,
    pub checks: &'a ReadinessChecks,
    pub exports: &'a [Export],
    /// Deletion order of objects that are no longer listed.
    pub deletion_groups: &'a [DeletionGroup],
    /// Record of earlier jobs.
    pub former: &'a [ManagedResource],
    pub deadline: Deadline,
}

/// Result of a round.
#[derive(Debug)]
pub struct Round {
    /// Objects that are applied now, including those whose deletion is not complete.
    pub managed: Vec<ManagedResource>,
    /// True if `managed` contains all objects that the item lists.
    pub is_complete: bool,
    /// Messages for users.
    pub told: Vec<Told>,
    pub outcome: Result<Progress, ApplyError>,
}

#[derive(Debug, Clone)]
pub enum Progress {
    /// All objects exist and are ready; with the exported values.
    Done(Map<String, Value>),
    /// The caller must run another round.
    Waiting(Waiting),
}

/// Runs one round: brings the objects of a task closer to their desired state.
pub async fn round(task: &Task<'_>) -> Round {
    let mut round = Round {
        managed: task.former.to_vec(),
        is_complete: false,
        told: Vec::new(),
        outcome: Ok(Progress::none()),
    };
    round.outcome = advance(task, &mut round).await;
    round
}

impl Progress {
    fn none() -> Self {
        Self::Done(Map::new())
    }
}

async fn advance(task: &Task<'_>, round: &mut Round) -> Result<Progress, ApplyError> {
    let objects =
        expand(task.manifests).map_err(|problems| ApplyError::Configuration(problems.join("; ")))?;
    let groups = prepare(task.cluster, objects, &task.owner, task.default_namespace).await?;
    let mut seen = Seen::new();
    let mut listed = Vec::new();
    for group in &groups {
        let (managed, failure) = apply_group(task, group, &mut seen, &mut round.told).await;
        listed.extend(managed);
        if let Some(failure) = failure {
            remember(&mut round.managed, listed);
            return failure;
        }
    }
    round.is_complete = true;
    let record = &mut round.managed;
    let dropped = dropped(record, &listed);
    remember(record, listed);
    if !dropped.is_empty() && !task.is_listed {
        return Ok(Progress::Waiting(Waiting::from("the new list of objects to be saved".to_owned())));
    }
    if !dropped.is_empty() {
        let deletion = Deletion {
            cluster: task.cluster,
            others: task.others,
            owner: &task.owner,
            succession: task.succession,
            groups: task.deletion_groups,
            is_kept: |_| false,
            deadline: task.deadline,
        };
        let mut progress = delete_round(&deletion, &dropped).await?;
        round.told.append(&mut progress.told);
        record.retain(|managed| !dropped.contains(managed) || progress.left.contains(&managed.resource));
        if let Some(waiting) = progress.waiting {
            return waits(task.deadline, waiting);
        }
        // Dropped objects that may not be deleted stay in the cluster without an owner, so forget
        // them.
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

/// Returns the wait, or a time-out if the item's time is over.
fn waits(deadline: Deadline, waiting: Waiting) -> Result<Progress, ApplyError> {
    deadline.check(&waiting.what)?;
    Ok(Progress::Waiting(waiting))
}

/// Returns recorded resources that the item no longer lists.
fn dropped(record: &[ManagedResource], listed: &[ManagedResource]) -> Vec<ManagedResource> {
    let is_listed =
        |managed: &ManagedResource| listed.iter().any(|one| one.resource.is_same(&managed.resource));
    record.iter().filter(|managed| !is_listed(managed)).cloned().collect()
}

/// Updates the record: listed objects come first, in the order of their groups; earlier objects
/// that may still exist stay recorded.
fn remember(record: &mut Vec<ManagedResource>, listed: Vec<ManagedResource>) {
    record.retain(|managed| !listed.iter().any(|one| one.resource.is_same(&managed.resource)));
    record.splice(0..0, listed);
}

type GroupFailure = Result<Progress, ApplyError>;

/// Applies the members of a group concurrently. A failure stops the round after the group.
async fn apply_group(
    task: &Task<'_>,
    group: &[Member],
    seen: &mut Seen,
    told: &mut Vec<Told>,
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
                // The object may already be the item's, so keep its earlier record.
                managed.extend(known(task.former, &member.reference).cloned());
            }
            Ok(Applying::Stored(stored)) => {
                let Stored { object, applied, taken_from, warning } = *stored;
                managed.push(managed_resource(member, applied, taken_from));
                told.extend(warning.map(|message| Told::warning("ManifestWarning", message)));
                seen.insert(member.reference.clone(), object);
            }
            Err(error) => {
                managed.extend(known(task.former, &member.reference).cloned());
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

/// Returns the wait for CRDs that are not established, since their kinds cannot be used yet.
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

fn managed_resource(
    member: &Member,
    applied: Option<Applied>,
    taken_from: Option<String>,
) -> ManagedResource {
    let manifest = &member.manifest;
    ManagedResource {
        annotate_before_delete: manifest.annotate_before_delete.clone(),
        patch_before_delete: manifest.patch_before_delete.clone(),
        policy: manifest.policy,
        applied,
        taken_from,
        ..ManagedResource::new(member.reference.clone())
    }
}

/// Outcome of applying one object.
enum Applying {
    /// The policy forbids touching the object, and the item does not own it.
    Skipped,
    Waits(Box<Waiting>),
    Stored(Box<Stored>),
}

/// An object in its desired state.
struct Stored {
    object: Value,
    applied: Option<Applied>,
    /// The item that listed the object before this one, and may still list it.
    taken_from: Option<String>,
    warning: Option<String>,
}

impl Applying {
    fn waits(what: String, awaited: Option<Awaited>) -> Self {
        Self::Waits(Box::new(Waiting { awaited: awaited.into_iter().collect(), ..what.into() }))
    }
}

/// Returns the name of the next write for time-out messages.
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
        return create(task, &kind, member).await;
    };
    match settings.policy {
        Policy::Fallback if !task.owner.is_labelled(&live) => return Ok(Applying::Skipped),
        Policy::Immutable => {
            let stored = Stored { object: live, applied: None, taken_from: None, warning: None };
            return Ok(Applying::Stored(Box::new(stored)));
        }
        _ => {}
    }
    if is_being_deleted(&live) {
        let what =
            format!("{reference} is being deleted and will be created again afterwards{}", held(&live));
        return Ok(Applying::waits(what, Awaited::gone(task.cluster, &live).await));
    }
    let now = Applied::new(&settings.manifest, &live);
    let before = known(task.former, reference);
    let taken_from = match task.owner.whose(&live) {
        Whose::Another(Marked::Item { name, .. }) => Some(name),
        _ => before.and_then(|before| before.taken_from.clone()),
    };
    if before.and_then(|before| before.applied.as_ref()) == Some(&now) {
        let stored = Stored { object: live, applied: Some(now), taken_from, warning: None };
        return Ok(Applying::Stored(Box::new(stored)));
    }
    task.deadline.check(&step(task, "update", reference))?;
    let is_repeated = before
        .and_then(|before| before.applied.as_ref())
        .is_some_and(|applied| applied.manifest == now.manifest);
    let (object, warning) = bring(task, &kind, member, live, is_repeated).await?;
    let applied = Some(Applied::new(&settings.manifest, &object));
    Ok(Applying::Stored(Box::new(Stored { object, applied, taken_from, warning })))
}

async fn create(task: &Task<'_>, kind: &ResourceKind, member: &Member) -> Result<Applying, ApplyError> {
    let (reference, settings) = (&member.reference, &member.manifest);
    task.deadline.check(&step(task, "create", reference))?;
    let mut object = settings.manifest.clone();
    annotate(&mut object, &settings.annotate_before_create);
    match create_declared(task.cluster, kind, &object).await {
        // Another writer created it between our GET and POST. The next round applies the policy to
        // that object.
        Err(ApiError::AlreadyExists(_)) => Ok(Applying::waits(
            format!("{reference}: another client created it in the meantime; the next round reads it again"),
            None,
        )),
        Err(error) => Err(error.into()),
        Ok((object, warning)) => {
            let applied = Some(Applied::new(&settings.manifest, &object));
            Ok(Applying::Stored(Box::new(Stored { object, applied, taken_from: None, warning })))
        }
    }
}

/// Brings an existing object to the state of its manifest by the item's strategy. Returns a message
/// for users with it.
async fn bring(
    task: &Task<'_>,
    kind: &ResourceKind,
    member: &Member,
    live: Value,
    is_repeated: bool,
) -> Result<(Value, Option<String>), ApplyError> {
    let manifest = &member.manifest.manifest;
    if matches!(task.strategy, UpdateStrategy::Merge | UpdateStrategy::MergeOverwrite) {
        return Ok(match merge(task.strategy, &task.owner, manifest, &live) {
            None => (live, None),
            Some(object) => (task.cluster.replace(kind, &object).await?, None),
        });
    }
    let is_taken_over = matches!(task.owner.whose(&live), Whose::Another(_));
    let predecessors = if is_taken_over { &FORMER_OWNERS[..] } else { &PREDECESSORS[..] };
    let live = match task.owner.claim_patch(&live, manifest) {
        None => live,
        Some(patch) => task.cluster.patch(kind, &member.reference, PatchKind::Merge, &patch).await?,
    };
    let is_repeated = is_repeated && !is_taken_over;
    let apply = ServerSideApply {
        kind,
        manifest,
        live: &live,
        former: None,
        predecessors,
        is_repeated,
        is_guarded: false,
    };
    server_side_apply(task.cluster, &apply).await
}

/// Applies the patches that follow when all objects are ready and exported.
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
        let stored = task.cluster.patch(&kind, &member.reference, PatchKind::Merge, patch).await?;
        // The patched object is the desired state, so record its fingerprint: the next job then
        // finds no difference.
        if let Some(managed) = record.iter_mut().find(|managed| managed.resource == member.reference) {
            managed.applied = Some(Applied::new(&settings.manifest, &stored));
        }
    }
    Ok(())
}
