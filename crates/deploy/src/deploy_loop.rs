//! The loop around a deployer (`installations.md` 7.7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_api::{AnyJson, DeployItem, DeployerInformation, ErrorCode, ResourceExt, Target, Time, view};
use groundwork_apply::{Deadline, Told, Waiting};
use groundwork_bus::{Change, Index, ObjectId, Snapshot};
use groundwork_controller::{
    ApiError, Handler, Journal, Key, Metadata, ObjectEvent, Objects, ReconcileError, ReconcileRequest,
    Reconciled, Scribe,
};
use groundwork_lifecycle::deployer::{
    Exports, Verdict, Work, conclude, foreign_object, foreign_target, no_target, tell_waiting, work_of,
};
use groundwork_lifecycle::machine::Phase;
use groundwork_lifecycle::waits::OWNED;
use groundwork_lifecycle::{OperationError, Reason};
use jiff::{SignedDuration, Timestamp};

use crate::deployer::{Deployer, Failure, Removal, Round, RoundOutcome, Step, Warning};
use crate::export_secret::{delete_export, export_name, export_of, write_export};
use crate::missing_cluster::{ClusterName, cluster_name, is_vanished};
use crate::narration;
use crate::selector::TargetSelectors;
use crate::target::Targets;
use crate::waiting::renew;
use crate::watches::Watches;

/// Time limit of an item that sets none (`installations.md` 7.6).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// Component that reports Events, as `kubectl describe` shows it.
pub(crate) const COMPONENT: &str = "groundwork-deployer";

/// Controller loop around one deployer.
pub struct DeployLoop {
    pub deployer: Arc<dyn Deployer>,
    pub information: DeployerInformation,
    pub selectors: TargetSelectors,
    pub targets: Targets,
    pub watches: Watches,
    pub journal: Journal,
}

impl std::fmt::Debug for DeployLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeployLoop").field("type", &self.deployer.type_name()).finish_non_exhaustive()
    }
}

/// Returns the identity that a deployer writes into `status.deployer`.
pub fn identity(identity: String, name: &str, version: &str) -> DeployerInformation {
    DeployerInformation {
        identity,
        name: name.to_owned(),
        version: version.to_owned(),
        ..DeployerInformation::default()
    }
}

/// Data for one attempt at an item.
pub(crate) struct Context<'a> {
    pub(crate) request: &'a ReconcileRequest<'a>,
    pub(crate) target: Option<&'a Target>,
    pub(crate) begun: Instant,
}

/// Result of a round.
struct RoundResult {
    verdict: Verdict,
    /// The wait for the next round; `None` at the end of the work, and after an error.
    waiting: Option<Waiting>,
}

impl From<Verdict> for RoundResult {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, waiting: None }
    }
}

#[async_trait]
impl Handler for DeployLoop {
    /// Closes the watches of an item whose deletion, or whose job's end, is observed.
    fn observe(&self, object: &ObjectId, change: &Change) {
        if !matches!(change, Change::Applied(snapshot) if self.waits(snapshot)) {
            drop(self.watches.take(object));
        }
    }

    fn keys(&self, object: &ObjectId, change: &Change, _: &Index) -> Vec<Key> {
        match change {
            Change::Applied(snapshot) if self.waits(snapshot) => vec![object.clone()],
            Change::Applied(_) | Change::Deleted(_) => Vec::new(),
        }
    }

    /// Keeps no item in the index: items are read from the API server, and each deployer of a
    /// process would keep a copy of all of them.
    fn looks_up(&self, _: &ObjectId, _: &Snapshot) -> bool {
        false
    }

    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        self.waits(snapshot).then(|| object.clone())
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let mut scribe = self.journal.scribe(request.key);
        let result = self.attempt(&request, &mut scribe).await;
        if let Err(error) = &result {
            narration::tell_error(&mut scribe, &request.key.name, error);
        }
        result
    }
}

pub(crate) fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

