//! Siblings of an Installation: predecessors, successors and dependents to trigger
//! (`installations.md` 5.2, 5.3, 5.5, 5.6, 8.2).

use std::collections::BTreeSet;

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{ErrorCode, Installation, LastError, List};

use super::{COMPLETING, fail, status, tell};
use crate::error::OperationError;
use crate::machine::metadata::is_set;
use crate::machine::status::Draft;
use crate::machine::step::{Moment, Next, Predecessors, Read, Sibling, write_some};
use crate::machine::tree::Tree;
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::reason::Reason;
use crate::siblings::{DataKind, Interface};
use crate::validate::is_root;
use crate::write::{MetadataPatch, Write};

const OPERATION: &str = "init";
const GUARD: &str = "CheckSuccessorSibling";
/// Operation and reason that Landscaper puts in front of messages about predecessors.
const NOT_COMPLETED: &str = "Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: ";
/// Start of the message before the names of unfinished predecessors, which [`awaited`] parses.
const UNFINISHED: &str =
    "Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: predecessors are not finished: ";
const STILL_IMPORTING: &str = "a sibling still imports some of the exports: ";

/// Siblings that a job waits for, read from its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited<'a> {
    /// Unfinished siblings whose exports the Installation imports.
    Predecessors(Vec<&'a str>),
    /// Siblings that import the Installation's exports and must be deleted first.
    Successors(Vec<&'a str>),
}

/// Reads the names of the awaited siblings from a `lastError`.
pub(crate) fn awaited(error: &LastError) -> Option<Awaited<'_>> {
    let names = |words| Some(error.message.strip_prefix(words)?.split(", ").collect());
    match error.operation.as_str() {
        OPERATION => names(UNFINISHED).map(Awaited::Predecessors),
        GUARD => names(STILL_IMPORTING).map(Awaited::Successors),
        _ => None,
    }
}

/// Result of checks 1 and 2 of `installations.md` 5.3 for the predecessors.
enum Verdict {
    Good,
    /// Names of the unfinished predecessors.
    Unfinished(Vec<String>),
    Bad(OperationError),
}

fn judge(predecessors: &Predecessors, installation: &Installation) -> Verdict {
    if let Some(cycle) = &predecessors.cycle {
        let message = format!("the installations have a cycle: {}", cycle.join(" -{depends_on}-> "));
        let mut error = OperationError::new(OPERATION, Reason::CyclicDependencies, message);
        error.codes = vec![ErrorCode::CyclicDependencies];
        return Verdict::Bad(error);
    }
    if let Some(((kind, name), exporters)) = predecessors.ambiguous.first_key_value() {
        let kind = match kind {
            DataKind::Data => "data",
            DataKind::Target => "target",
        };
        let exporters = exporters.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!(
            "the {kind} {name:?}, which is imported, is exported by several installations: {exporters}; only one may \
             export it"
        );
        return Verdict::Bad(OperationError::new(OPERATION, Reason::AmbiguousPredecessors, message));
    }
    let is_root = is_root(installation);
    let id = installation.job().id;
    let is_finished = |sibling: &&Sibling| {
        if is_root {
            !sibling.requests_job && sibling.job_id == sibling.job_id_finished
        } else {
            sibling.job_id_finished == id
        }
    };
    let names = |siblings: Vec<&Sibling>| -> Vec<String> {
        siblings.into_iter().map(|sibling| sibling.name.clone()).collect()
    };
    let (finished, unfinished): (Vec<&Sibling>, Vec<&Sibling>) =
        predecessors.found.iter().partition(is_finished);
    if !unfinished.is_empty() {
        return Verdict::Unfinished(names(unfinished));
    }
    let failed: Vec<&Sibling> =
        finished.into_iter().filter(|sibling| sibling.phase != Phase::Succeeded).collect();
    if failed.is_empty() {
        return Verdict::Good;
    }
    let message = format!("{NOT_COMPLETED}predecessors have not succeeded: {}", names(failed).join(", "));
    Verdict::Bad(OperationError::new(OPERATION, Reason::AllPredecessorsSucceeded, message))
}

fn imports_from_siblings(installation: &Installation) -> bool {
    !Interface::of(&installation.spec).imports.is_empty()
}

fn not_finished(names: &[String]) -> OperationError {
    let message = format!("{UNFINISHED}{}", names.join(", "));
    OperationError::waiting(OPERATION, Reason::AllPredecessorsFinished, message)
}

/// Returns the step of an `Init` that siblings hold up; `None` if no sibling does.
pub(super) fn check_predecessors(
    tree: &mut Tree,
    installation: &Installation,
    moment: &Moment,
) -> Option<Next> {
    if tree.sampled.is_some() || !imports_from_siblings(installation) {
        return None;
    }
    let Some(predecessors) = tree.predecessors.take() else { return Some(Next::Read(Read::Predecessors)) };
    match judge(&predecessors, installation) {
        Verdict::Good => {
            tree.sampled = Some(predecessors);
            None
        }
        Verdict::Bad(error) => Some(fail(installation, moment, &error, &[])),
        Verdict::Unfinished(names) => {
            // A wait is not an attempt to render: it may last longer than several processes, which
            // would use up the attempts.
            tree.begun = None;
            let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
            let draft = Draft::of(installation, &moment.now).rendering(None);
            let told = draft.error(&not_finished(&names), previous).done();
            if told.status == installation.status {
                return Some(Next::Wait);
            }
            // The next check follows at once, and may find more unfinished siblings.
            Some(super::write(Write::Installation(crate::write::Change::Status(told))))
        }
    }
}

