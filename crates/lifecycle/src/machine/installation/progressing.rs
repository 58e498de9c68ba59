//! `Progressing`: waits for all objects below and collects their results (`installations.md` 2.2).

use groundwork_api::{Installation, ResourceExt};

use super::{children, completing, fail, hand_down, own_execution};
use crate::error::OperationError;
use crate::machine::causes;
use crate::machine::step::{Moment, Next, Read};
use crate::machine::tree::Tree;
use crate::protocol::{HasJob as _, Standing};
use crate::reason::Reason;

/// Returns the next step. A failed child does not stop the others, so the job waits for all of
/// them.
pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    let status_ = installation.status.as_ref();
    let expects_execution = status_.is_some_and(|status| status.execution_ref.is_some());
    let id = installation.job().id;
    if let Some(step) = children::read(tree, installation) {
        return step;
    }
    if tree.execution.is_unread() {
        return Next::Read(Read::Execution);
    }
    if let Some(step) = hand_down(tree, installation, moment) {
        return step;
    }
    let execution = own_execution(tree, installation);
    let execution_failed = match execution.as_ref().map(|execution| execution.standing(id)) {
        None => expects_execution,
        Some(Standing::Waiting | Standing::Running) => return Next::Rest,
        Some(Standing::Succeeded) => false,
        Some(Standing::Failed) => true,
    };
    let is_unfinished =
        |child: &Installation| matches!(child.standing(id), Standing::Waiting | Standing::Running);
    if tree.children.present().any(is_unfinished) {
        return Next::Rest;
    }
    let children = tree.children.present().filter(|child| child.standing(id) == Standing::Failed);
    let mut failed: Vec<_> = children.map(|child| (child.name_any(), Some(child))).collect();
    failed.extend(missing(tree, installation).into_iter().map(|name| (name, None)));
    if execution_failed || !failed.is_empty() {
        let mut parts = Vec::new();
        if !failed.is_empty() {
            parts.push(format!("Failed sub-installation(s): {}", causes::of_children(&failed)));
        }
        if execution_failed {
            let cause = execution.as_deref().and_then(causes::of_execution);
            parts.push(cause.map_or_else(
                || "Execution is failed".to_owned(),
                |cause| format!("Execution is failed: {cause}"),
            ));
        }
        let error =
            OperationError::child("buildErrorIfFailedChild", Reason::ChildrenFailed, parts.join("; "));
        return fail(installation, moment, &error, &[]);
    }
    // The phase `Completing` is never written: the exports are rendered at once, in the same step.
    completing::next(tree, installation, moment)
}

/// Returns the children that were removed by force, which count as failed.
fn missing(tree: &Tree, installation: &Installation) -> Vec<String> {
    let cache = installation.status.as_ref().and_then(|status| status.sub_inst_cache.as_ref());
    let active = cache.into_iter().flat_map(|cache| cache.active_subs.iter());
    let is_gone = |name: &&String| tree.children.get(name).is_none_or(|child| child.get().is_none());
    active.map(|pair| &pair.object_name).filter(is_gone).cloned().collect()
}
