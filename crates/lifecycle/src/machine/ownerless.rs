//! Objects that are being deleted and whose owner is gone (`installations.md` 8.7). A request that was held up has created them after their owner
//! had gone, or somebody has taken the finalizer off their owner: garbage collection deletes them then. Jobs come from owners, so each gets
//! one of its own.

use groundwork_api::{DeployItem, Execution, Installation, Kind as _, ResourceExt as _};

use super::metadata::has_finalizer;
use super::protocol::{self, HasJob};
use super::step::{Change, Moment, Next, Read, Write, write_some};
use super::tree::{Known, Tree};
use crate::names::parent_name;

/// Whether an object waits for a job in which it may go. One whose deletion has failed waits for a person.
fn waits_for_job(object: &impl HasJob) -> bool {
    object.is_deleting()
        && has_finalizer(object.meta())
        && !object.job().is_running()
        && !object.phase().is_of_deletion()
}

/// Whether an Execution waits for the job of an Installation that is gone, or that is another one of the same name.
pub(super) fn is_execution(execution: &Execution, installation: &Known<Installation>) -> bool {
    let is_gone = match installation {
        Known::Unread => false,
        Known::Absent => true,
        Known::Present(installation) => {
            let owners = execution.owner_references().iter();
            let mut owners = owners.filter(|owner| owner.kind == Installation::KIND);
            owners.any(|owner| installation.metadata.uid.as_deref() != Some(owner.uid.as_str()))
        }
    };
    is_gone && waits_for_job(execution)
}

/// Whether a nested Installation waits for the job of a parent that is gone; `Err` is what has to be read before.
pub(super) fn is_child(installation: &Installation, tree: &Tree) -> Result<bool, Read> {
    let Some(parent) = parent_name(installation).filter(|_| waits_for_job(installation)) else {
        return Ok(false);
    };
    match tree.has_parent {
        None => Err(Read::Parent(parent.to_owned())),
        Some(has_parent) => Ok(!has_parent),
    }
}

/// Gives a job to items whose Execution is gone, as far as events have told of them.
pub(super) fn items(tree: &Tree, moment: &Moment) -> Next {
    if !matches!(tree.installation, Known::Absent) {
        return Next::Rest;
    }
    let unread: Vec<String> =
        tree.left_items.iter().filter(|name| tree.items.get(name).is_none()).cloned().collect();
    if !unread.is_empty() {
        return Next::Read(Read::Items(unread));
    }
    let named = tree.items.present().filter(|item| tree.left_items.contains(&item.name_any()));
    let trigger = |item: &DeployItem| {
        let mut item = item.clone();
        let status = item.status.get_or_insert_default();
        status.job_id = Some(moment.job_id.clone());
        status.job_id_generation_time = Some(moment.now.clone());
        status.transition_times = Some(protocol::triggered(&moment.now));
        Write::DeployItem(Change::Status(item))
    };
    write_some(named.filter(|item| waits_for_job(*item)).map(trigger)).unwrap_or(Next::Rest)
}
