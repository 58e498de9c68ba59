//! Log line at the end of a job, so that a log at the default level shows which jobs ran.

use groundwork_api::{Installation, InstallationStatus};
use groundwork_lifecycle::machine::{HasJob as _, Phase, Tree};
use jiff::SignedDuration;

/// Returns the ID of the job of an Installation that has not ended.
pub(crate) fn running_job(tree: &Tree) -> Option<String> {
    let job = tree.installation.get()?.job();
    job.is_running().then(|| job.id.to_owned())
}

/// Logs the end of the job `before` if the last write has ended that job. Only one write ends a
/// job, so a job is logged once, despite several replicas and events. The line lacks the message of
/// the status, since the message may quote values.
pub(crate) fn log_end(before: Option<String>, tree: &Tree) {
    let Some(job) = before.filter(|_| running_job(tree).is_none()) else { return };
    let installation = format_args!("{}/{}", tree.namespace, tree.name);
    let Some(status) = tree.installation.get().and_then(|object: &Installation| object.status.as_ref())
    else {
        if !tree.installation.is_unread() {
            tracing::info!(%installation, job, "the Installation is deleted");
        }
        return;
    };
    if status.job_id.as_ref() != Some(&job) {
        return;
    }
    let seconds = duration(status).map(|duration| duration.as_secs());
    if Phase::of(status.phase.as_deref()) == Phase::Succeeded {
        tracing::info!(%installation, job, seconds, "the job succeeded");
    } else {
        let reason = status.last_error.as_ref().map(|error| error.reason.as_str());
        tracing::warn!(%installation, job, seconds, reason, "the job failed; the status says why");
    }
}

/// Returns the time from the assignment of the job to its last phase.
fn duration(status: &InstallationStatus) -> Option<SignedDuration> {
    let times = status.transition_times.as_ref()?;
    let begin = times.trigger_time.as_ref().or(times.init_time.as_ref())?;
    Some(times.finished_time.as_ref()?.0.duration_since(begin.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(status: &serde_json::Value) -> Tree {
        let mut tree = Tree::new("n", "a");
        let object = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {}, "status": status,
        });
        tree.installation.store(serde_json::from_value(object).unwrap());
        tree
    }

    #[test]
    fn a_job_runs_until_it_has_finished() {
        assert_eq!(running_job(&Tree::new("n", "a")), None);
        assert_eq!(running_job(&tree(&json!({"observedGeneration": 1}))), None);
        let mut status = json!({"observedGeneration": 1, "jobID": "2", "jobIDFinished": "1"});
        assert_eq!(running_job(&tree(&status)).as_deref(), Some("2"));
        status["jobIDFinished"] = json!("2");
        assert_eq!(running_job(&tree(&status)), None);
    }

    #[test]
    fn it_took_as_long_as_the_status_says() {
        let status = json!({
            "observedGeneration": 1,
            "transitionTimes": {"triggerTime": "2026-01-01T00:00:00Z", "finishedTime": "2026-01-01T00:01:30Z"},
        });
        let tree = tree(&status);
        let status = tree.installation.get().unwrap().status.clone().unwrap();
        assert_eq!(duration(&status), Some(SignedDuration::from_secs(90)));
        assert_eq!(duration(&InstallationStatus::default()), None);
    }
}
