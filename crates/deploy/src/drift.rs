//! Drift checks: looks for changes by others to the objects of items whose last job succeeded
//! (`installations.md` 7.9, drift).
//!
//! ```text
//! DeployItem at rest ──schedule──> DriftChecks ──Deployer::check_drift──> DriftReport ──> condition Drifted, Event, journal, metrics
//! ```
//!
//! Checks have a queue of their own, so that they never take a place that a job needs. Every
//! replica checks every item; a finding that another replica has already written is not written
//! again.

use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::{DeployItem, ResourceExt as _, Target, view};
use groundwork_apply::{Deadline, Difference, DriftReport, Findings, Reference};
use groundwork_bus::{Change, Index, ObjectId, Snapshot};
use groundwork_controller::{
    Handler, Journal, Key, ObjectEvent, ReconcileError, ReconcileRequest, Reconciled,
};
use groundwork_lifecycle::deployer::{Drifting, is_at_rest, with_drift};
use groundwork_telemetry::Metrics as Registry;
use jiff::{SignedDuration, Timestamp};
use moka::sync::Cache;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::deploy_loop::{COMPONENT, lost, now};
use crate::deployer::{Deployer, Failure, Round};
use crate::narration;
use crate::selector::TargetSelectors;
use crate::target::Targets;

/// Time limit of one check, because a check occupies a place of the queue.
const LIMIT: Duration = Duration::from_secs(120);
/// Maximum items whose findings are cached; other items are compared anew.
const MOST_REMEMBERED: u64 = 20_000;
/// Failed checks in a row before a condition reports them, because a Target may be away for a
/// moment.
const PATIENCE: u32 = 2;
/// Maximum objects that a message names; it counts the others.
const MOST_TOLD: usize = 10;

/// Checks of the items of some deployers.
pub struct DriftChecks {
    deployers: Vec<Arc<dyn Deployer>>,
    selectors: TargetSelectors,
    targets: Targets,
    journal: Journal,
    every: SignedDuration,
    metrics: DriftMetrics,
    memories: Cache<Key, Memory>,
}

impl std::fmt::Debug for DriftChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriftChecks").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Result of the last check of an item.
#[derive(Debug, Clone, Default)]
struct Memory {
    job: String,
    findings: Arc<Findings>,
    /// Failed checks in a row.
    failures: u32,
}

/// Metrics of drift checks.
#[derive(Debug, Clone)]
struct DriftMetrics {
    checks: Family<CheckLabels, Counter>,
    drifted: Gauge,
    items: Arc<Mutex<HashSet<Key>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    outcome: &'static str,
}

impl DriftMetrics {
    fn new(registry: &Registry) -> Self {
        let checks: Family<CheckLabels, Counter> = registry.register(
            "drift_checks",
            "Checks of the objects of items at rest, by outcome: same, drifted, repaired, failed",
            &["outcome"],
            Family::default(),
        );
        for outcome in ["same", "drifted", "repaired", "failed"] {
            checks.get_or_create(&CheckLabels { outcome }).inc_by(0);
        }
        let drifted = registry.register(
            "drifted_items",
            "Items whose objects differed from what the last job applied when they were checked last",
            &[],
            Gauge::default(),
        );
        Self { checks, drifted, items: Arc::default() }
    }

    fn checked(&self, key: &Key, outcome: &'static str) {
        self.checks.get_or_create(&CheckLabels { outcome }).inc();
        if outcome != "failed" {
            self.set(key, outcome == "drifted");
        }
    }

    fn set(&self, key: &Key, is_drifted: bool) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = if is_drifted { items.insert(key.clone()) } else { items.remove(key) };
        if has_changed {
            self.drifted.set(i64::try_from(items.len()).unwrap_or(i64::MAX));
        }
    }
}

impl DriftChecks {
    /// Creates periodic checks of the items whose Target matches the selectors.
    pub fn new(
        deployers: Vec<Arc<dyn Deployer>>,
        selectors: TargetSelectors,
        targets: Targets,
        journal: Journal,
        every: SignedDuration,
        registry: &Registry,
    ) -> Self {
        let metrics = DriftMetrics::new(registry);
        let memories = Cache::builder().max_capacity(MOST_REMEMBERED).build();
        Self { deployers, selectors, targets, journal, every, metrics, memories }
    }

    fn deployer(&self, type_name: &str) -> Option<&Arc<dyn Deployer>> {
        self.deployers.iter().find(|deployer| deployer.type_name() == type_name)
    }

