//! Controller of Installations: it maps events to keys, and runs the state machine for each key
//! until no step is left.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use groundwork_api::{DeployItem, Execution, Installation, Kind as _, Time, view};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{
    ApiError, Handler, Journal, Key, ObjectEvent, Objects, ReconcileError, ReconcileRequest, Reconciled,
    Scribe,
};
use groundwork_lifecycle::machine::{Moment, Need, Next, Part, Read, Tree, next, refused, report, set_aside};
use groundwork_lifecycle::waits::{PICKUP_MARGIN, SIBLING_LOOK};
use groundwork_lifecycle::{OperationError, Reason, Warning, imports_hash, is_shortened, living_scope};
use groundwork_proto::status::reasons;
use jiff::{SignedDuration, Timestamp};
use tonic::Status;

use crate::changes::Changes;
use crate::relations::{ObjectRelations, owner};
use crate::rendering::Renderings;
use crate::snapshots::{needs_work, next_automatic, pickup_deadline};
use crate::steps::{Reader, Writer};
use crate::write_error::WriteError;
use crate::{inputs, job_log, narration, steps};

/// Limit for the steps of one attempt, above what any job needs. It stops a state machine that
/// loops.
const MAX_STEPS: usize = 2_000;
/// Writes of one attempt before the key is requeued, so that an Installation with thousands of
/// items does not delay small ones.
const WRITES_PER_TURN: usize = 64;

/// Controller of Installations, with their Executions and DeployItems.
pub(crate) struct Installations {
    pub(crate) pickup_timeout: Option<SignedDuration>,
    renderings: Renderings,
    /// Trees of running jobs. This cache only saves reads: every write carries the resource version
    /// that it was decided on.
    trees: Mutex<HashMap<Key, Tree>>,
    relations: RwLock<ObjectRelations>,
    changes: Changes,
    journal: Journal,
}

impl Installations {
    pub(crate) fn new(
        renderings: Renderings,
        changes: Changes,
        journal: Journal,
        pickup_timeout: Option<SignedDuration>,
    ) -> Self {
        let (trees, relations) = (Mutex::default(), RwLock::default());
        Self { pickup_timeout, renderings, trees, relations, changes, journal }
    }

