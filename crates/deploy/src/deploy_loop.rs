//! The loop around a deployer (`installations.md` 7.7).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_api::{AnyJson, DeployItem, DeployerInformation, ErrorCode, ResourceExt, Target, Time, view};
use groundwork_apply::Deadline;
use groundwork_bus::{Change, Index, ObjectId, Snapshot};
use groundwork_controller::{
    ApiError, Handler, Journal, Key, Metadata, ObjectEvent, Objects, ReconcileError, ReconcileRequest,
    Reconciled, Scribe,
};
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::{Exports, Verdict, Work, conclude, foreign_object, no_target, work_of};
use groundwork_lifecycle::machine::Phase;
use jiff::{SignedDuration, Timestamp};

use crate::deployer::{Deployer, Failure, Outcome, Removal, Round, Step, Warning};
use crate::export_secret::{delete_export, export_name, export_of, write_export};
use crate::narration;
use crate::selector::TargetSelectors;
use crate::target::Targets;
use crate::vanished::{ClusterName, cluster_name, is_vanished};

/// An item that is not at its end is looked at again after this time at the latest (7.7, 7).
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// And not before this: an item that has just begun is often done soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// How long an item may take if it does not say so (7.6).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// How long an item is left to the process that works on it, counted from when that has said so last.
const OWNED: SignedDuration = SignedDuration::from_secs(60);
/// How old that may become while it works.
const RENEWED: SignedDuration = SignedDuration::from_secs(15);
/// Who reports Events.
pub(crate) const COMPONENT: &str = "groundwork-deployer";

/// Drives one deployer.
pub struct DeployLoop {
    pub deployer: Arc<dyn Deployer>,
    pub information: DeployerInformation,
    pub selectors: TargetSelectors,
    pub targets: Targets,
    pub journal: Journal,
}

impl std::fmt::Debug for DeployLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeployLoop").field("type", &self.deployer.type_name()).finish_non_exhaustive()
    }
}

/// What a deployer writes into `status.deployer`.
pub fn identity(identity: String, name: &str, version: &str) -> DeployerInformation {
    DeployerInformation {
        identity,
        name: name.to_owned(),
        version: version.to_owned(),
        ..DeployerInformation::default()
    }
}

#[async_trait]
impl Handler for DeployLoop {
    fn keys(&self, object: &ObjectId, change: &Change, _: &Index) -> Vec<Key> {
        match change {
            Change::Applied(snapshot) if self.waits(snapshot) => vec![object.clone()],
            Change::Applied(_) | Change::Deleted { .. } => Vec::new(),
        }
    }

