//! The contract of deployers: how a DeployItem is picked up and how its job ends (`installations.md` 2.4, 7.4, 7.7).
//!
//! ```text
//! work_of ──> PickUp(status) ──> (the deployer works) ──> conclude(Verdict) ──> status
//!                                                        └── between two jobs: with_drift(Drifting) ──> status
//! ```

use groundwork_api::metadata::annotation;
use groundwork_api::{
    AnyJson, Condition, DeployItem, DeployItemStatus, DeployerInformation, ErrorCode, List, ObjectReference,
    Time,
};

use crate::conditions::{ConditionStatus, ConditionUpdate, merge_condition};
use crate::error::OperationError;
use crate::machine::{HasJob as _, Phase};
use crate::reason::Reason;

/// The type of items that no cluster is needed for: what they export stands in their configuration (`installations.md` 7.8).
pub const MOCK_TYPE: &str = "landscaper.gardener.cloud/mock";
/// How many errors a status keeps.
const KEPT_ERRORS: usize = 5;
/// The condition that tells whether the configuration of an item can be read.
const VALIDATION: &str = "DeployItemValidation";
/// The condition that tells whether others have changed the objects of an item since its last job.
const DRIFTED: &str = "Drifted";
/// The condition that tells what the deployer of an item waits for. Only an item whose job runs has it.
const WAITING: &str = "Waiting";

/// What a deployer has to do for an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    None,
    /// Write this status, then work. `is_done` when the write already ends the job.
    PickUp {
        item: Box<DeployItem>,
        is_done: bool,
    },
    /// It has been picked up before; the clock of its job goes on.
    Continue,
}

/// Whether an item waits for its deployer.
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
        // The job brings everything back.
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

/// True of an item whose last job has ended well, and that is neither to get another one, nor to go, nor to be left alone.
pub fn is_at_rest(item: &DeployItem) -> bool {
    !item.job().is_running() && item.phase() == Phase::Succeeded && !item.is_deleting() && !is_ignored(item)
}

/// The outcome of a drift check of an item at rest (`installations.md` 7.9, drift).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drifting {
    /// The objects are as they should be.
    None,
    /// Others have changed objects; with a sentence about them.
    Drifted(String),
    /// The objects were brought back; with a sentence about them.
    Repaired(String),
    /// They could not be checked, with the reason.
    Unknown(String),
}

impl Drifting {
    /// The reason of the condition, and of Events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::None => "AsApplied",
            Self::Drifted(_) => "ObjectsChanged",
            Self::Repaired(_) => "Repaired",
            Self::Unknown(_) => "CheckFailed",
        }
    }
}

/// How the objects of an item have changed since its last job, or why nobody knows; `None` if they are as they should be.
pub fn drift_of(item: &DeployItem) -> Option<&str> {
    let mut conditions = item.status.iter().flat_map(|status| status.conditions.iter());
    let condition = conditions.find(|condition| condition.type_ == DRIFTED)?;
    (condition.status != ConditionStatus::False.as_str()).then_some(condition.message.as_str())
}

/// The item with the outcome of a check in its condition `Drifted`. `None` if that is told already: an item whose objects nobody has ever changed has
/// no such condition.
pub fn with_drift(item: &DeployItem, drifting: &Drifting, now: &Time) -> Option<DeployItem> {
    let told = item.status.iter().flat_map(|status| status.conditions.iter());
    let told = told.clone().find(|condition| condition.type_ == DRIFTED);
    let (status, message) = match drifting {
        // A repair stays told.
        Drifting::None if told.is_none_or(|told| told.status == ConditionStatus::False.as_str()) => {
            return None;
        }
        Drifting::None => (ConditionStatus::False, "the objects are as the last job has left them"),
        Drifting::Repaired(message) => (ConditionStatus::False, message.as_str()),
        Drifting::Drifted(message) => (ConditionStatus::True, message.as_str()),
        Drifting::Unknown(message) => (ConditionStatus::Unknown, message.as_str()),
    };
    let mut changed = item.clone();
    let conditions = &mut changed.status.get_or_insert_default().conditions;
    merge_condition(conditions, &ConditionUpdate::new(DRIFTED, status, drifting.reason(), message), now);
    (changed != *item).then_some(changed)
}

/// Tells in the status of an item what its deployer waits for, or that it waits for nothing.
///
/// Between two conditions that differ in their words alone the older one stays, so that counters cost no writes. With `is_written`
/// something else of the status is written anyway, and the words are those of now.
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

/// The condition that tells of the wait of a deployer, and since when it lasts.
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

/// What came of the work on an item that still exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The phase to show; a final one ends the job.
    pub phase: String,
    pub error: Option<OperationError>,
    /// For `status.providerStatus`; `None` keeps what is there.
    pub provider_status: Option<AnyJson>,
    pub exports: Exports,
}

/// What becomes of `status.exportRef`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Exports {
    #[default]
    Keep,
    /// The item exports nothing any more.
    None,
    In(ObjectReference),
}

impl Verdict {
    /// An error. One that cannot go away by itself ends the job.
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

/// The item with the result of the work in its status.
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

/// Notes an error as the last one, and among the first and the last few (1.3).
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

/// The configuration of an item is there and cannot be read.
pub fn invalid_configuration(message: impl Into<String>) -> OperationError {
    configuration_problem(Reason::ProviderConfigurationInvalid, message)
}

/// An item without a configuration.
pub fn missing_configuration() -> OperationError {
    configuration_problem(Reason::ProviderConfigurationMissing, "spec.config is missing")
}

/// The Target that an item names does not exist.
pub fn no_target(name: &str) -> OperationError {
    let message = format!("the target {name} does not exist");
    configuration_problem(Reason::NoTargetFound, message)
}

/// The Target that an item names would be one of another namespace, whose credentials are not for those of this one.
pub fn foreign_target(name: &str, namespace: &str) -> OperationError {
    let message = format!(
        "spec.target names {name} of the namespace {namespace}: an item uses Targets of its own namespace alone; have a Target \
         there, and name that namespace"
    );
    configuration_problem(Reason::TargetInvalid, message)
}

/// What the item has to write exists already, and is not its own.
pub fn foreign_object(what: &str) -> OperationError {
    configuration_problem(
        Reason::ForeignObject,
        format!("{what} exists already and belongs to something else"),
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
