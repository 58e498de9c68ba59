//! Waits of Executions and their items.

use groundwork_api::metadata::{FINALIZER, annotation, label, operation};
use groundwork_api::{DeployItem, Execution, ResourceExt as _};
use jiff::Timestamp;

use super::{Cause, Clock, Found, ITEM, LONGEST_BACKOFF, LONGEST_LOOK, Look, OWNED, PICKUP_MARGIN, Reach};
use super::{WORK_LOOK, below, counted, held, retried, time};
use crate::deployer::waiting_of;
use crate::phase::Phase;
use crate::protocol::HasJob;

/// Wait of an object with the annotation `ignore`.
pub(super) const IGNORED: &str = "a user to remove the annotation landscaper.gardener.cloud/ignore";

/// Execution of an item, with all its items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) execution: &'a Execution,
    pub(crate) items: &'a [&'a DeployItem],
}

pub(super) fn is_ignored(object: &impl HasJob) -> bool {
    object.annotations().get(annotation::IGNORE).is_some_and(|value| value == "true")
}

pub(super) fn has_finalizer(object: &impl HasJob) -> bool {
    object.finalizers().iter().any(|name| name == FINALIZER)
}

pub(super) fn deleted_at(object: &impl HasJob) -> Option<Timestamp> {
    time(object.meta().deletion_timestamp.as_ref())
}

/// Returns the name of an item in the blueprint, or its object name.
pub(crate) fn item_name(item: &DeployItem) -> String {
    item.labels().get(label::DEPLOY_ITEM_NAME).cloned().unwrap_or_else(|| item.name_any())
}

fn dependencies(item: &DeployItem) -> impl Iterator<Item = &str> {
    let written = item.annotations().get(annotation::DEPENDS_ON).map(String::as_str);
    written.unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns the wait of an item. `None` if it is at rest.
pub(crate) fn of_item(item: &DeployItem, beside: Beside<'_>, clock: &Clock) -> Option<Found> {
    let job = beside.execution.job();
    if item.is_deleting() && !has_finalizer(item) {
        return held(item.finalizers(), deleted_at(item));
    }
    match item.job().is_running() {
        true if is_ignored(item) => Found::unseen(IGNORED, None),
        true if item.phase().is_final() => of_unpicked(item, clock),
        true => of_worked(item, clock),
        false if job.is_running() && item.job().finished != job.id => of_waiting(item, beside),
        false if item.is_deleting() && item.phase() != Phase::DeleteFailed => {
            Found::unseen("the next job of its Installation, which deletes it", deleted_at(item))
        }
        false => None,
    }
}

/// Describes an item that has a job, which no deployer has begun.
fn of_unpicked(item: &DeployItem, clock: &Clock) -> Option<Found> {
    let status = item.status.as_ref();
    let since = time(status.and_then(|status| status.job_id_generation_time.as_ref()));
    let deadline = since.zip(clock.pickup_timeout).and_then(|(since, timeout)| {
        since.checked_add(timeout).and_then(|at| at.checked_add(PICKUP_MARGIN)).ok()
    });
    let look = deadline.map_or(Look::Within(LONGEST_LOOK), Look::By);
    let what = format!("a deployer for items of the type {} to pick it up", item.spec.type_);
    Found::new(Reach::Own, what, since, Some(look))
}

/// Describes an item that a deployer works on.
fn of_worked(item: &DeployItem, clock: &Clock) -> Option<Found> {
    let status = item.status.as_ref()?;
    let said = time(status.last_reconcile_time.as_ref());
    let is_heard = said.is_some_and(|said| {
        u64::try_from(clock.now.duration_since(said).as_secs()).is_ok_and(|age| age <= OWNED.as_secs())
    });
    let look = |soon| if is_heard { soon } else { LONGEST_LOOK };
    if let Some(error) = &status.last_error {
        return retried(error, look(LONGEST_BACKOFF));
    }
    let next_look = Some(Look::Within(look(WORK_LOOK)));
    if let Some(condition) = waiting_of(item) {
        let since = time(condition.last_transition_time.as_ref());
        return Found::new(Reach::Own, condition.message.clone(), since, next_look);
    }
    let begun = status.transition_times.as_ref().and_then(|times| times.init_time.as_ref());
    let deployer = status.deployer.as_ref().map(|deployer| deployer.name.as_str()).unwrap_or_default();
    let what = match deployer {
        "" => "its deployer to finish its work".to_owned(),
        name => format!("the deployer {name} to finish its work"),
    };
    Found::new(Reach::Own, what, time(begun), next_look)
}

/// Describes an item that does not have the job of its Execution yet, because others go first.
fn of_waiting(item: &DeployItem, beside: Beside<'_>) -> Option<Found> {
    let execution = beside.execution;
    let times = execution.status.as_ref().and_then(|status| status.transition_times.as_ref());
    let since = times.and_then(|times| time(times.wait_time.as_ref().or(times.init_time.as_ref())));
    let is_left = |other: &&&DeployItem| other.job().finished != execution.job().id;
    let others: Vec<String> = if item.is_deleting() {
        let name = item_name(item);
        let needs = beside.items.iter().filter(|other| dependencies(other).any(|needed| needed == name));
        needs.map(|other| item_name(other)).collect()
    } else {
        let is_needed = |other: &&&DeployItem| dependencies(item).any(|name| name == item_name(other));
        beside.items.iter().filter(is_left).filter(is_needed).map(|other| item_name(other)).collect()
    };
    let names: Vec<&str> = others.iter().map(String::as_str).collect();
    match (names.is_empty(), item.is_deleting()) {
        (true, _) => Found::in_line("its turn in the job of its Execution", since),
        (false, true) => {
            let verb = if names.len() == 1 { "needs" } else { "need" };
            Found::in_line(format!("the deletion of {}, which {verb} it", counted(ITEM, &names)), since)
        }
        (false, false) => Found::in_line(format!("{}, which it depends on", counted(ITEM, &names)), since),
    }
}

/// Returns the wait of an Execution. `None` if it is at rest or working.
pub(crate) fn of_execution(execution: &Execution, causes: &[Cause], clock: &Clock) -> Option<Found> {
    if execution.is_deleting() && !has_finalizer(execution) {
        return held(execution.finalizers(), deleted_at(execution));
    }
    let requested = execution.annotations().get(annotation::OPERATION);
    let times = execution.status.as_ref().and_then(|status| status.transition_times.as_ref());
    match execution.job().is_running() {
        true if is_ignored(execution) => Found::unseen(IGNORED, None),
        true if requested.is_some_and(|requested| requested == operation::INTERRUPT) => {
            Found::own("its interruption to be taken up", None)
        }
        true if execution.phase().is_final() => {
            Found::own("its job to begin", times.and_then(|times| time(times.trigger_time.as_ref())))
        }
        true => below(causes, times.and_then(|times| time(times.wait_time.as_ref())), clock),
        false if execution.is_deleting() && execution.phase() != Phase::DeleteFailed => {
            Found::unseen("the next job of its Installation, which deletes it", deleted_at(execution))
        }
        false => None,
    }
}
