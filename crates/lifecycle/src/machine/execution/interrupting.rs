//! End of items' jobs by the renderer in place of their deployers (`installations.md` 3.2, 7.6).

use groundwork_api::metadata::annotation;
use groundwork_api::{DeployItem, ErrorCode, Execution, Time};

use super::{patch, read_items};
use crate::deployer::{end, record};
use crate::error::OperationError;
use crate::machine::items::waiting_since;
use crate::machine::step::{MOST_WRITES, Moment, Next, Read, write_some};
use crate::machine::tree::Tree;
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

/// Operation in the errors of interrupted items, as Landscaper names it.
const INTERRUPT: &str = "InterruptOperation";

/// Ends the jobs of items that no deployer has picked up in time (`installations.md` 7.6).
pub(super) fn expire_items(tree: &Tree, id: &str, moment: &Moment) -> Option<Next> {
    let timeout = moment.pickup_timeout?;
    let is_late = |item: &&DeployItem| {
        let since = waiting_since(item);
        item.job().id == id && since.is_some_and(|since| moment.now.0.duration_since(since) >= timeout)
    };
    let late: Vec<&DeployItem> = tree.items.present().filter(is_late).take(MOST_WRITES).collect();
    let target = |item: &&DeployItem| item.spec.target.as_ref().map(|target| target.name.clone());
    if let Some(name) = late.iter().filter_map(target).find(|name| !tree.targets.contains_key(name)) {
        return Some(Next::Read(Read::Target(name)));
    }
    let expire = |item: &DeployItem| {
        let mut message =
            format!("no deployer has reconciled this deployitem within {} seconds", timeout.as_secs());
        if let Some(name) = target(&item).filter(|name| tree.targets.get(name) == Some(&false)) {
            message.push_str(&format!("; its target {name} does not exist"));
        }
        let error = OperationError {
            operation: "WaitingForPickup".into(),
            reason: Reason::PickupTimeout,
            message,
            codes: vec![ErrorCode::Timeout],
        };
        let mut item = item.clone();
        let is_deleting = item.metadata.deletion_timestamp.is_some();
        let generation = item.metadata.generation.unwrap_or_default();
        let status = item.status.get_or_insert_default();
        status.observed_generation = generation;
        end_item(status, is_deleting, &error, &moment.now);
        Write::DeployItem(Change::Status(item))
    };
    write_some(late.into_iter().map(expire))
}

/// Ends the job of an item in place of its deployer.
fn end_item(
    status: &mut groundwork_api::DeployItemStatus,
    is_deleting: bool,
    error: &OperationError,
    now: &Time,
) {
    record(status, error, now);
    let phase = if is_deleting { Phase::DeleteFailed } else { Phase::Failed };
    end(status, phase, now);
}

/// Ends every unfinished item of the job, then removes the request (`installations.md` 3.2).
pub(super) fn interrupt(tree: &mut Tree, execution: &Execution, moment: &Moment) -> Next {
    if let Some(step) = read_items(tree, execution) {
        return step;
    }
    let id = execution.job().id;
    let unfinished = |item: &&DeployItem| item.job().finished != id;
    let end = |item: &DeployItem| {
        let mut item = item.clone();
        let is_deleting = item.metadata.deletion_timestamp.is_some();
        let error = OperationError::child(INTERRUPT, Reason::InterruptOperation, "the job was interrupted");
        let status = item.status.get_or_insert_default();
        status.job_id = Some(id.to_owned());
        end_item(status, is_deleting, &error, &moment.now);
        Write::DeployItem(Change::Status(item))
    };
    if execution.job().is_running()
        && let Some(step) = write_some(tree.items.present().filter(unfinished).map(end))
    {
        return step;
    }
    let annotations = vec![(annotation::OPERATION, None)];
    patch(MetadataPatch { annotations, ..MetadataPatch::of(&execution.metadata) })
}
