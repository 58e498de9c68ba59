//! Renderings in worker processes: the tasks, and their results.
//!
//! ```text
//! rendering, grpc ──Task──> Renderers ──Pool──> worker: serve ──> lifecycle, calls
//!                              ^                          └─Question─> host: RemoteRepositories ──> resolver
//!                              └────────────Reply──────────────────┘  RemoteClusters ──> deployer
//! ```
//!
//! A worker gets all inputs of a job with its task, except content of repositories and new
//! kubeconfigs, for which it asks the service. It never gets a token or an address of the service.

mod clusters;
mod host;
mod planning;
mod repositories;
mod worker;

use groundwork_blueprint::{KubeconfigRequest, States, TemplateLimits};
use groundwork_grpc::{CallEnd, NoAnswer};
use groundwork_lifecycle::{ObjectSet, OwnScope, UnreadStates};
use groundwork_proto::status;
use groundwork_sandbox::{ANYBODY, ExchangeError, Host, Pool};
use prost::Message;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tonic::Status;

use groundwork_api::{ComponentVersionOverwrites, Context, Installation};

use crate::blueprints::{Kept, Lookups};

use repositories::ComponentQuestion;

pub(crate) use host::{JobHost, PlannedRepositories};
pub(crate) use planning::{InNamespace, Lacks, Namespaces, Unplanned};
pub(crate) use worker::serve;

/// Computation that a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Prepare,
    Complete,
    Validate,
    Render,
    RenderExports,
    /// Finds the namespaces of the objects in a plan.
    PlanScope,
    Plan,
}

/// Question of a worker.
#[derive(Debug, Serialize, Deserialize)]
enum Question {
    Component(ComponentQuestion),
    Kubeconfig(KubeconfigRequest),
}

/// Inputs of a job, or of a call about an Installation of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Material {
    pub(crate) installation: Installation,
    pub(crate) scope: String,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    pub(crate) objects: ObjectSet,
    /// Objects in the own scope, for the exports of a job.
    pub(crate) own: OwnScope,
    /// Stored state of executions; `None` until it has been read.
    pub(crate) states: Option<States>,
    /// True if there is a resolver to ask.
    pub(crate) has_repositories: bool,
    /// True if there is a deployer to ask.
    pub(crate) has_clusters: bool,
    /// Hash over all imports, with the contents that are withheld from workers.
    pub(crate) imports_hash: String,
}

impl Material {
    /// Returns the namespace for which the work is done.
    fn tenant(&self) -> &str {
        self.installation.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Task for a worker; the request of a call follows after it.
#[derive(Debug, Serialize, Deserialize)]
struct Task<M, L> {
    kind: Kind,
    limits: TemplateLimits,
    material: Option<M>,
    /// Objects for a plan.
    landscape: Option<L>,
}

impl<M, L> Task<M, L> {
    fn of(kind: Kind, limits: TemplateLimits, material: Option<M>) -> Self {
        Self { kind, limits, material, landscape: None }
    }
}

/// Reply of a worker; the answer to a call follows after it.
#[derive(Debug, Serialize, Deserialize)]
struct Reply<T> {
    /// Hits and misses of the blueprint cache.
    lookups: Lookups,
    result: T,
}

/// Result of a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress<T, L> {
    Done(T),
    /// The task lacks these objects, and has to be repeated with them.
    Lacks(L),
}

impl<T, L> From<Result<T, L>> for Progress<T, L> {
    fn from(result: Result<T, L>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(lacks) => Self::Lacks(lacks),
        }
    }
}

/// Result of a call in a worker.
#[derive(Debug, Serialize, Deserialize)]
enum RenderEnd {
    Ended(CallEnd),
    /// The call needs this state and has to be repeated with it.
    Unread(UnreadStates),
}

/// Reason why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The call is refused with this status.
    Refused(Status),
    /// The worker did not complete the work.
    Interrupted(ExchangeError),
}

impl From<ExchangeError> for CallError {
    fn from(error: ExchangeError) -> Self {
        Self::Interrupted(error)
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(status) => status,
            CallError::Interrupted(error) => interrupted(&error),
        }
    }
}

/// Returns the status for work that a worker did not complete.
pub(crate) fn interrupted(error: &ExchangeError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

/// Client of the worker processes. Clones share the workers.
#[derive(Debug, Clone)]
pub(crate) struct Renderers {
    place: Runner,
    kept: Kept,
    limits: TemplateLimits,
}

/// Location in which tasks run.
#[derive(Debug, Clone)]
enum Runner {
    Workers(Pool),
    /// Runs in this process, because a worker process would not follow the simulated clock of a
    /// model.
    #[cfg(test)]
    Here,
}

impl Renderers {
    pub(crate) fn new(pool: Pool, kept: Kept, limits: TemplateLimits) -> Self {
        Self { place: Runner::Workers(pool), kept, limits }
    }

    #[cfg(test)]
    pub(crate) fn here(kept: Kept, limits: TemplateLimits) -> Self {
        Self { place: Runner::Here, kept, limits }
    }

    /// Returns the result of a job's task, or the state that it needs.
    ///
    /// # Errors
    ///
    /// See [`ExchangeError`].
    pub(crate) async fn job<T: DeserializeOwned>(
        &self,
        kind: Kind,
        material: &Material,
        host: &dyn Host,
    ) -> Result<Progress<T, UnreadStates>, ExchangeError> {
        let task = Task::of(kind, self.limits, Some(material));
        let (result, _) = self.ask::<Result<T, UnreadStates>>(material.tenant(), &task, &[], host).await?;
        Ok(result.into())
    }

    /// Returns the answer to a call, or the state that it needs.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub(crate) async fn call<A: Message + Default>(
        &self,
        kind: Kind,
        material: Option<&Material>,
        request: &impl Message,
        host: &dyn Host,
    ) -> Result<Progress<A, UnreadStates>, CallError> {
        let tenant = material.map_or(ANYBODY, Material::tenant);
        let (end, body) =
            self.ask(tenant, &Task::of(kind, self.limits, material), &request.encode_to_vec(), host).await?;
        match end {
            RenderEnd::Ended(end) => answered(end, &body).map(Progress::Done),
            RenderEnd::Unread(states) => Ok(Progress::Lacks(states)),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        tenant: &str,
        task: &Task<&Material, &Namespaces>,
        body: &[u8],
        host: &dyn Host,
    ) -> Result<(T, Vec<u8>), ExchangeError> {
        let (Reply { lookups, result }, body) = match &self.place {
            Runner::Workers(pool) => pool.exchange::<Reply<T>>(tenant, task, body, host).await?,
            #[cfg(test)]
            Runner::Here => worker::job_here(task)?,
        };
        self.kept.count(lookups);
        Ok((result, body))
    }
}

/// Decodes the answer to a call.
fn answered<A: Message + Default>(end: CallEnd, body: &[u8]) -> Result<A, CallError> {
    end.result(body).map_err(|missing| match missing {
        NoAnswer::Refused(status) => CallError::Refused(status),
        NoAnswer::Unreadable(_) => ExchangeError::Answer.into(),
    })
}