impl DeployLoop {
    async fn attempt(
        &self,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let (namespace, objects) = (request.key.namespace.as_deref().unwrap_or_default(), request.objects);
        let begun = Instant::now();
        // The watch ends here, unless `go_on_waiting` below keeps it.
        let watch = self.watches.take(request.key).filter(|_| !request.reads_anew);
        let Some(item) = objects.get::<DeployItem>(namespace, &request.key.name).await? else {
            return Ok(Reconciled::default());
        };
        if item.spec.type_ != self.deployer.type_name() {
            return Ok(Reconciled::default());
        }
        let work = work_of(&item, &self.information, &now());
        if work == Work::None {
            return Ok(Reconciled::default());
        }
        let target = match &item.spec.target {
            // An item may only use Targets of its own namespace.
            Some(reference) => objects.get::<Target>(namespace, &reference.name).await?,
            None => None,
        };
        if target.as_ref().is_some_and(|target| !self.selectors.serve(target)) {
            return Ok(Reconciled::default());
        }
        let context = Context { request, target: target.as_ref(), begun };
        if let Some(watch) = watch
            && matches!(work, Work::Continue)
            && let Some(reconciled) = self.go_on_waiting(&item, watch, &context).await?
        {
            return Ok(reconciled);
        }
        narration::begin(scribe, &item, request.changed);
        let item = match work {
            Work::None => return Ok(Reconciled::default()),
            Work::PickUp { item, is_done } => {
                let stored = objects.replace_status(&*item).await?;
                narration::begin(scribe, &stored, &[]);
                narration::tell_pick_up(scribe, &item, &stored);
                if is_done {
                    return Ok(Reconciled::default());
                }
                stored
            }
            Work::Continue => match self.owned_for(&item) {
                // Two processes that work on one release would delete each other's hooks. If the
                // other process is gone, its claim expires after a while.
                Some(left) => {
                    narration::tell_wait(scribe, &item, "another process works on it");
                    return Ok(Reconciled::requeue_after(left));
                }
                None => self.claimed(item, objects).await?,
            },
        };
        if let Some(words) = request.set_aside.due() {
            let verdict = Verdict::failed(&item, OperationError::set_aside(words));
            return self.report(&item, verdict.into(), &context, scribe).await;
        }
        if item.metadata.deletion_timestamp.is_some() {
            return self.remove(&item, &context, scribe).await;
        }
        self.install(item, &context, scribe).await
    }

    /// Reports whether an item in this state is work for this deployer.
    fn waits(&self, snapshot: &Snapshot) -> bool {
        let item = view::DeployItem(snapshot);
        item.deployer_type() == self.deployer.type_name() && item.job().is_running()
    }

    /// Returns the time for which another process may still be working on an item that touches a
    /// cluster. A process that restarts under the same name continues at once.
    fn owned_for(&self, item: &DeployItem) -> Option<Duration> {
        let status = item.status.as_ref()?;
        let is_own =
            status.deployer.as_ref().is_none_or(|deployer| deployer.identity == self.information.identity);
        if is_own || !self.deployer.has_timeout() {
            return None;
        }
        let end = status.last_reconcile_time.as_ref()?.0.checked_add(OWNED).ok()?;
        Duration::try_from(end.duration_since(Timestamp::now())).ok().filter(|left| !left.is_zero())
    }

    /// Claims the item for this process, if another one had it.
    async fn claimed(&self, item: DeployItem, objects: &Objects) -> Result<DeployItem, ApiError> {
        let deployer = item.status.as_ref().and_then(|status| status.deployer.as_ref());
        if deployer.is_none_or(|deployer| deployer.identity == self.information.identity)
            || !self.deployer.has_timeout()
        {
            return Ok(item);
        }
        let mut item = item;
        let status = item.status.get_or_insert_default();
        status.deployer = Some(self.information.clone());
        status.last_reconcile_time = Some(now());
        objects.replace_status(&item).await
    }

    /// Returns the time by which an item has to be done; none if it has no limit.
    pub(crate) fn deadline(&self, item: &DeployItem) -> Deadline {
        let timeout = timeout(item).filter(|_| self.deployer.has_timeout());
        let length = timeout.and_then(|timeout| SignedDuration::try_from(timeout).ok());
        let end = started(item).zip(length).and_then(|(start, length)| start.checked_add(length).ok());
        Deadline(end.map(|end| self.deployer.extension(item).map_or(end, |extended| extended.max(end))))
    }