    fn is_checked(&self, snapshot: &Snapshot) -> bool {
        let item = view::DeployItem(snapshot);
        self.deployer(item.deployer_type()).is_some() && item.is_deployed()
    }

    fn memory(&self, key: &Key, job: &str) -> Memory {
        let memory = self.memories.get(key).filter(|memory| memory.job == job);
        memory.unwrap_or_else(|| Memory { job: job.to_owned(), ..Memory::default() })
    }

    async fn check(
        &self,
        deployer: &dyn Deployer,
        round: &Round<'_>,
        memory: &Memory,
    ) -> Result<Option<DriftReport>, String> {
        let check = deployer.check_drift(round, &memory.findings);
        match tokio::time::timeout(LIMIT, check).await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(Failure { error, .. })) => Err(error.message),
            Err(_) => Err(format!("it took longer than {} s", LIMIT.as_secs())),
        }
    }

    /// Reports a check: the condition if it changes, and with it an Event and a journal entry.
    async fn tell(
        &self,
        item: &DeployItem,
        drifting: &Drifting,
        request: &ReconcileRequest<'_>,
    ) -> Result<(), ReconcileError> {
        let objects = request.objects;
        let Some(changed) = with_drift(item, drifting, &now()) else { return Ok(()) };
        let stored = objects.replace_status(&changed).await?;
        let (Drifting::Drifted(message) | Drifting::Repaired(message)) = drifting else { return Ok(()) };
        let mut scribe = self.journal.scribe(request.key);
        narration::begin(&mut scribe, &stored, &[]);
        narration::tell_drift(&mut scribe, &stored, drifting.reason(), message);
        // The same difference may be found again after a job or a repair, so the resourceVersion
        // distinguishes the occurrences.
        let occurrence = stored.resource_version().unwrap_or_default();
        let (reason, component) = (drifting.reason(), COMPONENT);
        let event = ObjectEvent { reason, message, component, occurrence: &occurrence };
        lost(match drifting {
            Drifting::Drifted(_) => objects.warn(&stored, &event).await,
            _ => objects.note(&stored, &event).await,
        });
        Ok(())
    }
}

#[async_trait]
impl Handler for DriftChecks {
    /// Returns no keys, because a change of an item is not a reason to check its objects.
    fn keys(&self, _: &ObjectId, _: &Change, _: &Index) -> Vec<Key> {
        Vec::new()
    }

    fn looks_up(&self, _: &ObjectId, _: &Snapshot) -> bool {
        false
    }

    /// Forgets the findings of an item that is deleted or has a new job.
    fn observe(&self, object: &ObjectId, change: &Change) {
        if !matches!(change, Change::Applied(snapshot) if self.is_checked(snapshot)) {
            self.metrics.set(object, false);
            self.memories.invalidate(object);
        }
    }

    /// Schedules the next check of an item. After a start the first checks are spread over one
    /// interval; otherwise all would run at once.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        let share = if is_initial_sync { share(object) } else { 1.0 };
        let pause = SignedDuration::from_secs_f64(self.every.as_secs_f64() * share);
        let at = Timestamp::now().checked_add(pause).ok()?;
        self.is_checked(snapshot).then(|| (object.clone(), at))
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let (key, objects) = (request.key, request.objects);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let Some(item) = objects.get::<DeployItem>(namespace, &key.name).await? else {
            return Ok(Reconciled::default());
        };
        let Some(deployer) = self.deployer(&item.spec.type_).filter(|_| is_at_rest(&item)) else {
            return Ok(Reconciled::default());
        };
        let target = match &item.spec.target {
            Some(reference) => objects.get::<Target>(namespace, &reference.name).await?,
            None => None,
        };
        if target.as_ref().is_some_and(|target| !self.selectors.serve(target)) {
            return Ok(Reconciled::default());
        }
        let job = item.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let mut memory = self.memory(key, &job);
        let targets = &self.targets;
        let round =
            Round { item: &item, target: target.as_ref(), targets, objects, deadline: Deadline(None) };
        let checked = self.check(&**deployer, &round, &memory).await;
        let (outcome, drifting) = match checked {
            // The item disables checks. Only a new job can change that, so no further check is
            // needed.
            Ok(None) => return Ok(Reconciled::default()),
            Ok(Some(report)) => {
                let end = end_of(&report);
                memory.findings = Arc::new(report.findings);
                end
            }
            Err(problem) => ("failed", Drifting::Unknown(problem)),
        };
        memory.failures = match &drifting {
            Drifting::Unknown(problem) => {
                tracing::debug!(item = %key, problem, "the objects could not be checked");
                memory.failures + 1
            }
            _ => 0,
        };
        let is_told = memory.failures == 0 || memory.failures >= PATIENCE;
        self.metrics.checked(key, outcome);
        self.memories.insert(key.clone(), memory);
        if is_told {
            self.tell(&item, &drifting, &request).await?;
        }
        let pause = Duration::try_from(self.every).unwrap_or(LIMIT);
        Ok(Reconciled::requeue_after(pause))
    }
}

