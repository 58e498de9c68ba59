//! The contract of deployers: how a DeployItem is picked up and how its job ends
//! (`installations.md` 2.4, 7.4, 7.7).
//!
//! ```text
//! work_of ──> PickUp(status) ──> (the deployer works) ──> conclude(Verdict) ──> status
//! between two jobs: with_drift(Drifting) ──> status
//! ```

use groundwork_api::metadata::annotation;
use groundwork_api::{
    AnyJson, Condition, DeployItem, DeployItemStatus, DeployerInformation, ErrorCode, List, ObjectReference,
    Time,
};

use crate::conditions::{ConditionStatus, ConditionUpdate, merge_condition};
use crate::error::OperationError;
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::reason::Reason;

/// Type of items that need no cluster: their exports are part of their configuration
/// (`installations.md` 7.8).
pub const MOCK_TYPE: &str = groundwork_api::item_type::MOCK;
/// Number of errors kept in a status.
const KEPT_ERRORS: usize = 5;
/// Type of the condition that shows whether the configuration of an item is readable.
const VALIDATION: &str = "DeployItemValidation";
/// Type of the condition that shows whether other clients have changed the objects of an item since
/// its last job.
const DRIFTED: &str = "Drifted";
/// Type of the condition that shows the reason for a deployer's wait. Only an item with a running
/// job has it.
const WAITING: &str = "Waiting";

/// Task of a deployer for an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    None,
    /// Write this status, then work. `is_done` means that the write already ends the job.
    PickUp {
        item: Box<DeployItem>,
        is_done: bool,
    },
    /// The item was picked up before. The clock of its job continues.
    Continue,
}

/// Returns the work that an item has for its deployer.
pub fn work_of(item: &DeployItem, deployer: &DeployerInformation, now: &Time) -> Work {
    let status = item.status.clone().unwrap_or_default();
    if is_ignored(item) || !item.job().is_running() {
        return Work::None;
    }
    if !item.phase().is_final() {
        return Work::Continue;
    }
    let is_deleting = item.metadata.deletion_timestamp.is_some();
    let generation = item.metadata.generation.unwrap_or_default();
    let is_unchanged = item.spec.update_on_change_only == Some(true)
        && status.phase.as_deref() == Some(Phase::Succeeded.as_str())
        && status.observed_generation == generation
        && !is_deleting;
    let mut item = item.clone();
    let status = item.status.get_or_insert_default();
    pick_up(status, deployer, generation, now);
    if is_unchanged {
        end(status, Phase::Succeeded, now);
    } else {
        // The job applies all objects again, so an earlier finding of drift is obsolete.
        clear(&mut status.conditions, DRIFTED);
        let start = if is_deleting { Phase::InitDelete } else { Phase::Init };
        status.phase = Some(start.into());
    }
    Work::PickUp { item: Box::new(item), is_done: is_unchanged }
}

fn is_ignored(item: &DeployItem) -> bool {
    let annotations = item.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(annotation::IGNORE)).is_some_and(|value| value == "true")
}

fn pick_up(status: &mut DeployItemStatus, deployer: &DeployerInformation, generation: i64, now: &Time) {
    status.last_reconcile_time = Some(now.clone());
    status.deployer = Some(deployer.clone());
    status.observed_generation = generation;
    status.transition_times.get_or_insert_default().init_time = Some(now.clone());
    status.last_error = None;
    status.first_error = None;
    status.last_errors = List::absent();
    status.deploy_item_phase = None;
}

/// Reports whether the last job of an item succeeded and no job, deletion or `ignore` annotation
/// follows.
pub fn is_at_rest(item: &DeployItem) -> bool {
    !item.job().is_running() && item.phase() == Phase::Succeeded && !item.is_deleting() && !is_ignored(item)
}

/// Outcome of a drift check of an item at rest (`installations.md` 7.9, drift).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drifting {
    /// The objects are as the last job applied them.
    None,
    /// Other clients have changed objects. The text describes the changes.
    Drifted(String),
    /// The deployer has restored the objects. The text describes the changes.
    Repaired(String),
    /// The check failed. The text gives the reason.
    Unknown(String),
}

