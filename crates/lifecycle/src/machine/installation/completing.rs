//! `Completing`: collects, checks and writes exports (`installations.md` 2.2, 6.1).

use groundwork_api::Installation;

use super::init::delete_copy;
use super::{COMPLETING, children, fail, siblings, status, write_computed};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;
use crate::machine::status::Draft;
use crate::machine::step::{MOST_WRITES, Moment, Next, Read, write_some};
use crate::machine::tree::Tree;
use crate::phase::Phase;
use crate::prepare::{Completion, VALIDATE_EXPORT};
use crate::protocol::HasJob as _;
use crate::reason::Reason;

pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if let Some(step) = delete_stale_copies(tree, installation) {
        return step;
    }
    if let Some(error) = siblings::check_again(tree, installation) {
        return match error {
            Ok(read) => read,
            Err(error) => fail(installation, moment, &error, &[]),
        };
    }
    let exports_nothing = tree.exports_nothing.as_deref() == Some(installation.job().id);
    let completion = tree.completion.take().filter(|completion| fits(completion, installation));
    let hash = completion.as_ref().map(|completion| &completion.imports_hash).or(tree.imports_hash.as_ref());
    if let Some(hash) = hash.filter(|hash| !hash.is_empty())
        && let Some(error) = changed(installation, hash)
    {
        return fail(installation, moment, &error, &[]);
    }
    if installation.metadata.generation
        != Some(installation.status.as_ref().map_or(0, |status| status.observed_generation))
    {
        let message = "the spec has changed since the job began; start it again";
        let error = OperationError::new(COMPLETING, Reason::CheckObservedGeneration, message);
        return fail(installation, moment, &error, &[]);
    }
    match completion {
        Some(completion) => {
            let step = write_exports(tree, installation, &completion, moment);
            tree.completion = Some(completion);
            step
        }
        None if exports_nothing && (tree.imports_hash.is_some() || !has_imports(installation)) => {
            succeeded(installation, None, moment)
        }
        None if exports_nothing => Next::HashImports,
        None if tree.execution.is_unread() => Next::Read(Read::Execution),
        // The children must be known first: they export into the scope that is read next.
        None => children::read(tree, installation).unwrap_or_else(|| {
            tree.copies_written = 0;
            Next::Complete
        }),
    }
}

fn has_imports(installation: &Installation) -> bool {
    !installation.spec.data_imports().is_empty() || !installation.spec.target_imports().is_empty()
}

/// Reports whether rendered exports belong to the current spec and job of the object.
fn fits(completion: &Completion, installation: &Installation) -> bool {
    Some(completion.generation) == installation.metadata.generation
        && completion.job_id == installation.job().id
}

/// Deletes the copies that renamed and removed imports leave behind.
fn delete_stale_copies(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    let had_job = installation.status.as_ref().is_some_and(|status| status.job_id_finished.is_some());
    if !has_imports(installation) && !had_job {
        return None;
    }
    let Some(copies) = &mut tree.stale_copies else { return Some(Next::Read(Read::StaleCopies)) };
    let some = copies.len().min(MOST_WRITES);
    write_some(copies.drain(..some).map(delete_copy))
}

/// Returns an error if the imports have changed, because the objects below may have run with the
/// old values.
fn changed(installation: &Installation, hash: &str) -> Option<OperationError> {
    let before = installation.status.as_ref().and_then(|status| status.imports_hash.as_deref());
    (before != Some(hash)).then(|| {
        let message = "the imports have changed since the job began; start it again";
        OperationError::new(COMPLETING, Reason::CheckImportsHash, message)
    })
}

/// Writes states, then exports, then the end of the job.
fn write_exports(
    tree: &mut Tree,
    installation: &Installation,
    completion: &Completion,
    moment: &Moment,
) -> Next {
    if let Some(step) = write_computed(tree, &completion.products) {
        return step;
    }
    if let Some(error) = &completion.error {
        return fail(installation, moment, error, &[]);
    }
    succeeded(installation, completion.valueless_exports.as_ref(), moment)
}

/// Ends the job. As in Landscaper, the condition is set even if there is nothing to export.
fn succeeded(installation: &Installation, valueless: Option<&ConditionUpdate>, moment: &Moment) -> Next {
    let message = "Exports successfully created";
    let created = ConditionUpdate::new("CreateExports", true, "DataObjectsCreated", message);
    let draft = Draft::of(installation, &moment.now).finish(Phase::Succeeded).conditions([&created]);
    status(match valueless {
        Some(update) => draft.conditions([update]),
        None => draft.without(&[VALIDATE_EXPORT.into()]),
    })
}
