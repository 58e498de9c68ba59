//! The phases of an Execution (`installations.md` 2.3, 3.2, 7).
//!
//! ```text
//! next ──> interrupting (a request)
//!      └─> by phase: installing (Init, Progressing) ── completing
//!                    deleting (InitDelete, Deleting)
//! ```

mod completing;
mod deleting;
mod installing;
mod interrupting;

use std::borrow::Cow;
use std::sync::Arc;

use groundwork_api::metadata::{FINALIZER, annotation, operation};
use groundwork_api::{DeployItemCache, Execution, ExecutionStatus, Installation, Time};

use super::items::Items;
use super::metadata::{annotation as annotation_of, has_finalizer, is_set};
use super::ownerless;
use super::step::{Moment, Next, Read, write};
use super::tree::{Known, Tree};
use crate::error::OperationError;
use crate::objects;
use crate::phase::Phase;
use crate::protocol::{self, HasJob as _, started};
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

const OPERATION: &str = "handleReconcilePhase";

pub(super) fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let is_idle = |installation: &Installation| !installation.job().is_running();
    let execution = match &tree.execution {
        // An Execution gets its work from the job of its Installation, so without a running job
        // there is no reason to read the Execution.
        Known::Unread if tree.installation.get().is_some_and(is_idle) && !tree.looks_for_left => {
            return Next::Rest;
        }
        Known::Unread => return Next::Read(Read::Execution),
        Known::Absent if !tree.looks_for_left => return Next::Rest,
        Known::Absent if !tree.items.is_complete() => return Next::Read(Read::ListItems),
        Known::Absent => return ownerless::items(tree, None).unwrap_or(Next::Rest),
        Known::Present(execution) => Arc::clone(execution),
    };
    if is_set(&execution.metadata, annotation::IGNORE) {
        return Next::Rest;
    }
    if annotation_of(&execution.metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        return interrupting::interrupt(tree, &execution, moment);
    }
    if let Some(step) = release_left(tree, &execution) {
        return step;
    }
    if ownerless::is_execution(&execution, &tree.installation)
        && let Some(step) = end_left(tree, &execution, moment)
    {
        return step;
    }
    if !execution.job().is_running() {
        return Next::Rest;
    }
    if execution.phase().is_final() {
        return start(tree, &execution, moment);
    }
    let templates = match tree.templates(&execution) {
        Ok(templates) => templates,
        Err(error) => {
            let error = OperationError::new(OPERATION, Reason::GetDeployItems, error.to_string());
            return finish(&execution, moment, Phase::Failed, Some(&error));
        }
    };
    let current = execution.phase();
    if current != Phase::Completing
        && let Some(step) = read_items(tree, &execution).or_else(|| ownerless::items(tree, Some(&execution)))
    {
        return step;
    }
    match current {
        Phase::Init => installing::init(tree, &execution, &templates, moment),
        Phase::Progressing => installing::progressing(tree, &execution, &templates, moment),
        Phase::Completing => completing::next(tree, &execution, &templates, moment),
        Phase::InitDelete => deleting::init(tree, &execution, moment),
        Phase::Deleting => deleting::next(tree, &execution, moment),
        Phase::None
        | Phase::ObjectsCreated
        | Phase::Succeeded
        | Phase::Failed
        | Phase::TriggerDelete
        | Phase::DeleteFailed
        | Phase::Unknown => Next::Rest,
    }
}

/// Releases the items of an earlier Execution of the same name, once an event has shown that there
/// are any.
fn release_left(tree: &Tree, execution: &Execution) -> Option<Next> {
    if !tree.looks_for_left || execution.job().is_running() {
        return None;
    }
    if !tree.items.is_complete() {
        return Some(Next::Read(Read::ListItems));
    }
    let unread = tree.items.unread();
    match unread.is_empty() {
        true => ownerless::items(tree, Some(execution)),
        false => Some(Next::Read(Read::Items(unread))),
    }
}

/// Ends an Execution whose Installation is gone, without uninstalling its items
/// (`installations.md` 8.7). Returns `None` if the phase of its deletion decides the
/// next step.
fn end_left(tree: &mut Tree, execution: &Execution, moment: &Moment) -> Option<Next> {
    let metadata = &execution.metadata;
    let running = execution.job().is_running();
    if execution.phase().is_of_deletion() {
        // A deletion that has failed waits for a user.
        return (!running).then_some(Next::Rest);
    }
    let error = ownerless::owner_gone(OPERATION, &tree.name);
    if running {
        return Some(finish(execution, moment, Phase::Failed, Some(&error)));
    }
    if !is_set(metadata, annotation::DELETE_WITHOUT_UNINSTALL) {
        let annotations = vec![(annotation::DELETE_WITHOUT_UNINSTALL, Some("true".to_owned()))];
        return Some(patch(MetadataPatch { annotations, ..MetadataPatch::of(metadata) }));
    }
    let mut begun = begun(tree, execution, &moment.job_id, &moment.now);
    begun.status.get_or_insert_default().last_error = Some(error.to_last_error(None, &moment.now));
    Some(write(Write::Execution(Change::Status(begun))))
}

pub(super) fn patch(patch: MetadataPatch) -> Next {
    write(Write::Execution(Change::Metadata(patch)))
}

fn status(execution: &Execution, change: impl FnOnce(&mut ExecutionStatus)) -> Next {
    let mut execution = execution.clone();
    change(execution.status.get_or_insert_default());
    write(Write::Execution(Change::Status(execution)))
}