impl Drifting {
    /// Returns the reason used in the condition and in Events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::None => "AsApplied",
            Self::Drifted(_) => "ObjectsChanged",
            Self::Repaired(_) => "Repaired",
            Self::Unknown(_) => "CheckFailed",
        }
    }
}

/// Returns a text about the changes to an item's objects since its last job, or about the failure
/// of the check. `None` if the objects are unchanged.
pub fn drift_of(item: &DeployItem) -> Option<&str> {
    let mut conditions = item.status.iter().flat_map(|status| status.conditions.iter());
    let condition = conditions.find(|condition| condition.type_ == DRIFTED)?;
    (condition.status != ConditionStatus::False.as_str()).then_some(condition.message.as_str())
}

/// Returns the item with the outcome of a check in its condition `Drifted`, or `None` if the
/// condition needs no change.
///
/// An item whose objects were never changed has no such condition.
pub fn with_drift(item: &DeployItem, drifting: &Drifting, now: &Time) -> Option<DeployItem> {
    let told = item.status.iter().flat_map(|status| status.conditions.iter());
    let told = told.clone().find(|condition| condition.type_ == DRIFTED);
    let (status, message) = match drifting {
        // After a repair the condition keeps its message, although the objects are as expected.
        Drifting::None if told.is_none_or(|told| told.status == ConditionStatus::False.as_str()) => {
            return None;
        }
        Drifting::None => (ConditionStatus::False, "the objects are as the last job left them"),
        Drifting::Repaired(message) => (ConditionStatus::False, message.as_str()),
        Drifting::Drifted(message) => (ConditionStatus::True, message.as_str()),
        Drifting::Unknown(message) => (ConditionStatus::Unknown, message.as_str()),
    };
    let mut changed = item.clone();
    let conditions = &mut changed.status.get_or_insert_default().conditions;
    merge_condition(conditions, &ConditionUpdate::new(DRIFTED, status, drifting.reason(), message), now);
    (changed != *item).then_some(changed)
}

/// Sets or removes the condition that shows the reason for a deployer's wait.
///
/// A condition that would change only in its message stays as it is, so a counter in the message
/// causes no write. `is_written` says that the caller writes the status anyway; the condition then
/// gets the current message.
pub fn tell_waiting(item: &mut DeployItem, what: Option<&str>, is_written: bool, now: &Time) {
    let conditions = &mut item.status.get_or_insert_default().conditions;
    let is_told = conditions.iter().any(|condition| condition.type_ == WAITING);
    match what {
        None => clear(conditions, WAITING),
        Some(_) if is_told && !is_written => {}
        Some(what) => {
            merge_condition(conditions, &ConditionUpdate::new(WAITING, true, "Unfinished", what), now);
        }
    }
}

/// Returns the condition that shows why a deployer waits, and since when.
pub(crate) fn waiting_of(item: &DeployItem) -> Option<&Condition> {
    let mut conditions = item.status.iter().flat_map(|status| status.conditions.iter());
    conditions
        .find(|condition| condition.type_ == WAITING && condition.status == ConditionStatus::True.as_str())
}

fn clear(conditions: &mut List<Condition>, type_name: &str) {
    if conditions.iter().any(|condition| condition.type_ == type_name) {
        conditions.to_mut().retain(|condition| condition.type_ != type_name);
    }
}

pub(crate) fn end(status: &mut DeployItemStatus, phase: Phase, now: &Time) {
    clear(&mut status.conditions, WAITING);
    status.phase = Some(phase.into());
    status.job_id_finished = status.job_id.clone();
    status.transition_times.get_or_insert_default().finished_time = Some(now.clone());
}

/// Result of a deployer's work on an item that still exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Phase to show. A final phase ends the job.
    pub phase: String,
    pub error: Option<OperationError>,
    /// New value of `status.providerStatus`; `None` keeps the old value.
    pub provider_status: Option<AnyJson>,
    pub exports: Exports,
}

/// Change to `status.exportRef`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Exports {
    #[default]
    Keep,
    /// The item no longer exports values.
    None,
    In(ObjectReference),
}

