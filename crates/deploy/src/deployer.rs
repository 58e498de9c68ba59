//! Interface that a deployer implements.

use async_trait::async_trait;
use groundwork_api::{AnyJson, DeployItem, Target};
use groundwork_apply::{Deadline, DriftReport, Findings, Waiting};
use groundwork_controller::Objects;
use groundwork_lifecycle::OperationError;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::target::Targets;

/// Works on the items of one type. Each call is a round: it does the work that is possible now, and
/// the loop calls it again unless it reports the end.
#[async_trait]
pub trait Deployer: Send + Sync + 'static {
    /// Returns the type of the items (`spec.type`).
    fn type_name(&self) -> &'static str;

    /// Reports whether an item that exceeds its time limit has failed. Items of the mock deployer
    /// have no limit (`installations.md` 7.8).
    fn has_timeout(&self) -> bool {
        true
    }

    /// Returns a later deadline for an item whose work continues after its time limit, because a
    /// failed release is being rolled back.
    fn extension(&self, _item: &DeployItem) -> Option<Timestamp> {
        None
    }

    /// Brings the cluster closer to the state that the item describes.
    ///
    /// # Errors
    ///
    /// A permanent error ends the job. The status shows any other error, and the loop tries again.
    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure>;

    /// Removes the objects of the item from the cluster.
    ///
    /// # Errors
    ///
    /// As [`Deployer::reconcile`].
    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure>;

    /// Compares the deployed objects with the item, and repairs them if the item asks for that.
    /// `None` if there is nothing to check, or the item disables the check.
    ///
    /// # Errors
    ///
    /// As [`Deployer::reconcile`]; the item stays unchanged.
    async fn check_drift(
        &self,
        _round: &Round<'_>,
        _before: &Findings,
    ) -> Result<Option<DriftReport>, Failure> {
        Ok(None)
    }
}

/// Inputs of one round of work.
#[derive(Debug)]
pub struct Round<'a> {
    /// The item as it is stored now.
    pub item: &'a DeployItem,
    /// The Target of the item; `None` if the item names none.
    pub target: Option<&'a Target>,
    /// Clusters of Targets.
    pub targets: &'a Targets,
    /// The home cluster, accessed on behalf of the item.
    pub objects: &'a Objects,
    /// Time by which the item has to be done.
    pub deadline: Deadline,
}

/// Progress of an item.
#[derive(Debug, Clone)]
pub struct Step {
    pub outcome: RoundOutcome,
    /// New value of `status.providerStatus`; `None` keeps the current one.
    pub provider_status: Option<AnyJson>,
    /// Exported values; `None` if the item exports nothing.
    pub exports: Option<Map<String, Value>>,
    /// Warnings for users, recorded once for each job.
    pub warnings: Vec<Warning>,
}

impl Step {
    /// Returns a step that waits for something before the next round.
    pub fn waiting(
        waiting: impl Into<Waiting>,
        provider_status: Option<AnyJson>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { outcome: RoundOutcome::Waiting(waiting.into()), provider_status, exports: None, warnings }
    }
}

#[derive(Debug, Clone)]
pub enum RoundOutcome {
    Done,
    /// Another round follows: when an awaited object has changed, as far as that can be watched, or
    /// after a pause.
    Waiting(Waiting),
    /// The deployer sets the phase; `None` keeps the current one.
    Phase(Option<String>),
}

/// Progress of the removal of an item.
#[derive(Debug, Clone)]
pub enum Removal {
    Done,
    Waiting {
        waiting: Waiting,
        provider_status: Option<AnyJson>,
    },
    /// The deployer sets the phase.
    Phase(String),
}

/// A round that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub error: OperationError,
    /// Provider status in spite of the failure, such as the objects applied so far.
    pub provider_status: Option<AnyJson>,
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        Self { error, provider_status: None }
    }
}

/// An Event of type `Warning` about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub reason: &'static str,
    pub message: String,
}