/// Returns the Execution with the job assigned. The job begins in the same write, unless another
/// one is running.
pub(super) fn begun(tree: &mut Tree, execution: &Execution, id: &str, now: &Time) -> Execution {
    let mut given = execution.clone();
    let status = given.status.get_or_insert_default();
    status.job_id = Some(id.to_owned());
    status.transition_times = Some(protocol::triggered(now));
    if execution.phase().is_final() { started_execution(tree, &given, now) } else { given }
}

/// Returns the Execution to store, or `None` if the stored one matches. With `None` for `wanted`,
/// all its items are removed.
pub(super) fn updated(
    found: &Execution,
    installation: &Installation,
    wanted: Option<&Execution>,
) -> Option<Execution> {
    let empty = || Cow::Owned(objects::execution(installation, Vec::new()));
    let wanted = wanted.map_or_else(empty, Cow::Borrowed);
    let same_items = match (found.spec.templates(), wanted.spec.templates()) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => false,
    };
    let annotations = found.metadata.annotations.clone().unwrap_or_default();
    let mut wanted_annotations = annotations.clone();
    wanted_annotations.extend(wanted.metadata.annotations.clone().unwrap_or_default());
    // Without the finalizer, a deletion of the Execution would leave its items without an owner
    // (`installations.md` 1.6).
    let is_held = has_finalizer(&found.metadata);
    let taken = objects::taken_over(found, installation);
    if same_items
        && found.spec.context() == wanted.spec.context()
        && annotations == wanted_annotations
        && is_held
        && taken.is_none()
    {
        return None;
    }
    let mut updated = taken.unwrap_or_else(|| found.clone());
    if !is_held {
        updated.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    updated.spec = wanted.spec.clone();
    updated.metadata.annotations = Some(wanted_annotations);
    Some(updated)
}

fn start(tree: &mut Tree, execution: &Execution, moment: &Moment) -> Next {
    let started = started_execution(tree, execution, &moment.now);
    write(Write::Execution(Change::Status(started)))
}

fn started_execution(tree: &mut Tree, execution: &Execution, now: &Time) -> Execution {
    let mut execution = execution.clone();
    let generation = execution.metadata.generation.unwrap_or_default();
    let is_deleting = execution.is_deleting();
    let status = execution.status.get_or_insert_default();
    // The job starts with the items in the old cache and clears the cache in the same write
    // (`installations.md` 10.3). Another replica without that knowledge lists the items by label.
    // An Execution that never had a job has no items, unless it comes from a backup.
    match status.deploy_item_cache.take() {
        _ if tree.has_unstarted => tree.items = Items::default(),
        Some(cache) => tree.items.set_names(cached_names(&cache)),
        None if status.job_id_finished.as_ref().is_none_or(String::is_empty) => tree.items.set_names([]),
        None => {}
    }
    tree.exports = None;
    tree.exports_written = false;
    enter(status, if is_deleting { Phase::InitDelete } else { Phase::Init }, now);
    status.observed_generation = generation;
    status.transition_times = Some(started(status.transition_times.as_ref(), now));
    execution
}

fn enter(status: &mut ExecutionStatus, phase: Phase, now: &Time) {
    if status.phase.as_deref() != Some(phase.as_str()) {
        status.phase = Some(phase.into());
        status.phase_transition_time = Some(now.clone());
    }
    status.last_error = None;
}

fn finish(execution: &Execution, moment: &Moment, phase: Phase, error: Option<&OperationError>) -> Next {
    status(execution, |status| {
        let previous = status.last_error.take();
        enter(status, phase, &moment.now);
        status.last_error = error.map(|error| error.to_last_error(previous.as_ref(), &moment.now));
        status.job_id_finished = status.job_id.clone();
        status.transition_times.get_or_insert_default().finished_time = Some(moment.now.clone());
    })
}

fn failed(execution: &Execution, moment: &Moment, phase: Phase, reason: Reason, message: &str) -> Next {
    finish(execution, moment, phase, Some(&OperationError::child(OPERATION, reason, message)))
}

fn cached_names(cache: &DeployItemCache) -> impl Iterator<Item = &String> {
    let active = cache.active_dis.iter().map(|pair| &pair.object_name);
    active.chain(cache.orphaned_dis.iter())
}

/// Reads items until the tree contains the current state of each.
fn read_items(tree: &mut Tree, execution: &Execution) -> Option<Next> {
    match execution.status.as_ref().and_then(|status| status.deploy_item_cache.as_ref()) {
        // The names in the status are needed even for a complete tree: another replica may have
        // created items since the tree was filled.
        Some(cache) => tree.items.set_names(cached_names(cache)),
        None if !tree.items.is_complete() => return Some(Next::Read(Read::ListItems)),
        None => {}
    }
    let unread = tree.items.unread();
    (!unread.is_empty()).then_some(Next::Read(Read::Items(unread)))
}

/// Returns the write that ends a job after the API server has permanently rejected one of its
/// writes.
pub(super) fn refused(execution: &Execution, reason: Reason, cause: &str, moment: &Moment) -> Option<Write> {
    if !execution.job().is_running() {
        return None;
    }
    let is_deleting = matches!(execution.phase(), Phase::InitDelete | Phase::Deleting);
    let phase = if is_deleting { Phase::DeleteFailed } else { Phase::Failed };
    match failed(execution, moment, phase, reason, cause) {
        Next::Write(mut writes) => writes.pop(),
        _ => None,
    }
}
