//! What the snapshots of Installations and DeployItems say about whether and when they need handling.

use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_bus::Snapshot;
use groundwork_lifecycle::machine::phase;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A key is handled this long after the time-out of a pick-up (`installations.md` 7.6).
pub(crate) const PICKUP_MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// What a snapshot shows of the job of its object.
pub(crate) struct JobStatus<'a> {
    id: &'a str,
    finished: &'a str,
    phase: &'a str,
}

impl JobStatus<'_> {
    /// No job runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.id == self.finished
    }
}

fn status_text<'a>(snapshot: &'a Snapshot, field: &str) -> &'a str {
    let status = snapshot.fields.get("status");
    status.and_then(|status| status.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn job_status(snapshot: &Snapshot) -> JobStatus<'_> {
    JobStatus {
        id: status_text(snapshot, "jobID"),
        finished: status_text(snapshot, "jobIDFinished"),
        phase: status_text(snapshot, "phase"),
    }
}

/// Whether an Installation that looks like this may have something to do.
pub(crate) fn needs_work(snapshot: &Snapshot) -> bool {
    let job = job_status(snapshot);
    let is_deleting = snapshot.deletion_timestamp.is_some();
    let has_finalizer = snapshot.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    let status = snapshot.fields.get("status");
    let observed = status
        .and_then(|status| status.get("observedGeneration"))
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let follows_spec =
        snapshot.annotations.get(annotation::RECONCILE_IF_CHANGED).is_some_and(|value| value == "true");
    (!has_finalizer && !is_deleting)
        || snapshot.annotations.contains_key(annotation::OPERATION)
        || !job.is_idle()
        || (is_deleting && has_finalizer && job.phase != phase::DELETE_FAILED)
        || (follows_spec && snapshot.generation != Some(observed))
}

/// When an item that nobody has picked up yet must have been.
pub(crate) fn pickup_deadline(snapshot: &Snapshot, timeout: SignedDuration) -> Option<Timestamp> {
    let time = |field| status_text(snapshot, field).parse::<Timestamp>().ok();
    let generated = time("jobIDGenerationTime")?;
    let waits = !job_status(snapshot).is_idle()
        && time("lastReconcileTime").is_none_or(|picked_up| picked_up < generated);
    if !waits {
        return None;
    }
    generated.checked_add(timeout).and_then(|at| at.checked_add(PICKUP_MARGIN)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A snapshot with these annotations, status, and what else is different from an idle object that has our finalizer.
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
