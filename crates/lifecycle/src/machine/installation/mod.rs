//! The phases of an Installation (`installations.md` 2.1, 2.2, 3, 8).
//!
//! ```text
//! next ──> requests (finalizer, dependents, interrupt, new job)
//!      └─> by phase: init ── created ── progressing ── completing
//!                    deleting (InitDelete, TriggerDelete, Deleting)
//! siblings: predecessors, successors, dependents      children: nested Installations
//! ```

mod children;
mod completing;
mod created;
mod deleting;
mod init;
mod progressing;
mod siblings;

use std::sync::Arc;

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{DependentToTrigger, ErrorCode, Execution, Installation, List};
use groundwork_component::OVERWRITE_CONDITION;

use super::execution;
use super::metadata::{annotation as annotation_of, has_finalizer, is_set, with_finalizer};
use super::ownerless;
use super::status::Draft;
use super::step::{Moment, Next, Read, write};
use super::tree::{Known, Tree};
use crate::automatic::{Automatic, AutomaticInput, automatic};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;
use crate::ownership::Ownership;
use crate::phase::Phase;
use crate::prepare::Product;
use crate::protocol::HasJob as _;
use crate::reason::Reason;
use crate::validate::is_root;
use crate::write::{Change, MetadataPatch, Write};

pub use init::MOST_ATTEMPTS;
pub(crate) use siblings::{Awaited, awaited};

const INIT: &str = "handlePhaseInit";
const PROGRESSING: &str = "handlePhaseProgressing";
const COMPLETING: &str = "handlePhaseCompleting";
const DELETING: &str = "handlePhaseDeleting";
const CREATE: &str = "CreateImportsAndSubobjects";

pub(super) fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let installation = match &tree.installation {
        Known::Unread => return Next::Read(Read::Installation),
        Known::Absent => return Next::Rest,
        Known::Present(installation) => Arc::clone(installation),
    };
    if installation.job().is_running() {
        tree.follow_job(installation.job().id);
    }
    let step = next_of(tree, &installation, moment);
    // The dependents to trigger are read only when the next step ends the job.
    if tree.dependents.is_none() && ends_job(&installation, &step) && siblings::has_dependents(&installation)
    {
        return Next::Read(Read::Dependents);
    }
    with_dependents(tree, step)
}

/// Reports whether a step is the write that ends the job of an Installation.
fn ends_job(installation: &Installation, step: &Next) -> bool {
    let Next::Write(writes) = step else { return false };
    installation.job().is_running()
        && writes.iter().any(|write| match write {
            Write::Installation(Change::Status(object)) => {
                !object.job().is_running() && object.phase().is_final()
            }
            _ => false,
        })
}

/// Adds the names of the dependents to trigger (`installations.md` 5.6) to the write that ends a
/// job.
fn with_dependents(tree: &mut Tree, mut step: Next) -> Next {
    let Some(installation) = tree.installation.get().filter(|found| ends_job(found, &step)) else {
        return step;
    };
    if installation.is_deleting() {
        return step;
    }
    let names = tree.dependents.iter().flatten();
    let list: Vec<DependentToTrigger> = names.map(|name| DependentToTrigger { name: name.clone() }).collect();
    if let Next::Write(writes) = &mut step {
        for write in writes {
            if let Write::Installation(Change::Status(object)) = write {
                let status = object.status.get_or_insert_default();
                // Installations in a cycle would trigger one another forever.
                let is_cyclic = status.last_error.as_ref().is_some_and(|error| {
                    error.codes.iter().any(|code| code == ErrorCode::CyclicDependencies.as_str())
                });
                let none = list.is_empty() || is_cyclic;
                status.dependents_to_trigger = if none { List::absent() } else { List::from(list.clone()) };
            }
        }
    }
    tree.dependents = None;
    step
}