/// Compares the predecessors and their jobs with those at the start of the pass (`installations.md`
/// 10.4), and repeats the pass after a change. `None` if they are equal.
pub(super) fn compare_predecessors(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    // Predecessors of a child cannot start another job: all children share the job of their parent.
    let sampled = tree.sampled.as_ref().filter(|sampled| !sampled.found.is_empty())?;
    if !is_root(installation) {
        return None;
    }
    let Some(now) = &tree.predecessors else { return Some(Next::Read(Read::Predecessors)) };
    let jobs = |predecessors: &Predecessors| -> BTreeSet<(String, String)> {
        let found = predecessors.found.iter();
        found.map(|sibling| (sibling.name.clone(), sibling.job_id.clone())).collect()
    };
    if jobs(sampled) == jobs(now) {
        return None;
    }
    tree.forget_pass();
    Some(Next::Read(Read::Predecessors))
}

/// Repeats the checks at the end of the job, where the job no longer waits (`installations.md`
/// 5.3). `None` if they pass.
pub(super) fn check_again(
    tree: &mut Tree,
    installation: &Installation,
) -> Option<Result<Next, OperationError>> {
    // All children share the job of their parent. The predecessors of a child have finished it, and
    // get another one only after it ends.
    if !is_root(installation) || !imports_from_siblings(installation) {
        return None;
    }
    let Some(predecessors) = &tree.predecessors else { return Some(Ok(Next::Read(Read::Predecessors))) };
    match judge(predecessors, installation) {
        Verdict::Good => None,
        Verdict::Bad(error) => Some(Err(error)),
        Verdict::Unfinished(names) => {
            let message = format!(
                "predecessors have started another job since this job began: {}; this job starts again when they are \
                 finished",
                names.join(", ")
            );
            Some(Err(OperationError::new(COMPLETING, Reason::AllPredecessorsFinished, message)))
        }
    }
}

/// Reports whether the end of an Installation's job triggers other Installations. Children share
/// the job of their parent, so they trigger no one.
pub(super) fn has_dependents(installation: &Installation) -> bool {
    is_root(installation)
        && !installation.is_deleting()
        && !Interface::of(&installation.spec).exports.is_empty()
}

/// Triggers the dependents whose predecessor has finished, then clears the list (`installations.md`
/// 5.6). After a crash in between, all of them are triggered again.
pub(super) fn trigger_dependents(
    tree: &mut Tree,
    installation: &Installation,
    moment: &Moment,
) -> Option<Next> {
    let list = installation.status.as_ref().map(|status| &status.dependents_to_trigger)?;
    if list.is_empty() {
        return None;
    }
    let patch = |name: &str| MetadataPatch {
        name: name.to_owned(),
        annotations: vec![
            (annotation::OPERATION, Some(operation::RECONCILE.to_owned())),
            (annotation::RECONCILE_REASON, None),
        ],
        ..MetadataPatch::default()
    };
    let left = list.iter().skip(tree.triggered).map(|dependent| Write::Sibling(patch(&dependent.name)));
    if let Some(step) = write_some(left) {
        tree.triggered += if let Next::Write(writes) = &step { writes.len() } else { 0 };
        return Some(step);
    }
    tree.triggered = 0;
    let mut draft = Draft::of(installation, &moment.now);
    draft.status().dependents_to_trigger = List::absent();
    Some(status(draft))
}

/// Stops a deletion while other Installations import the exports (`installations.md` 8.2). `None`
/// if the deletion may proceed.
pub(super) fn check_successors(
    tree: &mut Tree,
    installation: &Installation,
    moment: &Moment,
) -> Option<Next> {
    if is_set(&installation.metadata, annotation::DELETE_IGNORE_SUCCESSORS)
        || Interface::of(&installation.spec).exports.is_empty()
    {
        return None;
    }
    let Some(successors) = tree.successors.take() else { return Some(Next::Read(Read::Successors)) };
    if successors.is_empty() {
        // No sibling imports the exports any more. The empty list spares this phase further reads.
        tree.successors = Some(successors);
        return None;
    }
    let id = installation.job().id;
    let has_failed =
        |sibling: &&Sibling| sibling.job_id_finished == id && sibling.phase == Phase::DeleteFailed;
    let (failed, others): (Vec<&Sibling>, Vec<&Sibling>) = successors.iter().partition(has_failed);
    let names = |siblings: &[&Sibling]| {
        siblings.iter().map(|sibling| sibling.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if others.is_empty() {
        let message = format!("deletion of a sibling failed: {}", names(&failed));
        let error = OperationError::child(GUARD, Reason::SiblingDeleteError, message);
        return Some(fail(installation, moment, &error, &[]));
    }
    let message = format!("{STILL_IMPORTING}{}", names(&others));
    let error = OperationError::waiting(GUARD, Reason::SiblingImport, message);
    Some(tell(installation, &error, moment).unwrap_or(Next::Wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_found_in_what_a_status_says() {
        let said = |error: &OperationError| {
            error.to_last_error(None, &groundwork_api::Time(jiff::Timestamp::UNIX_EPOCH))
        };
        let predecessors = said(&not_finished(&["cache".to_owned(), "db".to_owned()]));
        assert_eq!(awaited(&predecessors), Some(Awaited::Predecessors(vec!["cache", "db"])));
        let successors =
            OperationError::waiting(GUARD, Reason::SiblingImport, format!("{STILL_IMPORTING}web"));
        assert_eq!(awaited(&said(&successors)), Some(Awaited::Successors(vec!["web"])));
        let other = OperationError::transient(OPERATION, Reason::Resolve, "the resolver cannot be asked");
        assert_eq!(awaited(&said(&other)), None);
    }
}
