//! Installations, from an event to rest.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::{DeployItem, ErrorCode, Execution, Installation, Kind as _, Time, view};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_component::OVERWRITE_CONDITION;
use groundwork_controller::{
    ApiError, Handler, Key, Objects, ReconcileError, ReconcileRequest, Reconciled, WarningEvent, WorkError,
    Workers,
};
use groundwork_lifecycle::machine::{Moment, Need, Next, Part, Read, Tree, next, refused, report};
use groundwork_lifecycle::{Inputs, OperationError, Prepared, imports_hash, is_shortened, prepare};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::reasons;
use jiff::{SignedDuration, Timestamp};
use tonic::Status;

use crate::blueprints::Blueprints;
use crate::components::Components;
use crate::snapshots::{PICKUP_MARGIN, needs_work, pickup_deadline};
use crate::{inputs, job_log, steps};

/// More steps than any part of a job has; a machine that goes round in circles must not do so for ever.
const MAX_STEPS: usize = 2_000;
/// After so many writes the others get a turn: an Installation with thousands of items is no reason for a small one to wait.
const WRITES_PER_TURN: usize = 64;

/// Works on Installations, their Executions and DeployItems.
pub(crate) struct Installations {
    pub(crate) components: Option<Components>,
    pub(crate) pickup_timeout: Option<SignedDuration>,
    workers: Workers,
    blueprints: Blueprints,
    /// What is known of running jobs. It only saves reads: every write carries the version it was decided on.
    trees: Mutex<HashMap<Key, Tree>>,
    /// Whose item an item is, for the moment when it is gone.
    owners: Mutex<HashMap<ObjectId, String>>,
}

pub(crate) fn kind<K: groundwork_api::Kind>() -> Kind {
    Kind::new(K::GROUP, K::PLURAL)
}

impl Installations {
    pub(crate) fn new(
        components: Option<Components>,
        pickup_timeout: Option<SignedDuration>,
        workers: Workers,
        blueprints: Blueprints,
    ) -> Self {
        Self {
            components,
            pickup_timeout,
            workers,
            blueprints,
            trees: Mutex::default(),
            owners: Mutex::default(),
        }
    }

    fn trees(&self) -> MutexGuard<'_, HashMap<Key, Tree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<ObjectId, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Installation that an object belongs to, by name: that is the name of its Execution too.
    fn installation_of(&self, object: &ObjectId, name: &str) -> Key {
        ObjectId::new(kind::<Installation>(), object.namespace.as_deref(), name)
    }
}