impl Verdict {
    /// Returns the verdict for an error. An error that needs a change by the user ends the job.
    pub fn failed(item: &DeployItem, error: OperationError) -> Self {
        let is_deleting = item.metadata.deletion_timestamp.is_some();
        let current = item.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let phase = match (error.codes.iter().any(|code| code.is_unrecoverable()), is_deleting) {
            (true, true) => Phase::DeleteFailed.into(),
            (true, false) => Phase::Failed.into(),
            (false, _) => current,
        };
        Self { phase, error: Some(error), provider_status: None, exports: Exports::Keep }
    }
}

/// Returns the item with the result of the work in its status.
pub fn conclude(item: &DeployItem, verdict: Verdict, now: &Time) -> DeployItem {
    let mut item = item.clone();
    let status = item.status.get_or_insert_default();
    match &verdict.error {
        Some(error) => record(status, error, now),
        None => {
            status.last_error = None;
            let message = "the configuration of the deploy item is valid";
            let update = ConditionUpdate::new(VALIDATION, true, "SuccessfullValidation", message);
            merge_condition(&mut status.conditions, &update, now);
        }
    }
    if let Some(provider_status) = verdict.provider_status {
        status.provider_status = provider_status;
    }
    match verdict.exports {
        Exports::Keep => {}
        Exports::None => status.export_ref = None,
        Exports::In(reference) => status.export_ref = Some(reference),
    }
    if Phase::of(Some(&verdict.phase)).is_final() {
        end(status, Phase::of(Some(&verdict.phase)), now);
    } else {
        status.phase = Some(verdict.phase);
    }
    item
}

/// Records an error as the last error, and among the first and latest errors of the status
/// (`installations.md` 1.3).
pub(crate) fn record(status: &mut DeployItemStatus, error: &OperationError, now: &Time) {
    let last_error = error.to_last_error(status.last_error.as_ref(), now);
    if error.reason == Reason::ProviderConfigurationInvalid {
        let update = ConditionUpdate::new(VALIDATION, false, "FailedUnmarshal", error.message.clone());
        merge_condition(&mut status.conditions, &update, now);
    }
    if status.last_error.as_ref() == Some(&last_error) {
        return;
    }
    status.first_error.get_or_insert_with(|| last_error.clone());
    let errors = status.last_errors.to_mut();
    errors.push(last_error.clone());
    let surplus = errors.len().saturating_sub(KEPT_ERRORS);
    errors.drain(..surplus);
    status.last_error = Some(last_error);
}

/// Error for an item whose configuration exists but is not readable.
pub fn invalid_configuration(message: impl Into<String>) -> OperationError {
    configuration_problem(Reason::ProviderConfigurationInvalid, message)
}

/// Error for an item without a configuration.
pub fn missing_configuration() -> OperationError {
    configuration_problem(Reason::ProviderConfigurationMissing, "spec.config is missing")
}

/// Error for an item that names a Target which does not exist.
pub fn no_target(name: &str) -> OperationError {
    let message = format!("the target {name} does not exist");
    configuration_problem(Reason::NoTargetFound, message)
}

/// Error for an item that names a Target of another namespace. The credentials of that Target
/// belong to the other namespace alone.
pub fn foreign_target(name: &str, namespace: &str) -> OperationError {
    let message = format!(
        "spec.target names {name} of namespace {namespace}, but an item can only use Targets of its own namespace; \
         create a Target there, and name that namespace"
    );
    configuration_problem(Reason::TargetInvalid, message)
}

/// Error for an object that the item has to write, but that exists already and belongs to another
/// owner.
pub fn foreign_object(what: &str) -> OperationError {
    configuration_problem(
        Reason::ForeignObject,
        format!("{what} already exists and belongs to another owner"),
    )
}

fn configuration_problem(reason: Reason, message: impl Into<String>) -> OperationError {
    OperationError {
        operation: "Reconcile".into(),
        reason,
        message: message.into(),
        codes: vec![ErrorCode::ConfigurationProblem],
    }
}

#[cfg(test)]
mod tests;