fn next_of(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    let metadata = &installation.metadata;
    if is_set(metadata, annotation::IGNORE) {
        return Next::Rest;
    }
    let is_deleting = installation.is_deleting();
    let running = installation.job().is_running();
    let requests_job = annotation_of(metadata, annotation::OPERATION) == Some(operation::RECONCILE);
    if !has_finalizer(metadata) {
        // One write, after the write that begins the job, adds the finalizer and removes the
        // request. The job has created no other objects by then.
        match is_deleting {
            true => return Next::Rest,
            false if requests_job && is_root(installation) && !running => {}
            false if requests_job && tree.request_taken => {
                tree.request_taken = false;
                let finalizers = with_finalizer(metadata).finalizers;
                return patch(MetadataPatch { finalizers, ..without_request(installation) });
            }
            false => return patch(with_finalizer(metadata)),
        }
    }
    if let Some(step) = ownerless::spare(installation, tree) {
        return step;
    }
    if let Some(step) = siblings::trigger_dependents(tree, installation, moment) {
        return step;
    }
    if annotation_of(metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        return interrupt(tree, installation, moment);
    }
    if requests_job && (!is_root(installation) || (tree.request_taken && running)) {
        tree.request_taken = false;
        return patch(without_request(installation));
    }
    if !running {
        return trigger(tree, installation, moment, requests_job);
    }
    match installation.phase() {
        Phase::None | Phase::Succeeded | Phase::Failed | Phase::DeleteFailed => {
            start(tree, installation, Draft::of(installation, &moment.now), is_deleting)
        }
        Phase::Init => init::next(tree, installation, moment),
        Phase::ObjectsCreated => created::next(tree, installation, moment),
        Phase::Progressing => progressing::next(tree, installation, moment),
        Phase::Completing => completing::next(tree, installation, moment),
        Phase::InitDelete => deleting::init(tree, installation, moment),
        Phase::TriggerDelete => deleting::trigger(installation, moment),
        Phase::Deleting => deleting::next(tree, installation, moment),
        Phase::Unknown => Next::Rest,
    }
}

fn patch(patch: MetadataPatch) -> Next {
    write(Write::Installation(Change::Metadata(patch)))
}

fn status(draft: Draft<'_>) -> Next {
    write(Write::Installation(Change::Status(draft.done())))
}

/// Returns the next of the writes that a rendering asks for, or `None` after all of them.
fn write_computed(tree: &mut Tree, products: &[Product]) -> Option<Next> {
    let left = products.get(tree.copies_written..).unwrap_or_default();
    let step = super::step::write_some(left.iter().map(Product::to_write))?;
    if let Next::Write(writes) = &step {
        tree.copies_written += writes.len();
    }
    Some(step)
}

fn without_request(installation: &Installation) -> MetadataPatch {
    MetadataPatch {
        annotations: vec![(annotation::OPERATION, None), (annotation::RECONCILE_REASON, None)],
        ..MetadataPatch::of(&installation.metadata)
    }
}

/// Starts a job at an idle root that has a request, a changed spec, or a deletion
/// (`installations.md` 2.1).
fn trigger(tree: &mut Tree, installation: &Installation, moment: &Moment, requests_job: bool) -> Next {
    let metadata = &installation.metadata;
    let status_ = installation.status.as_ref();
    let is_deleting = installation.is_deleting();
    let deletes = is_deleting && !installation.phase().is_of_deletion();
    // `installations.md` 3.4: the job starts directly. Landscaper would set the annotation
    // `operation` here and remove it at once.
    let observed = status_.map_or(0, |status| status.observed_generation);
    let changed = is_set(metadata, annotation::RECONCILE_IF_CHANGED)
        && metadata.generation.unwrap_or_default() != observed
        && !is_deleting;
    let is_left = match ownerless::is_child(installation, tree) {
        Ok(is_left) => is_left,
        Err(read) => return Next::Read(read),
    };
    if !is_root(installation) && !is_left {
        return Next::Rest;
    }
    let is_due = if requests_job || changed || deletes {
        None
    } else {
        match automatic(&AutomaticInput::of(installation), moment.now.0) {
            Automatic::Run(counted) => Some(counted),
            Automatic::Begin(counted) => {
                let mut draft = Draft::of(installation, &moment.now);
                draft.status().automatic_reconcile_status = Some(counted);
                return status(draft);
            }
            Automatic::Nothing | Automatic::At(_) => return tell_of_request(installation, moment),
        }
    };
    let mut draft = Draft::of(installation, &moment.now).trigger(&moment.job_id);
    // A user's request resets the count of automatic runs. A request of the retry timer keeps it
    // (`installations.md` 3.5).
    let is_retry =
        annotation_of(metadata, annotation::RECONCILE_REASON) == Some(annotation::RECONCILE_REASON_RETRY);
    if is_due.is_some() || !is_retry {
        draft.status().automatic_reconcile_status = is_due;
    }
    // The job begins in the same write that assigns its id. The annotation is removed after that
    // write (`installations.md` 2.1).
    let id = moment.job_id.clone();
    let step = start(tree, installation, draft, is_deleting);
    tree.job = Some(id.clone());
    tree.begun = Some(id);
    tree.request_taken = requests_job;
    step
}

