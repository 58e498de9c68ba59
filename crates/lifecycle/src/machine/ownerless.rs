//! Objects that are being deleted and whose owner is gone (`installations.md` 8.7).
//!
//! This happens if a backup is restored with the UIDs of former owners, if a user removes the
//! finalizer of an owner, or if a delayed request creates an object after its owner is gone.
//! Garbage collection then deletes the objects. They end without a job of their owner, and nothing
//! is uninstalled: after a restore, the objects in the target belong to the owner that has
//! returned.

use groundwork_api::metadata::annotation;
use groundwork_api::{Execution, Installation};

use super::children::Child as _;
use super::metadata::{has_finalizer, is_set, without_finalizer};
use super::step::{Next, Read, write_some};
use super::tree::{Known, Tree};
use crate::error::OperationError;
use crate::names::parent_name;
use crate::ownership::{Ownership, ownership};
use crate::protocol::HasJob;
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

/// Reports whether an object needs a job for its deletion. An object whose deletion has failed
/// waits for a user.
fn waits_for_job(object: &impl HasJob) -> bool {
    object.is_deleting()
        && has_finalizer(object.meta())
        && !object.job().is_running()
        && !object.phase().is_of_deletion()
}

/// Returns the entry in `status.lastError` of an object that ends because its owner is gone.
pub(super) fn owner_gone(operation: &'static str, owner: &str) -> OperationError {
    let message = format!(
        "the installation {owner} that owned this object is gone; the object ends, and everything in the target stays"
    );
    OperationError::child(operation, Reason::OwnerGone, message)
}

/// Returns the relation of an Execution to the Installation of its name. Executions have no label
/// that names their owner, so one without owner is ours only if it has our finalizer.
pub(super) fn of_execution(execution: &Execution, installation: &Installation) -> Ownership {
    let metadata = &execution.metadata;
    let has_controller =
        metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    match ownership(metadata, installation) {
        Ownership::Left if !has_controller && !has_finalizer(metadata) => Ownership::Foreign,
        relation => relation,
    }
}

/// Reports whether an Execution is being deleted whose Installation is gone, or has returned under
/// another UID.
pub(super) fn is_execution(execution: &Execution, installation: &Known<Installation>) -> bool {
    let is_left = match installation {
        Known::Unread => false,
        Known::Absent => true,
        Known::Present(installation) => of_execution(execution, installation) == Ownership::Left,
    };
    is_left && execution.is_deleting() && has_finalizer(&execution.metadata)
}

/// Reports whether a nested Installation waits for the job of a parent that is gone. `Err` is the
/// read that the answer needs first.
pub(super) fn is_child(installation: &Installation, tree: &Tree) -> Result<bool, Read> {
    match waits_for_job(installation) {
        true => has_no_parent(installation, tree),
        false => Ok(false),
    }
}

fn has_no_parent(installation: &Installation, tree: &Tree) -> Result<bool, Read> {
    let Some(parent) = parent_name(installation) else { return Ok(false) };
    match tree.has_parent {
        None => Err(Read::Parent(parent.to_owned())),
        Some(has_parent) => Ok(!has_parent),
    }
}

/// Returns the step that keeps the deletion of a nested Installation without a parent from
/// uninstalling anything; `None` if there is nothing to do.
pub(super) fn spare(installation: &Installation, tree: &Tree) -> Option<Next> {
    let metadata = &installation.metadata;
    let marks = [annotation::DELETE_WITHOUT_UNINSTALL, annotation::DELETE_IGNORE_SUCCESSORS];
    let missing: Vec<_> = marks.into_iter().filter(|mark| !is_set(metadata, mark)).collect();
    // The marks have no effect later (`installations.md` 8.4).
    if missing.is_empty() || !installation.is_deleting() || installation.phase().is_of_deletion() {
        return None;
    }
    match has_no_parent(installation, tree) {
        Err(read) => Some(Next::Read(read)),
        Ok(false) => None,
        Ok(true) => {
            let annotations = missing.into_iter().map(|mark| (mark, Some("true".to_owned()))).collect();
            let patch = MetadataPatch { annotations, ..MetadataPatch::of(metadata) };
            Some(super::step::write(Write::Installation(Change::Metadata(patch))))
        }
    }
}

/// Releases items that are being deleted and whose Execution is gone, or has returned under another
/// UID. `None` if there are none.
pub(super) fn items(tree: &Tree, execution: Option<&Execution>) -> Option<Next> {
    let is_left = |metadata| execution.is_none_or(|owner| ownership(metadata, owner) == Ownership::Left);
    let left = tree.items.present().filter(|item| {
        item.is_deleting()
            && item.template().is_some()
            && has_finalizer(&item.metadata)
            && !item.job().is_running()
            && is_left(&item.metadata)
    });
    write_some(left.map(|item| Write::DeployItem(Change::Metadata(without_finalizer(&item.metadata)))))
}
