//! `InitDelete`, `TriggerDelete`, `Deleting` (`installations.md` 2.2, 8).

use groundwork_api::metadata::annotation;
use groundwork_api::{Execution, Installation, ResourceExt as _};

use super::{DELETING, children, fail, hand_down, own_execution, patch, siblings, status};
use crate::error::OperationError;
use crate::machine::causes;
use crate::machine::metadata::{is_set, without_finalizer};
use crate::machine::status::Draft;
use crate::machine::step::{Moment, Next, Read, write_some};
use crate::machine::tree::Tree;
use crate::objects;
use crate::phase::Phase;
use crate::protocol::{HasJob as _, Standing};
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

/// Deletes the Execution and all nested Installations.
pub(super) fn init(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if let Some(step) = siblings::check_successors(tree, installation, moment) {
        return step;
    }
    if let Some(step) = read_below(tree, installation) {
        return step;
    }
    let execution = own_execution(tree, installation);
    if execution.is_none() && tree.children.present().next().is_none() {
        return release(installation);
    }
    // Without its owner, an object would end without an uninstallation (`installations.md` 8.7).
    let own = execution.as_deref().and_then(|own| objects::taken_over(own, installation));
    let lost = tree.children.present().filter_map(|child| objects::taken_over(child, installation));
    let lost = lost.map(|child| Write::Child(Change::Replace(child)));
    if let Some(step) = write_some(lost.chain(own.map(|own| Write::Execution(Change::Replace(own))))) {
        return step;
    }
    if is_set(&installation.metadata, annotation::DELETE_WITHOUT_UNINSTALL) {
        let own =
            execution.as_ref().filter(|own| !is_set(&own.metadata, annotation::DELETE_WITHOUT_UNINSTALL));
        let own = own.map(|own| {
            let annotations = vec![(annotation::DELETE_WITHOUT_UNINSTALL, Some("true".to_owned()))];
            execution_patch(MetadataPatch { annotations, ..MetadataPatch::of(&own.metadata) })
        });
        let marks = tree
            .children
            .present()
            .filter_map(|child| children::annotated(child, annotation::DELETE_WITHOUT_UNINSTALL));
        if let Some(step) = write_some(marks.chain(own)) {
            return step;
        }
    }
    delete_below(tree, execution.as_deref()).unwrap_or_else(|| trigger(installation, moment))
}

/// Deletes the Execution and the nested Installations that are not being deleted yet.
fn delete_below(tree: &Tree, execution: Option<&Execution>) -> Option<Next> {
    let own = execution.filter(|own| !own.is_deleting());
    let own = own.map(|own| Write::Execution(Change::delete(&own.metadata)));
    let below = tree.children.present().filter(|child| !child.is_deleting());
    let below = below.map(|child| Write::Child(Change::delete(&child.metadata)));
    write_some(below.chain(own))
}

fn execution_patch(patch: MetadataPatch) -> Write {
    Write::Execution(Change::Metadata(patch))
}

/// Skips the phase `TriggerDelete`: objects below get the job in `Deleting`, the phase that waits
/// for them.
pub(super) fn trigger(installation: &Installation, moment: &Moment) -> Next {
    status(Draft::of(installation, &moment.now).phase(Phase::Deleting).waiting())
}

/// Waits until all objects below are gone, or until those that are left have failed.
pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if let Some(step) = read_below(tree, installation) {
        return step;
    }
    let execution = own_execution(tree, installation);
    // A delayed request of another replica may have created an object again after its deletion.
    if let Some(step) = delete_below(tree, execution.as_deref()) {
        return step;
    }
    if let Some(step) = hand_down(tree, installation, moment) {
        return step;
    }
    let id = installation.job().id;
    let standings: Vec<Standing> = tree
        .children
        .present()
        .map(|child| child.standing(id))
        .chain(execution.as_ref().map(|own| own.standing(id)))
        .collect();
    if standings.is_empty() {
        return release(installation);
    }
    if !standings.iter().all(|standing| matches!(standing, Standing::Failed | Standing::Succeeded)) {
        return Next::Rest;
    }
    let message = undeleted(tree, execution.as_deref());
    let error = OperationError::child(DELETING, Reason::UndeletedSubobjects, message);
    fail(installation, moment, &error, &[])
}

/// Returns the names of the objects that are left, and a cause.
fn undeleted(tree: &Tree, execution: Option<&Execution>) -> String {
    let cause = execution.and_then(causes::of_execution);
    let children: Vec<_> = tree.children.present().map(|child| (child.name_any(), Some(child))).collect();
    let subinstallations = (!children.is_empty()).then(|| causes::of_children(&children));
    match (execution, subinstallations, cause) {
        (Some(_), None, None) => "the execution could not be deleted".to_owned(),
        (Some(_), None, Some(cause)) => format!("the execution could not be deleted: {cause}"),
        (Some(_), Some(below), None) => {
            format!("the execution and subinstallations could not be deleted: {below}")
        }
        (Some(_), Some(below), Some(cause)) => {
            format!(
                "the execution and subinstallations could not be deleted: {below}; the execution: {cause}"
            )
        }
        (None, below, _) => {
            format!("subinstallations could not be deleted: {}", below.unwrap_or_default())
        }
    }
}

fn read_below(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    if tree.execution.is_unread() {
        return Some(Next::Read(Read::Execution));
    }
    children::read(tree, installation)
}

/// Removes the finalizer after all objects below are gone. Finalizers of other controllers may keep
/// the Installation for a while.
fn release(installation: &Installation) -> Next {
    patch(without_finalizer(&installation.metadata))
}
