//! What a deployer implements.

use async_trait::async_trait;
use groundwork_api::{AnyJson, DeployItem, Target};
use groundwork_apply::{Deadline, DriftReport, Findings, Waiting};
use groundwork_controller::Objects;
use groundwork_lifecycle::OperationError;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::target::Targets;

/// Works on the items of one type. Each call is a round: it does what can be done now, and is called again unless it says that this is
/// the end.
#[async_trait]
pub trait Deployer: Send + Sync + 'static {
    /// The type of the items (`spec.type`).
    fn type_name(&self) -> &'static str;

    /// Whether an item that takes too long has failed. The mock deployer has none (`installations.md` 7.8).
    fn has_timeout(&self) -> bool {
        true
    }

    /// When an item has to be done at the latest whose work goes on beyond its time: what has failed is being taken back.
    fn extension(&self, _item: &DeployItem) -> Option<Timestamp> {
        None
    }

    /// Brings about what the item says.
    ///
    /// # Errors
    ///
    /// An error that cannot go away by itself ends the job; another one is shown, and the item looked at again.
    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure>;

    /// Takes away what the item has brought about.
    ///
    /// # Errors
    ///
    /// As [`Deployer::reconcile`].
    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure>;

    /// Compares what the item has brought about with what it says, and brings it back if the item asks for that. `None` if there is
    /// nothing to check, or the item does not want it.
    ///
    /// # Errors
    ///
    /// As [`Deployer::reconcile`]; the item stays as it is.
    async fn check_drift(
        &self,
        _round: &Round<'_>,
        _before: &Findings,
    ) -> Result<Option<DriftReport>, Failure> {
        Ok(None)
    }
}

/// What a round of work has to go by.
#[derive(Debug)]
pub struct Round<'a> {
    /// The item as it is stored now.
    pub item: &'a DeployItem,
    /// The Target that it names; `None` if it names none.
    pub target: Option<&'a Target>,
    /// Clusters of Targets.
    pub targets: &'a Targets,
    /// The home cluster, on behalf of the item.
    pub objects: &'a Objects,
    /// When the item has to be done.
    pub deadline: Deadline,
}

/// How far an item has come.
#[derive(Debug, Clone)]
pub struct Step {
    pub outcome: Outcome,
    /// For `status.providerStatus`; `None` keeps what is there.
    pub provider_status: Option<AnyJson>,
    /// What the item exports; `None` if it exports nothing.
    pub exports: Option<Map<String, Value>>,
    /// What people should know, once a job.
    pub warnings: Vec<Warning>,
}

impl Step {
    /// The item is looked at again; with what is waited for.
    pub fn waiting(
        waiting: impl Into<Waiting>,
        provider_status: Option<AnyJson>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { outcome: Outcome::Waiting(waiting.into()), provider_status, exports: None, warnings }
    }
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Done,
    /// It is looked at again: when what is waited for has come, as far as that can be watched, or after a pause.
    Waiting(Waiting),
    /// The phase is the deployer's to choose; `None` keeps the current one.
    Phase(Option<String>),
}

/// How far the removal of an item has come.
#[derive(Debug, Clone)]
pub enum Removal {
    Done,
    Waiting {
        waiting: Waiting,
        provider_status: Option<AnyJson>,
    },
    /// The phase is the deployer's to choose.
    Phase(String),
}

/// A round that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub error: OperationError,
    /// What is known nevertheless, as what has been applied so far.
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
