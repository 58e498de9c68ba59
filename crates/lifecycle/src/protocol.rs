//! The job protocol (`installations.md` 2.1).

use groundwork_api::{DeployItem, Execution, Installation, ResourceExt, Time, TransitionTimes};

use crate::phase::Phase;

pub use groundwork_api::view::Job;

/// Object that takes part in jobs.
pub trait HasJob: ResourceExt + Clone {
    fn job(&self) -> Job<'_>;
    fn phase(&self) -> Phase;

    /// Returns the object's progress in the job `current`.
    fn standing(&self, current: &str) -> Standing {
        let job = self.job();
        if job.finished == current {
            if self.phase() == Phase::Succeeded { Standing::Succeeded } else { Standing::Failed }
        } else if job.id == current {
            Standing::Running
        } else {
            Standing::Waiting
        }
    }

    fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

/// Progress of an object in a job (`installations.md` 7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The object does not have the job yet.
    Waiting,
    Running,
    Succeeded,
    Failed,
}

macro_rules! has_job {
    ($($kind:ty),*) => {$(
        impl HasJob for $kind {
            fn job(&self) -> Job<'_> {
                let status = self.status.as_ref();
                let id = status.and_then(|status| status.job_id.as_deref());
                let finished = status.and_then(|status| status.job_id_finished.as_deref());
                Job { id: id.unwrap_or_default(), finished: finished.unwrap_or_default() }
            }

            fn phase(&self) -> Phase {
                Phase::of(self.status.as_ref().and_then(|status| status.phase.as_deref()))
            }
        }
    )*};
}
has_job!(Installation, Execution, DeployItem);

/// Returns the times of an object that enters a start phase: its clock starts, and the trigger time
/// stays.
pub(crate) fn started(times: Option<&TransitionTimes>, now: &Time) -> TransitionTimes {
    TransitionTimes {
        trigger_time: times.and_then(|times| times.trigger_time.clone()),
        init_time: Some(now.clone()),
        ..TransitionTimes::default()
    }
}

/// Returns an item with a job assigned, which its deployer begins.
pub(crate) fn with_job(item: &DeployItem, id: &str, now: &Time) -> DeployItem {
    let mut item = item.clone();
    let status = item.status.get_or_insert_default();
    status.job_id = Some(id.to_owned());
    status.job_id_generation_time = Some(now.clone());
    status.transition_times = Some(triggered(now));
    item
}

/// Returns the times of a new job.
pub(crate) fn triggered(now: &Time) -> TransitionTimes {
    TransitionTimes { trigger_time: Some(now.clone()), ..TransitionTimes::default() }
}
