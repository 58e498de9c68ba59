//! Objects that are being deleted and whose owner is gone (`installations.md` 8.7).
//!
//! This happens if a delayed request creates an object after its owner is gone, or if a user
//! removes the finalizer of the owner. Garbage collection then deletes the objects. Jobs normally
//! come from owners, so each of these objects gets a job of its own.

use groundwork_api::{Execution, Installation};

use super::metadata::has_finalizer;
use super::step::{Moment, Next, Read, write_some};
use super::tree::{Known, Tree};
use crate::names::parent_name;
use crate::protocol::{self, HasJob};
use crate::write::{Change, Write};

/// Reports whether an object needs a job for its deletion. An object whose deletion has failed
/// waits for a user.
fn waits_for_job(object: &impl HasJob) -> bool {
    object.is_deleting()
        && has_finalizer(object.meta())
        && !object.job().is_running()
        && !object.phase().is_of_deletion()
}

/// Reports whether an Execution waits for the job of an Installation that is gone.
pub(super) fn is_execution(execution: &Execution, installation: &Known<Installation>) -> bool {
    matches!(installation, Known::Absent) && waits_for_job(execution)
}

/// Reports whether a nested Installation waits for the job of a parent that is gone. `Err` is the
/// read that the answer needs first.
pub(super) fn is_child(installation: &Installation, tree: &Tree) -> Result<bool, Read> {
    let Some(parent) = parent_name(installation).filter(|_| waits_for_job(installation)) else {
        return Ok(false);
    };
    match tree.has_parent {
        None => Err(Read::Parent(parent.to_owned())),
        Some(has_parent) => Ok(!has_parent),
    }
}

/// Assigns a job to items whose Execution is gone.
pub(super) fn items(tree: &Tree, moment: &Moment) -> Next {
    if !matches!(tree.installation, Known::Absent) || !tree.looks_for_left_items {
        return Next::Rest;
    }
    if !tree.items.is_complete() {
        return Next::Read(Read::ListItems);
    }
    let left = tree.items.present().filter(|item| waits_for_job(*item));
    let given = left.map(|item| protocol::with_job(item, &moment.job_id, &moment.now));
    write_some(given.map(|item| Write::DeployItem(Change::Status(item)))).unwrap_or(Next::Rest)
}