#[async_trait]
impl Handler for Installations {
    fn keys(&self, object: &ObjectId, change: &Change, _: &Index) -> Vec<Key> {
        match (object.kind.plural(), change) {
            (Installation::PLURAL, Change::Deleted { .. }) => {
                self.trees().remove(object);
                Vec::new()
            }
            (Installation::PLURAL, Change::Applied(snapshot)) if needs_work(snapshot) => vec![object.clone()],
            (Execution::PLURAL, _) => vec![self.installation_of(object, &object.name)],
            (DeployItem::PLURAL, Change::Deleted { .. }) => {
                let owner = self.owners().remove(object);
                owner.map(|name| self.installation_of(object, &name)).into_iter().collect()
            }
            // Progress of an item decides nothing; its end does.
            (DeployItem::PLURAL, Change::Applied(snapshot))
                if !view::DeployItem(snapshot).job().is_running() =>
            {
                let name = view::DeployItem(snapshot).execution();
                name.map(|name| self.installation_of(object, name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        match object.kind.plural() {
            // What a process left behind, whatever it was told about it.
            Installation::PLURAL if is_initial_sync && needs_work(snapshot) => {
                Some((object.clone(), Timestamp::now()))
            }
            DeployItem::PLURAL => {
                let name = view::DeployItem(snapshot).execution()?;
                self.owners().insert(object.clone(), name.clone());
                let at = pickup_deadline(snapshot, self.pickup_timeout?)?;
                Some((self.installation_of(object, name), at))
            }
            _ => None,
        }
    }

    fn reset(&self) {
        self.trees().clear();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let namespace = request.key.namespace.clone().unwrap_or_default();
        let known = self.trees().remove(request.key);
        let mut tree = known.unwrap_or_else(|| Tree::new(namespace, request.key.name.clone()));
        outdate(&mut tree, &request);
        match self.run_steps(&mut tree, &request).await {
            Ok(Progress::Partial) => {
                tree.goes_on = true;
                self.trees().insert(request.key.clone(), tree);
                Ok(Reconciled::requeue())
            }
            Ok(Progress::Done) => {
                if job_log::running_job(&tree).is_none() {
                    return Ok(Reconciled::default());
                }
                let requeue_after = self.pickup_timeout.and_then(|timeout| until_pickup(&tree, timeout));
                self.trees().insert(request.key.clone(), tree);
                Ok(Reconciled { requeue_after, ..Reconciled::default() })
            }
            Err(AttemptError::Api(error)) => {
                if let Some(reason) = reason(&error) {
                    let error = OperationError::transient("Reconcile", reason, error.to_string());
                    self.report(&mut tree, &error, &request).await;
                }
                self.keep_for_retry(request.key, tree);
                Err(error.into())
            }
            Err(AttemptError::Transient(error)) => {
                self.report(&mut tree, &error, &request).await;
                self.keep_for_retry(request.key, tree);
                Err(ReconcileError::new(error.message))
            }
        }
    }
}

/// What the status tells about an answer that will not get better soon.
fn reason(error: &ApiError) -> Option<&'static str> {
    match error {
        ApiError::Forbidden { .. } => Some("Forbidden"),
        ApiError::Refused(_) => Some("Refused"),
        ApiError::Invalid { .. } => Some("Invalid"),
        ApiError::TooLarge(_) => Some("TooLarge"),
        ApiError::Terminating(_) => Some("Terminating"),
        ApiError::Conflict(_)
        | ApiError::AlreadyExists(_)
        | ApiError::NotFound(_)
        | ApiError::Transient { .. } => None,
    }
}

/// How far an attempt came.
enum Progress {
    /// Nothing is left to do before something changes.
    Done,
    /// There is more to do, after the other keys that wait.
    Partial,
}

/// Why an attempt ends before everything is done.
enum AttemptError {
    Api(ApiError),
    /// Something else that may go away by itself; the status tells of it.
    Transient(OperationError),
}

impl From<ApiError> for AttemptError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl Installations {
    /// Keeps of a tree what no object tells, since after a failed attempt everything else is read again.
    fn keep_for_retry(&self, key: &Key, tree: Tree) {
        self.trees().insert(key.clone(), tree.forget());
    }

    /// Does step after step until there is none, or it is the turn of others.
    async fn run_steps(
        &self,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
    ) -> Result<Progress, AttemptError> {
        let mut written = 0;
        for _ in 0..MAX_STEPS {
            if written >= WRITES_PER_TURN {
                return Ok(Progress::Partial);
            }
            match next(tree, &self.moment()) {
                Next::Rest => return Ok(Progress::Done),
                Next::Read(read) => {
                    let need = matches!(read, Read::Exports(_)).then_some(Need::Exports);
                    if let Err(error) = steps::read(tree, read, request.objects, request.index).await {
                        self.handle_api_error(error, need, tree, request).await?;
                    }
                }
                Next::Write(writes) => {
                    written += writes.len();
                    let failed = steps::write_all(tree, writes, request.objects).await;
                    // One answer decides; what failed besides is tried again, or over with the job.
                    let first =
                        failed.into_iter().max_by_key(|(need, error)| need.is_some() && error.is_final());
                    if let Some((need, error)) = first {
                        self.handle_api_error(error, need, tree, request).await?;
                    }
                }
                Next::Prepare => {
                    let prepared = self.prepare(tree, request).await?;
                    log_shortened(&prepared);
                    tell_warnings(tree, &prepared, request.objects).await;
                    tree.prepared = Some(prepared);
                }
                Next::HashImports => {
                    let Some(installation) = tree.installation.get() else { return Ok(Progress::Done) };
                    let objects = inputs::fetch(installation, None, request.objects).await?;
                    tree.imports_hash = Some(imports_hash(installation, &objects));
                }
            }
        }
        let message = format!("the job does not come to rest in {MAX_STEPS} steps");
        Err(AttemptError::Transient(OperationError::transient("Reconcile", "TooManySteps", message)))
    }

    /// Passes an answer of the API server on; its final no to something that the job needs ends the job.
    async fn handle_api_error(
        &self,
        error: ApiError,
        need: Option<Need>,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
    ) -> Result<(), AttemptError> {
        let Some(need) = need else { return Err(error.into()) };
        let is_gone = need == Need::Exports && matches!(error, ApiError::NotFound(_));
        if !error.is_final() && !is_gone {
            return Err(error.into());
        }
        let Some(ending) = refused(tree, need, &error.to_string(), &self.moment()) else {
            return Err(error.into());
        };
        match steps::write_all(tree, vec![ending], request.objects).await.pop() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()),
            job_id: uuid::Uuid::new_v4().to_string(),
            pickup_timeout: self.pickup_timeout,
        }
    }

    /// Reads all inputs of the job and renders.
    async fn prepare(
        &self,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
    ) -> Result<Prepared, AttemptError> {
        let installation = tree.installation.get().cloned().unwrap_or_default();
        let job = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let name = ObjectName { namespace: tree.namespace.clone(), name: tree.name.clone() };
        let own = if asks_resolver(&installation) {
            None
        } else {
            let (context, overwrites) = inputs::context(&installation, request.objects).await?;
            // The resolver makes a default Context that a job needs.
            let is_known = context.is_some() || self.components.is_none();
            is_known.then_some((context, overwrites))
        };
        if let Some((context, overwrites)) = own {
            let objects = inputs::fetch(&installation, context.as_ref(), request.objects).await?;
            let about = installation.clone();
            let blueprints = self.blueprints.clone();
            let render = move || {
                let inputs = Inputs {
                    installation: &installation,
                    context: context.as_ref(),
                    overwrites: overwrites.as_ref(),
                    objects: &objects,
                    repositories: &groundwork_registry::RepositoryMap::empty(
                        "the resolver's repositories.yaml",
                    ),
                    blueprint: None,
                    capabilities: &inputs::capabilities(),
                    offline: None,
                };
                prepare(&inputs, Some(&blueprints))
            };
            return self.rendered(&about, render).await;
        }
        let Some(components) = &self.components else {
            let message = "the Installation names a component, and no resolver is configured (--resolver)";
            return Err(AttemptError::Transient(OperationError::transient(
                "InitPrerequisites",
                "Resolve",
                message,
            )));
        };
        let resolved =
            components.resolve(name.clone(), &job).await.map_err(|status| resolve_failed(&status, tree))?;
        tree.installation.store(resolved.installation.clone());
        let installation = resolved.installation;
        if let Some(error) = resolved.error {
            return Ok(Prepared::failed(&installation, error));
        }
        let objects = inputs::fetch(&installation, resolved.context.as_ref(), request.objects).await?;
        let repositories = components.repositories(name, &job);
        let answers = repositories.clone();
        let about = installation.clone();
        let blueprints = self.blueprints.clone();
        let render = move || {
            let inputs = Inputs {
                installation: &installation,
                context: resolved.context.as_ref(),
                overwrites: resolved.overwrites.as_ref(),
                objects: &objects,
                repositories: &repositories,
                blueprint: None,
                capabilities: &inputs::capabilities(),
                offline: None,
            };
            prepare(&inputs, Some(&blueprints))
        };
        let prepared = self.rendered(&about, render).await?;
        match answers.unavailable() {
            None => Ok(prepared),
            Some(why) => {
                let message = format!("the resolver cannot be asked: {why}");
                Err(AttemptError::Transient(OperationError::transient(
                    "InitPrerequisites",
                    "Resolve",
                    message,
                )))
            }
        }
    }

    /// Renders beside the runtime. What takes too long, or panics, would do so again: it ends the job.
    async fn rendered(
        &self,
        installation: &Installation,
        render: impl FnOnce() -> Prepared + Send + 'static,
    ) -> Result<Prepared, AttemptError> {
        let problem = match self.workers.run(render).await {
            Ok(prepared) => return Ok(prepared),
            Err(problem) => problem,
        };
        let (reason, code) = match problem {
            WorkError::TimedOut(_) => ("RenderTimeout", ErrorCode::Timeout),
            WorkError::Panicked => ("RenderFailed", ErrorCode::InternalProblem),
            WorkError::Overloaded(_) => {
                let message = format!("rendering: {problem}");
                return Err(AttemptError::Transient(OperationError::transient(
                    "Reconcile",
                    "RenderFailed",
                    message,
                )));
            }
        };
        let error = OperationError {
            operation: "handlePhaseInit".into(),
            reason: reason.into(),
            message: format!("rendering this installation: {problem}"),
            codes: vec![code],
        };
        Ok(Prepared::failed(installation, error))
    }

    /// Tells in the status what keeps the job from going on.
    async fn report(&self, tree: &mut Tree, error: &OperationError, request: &ReconcileRequest<'_>) {
        let Some(write) = report(tree, error, &self.moment()) else { return };
        for (_, error) in steps::write_all(tree, vec![write], request.objects).await {
            tracing::debug!(%error, "the status could not tell why the job waits");
        }
    }
}

/// What did not stop the job and people should know all the same: in the log and in an Event, once a job.
async fn tell_warnings(tree: &mut Tree, prepared: &Prepared, objects: &Objects) {
    let warnings: Vec<&str> =
        prepared.outcome.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let job = &prepared.job_id;
    if warnings.is_empty() || tree.warned.as_ref() == Some(job) {
        return;
    }
    let message = warnings.join("; ");
    tracing::warn!(job, warnings = message, "rendering left something out");
    tree.warned = Some(job.clone());
    let Some(installation) = tree.installation.get() else { return };
    let report = WarningEvent {
        reason: "RenderWarnings",
        message: &message,
        component: "groundwork-renderer",
        occurrence: job,
    };
    if let Err(error) = objects.warn(installation, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}

/// The status has only the beginning of a long message.
fn log_shortened(prepared: &Prepared) {
    let Some(error) = &prepared.outcome.error else { return };
    if is_shortened(&error.cause.message) {
        let OperationError { operation, reason, message, .. } = &error.cause;
        tracing::warn!(%operation, %reason, message, "a message that is too long for a status");
    }
}

/// Forgets what is outdated in a tree that was kept: by the events of this replica, and by the index, which sees those of all.
fn outdate(tree: &mut Tree, request: &ReconcileRequest<'_>) {
    for (object, version) in request.changed {
        match object.kind.plural() {
            Installation::PLURAL => tree.installation.outdate(version),
            Execution::PLURAL => tree.execution.outdate(version),
            _ => tree.items.outdate(&object.name, version),
        }
    }
    let namespace = request.key.namespace.as_deref();
    tree.outdate(|part| {
        let id = match part {
            Part::Installation => request.key.clone(),
            Part::Execution => ObjectId::new(kind::<Execution>(), namespace, request.key.name.as_str()),
            Part::Item(name) => ObjectId::new(kind::<DeployItem>(), namespace, name),
        };
        request.index.version(&id)
    });
}

/// How long until an item that nobody has picked up yet is late.
fn until_pickup(tree: &Tree, timeout: SignedDuration) -> Option<Duration> {
    let at = tree.pickup_deadline(timeout)?.checked_add(PICKUP_MARGIN).ok()?;
    Some(at.duration_since(Timestamp::now()).max(SignedDuration::ZERO).unsigned_abs())
}

/// Another job, or no Installation any more: what this decision was about is history.
const OUTDATED: [&str; 2] = [reasons::JOB_SUPERSEDED, reasons::INSTALLATION_NOT_FOUND];

fn resolve_failed(status: &Status, tree: &Tree) -> AttemptError {
    if groundwork_proto::status::reason(status).is_some_and(|reason| OUTDATED.contains(&reason.as_str())) {
        let object = format!("{} {}/{}", Installation::PLURAL, tree.namespace, tree.name);
        return AttemptError::Api(ApiError::Conflict(object));
    }
    let message = format!("the resolver cannot be asked: {}", status.message());
    AttemptError::Transient(OperationError::transient("InitPrerequisites", "Resolve", message))
}

/// The resolver is asked about components, and to take back what it once said.
fn asks_resolver(installation: &Installation) -> bool {
    let status = installation.status.as_ref();
    installation.spec.component_descriptor.is_some()
        || status.is_some_and(|status| {
            status.conditions.iter().any(|condition| condition.type_ == OVERWRITE_CONDITION)
        })
}

#[cfg(test)]
mod tests;
