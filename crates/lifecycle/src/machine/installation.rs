//! The phases of an Installation (`installations.md` 2.1, 2.2, 3, 8).

use std::sync::Arc;

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{Execution, Installation, List, ObjectReference};
use groundwork_component::OVERWRITE_CONDITION;

use super::execution;
use super::metadata::{
    annotation as annotation_of, has_finalizer, is_set, with_finalizer, without_finalizer,
};
use super::phase;
use super::protocol::{Job, is_final};
use super::status::Draft;
use super::step::{Change, MOST_WRITES, MetadataPatch, Moment, Next, Read, Write, write, write_some};
use super::tree::{Known, StaleCopy, Tree};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;
use crate::prepare::Prepared;
use crate::validate::is_root;

const INIT: &str = "handlePhaseInit";
const COMPLETING: &str = "handlePhaseCompleting";

pub(super) fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let installation = match &tree.installation {
        Known::Unread => return Next::Read(Read::Installation),
        Known::Absent => return Next::Rest,
        Known::Present(installation) => Arc::clone(installation),
    };
    let metadata = &installation.metadata;
    if is_set(metadata, annotation::IGNORE) {
        return Next::Rest;
    }
    let is_deleting = metadata.deletion_timestamp.is_some();
    if !has_finalizer(metadata) {
        return if is_deleting { Next::Rest } else { patch(with_finalizer(metadata)) };
    }
    if annotation_of(metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        return interrupt(tree, &installation);
    }
    let running = job(&installation).is_running();
    let requests_job = annotation_of(metadata, annotation::OPERATION) == Some(operation::RECONCILE);
    if requests_job && (!is_root(&installation) || (tree.request_taken && running)) {
        tree.request_taken = false;
        return patch(without_request(&installation));
    }
    if !running {
        return trigger(tree, &installation, moment, requests_job);
    }
    let current = installation.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if is_final(Some(current)) {
        tree.forget_pass();
        return start(tree, &installation, Draft::of(&installation, &moment.now), is_deleting);
    }
    match current {
        phase::INIT => init(tree, &installation, moment),
        phase::OBJECTS_CREATED | phase::CLEANUP_ORPHANED => objects_created(tree, &installation, moment),
        phase::PROGRESSING => progressing(tree, &installation, moment),
        phase::COMPLETING => completing(tree, &installation, moment),
        phase::INIT_DELETE => init_delete(tree, &installation, moment),
        phase::TRIGGER_DELETE => trigger_delete(tree, &installation, moment),
        phase::DELETING => deleting(tree, &installation, moment),
        // A phase that nobody writes; waiting for a person beats guessing.
        _ => Next::Rest,
    }
}

fn job(installation: &Installation) -> Job<'_> {
    let status = installation.status.as_ref();
    Job::new(
        status.and_then(|status| status.job_id.as_ref()),
        status.and_then(|status| status.job_id_finished.as_ref()),
    )
}

fn patch(patch: MetadataPatch) -> Next {
    write(Write::Installation(Change::Metadata(patch)))
}

fn status(draft: Draft<'_>) -> Next {
    write(Write::Installation(Change::Status(draft.done())))
}

fn without_request(installation: &Installation) -> MetadataPatch {
    MetadataPatch {
        annotations: vec![(annotation::OPERATION, None), (annotation::RECONCILE_REASON, None)],
        ..MetadataPatch::of(&installation.metadata)
    }
}

/// 2.1: a job starts at a root that is idle, because somebody asks for it, the spec changed, or it is deleted.
fn trigger(tree: &mut Tree, installation: &Installation, moment: &Moment, requests_job: bool) -> Next {
    let metadata = &installation.metadata;
    let status_ = installation.status.as_ref();
    let current = status_.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let is_deleting = metadata.deletion_timestamp.is_some();
    let deletes = is_deleting
        && !matches!(
            current,
            phase::INIT_DELETE | phase::TRIGGER_DELETE | phase::DELETING | phase::DELETE_FAILED
        );
    // 3.4; the annotation `operation`, which would be set and removed again at once, is left out.
    let observed = status_.map_or(0, |status| status.observed_generation);
    let changed = is_set(metadata, annotation::RECONCILE_IF_CHANGED)
        && metadata.generation.unwrap_or_default() != observed
        && !is_deleting;
    if !is_root(installation) || !(requests_job || changed || deletes) {
        let is_told = status_.is_some_and(|status| !status.conditions.is_empty());
        let waits = is_root(installation) && !is_deleting && !is_told;
        if !waits {
            return Next::Rest;
        }
        let mut draft = Draft::of(installation, &moment.now);
        draft.status();
        return status(draft);
    }
    tree.forget_pass();
    let draft = Draft::of(installation, &moment.now).trigger(&moment.job_id);
    if requests_job {
        tree.request_taken = true;
        return status(draft);
    }
    // With no annotation to remove in between, the job begins in the same write.
    let id = moment.job_id.clone();
    let step = start(tree, installation, draft, is_deleting);
    tree.begun = Some(id);
    step
}

