//! The job protocol (`installations.md` 2.1).

use groundwork_api::{Time, TransitionTimes};

use super::phase;

/// Whether a phase ends a job. The empty one, before the first job, counts as an end too.
pub fn is_final(phase: Option<&str>) -> bool {
    matches!(phase.unwrap_or_default(), "" | phase::SUCCEEDED | phase::FAILED | phase::DELETE_FAILED)
}

/// The job that an object has been given, and the last one that it finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Job<'a> {
    pub id: &'a str,
    pub finished: &'a str,
}

impl<'a> Job<'a> {
    pub fn new(id: Option<&'a String>, finished: Option<&'a String>) -> Self {
        Self {
            id: id.map(String::as_str).unwrap_or_default(),
            finished: finished.map(String::as_str).unwrap_or_default(),
        }
    }

    /// There is a job, and it is not finished.
    pub fn is_running(self) -> bool {
        self.id != self.finished
    }
}

/// What enters a start phase has its clock started; the trigger time stays.
pub(super) fn started(times: Option<&TransitionTimes>, now: &Time) -> TransitionTimes {
    TransitionTimes {
        trigger_time: times.and_then(|times| times.trigger_time.clone()),
        init_time: Some(now.clone()),
        ..TransitionTimes::default()
    }
}

/// The clock of a new job.
pub(super) fn triggered(now: &Time) -> TransitionTimes {
    TransitionTimes { trigger_time: Some(now.clone()), ..TransitionTimes::default() }
}