    async fn install(
        &self,
        item: DeployItem,
        context: &Context<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let (target, objects) = (context.target, context.request.objects);
        let has_finalizer = item.finalizers().iter().any(|name| name == FINALIZER);
        let item = if has_finalizer { item } else { add_finalizer(&item, objects).await? };
        if let Some(error) = missing_target(&item, target) {
            return self.report(&item, Verdict::failed(&item, error).into(), context, scribe).await;
        }
        let deadline = self.deadline(&item);
        // The cluster's name is recorded once for each job.
        let item = if current_phase(&item) == Phase::Init.as_str() {
            match cluster_name(&item, target, &self.targets, objects).await {
                Ok(name) => with_cluster_name(item, name, objects).await?,
                Err(error) => {
                    let verdict = failed(&item, error.into(), deadline);
                    return self.report(&item, verdict.into(), context, scribe).await;
                }
            }
        } else {
            item
        };
        let round = Round { item: &item, target, targets: &self.targets, objects, deadline };
        let result = match self.deployer.reconcile(&round).await {
            Ok(step) => self.result(&item, step, objects, scribe).await?,
            Err(failure) => failed(&item, failure, deadline).into(),
        };
        self.report(&item, result, context, scribe).await
    }

    async fn result(
        &self,
        item: &DeployItem,
        step: Step,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Result<RoundResult, ReconcileError> {
        tell(item, &step.warnings, objects).await;
        let phase = match step.outcome {
            RoundOutcome::Waiting(waiting) => {
                tracing::debug!(item = %item.name_any(), what = waiting.what, "the item waits");
                narration::tell_wait(scribe, item, &waiting.what);
                let verdict = unfinished(Phase::Progressing, step.provider_status);
                return Ok(RoundResult { verdict, waiting: Some(waiting) });
            }
            RoundOutcome::Done => Phase::Succeeded.into(),
            RoundOutcome::Phase(Some(phase)) => phase,
            RoundOutcome::Phase(None) => current_phase(item),
        };
        let exports = match &step.exports {
            Some(values) => match write_export(item, values, objects).await? {
                Some(reference) => Exports::In(reference),
                None => {
                    let error = foreign_object(&format!("the secret {}", export_name(item)));
                    let verdict = Verdict::failed(item, error);
                    return Ok(Verdict { provider_status: step.provider_status, ..verdict }.into());
                }
            },
            // Exports of an earlier job are obsolete now (`installations.md` 7.5).
            None if export_of(item).is_some() => {
                delete_export(item, objects).await?;
                Exports::None
            }
            None => Exports::Keep,
        };
        Ok(Verdict { phase, error: None, provider_status: step.provider_status, exports }.into())
    }

    async fn remove(
        &self,
        item: &DeployItem,
        context: &Context<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let objects = context.request.objects;
        let without_uninstall =
            item.annotations().get(annotation::DELETE_WITHOUT_UNINSTALL).is_some_and(|value| value == "true");
        if !without_uninstall && let Some(result) = self.uninstall(item, context, scribe).await {
            return self.report(item, result, context, scribe).await;
        }
        let namespace = item.namespace().unwrap_or_default();
        delete_export(item, objects).await?;
        let others = item.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
        let change = Metadata {
            resource_version: item.resource_version(),
            finalizers: Some(others),
            ..Metadata::default()
        };
        match objects.patch_metadata::<DeployItem>(&namespace, &item.name_any(), &change).await {
            Ok(_) | Err(ApiError::NotFound(_)) => {
                narration::tell_removed(scribe, item);
                Ok(Reconciled::default())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Uninstalls what the item has deployed. Returns `None` when that is done, or when the cluster
    /// no longer exists.
    async fn uninstall(
        &self,
        item: &DeployItem,
        context: &Context<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Option<RoundResult> {
        let (target, objects) = (context.target, context.request.objects);
        let deadline = self.deadline(item);
        // Check this first, because the Target of a vanished cluster is gone too.
        match is_vanished(item, &self.targets, objects).await {
            Ok(true) => {
                tracing::info!(item = %item.name_any(), "the item is not uninstalled: its cluster is gone");
                narration::tell_vanished(scribe, item);
                return None;
            }
            Ok(false) => {}
            Err(error) => return Some(failed(item, error.into(), deadline).into()),
        }
        if let Some(error) = missing_target(item, target) {
            return Some(Verdict::failed(item, error).into());
        }
        let round = Round { item, target, targets: &self.targets, objects, deadline };
        match self.deployer.delete(&round).await {
            Ok(Removal::Done) => None,
            Ok(Removal::Waiting { waiting, provider_status }) => {
                tracing::debug!(item = %item.name_any(), what = waiting.what, "the item waits");
                narration::tell_wait(scribe, item, &waiting.what);
                let verdict = unfinished(Phase::Deleting, provider_status);
                Some(RoundResult { verdict, waiting: Some(waiting) })
            }
            Ok(Removal::Phase(phase)) => {
                Some(Verdict { phase, error: None, provider_status: None, exports: Exports::Keep }.into())
            }
            Err(failure) => Some(failed(item, failure, deadline).into()),
        }
    }

    /// Writes the result if it has changed, and schedules another round unless this was the last.
    async fn report(
        &self,
        item: &DeployItem,
        result: RoundResult,
        context: &Context<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let (objects, RoundResult { verdict, waiting }) = (context.request.objects, result);
        let is_end = Phase::of(Some(&verdict.phase)).is_final();
        let error = verdict.error.clone();
        let mut concluded = conclude(item, verdict, &now());
        if !is_end && self.deployer.has_timeout() {
            renew(&mut concluded);
        }
        let noun = waiting.as_ref().filter(|_| !is_end).map(Waiting::noun);
        let is_written = concluded != *item;
        tell_waiting(&mut concluded, noun.as_deref(), is_written, &now());
        if concluded != *item {
            let stored = match objects.replace_status(&concluded).await {
                Err(ApiError::NotFound(_)) if item.metadata.deletion_timestamp.is_some() => {
                    return Ok(Reconciled::default());
                }
                answer => answer?,
            };
            narration::tell_result(scribe, item, &stored);
            if let Some(error) = error {
                warn(&stored, error.reason.as_str(), &error.message, objects).await;
            }
            concluded = stored;
        }
        if is_end {
            return Ok(Reconciled::default());
        }
        Ok(Reconciled::requeue_after(self.wait(&concluded, waiting, context).await))
    }
}

/// Returns the time limit of an item; `None` for no limit.
fn timeout(item: &DeployItem) -> Option<Duration> {
    match &item.spec.timeout {
        Some(timeout) if timeout.is_none() => None,
        Some(timeout) => timeout.to_std(),
        None => Some(DEFAULT_TIMEOUT),
    }
}

pub(crate) fn started(item: &DeployItem) -> Option<Timestamp> {
    let times = item.status.as_ref()?.transition_times.as_ref()?;
    times.init_time.as_ref().map(|time| time.0)
}

fn current_phase(item: &DeployItem) -> String {
    item.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

fn unfinished(phase: Phase, provider_status: Option<AnyJson>) -> Verdict {
    Verdict { phase: phase.into(), error: None, provider_status, exports: Exports::Keep }
}

/// Returns the item with the name of its cluster recorded, if it asks for that (`installations.md`
/// 8.5).
async fn with_cluster_name(
    item: DeployItem,
    name: ClusterName,
    objects: &Objects,
) -> Result<DeployItem, ApiError> {
    let name = match name {
        ClusterName::NotAskedFor => None,
        ClusterName::Known(name) => Some(name),
        ClusterName::Unknown(why) => {
            let message = format!("onDelete.skipUninstallIfClusterRemoved has no effect: {why}");
            warn(&item, "OnDeleteWithoutEffect", &message, objects).await;
            None
        }
    };
    if item.annotations().get(annotation::CLUSTER_NAME) == name.as_ref() {
        return Ok(item);
    }
    let change = Metadata {
        resource_version: item.resource_version(),
        annotations: vec![(annotation::CLUSTER_NAME.to_owned(), name)],
        ..Metadata::default()
    };
    objects.patch_metadata(&item.namespace().unwrap_or_default(), &item.name_any(), &change).await
}

/// Returns the verdict for a failed round. A transient error also ends the job if no time is left.
fn failed(item: &DeployItem, failure: Failure, deadline: Deadline) -> Verdict {
    let Failure { mut error, provider_status } = failure;
    let is_final = error.codes.iter().any(|code| code.is_unrecoverable());
    if !is_final && deadline.0.is_some_and(|at| Timestamp::now() >= at) {
        error = OperationError {
            operation: error.operation,
            reason: Reason::ProgressingTimeout,
            message: format!("timeout at: \"deployer: start reconcile\"{LAST_ERROR}{}", error.message),
            codes: vec![ErrorCode::Timeout],
        };
    }
    if error.reason == Reason::ProgressingTimeout {
        error.message = with_last_error(item, &error.message, true);
    }
    Verdict { provider_status, ..Verdict::failed(item, error) }
}

/// Text before the cause that the time-out would otherwise hide.
const LAST_ERROR: &str = "; the last error was: ";

/// Adds the job's last error to a text about a time-out. Other texts stay unchanged.
pub fn with_last_error(item: &DeployItem, text: &str, is_timeout: bool) -> String {
    let last = item.status.as_ref().and_then(|status| status.last_error.as_ref());
    match last.filter(|_| is_timeout && !text.contains(LAST_ERROR)) {
        Some(last) => format!("{text}{LAST_ERROR}{}", last.message),
        None => text.to_owned(),
    }
}

/// Returns an error if the item's Target does not exist in the item's namespace (`installations.md`
/// 2.4, 7.7 and 10.8).
fn missing_target(item: &DeployItem, target: Option<&Target>) -> Option<OperationError> {
    let reference = item.spec.target.as_ref()?;
    let namespace = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    if let Some(other) = namespace.filter(|namespace| Some(*namespace) != item.namespace().as_deref()) {
        return Some(foreign_target(&reference.name, other));
    }
    target.is_none().then(|| no_target(&reference.name))
}

/// Records warnings as Events, once for each job.
async fn tell(item: &DeployItem, warnings: &[Warning], objects: &Objects) {
    if current_phase(item) != Phase::Init.as_str() {
        return;
    }
    for warning in warnings {
        warn(item, warning.reason, &warning.message, objects).await;
    }
}

async fn warn(item: &DeployItem, reason: &str, message: &str, objects: &Objects) {
    let job = job_of(item);
    let report = ObjectEvent { reason, message, component: COMPONENT, occurrence: &job };
    lost(objects.warn(item, &report).await);
}

fn job_of(item: &DeployItem) -> String {
    item.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default()
}

/// Logs that an Event could not be recorded. The caller continues, because no state depends on
/// Events.
pub(crate) fn lost(recorded: Result<(), ApiError>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}

impl Round<'_> {
    /// Returns the time limit of the item; `None` for no limit.
    pub fn timeout(&self) -> Option<Duration> {
        timeout(self.item)
    }

    /// Records a warning Event for the item, once for each job.
    pub async fn warn(&self, reason: &str, message: &str) {
        warn(self.item, reason, message, self.objects).await;
    }

    /// Records Events about disposed objects.
    pub async fn tell(&self, told: &[Told]) {
        for Told { reason, message, is_warning } in told {
            match is_warning {
                true => self.warn(reason, message).await,
                false => self.note(reason, message).await,
            }
        }
    }

    /// Records an Event of type `Normal` for the item, once for each job.
    pub async fn note(&self, reason: &str, message: &str) {
        let job = job_of(self.item);
        let report = ObjectEvent { reason, message, component: COMPONENT, occurrence: &job };
        lost(self.objects.note(self.item, &report).await);
    }
}

async fn add_finalizer(item: &DeployItem, objects: &Objects) -> Result<DeployItem, ApiError> {
    let finalizers = item.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
    let change = Metadata {
        resource_version: item.resource_version(),
        finalizers: Some(finalizers),
        ..Metadata::default()
    };
    objects.patch_metadata(&item.namespace().unwrap_or_default(), &item.name_any(), &change).await
}

#[cfg(test)]
pub(crate) mod tests;