/// Writes a status for an Installation that never had a job: it waits for a request. Written once.
fn tell_of_request(installation: &Installation, moment: &Moment) -> Next {
    let is_told = installation.status.as_ref().is_some_and(|status| !status.conditions.is_empty());
    if is_told || installation.is_deleting() {
        return Next::Rest;
    }
    let mut draft = Draft::of(installation, &moment.now);
    draft.status();
    status(draft)
}

/// Returns the first write of a job. It counts the following rendering as begun, so the count
/// survives a process that dies of the rendering.
fn start(tree: &mut Tree, installation: &Installation, draft: Draft<'_>, is_deleting: bool) -> Next {
    tree.forget_job();
    tree.asked_in.clone_from(&installation.metadata.resource_version);
    children::start(tree, installation);
    if is_deleting {
        return status(draft.start(Phase::InitDelete));
    }
    tree.begun = Some(installation.job().id.to_owned());
    status(draft.start(Phase::Init).rendering(Some(1)))
}

/// Interrupts the objects below first, so that the request survives a crash (`installations.md`
/// 3.2).
fn interrupt(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    let running = installation.job().is_running();
    if running {
        if tree.execution.is_unread() {
            return Next::Read(Read::Execution);
        }
        if let Some(read) = children::read(tree, installation) {
            return read;
        }
        // An object without the job would otherwise get the job after the interruption and run it.
        if matches!(installation.phase(), Phase::Progressing | Phase::Deleting)
            && let Some(step) = hand_down(tree, installation, moment)
        {
            return step;
        }
        let own = tree.execution.get().map(|execution| &execution.metadata);
        let told = |metadata: &groundwork_api::ObjectMeta| {
            annotation_of(metadata, annotation::OPERATION) == Some(operation::INTERRUPT)
        };
        let request = |metadata| MetadataPatch {
            annotations: vec![(annotation::OPERATION, Some(operation::INTERRUPT.to_owned()))],
            ..MetadataPatch::of(metadata)
        };
        if let Some(metadata) = own.filter(|metadata| !told(metadata)) {
            return execution::patch(request(metadata));
        }
        let unfinished =
            tree.children.present().filter(|child| child.job().finished != installation.job().id);
        let untold = unfinished.filter(|child| !told(&child.metadata));
        let writes = untold.map(|child| Write::Child(Change::Metadata(request(&child.metadata))));
        if let Some(step) = super::step::write_some(writes) {
            return step;
        }
    }
    patch(without_request(installation))
}

/// Returns the Execution if it belongs to the Installation, or takes part in its job after a
/// restored backup. An Execution that only has the same name belongs to another owner.
fn own_execution(tree: &Tree, installation: &Installation) -> Option<Arc<Execution>> {
    let execution = match &tree.execution {
        Known::Present(execution) => execution,
        Known::Absent | Known::Unread => return None,
    };
    let is_ours = match ownerless::of_execution(execution, installation) {
        Ownership::Own => true,
        Ownership::Left => !execution.is_deleting(),
        Ownership::Foreign => false,
    };
    is_ours.then(|| Arc::clone(execution))
}

/// Assigns the job of the Installation to its Execution, which begins in the same write; `None` if
/// the Execution has the job already.
fn give_job(
    tree: &mut Tree,
    execution: &Execution,
    installation: &Installation,
    moment: &Moment,
) -> Option<Write> {
    let id = installation.job().id;
    if execution.job().id == id {
        return None;
    }
    let metadata = &execution.metadata;
    let change = if annotation_of(metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        // The request to interrupt was meant for a finished job, so it must not end this one.
        let annotations = vec![(annotation::OPERATION, None)];
        Change::Metadata(MetadataPatch { annotations, ..MetadataPatch::of(metadata) })
    } else {
        Change::Status(execution::begun(tree, execution, id, &moment.now))
    };
    Some(Write::Execution(change))
}

