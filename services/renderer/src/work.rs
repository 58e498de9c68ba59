//! Renderings in worker processes: what is asked of one, and what comes back.
//!
//! ```text
//! rendering, grpc ──Task──> Renderers ──Pool──> worker: serve ──> lifecycle, calls
//!                              ^                          └─Question─> host: RemoteRepositories ──> resolver
//!                              └────────────Reply──────────────────┘
//! ```
//!
//! A worker gets everything that a job reads but what is in repositories, which it asks for; a token or an address it never has.

mod host;
mod planning;
mod repositories;
mod worker;

use groundwork_blueprint::{States, TemplateLimits};
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

pub(crate) use host::PlannedRepositories;
pub(crate) use planning::{InNamespace, Lacks, Namespaces, Unplanned};
pub(crate) use worker::serve;

/// What is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Prepare,
    Complete,
    Validate,
    Render,
    RenderExports,
    /// Which namespaces the objects of a plan are in.
    PlanScope,
    Plan,
}

/// Everything that a job, or a call about an Installation of the cluster, works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Material {
    pub(crate) installation: Installation,
    pub(crate) scope: String,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    pub(crate) objects: ObjectSet,
    /// For exports of a job.
    pub(crate) own: OwnScope,
    /// What executions have stored, once somebody has looked.
    pub(crate) states: Option<States>,
    /// Whether there is a resolver to ask.
    pub(crate) has_repositories: bool,
}

impl Material {
    /// The namespace that it is worked on for.
    fn tenant(&self) -> &str {
        self.installation.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Behind it comes the request of a call.
#[derive(Debug, Serialize, Deserialize)]
struct Task<M, L> {
    kind: Kind,
    limits: TemplateLimits,
    material: Option<M>,
    /// Of a plan.
    landscape: Option<L>,
}

impl<M, L> Task<M, L> {
    fn of(kind: Kind, limits: TemplateLimits, material: Option<M>) -> Self {
        Self { kind, limits, material, landscape: None }
    }
}

/// Behind it comes the answer of a call.
#[derive(Debug, Serialize, Deserialize)]
struct Reply<T> {
    /// What the kept blueprints were asked for.
    lookups: Lookups,
    result: T,
}

/// How far a worker has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress<T, L> {
    Done(T),
    /// It is to be asked again, with these.
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

/// How a call ends in a worker.
#[derive(Debug, Serialize, Deserialize)]
enum RenderEnd {
    Ended(CallEnd),
    /// It is to be asked again, with these.
    Unread(UnreadStates),
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// What the work itself answers.
    Refused(Status),
    /// The work did not come to its end.
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

/// What callers are told of work that did not come to its end.
pub(crate) fn interrupted(error: &ExchangeError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

/// Has renderings done. Clones share the workers.
#[derive(Debug, Clone)]
pub(crate) struct Renderers {
    place: Place,
    kept: Kept,
    limits: TemplateLimits,
}

/// Where tasks are worked on.
#[derive(Debug, Clone)]
enum Place {
    Workers(Pool),
    /// In this process: another one goes by another clock than a model of time.
    #[cfg(test)]
    Here,
}

impl Renderers {
    pub(crate) fn new(pool: Pool, kept: Kept, limits: TemplateLimits) -> Self {
        Self { place: Place::Workers(pool), kept, limits }
    }

    #[cfg(test)]
    pub(crate) fn here(kept: Kept, limits: TemplateLimits) -> Self {
        Self { place: Place::Here, kept, limits }
    }

    /// The result of a task about an Installation, or which states it lacks.
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

    /// The answer to a call, or which states it lacks.
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
            Place::Workers(pool) => pool.exchange::<Reply<T>>(tenant, task, body, host).await?,
            #[cfg(test)]
            Place::Here => worker::job_here(task)?,
        };
        self.kept.count(lookups);
        Ok((result, body))
    }
}

/// The answer with which the work of a call has ended.
fn answered<A: Message + Default>(end: CallEnd, body: &[u8]) -> Result<A, CallError> {
    end.result(body).map_err(|missing| match missing {
        NoAnswer::Refused(status) => CallError::Refused(status),
        NoAnswer::Unreadable(_) => ExchangeError::Answer.into(),
    })
}