/// The first write of a job. It counts the rendering that follows as begun: a process that dies of it leaves the count behind.
fn start(tree: &mut Tree, installation: &Installation, draft: Draft<'_>, is_deleting: bool) -> Next {
    if is_deleting {
        return status(draft.start(phase::INIT_DELETE));
    }
    tree.begun = Some(job(installation).id.to_owned());
    status(draft.start(phase::INIT).rendering(1))
}

/// 3.2: the children are told first, so that a crash leaves the request in place.
fn interrupt(tree: &mut Tree, installation: &Installation) -> Next {
    let execution = match &tree.execution {
        Known::Unread => return Next::Read(Read::Execution),
        Known::Absent => None,
        Known::Present(execution) => Some(&execution.metadata),
    };
    if let Some(metadata) = execution
        && annotation_of(metadata, annotation::OPERATION) != Some(operation::INTERRUPT)
        && job(installation).is_running()
    {
        let annotations = vec![(annotation::OPERATION, Some(operation::INTERRUPT.to_owned()))];
        return execution::patch(MetadataPatch { annotations, ..MetadataPatch::of(metadata) });
    }
    patch(without_request(installation))
}

// === installing ===

fn init(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if installation.metadata.deletion_timestamp.is_some() {
        // Nothing has been started yet, so the job ends here and the deletion begins.
        let error =
            OperationError::child(INIT, "Deleting", "the installation was deleted before it was rendered");
        return fail(installation, moment, &error, &[]);
    }
    if let Some(step) = count_attempt(tree, installation, moment) {
        return step;
    }
    let Some(prepared) = tree.prepared.take().filter(|prepared| fits(prepared, installation)) else {
        tree.forget_pass();
        return Next::Prepare;
    };
    let step = create_objects(tree, installation, &prepared, moment);
    if step != Next::Prepare {
        tree.prepared = Some(prepared);
    }
    step
}

/// How often rendering may end the process that does it before the job is given up.
pub const MOST_ATTEMPTS: i64 = 3;