/// Returns the writes that assign the job to the objects below; `None` if all of them have it.
fn hand_down(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Option<Next> {
    let execution = own_execution(tree, installation);
    let own = execution.as_ref().and_then(|execution| give_job(tree, execution, installation, moment));
    let below = tree.children.present().filter_map(|child| children::give_job(child, installation, moment));
    super::step::write_some(below.chain(own))
}

/// Ends the job without success.
fn fail(
    installation: &Installation,
    moment: &Moment,
    error: &OperationError,
    updates: &[ConditionUpdate],
) -> Next {
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    let is_deletion = installation.is_deleting() && installation.phase().is_of_deletion();
    let phase = if is_deletion { Phase::DeleteFailed } else { Phase::Failed };
    let updates = updates.iter().filter(|update| update.type_name != OVERWRITE_CONDITION);
    status(Draft::of(installation, &moment.now).finish(phase).conditions(updates).error(error, previous))
}

/// Writes a reason for the job's wait into the status without changing the phase; `None` if the
/// status shows it already.
fn tell(installation: &Installation, error: &OperationError, moment: &Moment) -> Option<Next> {
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    let draft = Draft::of(installation, &moment.now).error(error, previous).done();
    let is_told = draft.status == installation.status;
    (!is_told).then(|| write(Write::Installation(Change::Status(draft))))
}

/// Returns the write that reports a temporary error without changing the phase; `None` if the
/// status shows it already.
pub fn report(tree: &Tree, error: &OperationError, moment: &Moment) -> Option<Write> {
    match tell(tree.installation.get()?, error, moment)? {
        Next::Write(mut writes) => writes.pop(),
        _ => None,
    }
}

/// Returns the write that ends a job after the API server has permanently rejected one of its
/// writes.
pub(super) fn refused(tree: &mut Tree, reason: &Reason, cause: &str, moment: &Moment) -> Option<Write> {
    let installation = Arc::clone(match &tree.installation {
        Known::Present(installation) => installation,
        Known::Unread | Known::Absent => return None,
    });
    if !installation.job().is_running() {
        return None;
    }
    // Exports are written while the phase is `Progressing`: the job never waits in `Completing`.
    let step = if matches!(installation.phase(), Phase::Progressing | Phase::Completing) {
        let update = ConditionUpdate::new("CreateExports", false, reason.as_str(), cause);
        let error = OperationError::new(COMPLETING, Reason::CreateOrUpdateExports, cause);
        fail(&installation, moment, &error, &[update])
    } else {
        let (condition, step) = match reason {
            Reason::CreateOrUpdateExecution => ("ReconcileExecution", Reason::ReconcileExecution),
            Reason::InstallationCreatingFailed => ("EnsureSubInstallations", Reason::EnsureSubinstallations),
            _ => ("CreateImports", Reason::ConstructImports),
        };
        let update = ConditionUpdate::new(condition, false, reason.as_str(), cause);
        let error =
            OperationError::caused_by(INIT, Reason::CreateImportsAndSubobjects, (CREATE, &step), cause);
        // The step before the Execution has created the nested Installations.
        let done = (condition == "ReconcileExecution").then(init::nested_installed);
        let updates: Vec<ConditionUpdate> = done.into_iter().chain([update]).collect();
        fail(&installation, moment, &error, &updates)
    };
    only_write(with_dependents(tree, step))
}

/// Returns the write that ends a job because the service dies whenever it handles the object.
pub(super) fn set_aside(tree: &mut Tree, words: &str, moment: &Moment) -> Option<Write> {
    let Known::Present(installation) = &tree.installation else { return None };
    let installation = Arc::clone(installation);
    if !installation.job().is_running() {
        return None;
    }
    let step = fail(&installation, moment, &OperationError::set_aside(words), &[]);
    only_write(with_dependents(tree, step))
}

fn only_write(step: Next) -> Option<Write> {
    match step {
        Next::Write(mut writes) => writes.pop(),
        _ => None,
    }
}
