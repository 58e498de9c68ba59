//! `ObjectsCreated`: deletes orphans before any other child gets the job (`installations.md` 2.2).

use groundwork_api::{Installation, List, ResourceExt};

use super::{children, fail, own_execution, status, tell};
use crate::error::OperationError;
use crate::machine::causes;
use crate::machine::status::Draft;
use crate::machine::step::{Moment, Next, Read, write_some};
use crate::machine::tree::Tree;
use crate::phase::Phase;
use crate::protocol::{HasJob as _, Standing};
use crate::reason::Reason;

pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if let Some(step) = children::read(tree, installation) {
        return step;
    }
    let orphans: Vec<&Installation> = tree.children.present().filter(|child| child.is_deleting()).collect();
    if !orphans.is_empty() {
        return wait_for_orphans(&orphans, installation, moment);
    }
    if tree.execution.is_unread() {
        return Next::Read(Read::Execution);
    }
    // The other children get the job in the next phase, which waits for them.
    let has_execution = own_execution(tree, installation).is_some();
    let mut draft = waiting(Draft::of(installation, &moment.now), tree, has_execution);
    if let Some(cache) = &mut draft.status().sub_inst_cache {
        cache.orphaned_subs = List::absent();
    }
    status(draft)
}

/// Waits for the deletion of orphans. No other child starts before they are gone.
fn wait_for_orphans(orphans: &[&Installation], installation: &Installation, moment: &Moment) -> Next {
    let jobs = orphans.iter().filter_map(|orphan| children::give_job(orphan, installation, moment));
    if let Some(step) = write_some(jobs) {
        return step;
    }
    let id = installation.job().id;
    if orphans.iter().all(|orphan| orphan.standing(id) == Standing::Failed) {
        let failed: Vec<_> = orphans.iter().map(|orphan| (orphan.name_any(), Some(*orphan))).collect();
        let message =
            format!("the deletion of orphaned subinstallations failed: {}", causes::of_children(&failed));
        let error = OperationError::child(
            "handlePhaseObjectsCreated",
            Reason::AllOrphanedSubinstallationsFailed,
            message,
        );
        return fail(installation, moment, &error, &[]);
    }
    let names: Vec<String> = orphans.iter().map(|orphan| orphan.name_any()).collect();
    let message = format!("orphaned subinstallations are still being deleted: {}", names.join(", "));
    let error =
        OperationError::waiting("handlePhaseObjectsCreated", Reason::OrphanedSubinstsStillDeleting, message);
    tell(installation, &error, moment).unwrap_or(Next::Rest)
}

/// Enters `Progressing` and names the unfinished objects in the same write. Landscaper needs
/// another write for that (`installations.md` 2.5, write 13).
pub(super) fn waiting<'m>(draft: Draft<'m>, tree: &Tree, has_execution: bool) -> Draft<'m> {
    let draft = draft.phase(Phase::Progressing).waiting();
    let names: Vec<String> = tree.children.present().map(ResourceExt::name_any).collect();
    match unfinished(&names, has_execution) {
        Some(error) => draft.error(&error, None),
        None => draft,
    }
}

/// Returns the status entry that names the unfinished objects, if there are any.
pub(super) fn unfinished(children: &[String], execution: bool) -> Option<OperationError> {
    let names = children.join(", ");
    let message = match (children.is_empty(), execution) {
        (true, true) => "the execution is not finished".to_owned(),
        (false, true) => format!("the execution and subinstallations are not finished: {names}"),
        (false, false) => format!("subinstallations are not finished: {names}"),
        (true, false) => return None,
    };
    Some(OperationError::waiting(super::PROGRESSING, Reason::JobIdFinished, message))
}