/// Counts a rendering that another process has begun and not lived through, before this one begins it again.
fn count_attempt(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Option<Next> {
    let id = job(installation).id;
    if tree.begun.as_deref() == Some(id) {
        return None;
    }
    let status_ = installation.status.as_ref();
    let attempts = status_.and_then(|status| status.rendering_attempts).unwrap_or_default();
    if attempts >= MOST_ATTEMPTS {
        let message = format!(
            "the renderer ended {attempts} times while it rendered this installation, most likely because rendering takes more \
             memory than it has; make the blueprint or its imports smaller, and start the job again"
        );
        let error = OperationError::new(INIT, "RenderingEndsProcess", message);
        return Some(fail(installation, moment, &error, &[]));
    }
    tree.begun = Some(id.to_owned());
    let draft = Draft::of(installation, &moment.now).rendering(attempts + 1);
    if attempts == 0 {
        return Some(status(draft));
    }
    let message = format!(
        "the renderer ended while it rendered this installation; attempt {} of {MOST_ATTEMPTS}",
        attempts + 1
    );
    let error = OperationError::transient(INIT, "RenderingEndsProcess", message);
    let previous = status_.and_then(|status| status.last_error.as_ref());
    Some(status(draft.error(&error, previous)))
}

/// Writes what was rendered.
fn create_objects(
    tree: &mut Tree,
    installation: &Installation,
    prepared: &Prepared,
    moment: &Moment,
) -> Next {
    if let Some(error) = &prepared.outcome.error {
        return fail(installation, moment, &error.cause, &prepared.outcome.conditions);
    }
    if let Some(step) = write_some(prepared.copies.iter().skip(tree.copies_written).cloned()) {
        tree.copies_written += if let Next::Write(writes) = &step { writes.len() } else { 0 };
        return step;
    }
    if let Some(step) = ensure_execution(tree, installation, prepared, moment) {
        return step;
    }
    if prepared.has_imports {
        match &tree.imports_hash {
            None => return Next::HashImports,
            Some(hash) if *hash != prepared.imports_hash => {
                // An import changed while its copies were written (10.4): once more from the start.
                tree.forget_pass();
                return Next::Prepare;
            }
            Some(_) => {}
        }
    }
    let execution = tree.execution.get().map(|execution| ObjectReference {
        name: execution.metadata.name.clone().unwrap_or_default(),
        namespace: execution.metadata.namespace.clone(),
    });
    let updates = prepared.outcome.conditions.iter().filter(|update| update.type_name != OVERWRITE_CONDITION);
    let mut draft = Draft::of(installation, &moment.now)
        .phase(phase::OBJECTS_CREATED)
        .conditions(updates)
        .conditions(&created_conditions(prepared))
        .without(&prepared.outcome.obsolete_conditions);
    let status_ = draft.status();
    status_.execution_ref = execution;
    status_.imports_hash = Some(prepared.imports_hash.clone());
    status_.observed_generation = prepared.generation;
    status_.imports =
        if prepared.imports.is_empty() { List::absent() } else { prepared.imports.clone().into() };
    tree.imports_hash = None;
    status(draft)
}

/// Whether a rendering is about the spec and the job that the object has now.
fn fits(prepared: &Prepared, installation: &Installation) -> bool {
    Some(prepared.generation) == installation.metadata.generation && prepared.job_id == job(installation).id
}

fn created_conditions(prepared: &Prepared) -> Vec<ConditionUpdate> {
    let mut updates = vec![ConditionUpdate::new(
        "EnsureSubInstallations",
        true,
        "InstallationsInstalled",
        "All Installations are successfully applied",
    )];
    if !prepared.copies.is_empty() {
        let message = "Import data successfully created";
        updates.push(ConditionUpdate::new("CreateImports", true, "ImportsCreated", message));
    }
    updates
}

/// Creates or updates the Execution, or empties it if nothing is rendered any more (6.2). `None` when it is as it
/// should be.
fn ensure_execution(
    tree: &mut Tree,
    installation: &Installation,
    prepared: &Prepared,
    moment: &Moment,
) -> Option<Next> {
    if tree.execution.is_unread() {
        let status = installation.status.as_ref();
        let is_first = status.is_none_or(|status| {
            status.execution_ref.is_none() && status.job_id_finished.as_ref().is_none_or(String::is_empty)
        });
        if !is_first || prepared.outcome.execution.is_none() {
            return Some(Next::Read(Read::Execution));
        }
        // It cannot exist yet; if it does after all, creating it says so.
        tree.execution = Known::Absent;
    }
    let wanted = prepared.outcome.execution.as_ref();
    let Some(found) = tree.execution.get() else {
        return wanted.map(|execution| write(Write::Execution(Change::Create(execution.clone()))));
    };
    if let Err(error) = owned_by(found, installation) {
        return Some(fail(installation, moment, &error, &prepared.outcome.conditions));
    }
    if found.metadata.deletion_timestamp.is_some() {
        // Deleted by hand (8.6): this job finishes the deletion, then it is created anew.
        if execution::job(found).finished == job(installation).id {
            let cause = "the execution is being deleted, and that failed";
            let inner = ("CreateImportsAndSubobjects", "ReconcileExecution");
            let error = OperationError::caused_by(INIT, "CreateImportsAndSubobjects", inner, cause);
            return Some(fail(installation, moment, &error, &prepared.outcome.conditions));
        }
        return Some(give_job(found, installation, moment).unwrap_or(Next::Rest));
    }
    let updated = execution::updated(found, installation, wanted)?;
    Some(write(Write::Execution(Change::Replace(updated))))
}

fn owned_by(found: &Execution, installation: &Installation) -> Result<(), OperationError> {
    let owners = found.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    let uid = installation.metadata.uid.as_deref().unwrap_or_default();
    if controllers.any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let cause =
        format!("the execution {name} exists already and belongs to something else; delete or rename it");
    let inner = ("CreateImportsAndSubobjects", "ReconcileExecution");
    Err(OperationError::caused_by(INIT, "CreateImportsAndSubobjects", inner, cause))
}

/// Hands the job of the Installation down; `None` when that has been done.
fn give_job(execution: &Execution, installation: &Installation, moment: &Moment) -> Option<Next> {
    let id = job(installation).id;
    if execution::job(execution).id == id {
        return None;
    }
    let metadata = &execution.metadata;
    if annotation_of(metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        // Meant for a job that is over; it must not end this one.
        let annotations = vec![(annotation::OPERATION, None)];
        return Some(execution::patch(MetadataPatch { annotations, ..MetadataPatch::of(metadata) }));
    }
    Some(execution::trigger(execution, id, &moment.now))
}

fn objects_created(tree: &Tree, installation: &Installation, moment: &Moment) -> Next {
    hand_down(tree, installation, moment, phase::PROGRESSING)
}

/// Gives the Execution the job, and waits for it in another phase.
fn hand_down(tree: &Tree, installation: &Installation, moment: &Moment, waiting: &str) -> Next {
    if tree.execution.is_unread() {
        return Next::Read(Read::Execution);
    }
    let execution = own_execution(tree, installation);
    let step = execution.and_then(|execution| give_job(execution, installation, moment));
    step.unwrap_or_else(|| {
        let draft = Draft::of(installation, &moment.now).phase(waiting).waiting();
        // In the same write as the phase: the reference needs another one to say so (2.5, write 13).
        let error = (execution.is_some() && waiting == phase::PROGRESSING).then(|| {
            OperationError::waiting(
                "handlePhaseProgressing",
                "JobIDFinished",
                "the execution is not finished",
            )
        });
        let draft = match &error {
            Some(error) => draft.error(error, None),
            None => draft,
        };
        status(draft)
    })
}

fn progressing(tree: &Tree, installation: &Installation, moment: &Moment) -> Next {
    let expects_execution = installation.status.as_ref().is_some_and(|status| status.execution_ref.is_some());
    let failed = match &tree.execution {
        Known::Unread => return Next::Read(Read::Execution),
        Known::Absent => expects_execution,
        Known::Present(execution) => {
            if execution::job(execution).finished != job(installation).id {
                return give_job(execution, installation, moment).unwrap_or(Next::Rest);
            }
            execution::phase_of(execution) != phase::SUCCEEDED
        }
    };
    if failed {
        let error =
            OperationError::child("buildErrorIfFailedChild", "children failed", "Execution is failed");
        return fail(installation, moment, &error, &[]);
    }
    status(Draft::of(installation, &moment.now).phase(phase::COMPLETING))
}

fn completing(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    let copies_imports =
        !installation.spec.data_imports().is_empty() || !installation.spec.target_imports().is_empty();
    let had_job = installation.status.as_ref().is_some_and(|status| status.job_id_finished.is_some());
    if copies_imports || had_job {
        let Some(copies) = &mut tree.stale_copies else { return Next::Read(Read::StaleCopies) };
        let some = copies.len().min(MOST_WRITES);
        if let Some(step) = write_some(copies.drain(..some).map(delete_copy)) {
            return step;
        }
    }
    let status_ = installation.status.clone().unwrap_or_default();
    if copies_imports {
        let Some(hash) = &tree.imports_hash else { return Next::HashImports };
        if Some(hash) != status_.imports_hash.as_ref() {
            let message = "the imports have changed since the job began; start it again";
            let error = OperationError::new(COMPLETING, "CheckImportsHash", message);
            return fail(installation, moment, &error, &[]);
        }
    }
    if installation.metadata.generation != Some(status_.observed_generation) {
        let message = "the spec has changed since the job began; start it again";
        let error = OperationError::new(COMPLETING, "CheckObservedGeneration", message);
        return fail(installation, moment, &error, &[]);
    }
    tree.forget_pass();
    status(Draft::of(installation, &moment.now).finish(phase::SUCCEEDED))
}

fn delete_copy(copy: StaleCopy) -> Write {
    let StaleCopy { is_target, name, uid, resource_version } = copy;
    let (uid, resource_version) = (Some(uid), Some(resource_version));
    if is_target {
        Write::Target(Change::Delete { name, uid, resource_version })
    } else {
        Write::DataObject(Change::Delete { name, uid, resource_version })
    }
}

/// Ends the job without success.
fn fail(
    installation: &Installation,
    moment: &Moment,
    error: &OperationError,
    updates: &[ConditionUpdate],
) -> Next {
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    let phase = if installation.metadata.deletion_timestamp.is_some()
        && installation.status.as_ref().is_some_and(|status| {
            matches!(
                status.phase.as_deref(),
                Some(phase::INIT_DELETE | phase::TRIGGER_DELETE | phase::DELETING)
            )
        }) {
        phase::DELETE_FAILED
    } else {
        phase::FAILED
    };
    let updates = updates.iter().filter(|update| update.type_name != OVERWRITE_CONDITION);
    status(Draft::of(installation, &moment.now).finish(phase).conditions(updates).error(error, previous))
}

/// The write that tells about an error which may go away by itself; the phase stays. `None` when the status says
/// so already.
pub fn report(tree: &Tree, error: &OperationError, moment: &Moment) -> Option<Write> {
    let installation = tree.installation.get()?;
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    let draft = Draft::of(installation, &moment.now).error(error, previous).done();
    (draft.status != installation.status).then_some(Write::Installation(Change::Status(draft)))
}

// === deleting ===

fn init_delete(tree: &Tree, installation: &Installation, moment: &Moment) -> Next {
    if tree.execution.is_unread() {
        return Next::Read(Read::Execution);
    }
    let Some(execution) = own_execution(tree, installation) else {
        return patch(without_finalizer(&installation.metadata));
    };
    let metadata = &execution.metadata;
    if is_set(&installation.metadata, annotation::DELETE_WITHOUT_UNINSTALL)
        && !is_set(metadata, annotation::DELETE_WITHOUT_UNINSTALL)
    {
        let annotations = vec![(annotation::DELETE_WITHOUT_UNINSTALL, Some("true".to_owned()))];
        return execution::patch(MetadataPatch { annotations, ..MetadataPatch::of(metadata) });
    }
    if metadata.deletion_timestamp.is_none() {
        return write(Write::Execution(Change::delete(metadata)));
    }
    status(Draft::of(installation, &moment.now).phase(phase::TRIGGER_DELETE))
}

fn trigger_delete(tree: &Tree, installation: &Installation, moment: &Moment) -> Next {
    hand_down(tree, installation, moment, phase::DELETING)
}

fn deleting(tree: &Tree, installation: &Installation, moment: &Moment) -> Next {
    if tree.execution.is_unread() {
        return Next::Read(Read::Execution);
    }
    match own_execution(tree, installation) {
        None => patch(without_finalizer(&installation.metadata)),
        Some(execution) if execution::job(execution).finished == job(installation).id => {
            let message = "the execution could not be deleted";
            let error = OperationError::child("handlePhaseDeleting", "UndeletedSubobjects", message);
            fail(installation, moment, &error, &[])
        }
        Some(execution) => give_job(execution, installation, moment).unwrap_or(Next::Rest),
    }
}

/// The Execution, if it belongs to the Installation: one that only has its name is none of its business.
fn own_execution<'a>(tree: &'a Tree, installation: &Installation) -> Option<&'a Execution> {
    tree.execution.get().filter(|execution| owned_by(execution, installation).is_ok())
}

/// The end of a job one of whose writes the API server will never accept.
pub(super) fn refused(tree: &Tree, reason: &'static str, cause: &str, moment: &Moment) -> Option<Write> {
    let installation = tree.installation.get()?;
    if !job(installation).is_running() {
        return None;
    }
    let (condition, step) = match reason {
        "CreateOrUpdateExecution" => ("ReconcileExecution", "ReconcileExecution"),
        _ => ("CreateImports", "ConstructImports"),
    };
    let update = ConditionUpdate::new(condition, false, reason, cause);
    let inner = ("CreateImportsAndSubobjects", step);
    let error = OperationError::caused_by(INIT, "CreateImportsAndSubobjects", inner, cause);
    match fail(installation, moment, &error, &[update]) {
        Next::Write(mut writes) => writes.pop(),
        _ => None,
    }
}