    fn trees(&self) -> MutexGuard<'_, HashMap<Key, Tree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn relations(&self) -> RwLockReadGuard<'_, ObjectRelations> {
        self.relations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn relations_mut(&self) -> RwLockWriteGuard<'_, ObjectRelations> {
        self.relations.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys to reconcile after a change of an Installation: the Installation itself
    /// and, once its job has finished, every sibling that waits for it.
    fn keys_of_installation(&self, object: &ObjectId, snapshot: &Snapshot, index: &Index) -> Vec<Key> {
        let mut keys = Vec::new();
        if needs_work(snapshot) {
            keys.push(object.clone());
        }
        if !view::Installation(snapshot).job().is_running() {
            let relations = self.relations();
            let names = owner(object, snapshot).into_iter().chain(relations.successors_of(object));
            let keys_of_names = names.map(|name| installation_of(object, &name)).collect::<Vec<_>>();
            drop(relations);
            keys.extend(self.waiting(keys_of_names.into_iter(), index));
        }
        keys
    }

    /// Returns those of the keys whose Installations may wait for an event.
    fn waiting(&self, installations: impl Iterator<Item = Key>, index: &Index) -> Vec<Key> {
        installations.filter(|key| index.get(key).is_some_and(|snapshot| needs_work(&snapshot))).collect()
    }
}

/// Returns the key of an Installation in the namespace of an object. An Execution has the name of
/// its Installation.
pub(crate) fn installation_of(object: &ObjectId, name: &str) -> Key {
    ObjectId::new(Kind::of::<Installation>(), object.namespace.as_deref(), name)
}

/// Returns the key of the Installation that an Installation or an Execution belongs to.
fn installation_at(object: &ObjectId) -> Option<Key> {
    let is_one = [Installation::PLURAL, Execution::PLURAL].contains(&object.kind.plural());
    is_one.then(|| installation_of(object, &object.name))
}

/// Returns the key of an Installation.
pub(crate) fn installation_key(namespace: &str, name: &str) -> Key {
    ObjectId::new(Kind::of::<Installation>(), Some(namespace), name)
}

#[async_trait]
impl Handler for Installations {
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        match (object.kind.plural(), change) {
            (Installation::PLURAL, Change::Deleted(last)) => {
                self.trees().remove(object);
                let predecessors = self.relations().predecessors_of(object, last);
                // A deleted Installation wakes its parent, which counts its remaining children, and
                // the siblings it imported from, which wait for their importers to go.
                let names = owner(object, last).into_iter().chain(predecessors);
                let mut keys = self.waiting(names.map(|name| installation_of(object, &name)), index);
                // Usually no objects are left below a deleted Installation. If there are, they must
                // be reconciled.
                keys.extend(index.owned_by(&last.uid).iter().filter_map(installation_at));
                keys
            }
            (Installation::PLURAL, Change::Applied(snapshot)) => {
                self.keys_of_installation(object, snapshot, index)
            }
            (Execution::PLURAL, _) => vec![installation_of(object, &object.name)],
            (DeployItem::PLURAL, Change::Deleted(last)) => {
                owner(object, last).map(|name| installation_of(object, &name)).into_iter().collect()
            }
            // Only the end of an item's job wakes the Installation; progress of the item changes no
            // decision.
            (DeployItem::PLURAL, Change::Applied(snapshot))
                if !view::DeployItem(snapshot).job().is_running() =>
            {
                let name = view::DeployItem(snapshot).execution();
                name.map(|name| installation_of(object, name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the key of the Installation whose job has to work on an object. A live Execution or
    /// item needs no entry of its own: it has the same job as its Installation, which finishes
    /// last. The exception is an object that is being deleted after a user removed the finalizer of
    /// its Installation.
    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let waits = match object.kind.plural() {
            Installation::PLURAL => needs_work(snapshot),
            Execution::PLURAL => snapshot.is_deleting(),
            DeployItem::PLURAL => {
                let is_left = snapshot.is_deleting() && !view::DeployItem(snapshot).job().is_running();
                let execution = view::DeployItem(snapshot).execution().filter(|_| is_left)?;
                return Some(installation_of(object, execution));
            }
            _ => false,
        };
        waits.then(|| installation_of(object, &object.name))
    }

    fn schedule(&self, object: &ObjectId, snapshot: &Snapshot, _: bool) -> Option<(Key, Timestamp)> {
        match object.kind.plural() {
            Installation::PLURAL => next_automatic(snapshot, Timestamp::now()).map(|at| (object.clone(), at)),
            DeployItem::PLURAL => {
                let name = view::DeployItem(snapshot).execution()?;
                let at = pickup_deadline(snapshot, self.pickup_timeout?)?;
                Some((installation_of(object, name), at))
            }
            _ => None,
        }
    }

    fn observe(&self, object: &ObjectId, change: &Change) {
        self.relations_mut().observe(object, change);
        self.changes.tell(object, || owner(object, change.snapshot()));
    }

    fn forget_observed(&self, _kinds: &[Kind]) {
        self.relations_mut().clear();
        self.changes.tell_of_all();
    }

    fn reset(&self) {
        self.trees().clear();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let namespace = request.key.namespace.clone().unwrap_or_default();
        let known = self.trees().remove(request.key);
        let known = known.map(|tree| if request.reads_anew { tree.forget() } else { tree });
        let mut tree = known.unwrap_or_else(|| Tree::new(namespace, request.key.name.clone()));
        let still_looks = tree.goes_on && tree.looks_for_left;
        outdate(&mut tree, &request, &self.relations());
        tree.has_unstarted = self.relations().has_unstarted(request.key);
        tree.looks_for_left = still_looks || request.reads_anew || has_left(&request);
        let mut scribe = self.journal.scribe(request.key);
        narration::tell_events(&mut scribe, request.changed);
        match self.run_steps(&mut tree, &request, &mut scribe).await {
            Ok(Progress::Partial) => {
                narration::tell_requeue(&mut scribe, &tree);
                tree.goes_on = true;
                self.trees().insert(request.key.clone(), tree);
                Ok(Reconciled::requeue())
            }
            Ok(Progress::Waiting) => {
                narration::tell_wait(&mut scribe, &tree);
                self.trees().insert(request.key.clone(), tree);
                Ok(Reconciled::requeue_after(SIBLING_LOOK))
            }
            Ok(Progress::Done) => {
                narration::tell_rest(&mut scribe, &tree);
                // A finished job needs no cached tree; the next job reads everything again.
                if job_log::running_job(&tree).is_none() {
                    return Ok(Reconciled::default());
                }
                let requeue_after = self.pickup_timeout.and_then(|timeout| until_pickup(&tree, timeout));
                self.trees().insert(request.key.clone(), tree);
                Ok(Reconciled { requeue_after, ..Reconciled::default() })
            }
            Err(AttemptError::Api(error)) => {
                narration::tell_api_error(&mut scribe, &tree, &error);
                if let Some(reason) = reason(&error) {
                    let error = OperationError::transient("Reconcile", reason, error.to_string());
                    self.report(&mut tree, &error, &request, &mut scribe).await;
                }
                self.keep_for_retry(request.key, tree);
                Err(error.into())
            }
            Err(AttemptError::Transient(error)) => {
                narration::tell_error(&mut scribe, &tree, &error);
                self.report(&mut tree, &error, &request, &mut scribe).await;
                self.keep_for_retry(request.key, tree);
                Err(ReconcileError::new(error.message))
            }
        }
    }
}

/// Returns the reason to show in the status for an answer that will not change soon.
fn reason(error: &ApiError) -> Option<Reason> {
    match error {
        ApiError::Forbidden { .. } => Some(Reason::Forbidden),
        ApiError::Refused { .. } | ApiError::WebhookAway { .. } => Some(Reason::Refused),
        ApiError::Invalid { .. } | ApiError::Undeclared { .. } => Some(Reason::Invalid),
        ApiError::TooLarge(_) => Some(Reason::TooLarge),
        ApiError::Terminating(_) => Some(Reason::Terminating),
        ApiError::Conflict(_)
        | ApiError::AlreadyExists(_)
        | ApiError::NotFound(_)
        | ApiError::NoNamespace { .. }
        | ApiError::Transient { .. }
        | ApiError::Unasked { .. } => None,
    }
}

/// Result of an attempt.
enum Progress {
    /// No step is left until an object changes.
    Done,
    /// Steps are left; the key is requeued behind the others.
    Partial,
    /// The job waits for siblings. Their events wake it; a later attempt covers a lost event.
    Waiting,
}

/// Reason why an attempt ends early.
pub(crate) enum AttemptError {
    Api(ApiError),
    /// Any other error that may go away by itself; the status shows it.
    Transient(OperationError),
}

impl From<ApiError> for AttemptError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl Installations {
    /// Keeps the parts of a tree that no object contains. After a failed attempt, everything else
    /// is read again.
    fn keep_for_retry(&self, key: &Key, tree: Tree) {
        self.trees().insert(key.clone(), tree.forget());
    }

    /// Runs step after step until none is left, or until other keys are due.
    async fn run_steps(
        &self,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Progress, AttemptError> {
        let mut written = 0;
        for _ in 0..MAX_STEPS {
            narration::tell_job(scribe, tree);
            if written >= WRITES_PER_TURN {
                return Ok(Progress::Partial);
            }
            if let Some(words) = request.set_aside.due()
                && tree.installation.get().is_some()
            {
                return self.set_aside(words, tree, request, scribe).await;
            }
            match next(tree, &self.moment()) {
                Next::Rest => return Ok(Progress::Done),
                Next::Wait => return Ok(Progress::Waiting),
                Next::Read(read) => {
                    let need = matches!(read, Read::Exports(_)).then_some(Need::Exports);
                    if let Err(error) = self.reader(request).read(tree, read).await {
                        self.handle_error(error.into(), need, tree, request, scribe).await?;
                    }
                }
                Next::Write(writes) => {
                    written += writes.len();
                    let failed = steps::write_all(tree, writes, writer(request), scribe).await;
                    // Several writes may fail, but one error decides: a final one about something
                    // the job needs. The other writes are repeated by the next attempt, or obsolete
                    // with the end of the job.
                    let first =
                        failed.into_iter().max_by_key(|(need, error)| need.is_some() && error.is_final());
                    if let Some((need, error)) = first {
                        self.handle_error(error, need, tree, request, scribe).await?;
                    }
                }
                Next::Prepare => {
                    let began = Instant::now();
                    let prepared = self.renderings.prepare(tree, request.objects).await?;
                    let error = prepared.error.as_ref();
                    narration::tell_rendering(scribe, tree, "the objects below", began, error);
                    narration::tell_sources(scribe, tree, &prepared.sources);
                    log_shortened(error);
                    let job = &prepared.job_id;
                    tell_warnings(tree, job, job, &prepared.warnings, request.objects).await;
                    tree.prepared = Some(prepared);
                }
                Next::Complete => {
                    let began = Instant::now();
                    let completion = self.renderings.complete(tree, request.objects).await?;
                    let error = completion.error.as_ref();
                    narration::tell_rendering(scribe, tree, "the exports", began, error);
                    log_shortened(error);
                    let job = completion.job_id.clone();
                    let occurrence = format!("{job}/exports");
                    tell_warnings(tree, &job, &occurrence, &completion.warnings, request.objects).await;
                    tree.completion = Some(completion);
                }
                Next::HashImports => {
                    let Some(installation) = tree.installation.get() else { return Ok(Progress::Done) };
                    let objects = inputs::fetch(installation, None, request.objects).await?;
                    tree.imports_hash =
                        Some(imports_hash(installation, &living_scope(installation), &objects));
                }
            }
        }
        let message = format!("the job did not finish within {MAX_STEPS} steps");
        Err(AttemptError::Transient(OperationError::transient("Reconcile", Reason::TooManySteps, message)))
    }

    /// Passes an error on. A final refusal of a write that the job needs ends the job.
    async fn handle_error(
        &self,
        error: WriteError,
        need: Option<Need>,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<(), AttemptError> {
        let Some(need) = need else { return Err(error.into()) };
        if !error.ends_job(need) {
            return Err(error.into());
        }
        if tree.dependents.is_none() {
            self.reader(request).read(tree, Read::Dependents).await?;
        }
        let Some(ending) = refused(tree, need, &error.to_string(), &self.moment()) else {
            return Err(error.into());
        };
        match steps::write_all(tree, vec![ending], writer(request), scribe).await.pop() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Ends a job whose reconcile killed processes.
    async fn set_aside(
        &self,
        words: &str,
        tree: &mut Tree,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Progress, AttemptError> {
        if tree.dependents.is_none() {
            self.reader(request).read(tree, Read::Dependents).await?;
        }
        let Some(ending) = set_aside(tree, words, &self.moment()) else { return Ok(Progress::Done) };
        match steps::write_all(tree, vec![ending], writer(request), scribe).await.pop() {
            Some((_, error)) => Err(error.into()),
            None => Ok(Progress::Done),
        }
    }

    fn reader<'a>(&'a self, request: &'a ReconcileRequest<'_>) -> Reader<'a> {
        Reader { objects: request.objects, index: request.index, installations: self }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()),
            job_id: uuid::Uuid::new_v4().to_string(),
            pickup_timeout: self.pickup_timeout,
        }
    }

    /// Writes the problem that blocks the job into the status.
    async fn report(
        &self,
        tree: &mut Tree,
        error: &OperationError,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) {
        let Some(write) = report(tree, error, &self.moment()) else { return };
        for (_, error) in steps::write_all(tree, vec![write], writer(request), scribe).await {
            tracing::debug!(%error, "the reason of a wait could not be written to the status");
        }
    }
}

fn writer<'a>(request: &'a ReconcileRequest<'_>) -> Writer<'a> {
    Writer { objects: request.objects, index: request.index }
}

/// Reports warnings that did not stop the job, in the log and in an Event, once per job.
async fn tell_warnings(
    tree: &mut Tree,
    job: &str,
    occurrence: &str,
    warnings: &[Warning],
    objects: &Objects,
) {
    let warnings: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    if warnings.is_empty() || tree.warned.as_deref() == Some(occurrence) {
        return;
    }
    let message = warnings.join("; ");
    tracing::warn!(job, warnings = message, "rendering produced warnings");
    tree.warned = Some(occurrence.to_owned());
    let Some(installation) = tree.installation.get() else { return };
    let report = ObjectEvent {
        reason: "RenderWarnings",
        message: &message,
        component: "groundwork-renderer",
        occurrence,
    };
    if let Err(error) = objects.warn(installation, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}

/// Logs a message in full if it is too long for the status.
fn log_shortened(error: Option<&OperationError>) {
    let Some(error) = error else { return };
    if is_shortened(&error.message) {
        let OperationError { operation, reason, message, .. } = error;
        tracing::warn!(%operation, %reason, error = message, "a message is too long for the status; the field error \
                                                              has all of it");
    }
}

/// Drops the outdated parts of a cached tree, by the events of this replica and by the index, which
/// sees the events of all replicas.
fn outdate(tree: &mut Tree, request: &ReconcileRequest<'_>, relations: &ObjectRelations) {
    for (object, sight) in request.changed {
        let version = sight.alive();
        match object.kind.plural() {
            Installation::PLURAL if object == request.key => tree.installation.outdate(version),
            Installation::PLURAL => {
                // An event of a finished sibling wakes this Installation too, and is not about a
                // child.
                let is_child = relations.is_child(object, &request.key.name)
                    || tree.children.get(&object.name).is_some();
                if is_child {
                    tree.children.outdate(&object.name, version);
                }
            }
            Execution::PLURAL => tree.execution.outdate(version),
            _ => tree.items.outdate(&object.name, version),
        }
    }
    let namespace = request.key.namespace.as_deref();
    tree.outdate(|part| {
        let id = match part {
            Part::Installation => request.key.clone(),
            Part::Execution => ObjectId::new(Kind::of::<Execution>(), namespace, request.key.name.as_str()),
            Part::Item(name) => ObjectId::new(Kind::of::<DeployItem>(), namespace, name),
            Part::Child(name) => ObjectId::new(Kind::of::<Installation>(), namespace, name),
        };
        request.index.version(&id)
    });
}

/// Returns true if an event reports an Execution or an item that is being deleted without a job.
/// The end of an Execution does not count: every deletion has it, so items would be listed each
/// time.
fn has_left(request: &ReconcileRequest<'_>) -> bool {
    request.changed.iter().any(|(object, _)| {
        let Some(snapshot) = request.index.get(object).filter(Snapshot::is_deleting) else {
            return false;
        };
        match object.kind.plural() {
            Execution::PLURAL => !view::Execution(&snapshot).job().is_running(),
            DeployItem::PLURAL => !view::DeployItem(&snapshot).job().is_running(),
            _ => false,
        }
    })
}

/// Returns the time until an item that no deployer has picked up exceeds its pickup timeout.
fn until_pickup(tree: &Tree, timeout: SignedDuration) -> Option<Duration> {
    let at = tree.pickup_deadline(timeout)?.checked_add(PICKUP_MARGIN).ok()?;
    Some(at.duration_since(Timestamp::now()).max(SignedDuration::ZERO).unsigned_abs())
}

/// Reasons of the resolver that refer to an earlier job or to a deleted Installation; the answer
/// does not matter any more.
const OUTDATED: [&str; 2] = [reasons::JOB_SUPERSEDED, reasons::INSTALLATION_NOT_FOUND];

pub(crate) fn resolve_failed(status: &Status, tree: &Tree) -> AttemptError {
    if groundwork_proto::status::reason(status).is_some_and(|reason| OUTDATED.contains(&reason.as_str())) {
        let object = format!("{} {}/{}", Installation::PLURAL, tree.namespace, tree.name);
        return AttemptError::Api(ApiError::Conflict(object));
    }
    let message = format!("cannot call the resolver: {}", status.message());
    AttemptError::Transient(OperationError::transient("InitPrerequisites", Reason::Resolve, message))
}

#[cfg(test)]
mod tests;
