//! `Init`: deletes old exports, waits for predecessors, renders, and writes the results
//! (`installations.md` 2.2).

use groundwork_api::{Installation, List, ObjectReference};
use groundwork_component::OVERWRITE_CONDITION;

use super::{CREATE, INIT, children, created, fail, give_job, siblings, status, tell, write_computed};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;
use crate::machine::causes;
use crate::machine::execution;
use crate::machine::ownerless;
use crate::machine::status::Draft;
use crate::machine::step::{MOST_WRITES, Moment, Next, Read, write, write_some};
use crate::machine::tree::{Known, StaleCopy, Tree};
use crate::ownership::Ownership;
use crate::phase::Phase;
use crate::prepare::{Prepared, Product};
use crate::protocol::HasJob;
use crate::reason::Reason;
use crate::write::{Change, Write};

pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if installation.is_deleting() {
        // The job has started no object below, so it ends here and the deletion begins.
        let error = OperationError::child(
            INIT,
            Reason::Deleting,
            "the installation was deleted before it was rendered",
        );
        return fail(installation, moment, &error, &[]);
    }
    if let Some(step) = delete_exports(tree, installation) {
        return step;
    }
    if let Some(step) = siblings::check_predecessors(tree, installation, moment) {
        return step;
    }
    if let Some(step) = count_attempt(tree, installation, moment) {
        return step;
    }
    let Some(prepared) = tree.prepared.take().filter(|prepared| fits(prepared, installation)) else {
        tree.prepared = None;
        tree.imports_hash = None;
        tree.copies_written = 0;
        return Next::Prepare;
    };
    let step = create_objects(tree, installation, &prepared, moment);
    if step != Next::Prepare {
        tree.prepared = Some(prepared);
    }
    step
}

/// Deletes exports of earlier jobs, once per job (`installations.md` 6.2). Therefore an existing
/// export always comes from the last job of its exporter, and no later job has begun.
fn delete_exports(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    let status_ = installation.status.as_ref();
    let is_first = status_.is_none_or(|status| status.job_id_finished.as_ref().is_none_or(String::is_empty));
    if is_first {
        return None;
    }
    let Some(exports) = &mut tree.own_exports else { return Some(Next::Read(Read::OwnExports)) };
    let some = exports.len().min(MOST_WRITES);
    write_some(exports.drain(..some).map(delete_copy))
}

pub(super) fn delete_copy(copy: StaleCopy) -> Write {
    let StaleCopy { is_target, name, uid, resource_version } = copy;
    let uid = Some(uid);
    if is_target {
        Write::Target(Change::Delete { name, uid, resource_version })
    } else {
        Write::DataObject(Change::Delete { name, uid, resource_version })
    }
}

/// Number of renderings that may kill their process before the job fails.
pub const MOST_ATTEMPTS: i64 = 3;

/// Counts a rendering that killed another process, before this process repeats it.
fn count_attempt(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Option<Next> {
    let id = installation.job().id;
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
        let error = OperationError::new(INIT, Reason::RenderingEndsProcess, message);
        return Some(fail(installation, moment, &error, &[]));
    }
    tree.begun = Some(id.to_owned());
    let draft = Draft::of(installation, &moment.now).rendering(Some(attempts + 1));
    if attempts == 0 {
        return Some(status(draft));
    }
    let message = format!(
        "the renderer ended while it rendered this installation; attempt {} of {MOST_ATTEMPTS}",
        attempts + 1
    );
    let error = OperationError::transient(INIT, Reason::RenderingEndsProcess, message);
    let previous = status_.and_then(|status| status.last_error.as_ref());
    Some(status(draft.error(&error, previous)))
}

/// Writes the rendered objects.
fn create_objects(
    tree: &mut Tree,
    installation: &Installation,
    prepared: &Prepared,
    moment: &Moment,
) -> Next {
    if let Some(step) = write_computed(tree, &prepared.products) {
        return step;
    }
    if let Some(error) = &prepared.error {
        return fail(installation, moment, error, &prepared.conditions);
    }
    if let Some(step) = children::ensure(tree, installation, prepared, moment) {
        return step;
    }
    if let Some(step) = ensure_execution(tree, installation, prepared, moment) {
        return step;
    }
    if let Some(step) = siblings::compare_predecessors(tree, installation) {
        return step;
    }
    if prepared.has_imports {
        match &tree.imports_hash {
            None => return Next::HashImports,
            Some(hash) if *hash != prepared.imports_hash => {
                // An import changed while its copies were written (`installations.md` 10.4), so the
                // pass starts again.
                tree.forget_pass();
                return Next::Prepare;
            }
            Some(_) => {}
        }
    }
    tree.imports_hash = None;
    tree.exports_nothing = (!prepared.has_exports).then(|| prepared.job_id.clone());
    status(objects_created(tree, installation, prepared, moment))
}