    /// Items that were under way when the process ended.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        (is_initial_sync && self.waits(snapshot)).then(|| (object.clone(), Timestamp::now()))
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

fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

impl DeployLoop {
    async fn attempt(
        &self,
        request: &ReconcileRequest<'_>,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let (namespace, objects) = (request.key.namespace.as_deref().unwrap_or_default(), request.objects);
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
            // Targets of other namespaces are nobody's to use from here.
            Some(reference) => objects.get::<Target>(namespace, &reference.name).await?,
            None => None,
        };
        if target.as_ref().is_some_and(|target| !self.selectors.serve(target)) {
            return Ok(Reconciled::default());
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
                // Two processes at one release would take one another's hooks away. Who is gone is followed after a while.
                Some(left) => {
                    narration::tell_wait(scribe, &item, "another process works on it");
                    return Ok(Reconciled::requeue_after(left));
                }
                None => self.claimed(item, objects).await?,
            },
        };
        if item.metadata.deletion_timestamp.is_some() {
            return self.remove(&item, target.as_ref(), objects, scribe).await;
        }
        self.install(item, target.as_ref(), objects, scribe).await
    }

    /// Whether an item that looks like this is work for this deployer.
    fn waits(&self, snapshot: &Snapshot) -> bool {
        let item = view::DeployItem(snapshot);
        item.deployer_type() == self.deployer.type_name() && item.job().is_running()
    }

    /// How long another process may still be at work on an item that touches a cluster. A process that starts again under its name goes on
    /// at once.
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

    /// The item with this process as the one that works on it.
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

    /// When an item has to be done; none if it has no limit.
    fn deadline(&self, item: &DeployItem) -> Deadline {
        let timeout = match &item.spec.timeout {
            Some(timeout) if timeout.is_none() => None,
            Some(timeout) => timeout.to_std(),
            None => Some(DEFAULT_TIMEOUT),
        };
        let timeout = timeout.filter(|_| self.deployer.has_timeout());
        let length = timeout.and_then(|timeout| SignedDuration::try_from(timeout).ok());
        Deadline(started(item).zip(length).and_then(|(start, length)| start.checked_add(length).ok()))
    }

    async fn install(
        &self,
        item: DeployItem,
        target: Option<&Target>,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let has_finalizer = item.finalizers().iter().any(|name| name == FINALIZER);
        let item = if has_finalizer { item } else { add_finalizer(&item, objects).await? };
        if let Some(error) = missing_target(&item, target) {
            return self.report(&item, Verdict::failed(&item, error), objects, scribe).await;
        }
        let deadline = self.deadline(&item);
        // Once a job.
        let item = if current_phase(&item) == Phase::Init.as_str() {
            match cluster_name(&item, target, &self.targets, objects).await {
                Ok(name) => with_cluster_name(item, name, objects).await?,
                Err(error) => {
                    let verdict = failed(&item, error.into(), deadline);
                    return self.report(&item, verdict, objects, scribe).await;
                }
            }
        } else {
            item
        };
        let round = Round { item: &item, target, targets: &self.targets, objects, deadline };
        let verdict = match self.deployer.reconcile(&round).await {
            Ok(step) => self.verdict(&item, step, objects, scribe).await?,
            Err(failure) => failed(&item, failure, deadline),
        };
        self.report(&item, verdict, objects, scribe).await
    }

    async fn verdict(
        &self,
        item: &DeployItem,
        step: Step,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Result<Verdict, ReconcileError> {
        tell(item, &step.warnings, objects).await;
        let phase = match step.outcome {
            Outcome::Waiting(what) => {
                tracing::debug!(item = %item.name_any(), what, "waits");
                narration::tell_wait(scribe, item, &what);
                return Ok(unfinished(Phase::Progressing, step.provider_status));
            }
            Outcome::Done => Phase::Succeeded.into(),
            Outcome::Phase(Some(phase)) => phase,
            Outcome::Phase(None) => current_phase(item),
        };
        let exports = match &step.exports {
            Some(values) => match write_export(item, values, objects).await? {
                Some(reference) => Exports::In(reference),
                None => {
                    let error = foreign_object(&format!("the secret {}", export_name(item)));
                    let verdict = Verdict::failed(item, error);
                    return Ok(Verdict { provider_status: step.provider_status, ..verdict });
                }
            },
            // Values of an earlier job are nobody's any more (7.5).
            None if export_of(item).is_some() => {
                delete_export(item, objects).await?;
                Exports::None
            }
            None => Exports::Keep,
        };
        Ok(Verdict { phase, error: None, provider_status: step.provider_status, exports })
    }

    async fn remove(
        &self,
        item: &DeployItem,
        target: Option<&Target>,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let without_uninstall =
            item.annotations().get(annotation::DELETE_WITHOUT_UNINSTALL).is_some_and(|value| value == "true");
        if !without_uninstall && let Some(verdict) = self.uninstall(item, target, objects, scribe).await {
            return self.report(item, verdict, objects, scribe).await;
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

    /// Takes away what the item has deployed. `None` once that is done, or when there is no cluster any more to do it in.
    async fn uninstall(
        &self,
        item: &DeployItem,
        target: Option<&Target>,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Option<Verdict> {
        let deadline = self.deadline(item);
        // A vanished cluster has no Target any more, so this comes first.
        match is_vanished(item, &self.targets, objects).await {
            Ok(true) => {
                tracing::info!(item = %item.name_any(), "nothing is uninstalled: the cluster is gone");
                narration::tell_vanished(scribe, item);
                return None;
            }
            Ok(false) => {}
            Err(error) => return Some(failed(item, error.into(), deadline)),
        }
        if let Some(error) = missing_target(item, target) {
            return Some(Verdict::failed(item, error));
        }
        let round = Round { item, target, targets: &self.targets, objects, deadline };
        match self.deployer.delete(&round).await {
            Ok(Removal::Done) => None,
            Ok(Removal::Waiting { what, provider_status }) => {
                tracing::debug!(item = %item.name_any(), what, "waits");
                narration::tell_wait(scribe, item, &what);
                Some(unfinished(Phase::Deleting, provider_status))
            }
            Ok(Removal::Phase(phase)) => {
                Some(Verdict { phase, error: None, provider_status: None, exports: Exports::Keep })
            }
            Err(failure) => Some(failed(item, failure, deadline)),
        }
    }

    /// Writes the result, if it says anything new, and looks again unless it is the end.
    async fn report(
        &self,
        item: &DeployItem,
        verdict: Verdict,
        objects: &Objects,
        scribe: &mut Scribe<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let is_end = Phase::of(Some(&verdict.phase)).is_final();
        let error = verdict.error.clone();
        let mut concluded = conclude(item, verdict, &now());
        if !is_end && self.deployer.has_timeout() {
            renew(&mut concluded);
        }
        if concluded != *item {
            let stored = match objects.replace_status(&concluded).await {
                Err(ApiError::NotFound(_)) if item.metadata.deletion_timestamp.is_some() => {
                    return Ok(Reconciled::default());
                }
                answer => answer?,
            };
            narration::tell_result(scribe, item, &stored);
            if let Some(error) = error {
                warn(&stored, &error.reason, &error.message, objects).await;
            }
        }
        Ok(Reconciled { requeue_after: (!is_end).then(|| pause(item)), ..Reconciled::default() })
    }
}

/// Says now and then that the item is still worked on.
fn renew(item: &mut DeployItem) {
    let status = item.status.get_or_insert_default();
    let said = status.last_reconcile_time.as_ref().map(|time| time.0);
    if said.is_none_or(|said| Timestamp::now().duration_since(said) > RENEWED) {
        status.last_reconcile_time = Some(now());
    }
}

fn started(item: &DeployItem) -> Option<Timestamp> {
    let times = item.status.as_ref()?.transition_times.as_ref()?;
    times.init_time.as_ref().map(|time| time.0)
}

/// A quarter of the time that has passed: what is done soon is seen soon, and what takes long is asked for seldom.
fn pause(item: &DeployItem) -> Duration {
    let elapsed =
        started(item).and_then(|start| Duration::try_from(Timestamp::now().duration_since(start)).ok());
    (elapsed.unwrap_or_default() / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

fn current_phase(item: &DeployItem) -> String {
    item.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

fn unfinished(phase: Phase, provider_status: Option<AnyJson>) -> Verdict {
    Verdict { phase: phase.into(), error: None, provider_status, exports: Exports::Keep }
}

/// The item, which remembers the name of its cluster if it asks for that (8.5).
async fn with_cluster_name(
    item: DeployItem,
    name: ClusterName,
    objects: &Objects,
) -> Result<DeployItem, ApiError> {
    let name = match name {
        ClusterName::NotAskedFor => None,
        ClusterName::Known(name) => Some(name),
        ClusterName::Unknown(why) => {
            let message = format!("onDelete.skipUninstallIfClusterRemoved is without effect: {why}");
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

/// A round that failed. An error that may go away ends the job all the same when there is no time left for it.
fn failed(item: &DeployItem, failure: Failure, deadline: Deadline) -> Verdict {
    let Failure { mut error, provider_status } = failure;
    let is_final = error.codes.iter().any(|code| code.is_unrecoverable());
    if !is_final && deadline.0.is_some_and(|at| Timestamp::now() >= at) {
        error = OperationError {
            operation: error.operation,
            reason: "ProgressingTimeout".into(),
            message: format!(
                "timeout at: \"deployer: start reconcile\"; the last error was: {}",
                error.message
            ),
            codes: vec![ErrorCode::Timeout],
        };
    }
    Verdict { provider_status, ..Verdict::failed(item, error) }
}

/// The Target that an item names has to exist (2.4, 7.7).
fn missing_target(item: &DeployItem, target: Option<&Target>) -> Option<OperationError> {
    let reference = item.spec.target.as_ref()?;
    target.is_none().then(|| no_target(&reference.name))
}

/// Events, once a job, about what people should know.
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

/// Nothing depends on an Event.
fn lost(recorded: Result<(), ApiError>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}

impl Round<'_> {
    /// Tells people what came up just now; the same is told once a job.
    pub async fn warn(&self, reason: &str, message: &str) {
        warn(self.item, reason, message, self.objects).await;
    }

    /// The same about what went well.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn item(started_ago: i64) -> DeployItem {
        let start = Timestamp::now() - SignedDuration::from_secs(started_ago);
        serde_json::from_value(json!({
            "metadata": {"name": "a"}, "spec": {"type": "t"},
            "status": {"phase": "Progressing", "jobID": "1", "transitionTimes": {"initTime": start.to_string()}},
        }))
        .unwrap()
    }

    /// Does nothing.
    struct Idle;

    #[async_trait]
    impl Deployer for Idle {
        fn type_name(&self) -> &'static str {
            "t"
        }

        async fn reconcile(&self, _: &Round<'_>) -> Result<Step, Failure> {
            Ok(Step::waiting("nothing".to_owned(), None, Vec::new()))
        }

        async fn delete(&self, _: &Round<'_>) -> Result<Removal, Failure> {
            Ok(Removal::Done)
        }
    }

    /// Another process is left alone for as long as it says now and then that it works; the same one goes on at once.
    #[test]
    fn items_of_other_processes() {
        let deploy_loop = DeployLoop {
            deployer: Arc::new(Idle),
            information: identity("own".to_owned(), "deployer", "1"),
            selectors: TargetSelectors::default(),
            targets: Targets::new(None, "test"),
            journal: Journal::default(),
        };
        for (owner, said_ago, is_left_alone) in
            [("own", 0, false), ("other", 0, true), ("other", 50, true), ("other", 61, false)]
        {
            let mut item = item(100);
            let status = item.status.get_or_insert_default();
            status.deployer = Some(identity(owner.to_owned(), "deployer", "1"));
            status.last_reconcile_time = Some(Time(Timestamp::now() - SignedDuration::from_secs(said_ago)));
            let left = deploy_loop.owned_for(&item);
            assert_eq!(left.is_some(), is_left_alone, "{owner} {said_ago}: {left:?}");
            let before = item.clone();
            renew(&mut item);
            assert_eq!(item == before, said_ago == 0, "{said_ago}");
        }
    }

    /// What is done soon is seen soon; nobody waits longer than the contract says.
    #[test]
    fn pauses_grow() {
        assert_eq!(pause(&item(0)), SHORTEST_PAUSE);
        let later = pause(&item(8));
        assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&later), "{later:?}");
        assert_eq!(pause(&item(1000)), LONGEST_PAUSE);
    }

    #[test]
    fn what_fails_for_too_long_has_failed() {
        let failure = || Failure::from(OperationError::transient("Reconcile", "Apply", "it is away"));
        let early =
            failed(&item(10), failure(), Deadline(Some(Timestamp::now() + SignedDuration::from_secs(9))));
        assert_eq!(early.phase, "Progressing");
        let late = failed(&item(10), failure(), Deadline(Some(Timestamp::now())));
        assert_eq!(late.phase, "Failed");
        let error = late.error.unwrap();
        assert_eq!(
            (error.reason.as_ref(), &error.codes[..]),
            ("ProgressingTimeout", &[ErrorCode::Timeout][..])
        );
        assert!(error.message.ends_with("it is away"), "{}", error.message);
        assert_eq!(failed(&item(10), failure(), Deadline(None)).phase, "Progressing");
    }
}
