//! `InitDelete`, `TriggerDelete`, `Deleting` (2.2, 8).

use groundwork_api::Installation;
use groundwork_api::metadata::annotation;

use super::{DELETING, children, fail, hand_down, own_execution, patch, siblings, status};
use crate::error::OperationError;
use crate::machine::metadata::{is_set, without_finalizer};
use crate::machine::phase::Phase;
use crate::machine::protocol::{HasJob as _, Standing};
use crate::machine::status::Draft;
use crate::machine::step::{Change, MetadataPatch, Moment, Next, Read, Write, write_some};
use crate::machine::tree::Tree;
use crate::reason::Reason;

/// Asks for the deletion of all that is below.
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
    let own = execution.filter(|own| !own.is_deleting());
    let own = own.map(|own| Write::Execution(Change::delete(&own.metadata)));
    let below = tree.children.present().filter(|child| !child.is_deleting());
    let below = below.map(|child| Write::Child(Change::delete(&child.metadata)));
    if let Some(step) = write_some(below.chain(own)) {
        return step;
    }
    trigger(installation, moment)
}

fn execution_patch(patch: MetadataPatch) -> Write {
    Write::Execution(Change::Metadata(patch))
}

/// Nobody waits in `TriggerDelete`: what is below is given the job in the phase that waits for it.
pub(super) fn trigger(installation: &Installation, moment: &Moment) -> Next {
    status(Draft::of(installation, &moment.now).phase(Phase::Deleting).waiting())
}

/// Waits until nothing is left, or only what has failed.
pub(super) fn next(tree: &mut Tree, installation: &Installation, moment: &Moment) -> Next {
    if let Some(step) = read_below(tree, installation) {
        return step;
    }
    let execution = own_execution(tree, installation);
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
    let message = match (execution.is_some(), tree.children.present().next().is_some()) {
        (true, false) => "the execution could not be deleted",
        (false, _) => "subinstallations could not be deleted",
        (true, true) => "the execution and subinstallations could not be deleted",
    };
    let error = OperationError::child(DELETING, Reason::UndeletedSubobjects, message);
    fail(installation, moment, &error, &[])
}

fn read_below(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    if tree.execution.is_unread() {
        return Some(Next::Read(Read::Execution));
    }
    children::read(tree, installation)
}

/// Nothing is left: the object goes, unless finalizers of others keep it a while longer.
fn release(installation: &Installation) -> Next {
    patch(without_finalizer(&installation.metadata))
}