/// Builds the write that ends `Init`. Without orphans the job skips `ObjectsCreated`, and the
/// objects below get the job next.
fn objects_created<'m>(
    tree: &Tree,
    installation: &Installation,
    prepared: &Prepared,
    moment: &'m Moment,
) -> Draft<'m> {
    let execution = tree.execution.get().map(|execution| ObjectReference {
        name: execution.metadata.name.clone().unwrap_or_default(),
        namespace: execution.metadata.namespace.clone(),
    });
    let updates = prepared.conditions.iter().filter(|update| update.type_name != OVERWRITE_CONDITION);
    let has_orphans = tree.children.present().any(HasJob::is_deleting);
    let draft = Draft::of(installation, &moment.now);
    let draft = match has_orphans {
        true => draft.phase(Phase::ObjectsCreated),
        false => created::waiting(draft, tree, execution.is_some()),
    };
    let mut draft = draft
        .conditions(updates)
        .conditions(&created_conditions(prepared))
        .without(&prepared.obsolete_conditions);
    let status_ = draft.status();
    status_.execution_ref = execution;
    status_.imports_hash = Some(prepared.imports_hash.clone());
    status_.observed_generation = prepared.generation;
    status_.imports =
        if prepared.imports.is_empty() { List::absent() } else { prepared.imports.clone().into() };
    let (mut cache, references) = children::known(tree, prepared);
    if !has_orphans {
        cache.orphaned_subs = List::absent();
    }
    status_.sub_inst_cache = Some(cache);
    status_.installation_refs = if references.is_empty() { List::absent() } else { references.into() };
    draft
}

/// Reports whether a rendering belongs to the current spec and job of the object.
fn fits(prepared: &Prepared, installation: &Installation) -> bool {
    Some(prepared.generation) == installation.metadata.generation && prepared.job_id == installation.job().id
}

/// Returns the condition after the step that creates nested Installations, even if there are none.
pub(super) fn nested_installed() -> ConditionUpdate {
    let message = "All Installations are successfully applied";
    ConditionUpdate::new("EnsureSubInstallations", true, "InstallationsInstalled", message)
}

fn created_conditions(prepared: &Prepared) -> Vec<ConditionUpdate> {
    let mut updates = vec![nested_installed()];
    let is_copy = |product: &Product| matches!(product, Product::Copy(_));
    if prepared.products.iter().any(is_copy) {
        let message = "Import data successfully created";
        updates.push(ConditionUpdate::new("CreateImports", true, "ImportsCreated", message));
    }
    updates
}

/// Creates or updates the Execution, or empties it if the blueprint renders no items
/// (`installations.md` 6.2). `None` if the Execution matches.
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
        if !is_first || prepared.execution.is_none() {
            return Some(Next::Read(Read::Execution));
        }
        // The Execution cannot exist yet. If it does, its creation fails and reveals it.
        tree.execution = Known::Absent;
    }
    let wanted = prepared.execution.as_ref();
    let Some(found) = tree.execution.get() else {
        return wanted.map(|execution| write(Write::Execution(Change::Create(execution.clone()))));
    };
    // The step before has created the nested Installations.
    let so_far = |prepared: &Prepared| [prepared.conditions.clone(), created_conditions(prepared)].concat();
    match ownerless::of_execution(found, installation) {
        Ownership::Foreign => {
            let name = found.metadata.name.as_deref().unwrap_or_default();
            let cause = format!(
                "the execution {name} already exists and belongs to another owner; delete or rename it"
            );
            let error = OperationError::caused_by(
                INIT,
                Reason::CreateImportsAndSubobjects,
                (CREATE, &Reason::ReconcileExecution),
                cause,
            );
            return Some(fail(installation, moment, &error, &so_far(prepared)));
        }
        Ownership::Left if found.is_deleting() => {
            let message =
                "an execution of a former installation of this name is ending; the job continues after that";
            let error = OperationError::waiting(INIT, Reason::OwnerGone, message);
            return Some(tell(installation, &error, moment).unwrap_or(Next::Rest));
        }
        Ownership::Left | Ownership::Own => {}
    }
    if found.is_deleting() {
        // A user deleted the Execution (`installations.md` 8.6): this job finishes the deletion,
        // then a new Execution is created.
        if found.job().finished == installation.job().id {
            let mut cause = "the execution is being deleted, and that failed".to_owned();
            if let Some(below) = causes::of_execution(found) {
                cause = format!("{cause}: {below}");
            }
            let error = OperationError::caused_by(
                INIT,
                Reason::CreateImportsAndSubobjects,
                (CREATE, &Reason::ReconcileExecution),
                cause,
            );
            return Some(fail(installation, moment, &error, &so_far(prepared)));
        }
        let found = found.clone();
        return Some(give_job(tree, &found, installation, moment).map_or(Next::Rest, write));
    }
    let updated = execution::updated(found, installation, wanted)?;
    Some(write(Write::Execution(Change::Replace(updated))))
}