/// Returns the result of a check for metrics and for the status.
fn end_of(report: &DriftReport) -> (&'static str, Drifting) {
    let list = |differences: &[(&Reference, &Difference)]| {
        let clauses =
            differences.iter().take(MOST_TOLD).map(|(reference, difference)| difference.told(reference));
        let mut text = clauses.collect::<Vec<_>>().join("; ");
        if differences.len() > MOST_TOLD {
            text.push_str(&format!("; and {} more objects", differences.len() - MOST_TOLD));
        }
        text
    };
    let left = report.differences();
    let repaired: Vec<_> =
        report.repaired.iter().map(|(reference, difference)| (reference, difference)).collect();
    let mut sentences = Vec::new();
    if !left.is_empty() {
        sentences.push(format!("changed since the last job: {}", list(&left)));
    }
    if !repaired.is_empty() {
        sentences.push(format!("brought back at {}: {}", now().0, list(&repaired)));
    }
    sentences.extend(report.problems.iter().take(MOST_TOLD).cloned());
    let text = sentences.join("; ");
    match (left.is_empty(), repaired.is_empty(), report.problems.is_empty()) {
        (false, ..) => ("drifted", Drifting::Drifted(text)),
        (true, false, _) => ("repaired", Drifting::Repaired(text)),
        (true, true, false) => ("failed", Drifting::Unknown(text)),
        (true, true, true) => ("same", Drifting::None),
    }
}

/// Returns a number from 0 to 1 that is always the same for an object.
fn share(object: &ObjectId) -> f64 {
    let mut hasher = std::hash::DefaultHasher::new();
    object.hash(&mut hasher);
    f64::from(u16::try_from(hasher.finish() >> 48).unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use groundwork_apply::{FieldChange, FieldChangeKind, Finding, Manifested};

    use super::*;

    fn reference(name: &str) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    fn changed() -> Difference {
        let change = |path: &str, manager: Option<&str>| FieldChange {
            path: path.into(),
            kind: FieldChangeKind::Changed,
            manager: manager.map(str::to_owned),
        };
        let by_edit = [".data.a", ".data.b"].map(|path| change(path, Some("kubectl-edit")));
        let changes = by_edit.into_iter().chain([change(".data.c", None)]).collect();
        Difference::Fields(Manifested::Same, changes)
    }

    #[test]
    fn what_is_left_and_what_was_brought_back_are_told() {
        let mut report = DriftReport::default();
        assert_eq!(end_of(&report), ("same", Drifting::None));
        report.problems.push("the cluster is away".into());
        assert_eq!(end_of(&report), ("failed", Drifting::Unknown("the cluster is away".into())));
        report.repaired.push((reference("gone"), Difference::Gone(Manifested::Same)));
        let (outcome, drifting) = end_of(&report);
        let Drifting::Repaired(text) = drifting else { panic!("{drifting:?}") };
        let expected = "shop/gone of type ConfigMap is gone; the cluster is away";
        assert!(outcome == "repaired" && text.contains(expected), "{text}");
        report.findings.insert(reference("cfg"), Finding::of(changed()));
        let (outcome, drifting) = end_of(&report);
        let Drifting::Drifted(text) = drifting else { panic!("{drifting:?}") };
        let expected = "changed since the last job: shop/cfg of type ConfigMap: kubectl-edit changed .data.a, \
                        .data.b; an unknown manager changed .data.c; brought back at ";
        assert!(outcome == "drifted" && text.starts_with(expected), "{text}");
    }

    /// A start must not check all items at once, but each within one interval.
    #[test]
    fn first_checks_are_spread() {
        let key = |name: &str| ObjectId::new(groundwork_bus::Kind::new("g", "items"), Some("ns"), name);
        let shares: Vec<f64> = (0..100).map(|number| share(&key(&number.to_string()))).collect();
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        let early = shares.iter().filter(|share| **share < 0.5).count();
        assert!((20..80).contains(&early), "{early}");
    }
}
