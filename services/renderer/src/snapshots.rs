//! Decisions on the snapshots of Installations and DeployItems: whether they need a reconcile, and
//! when.

use groundwork_api::metadata::FINALIZER;
use groundwork_api::view;
use groundwork_bus::Snapshot;
use groundwork_lifecycle::machine::Phase;
use groundwork_lifecycle::waits::PICKUP_MARGIN;
use groundwork_lifecycle::{Automatic, AutomaticInput, Rule, automatic};
use jiff::{SignedDuration, Timestamp};

/// Reports whether the job of this Installation may have work to do.
pub(crate) fn needs_work(snapshot: &Snapshot) -> bool {
    let installation = view::Installation(snapshot);
    let has_finalizer = snapshot.has_finalizer(FINALIZER);
    (!has_finalizer && !snapshot.is_deleting())
        || installation.operation().is_some()
        || installation.job().is_running()
        || (snapshot.is_deleting() && has_finalizer && installation.phase() != Phase::DeleteFailed.as_str())
        || (installation.follows_spec() && !installation.is_observed())
        || !installation.dependents_to_trigger().is_empty()
}

/// Returns the time of the next automatic reconcile of an Installation without a running job
/// (`installations.md` 3.5).
pub(crate) fn next_automatic(snapshot: &Snapshot, now: Timestamp) -> Option<Timestamp> {
    let installation = view::Installation(snapshot);
    let is_idle = !installation.job().is_running() && installation.operation().is_none();
    if !is_idle || installation.parent().is_some() {
        return None;
    }
    let (after_success, after_failure) =
        (installation.succeeded_reconcile(), installation.failed_reconcile());
    if after_success.is_none() && after_failure.is_none() {
        return None;
    }
    let intervals = (
        after_success.and_then(view::SucceededReconcile::interval),
        after_failure.and_then(view::FailedReconcile::interval),
    );
    let input = AutomaticInput {
        generation: snapshot.generation.unwrap_or_default(),
        observed_generation: installation.observed_generation().unwrap_or_default(),
        phase: Phase::of(Some(installation.phase())),
        after_success: after_success.map(|rule| Rule {
            interval: intervals.0.as_ref(),
            cron: rule.cron_spec(),
            limit: None,
        }),
        after_failure: after_failure.map(|rule| Rule {
            interval: intervals.1.as_ref(),
            cron: rule.cron_spec(),
            limit: rule.number_of_reconciles(),
        }),
        status: installation.reconcile_status().map(|counted| {
            (
                counted.generation().unwrap_or_default(),
                counted.number_of_reconciles().unwrap_or_default(),
                counted.last_reconcile_time().unwrap_or(Timestamp::UNIX_EPOCH),
                counted.on_failed(),
            )
        }),
    };
    match automatic(&input, now) {
        Automatic::Nothing => None,
        Automatic::Begin(_) | Automatic::Run(_) => Some(now),
        Automatic::At(time) => Some(time),
    }
}

/// Returns the time by which a deployer must have picked up an item.
pub(crate) fn pickup_deadline(snapshot: &Snapshot, timeout: SignedDuration) -> Option<Timestamp> {
    let since = view::DeployItem(snapshot).waits_since()?;
    since.checked_add(timeout).and_then(|at| at.checked_add(PICKUP_MARGIN)).ok()
}

#[cfg(test)]
mod tests {
    use groundwork_api::metadata::annotation;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the snapshot of an idle object with Groundwork's finalizer, with these annotations
    /// and status and the given differences.
    fn snapshot(
        annotations: &[(&str, &str)],
        status: &Value,
        change: impl FnOnce(&mut Snapshot),
    ) -> Snapshot {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut snapshot = Snapshot {
            annotations: annotations.iter().map(text).collect(),
            finalizers: vec![FINALIZER.to_owned()],
            generation: Some(2),
            fields: [("status".to_owned(), status.clone())].into_iter().collect(),
            ..Snapshot::default()
        };
        change(&mut snapshot);
        snapshot
    }

    #[test]
    fn what_needs_work() {
        let idle = json!({"jobID": "a", "jobIDFinished": "a", "phase": "Succeeded", "observedGeneration": 2});
        let keep = |_: &mut Snapshot| {};
        let deleted =
            |snapshot: &mut Snapshot| snapshot.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        let released = |snapshot: &mut Snapshot| {
            deleted(snapshot);
            snapshot.finalizers.clear();
        };
        assert!(!needs_work(&snapshot(&[], &idle, keep)), "idle");
        assert!(!needs_work(&snapshot(&[], &Value::Null, keep)), "it never ran, and nobody asks");
        assert!(
            needs_work(&snapshot(&[], &idle, |snapshot| snapshot.finalizers.clear())),
            "no finalizer yet"
        );
        assert!(needs_work(&snapshot(&[(annotation::OPERATION, "reconcile")], &idle, keep)), "a request");
        assert!(needs_work(&snapshot(&[], &json!({"jobID": "b", "jobIDFinished": "a"}), keep)), "a job runs");
        assert!(needs_work(&snapshot(&[], &idle, deleted)), "deleted");
        assert!(!needs_work(&snapshot(&[], &idle, released)), "others hold it");
        let failed = json!({"jobID": "a", "jobIDFinished": "a", "phase": "DeleteFailed"});
        assert!(!needs_work(&snapshot(&[], &failed, deleted)), "a failed deletion waits for a request");
        let follows = [(annotation::RECONCILE_IF_CHANGED, "true")];
        assert!(!needs_work(&snapshot(&follows, &idle, keep)), "nothing changed");
        assert!(
            needs_work(&snapshot(&follows, &idle, |snapshot| snapshot.generation = Some(3))),
            "the spec changed"
        );
        assert!(
            !needs_work(&snapshot(&[], &idle, |snapshot| snapshot.generation = Some(3))),
            "it does not follow it"
        );
    }

    /// I-118, I-132: the time of the next automatic job follows from the object alone.
    #[test]
    fn automatic_jobs_are_scheduled() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let next = |spec: Value, status: Value| {
            let change = |snapshot: &mut Snapshot| {
                snapshot.fields.insert("spec".to_owned(), json!({"automaticReconcile": spec}));
            };
            next_automatic(&snapshot(&[], &status, change), now).map(|at| at.to_string())
        };
        let failed = json!({"jobID": "a", "jobIDFinished": "a", "phase": "Failed", "observedGeneration": 2});
        let rule = json!({"failedReconcile": {"interval": "10m", "numberOfReconciles": 2}});
        assert_eq!(next(rule.clone(), failed.clone()).as_deref(), Some("2026-01-01T10:00:00Z"));
        let mut counted = failed.clone();
        counted["automaticReconcileStatus"] = json!({
            "generation": 2, "numberOfReconciles": 1, "lastReconcileTime": "2026-01-01T09:55:00Z", "onFailed": true,
        });
        assert_eq!(next(rule.clone(), counted.clone()).as_deref(), Some("2026-01-01T10:05:00Z"));
        counted["automaticReconcileStatus"]["numberOfReconciles"] = json!(2);
        assert_eq!(next(rule.clone(), counted), None);
        assert_eq!(next(json!({}), failed.clone()), None);
        let mut running = failed;
        running["jobID"] = json!("b");
        assert_eq!(next(rule, running), None);
    }

    #[test]
    fn when_a_pick_up_is_late() {
        let deadline = |status: Value| {
            let at = pickup_deadline(&snapshot(&[], &status, |_| {}), SignedDuration::from_mins(5));
            at.map(|at| at.to_string())
        };
        let waits =
            json!({"jobID": "b", "jobIDFinished": "a", "jobIDGenerationTime": "2026-01-01T00:00:00Z"});
        let late = Some("2026-01-01T00:05:05Z".to_owned());
        assert_eq!(deadline(waits.clone()), late);
        let with = |field: &str, value: &str| {
            let mut status = waits.clone();
            status[field] = json!(value);
            deadline(status)
        };
        assert_eq!(with("lastReconcileTime", "2025-12-31T00:00:00Z"), late, "that was another job");
        assert_eq!(with("lastReconcileTime", "2026-01-01T00:00:00Z"), None, "picked up in the same second");
        assert_eq!(with("jobIDFinished", "b"), None);
        assert_eq!(with("jobIDGenerationTime", "no time"), None);
        assert_eq!(deadline(Value::Null), None);
    }
}
