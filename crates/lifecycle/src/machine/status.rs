//! Status writes of Installations: phase, end of a job, kstatus conditions (`installations.md` 2.1,
//! 9).

use std::borrow::Cow;

use groundwork_api::{Condition, Installation, InstallationStatus, LastError, Time};

use groundwork_component::OVERWRITE_CONDITION;

use crate::conditions::{ConditionUpdate, merge_condition};
use crate::error::OperationError;
use crate::phase::Phase;
use crate::protocol::{started, triggered};

/// Condition that is `True` when the last job succeeded.
pub const READY: &str = "Ready";
/// Condition that is `True` while a job runs.
pub const RECONCILING: &str = "Reconciling";
/// Reason of the conditions of an Installation that never had a job.
const NOT_REQUESTED: &str = "NotRequested";
/// Condition that is `True` when a job ended without success.
pub const STALLED: &str = "Stalled";

/// Installation whose status is about to be written.
pub(super) struct Draft<'a> {
    installation: Installation,
    now: &'a Time,
}

impl<'a> Draft<'a> {
    pub(super) fn of(installation: &Installation, now: &'a Time) -> Self {
        Self { installation: installation.clone(), now }
    }

    pub(super) fn status(&mut self) -> &mut InstallationStatus {
        self.installation.status.get_or_insert_default()
    }

    /// Assigns a new job.
    pub(super) fn trigger(mut self, job: &str) -> Self {
        let times = triggered(self.now);
        let status = self.status();
        status.job_id = Some(job.to_owned());
        status.transition_times = Some(times);
        self
    }

    /// Enters the first phase of a job. The cache of children is valid within one job only
    /// (`installations.md` 10.3).
    pub(super) fn start(mut self, phase: Phase) -> Self {
        let generation = self.installation.metadata.generation.unwrap_or_default();
        let now = self.now;
        let status = self.status();
        status.observed_generation = generation;
        status.transition_times = Some(started(status.transition_times.as_ref(), now));
        status.sub_inst_cache = None;
        self.phase(phase)
    }

    /// Enters another phase. A successful step clears the last error (`installations.md` 1.0).
    pub(super) fn phase(mut self, phase: Phase) -> Self {
        let now = self.now.clone();
        let status = self.status();
        if status.phase.as_deref() != Some(phase.as_str()) {
            status.phase = Some(phase.into());
            status.phase_transition_time = Some(now);
        }
        status.rendering_attempts = None;
        status.last_error = None;
        self
    }

    /// Sets the number of renderings begun.
    pub(super) fn rendering(mut self, attempts: Option<i64>) -> Self {
        self.status().rendering_attempts = attempts;
        self
    }

    /// Records that the Installation's own work is done and the work of its children begins.
    pub(super) fn waiting(mut self) -> Self {
        let now = self.now.clone();
        self.status().transition_times.get_or_insert_default().wait_time = Some(now);
        self
    }

    /// Enters the last phase of a job.
    pub(super) fn finish(mut self, phase: Phase) -> Self {
        self = self.phase(phase);
        let now = self.now.clone();
        let status = self.status();
        status.job_id_finished = status.job_id.clone();
        status.transition_times.get_or_insert_default().finished_time = Some(now);
        self
    }

    /// Sets the last error. Call it after [`Self::phase`], which clears the error.
    pub(super) fn error(mut self, error: &OperationError, previous: Option<&LastError>) -> Self {
        let last_error = error.to_last_error(previous, self.now);
        self.status().last_error = Some(last_error);
        self
    }

    pub(super) fn conditions<'c>(mut self, updates: impl IntoIterator<Item = &'c ConditionUpdate>) -> Self {
        let now = self.now;
        for update in updates {
            merge_condition(&mut self.status().conditions, update, now);
        }
        self
    }

    /// Removes obsolete conditions, except those about overwrites, which belong to the resolver.
    pub(super) fn without(mut self, types: &[Cow<'static, str>]) -> Self {
        let is_obsolete = |condition: &Condition| {
            types.iter().any(|type_| *type_ == condition.type_) && condition.type_ != OVERWRITE_CONDITION
        };
        let conditions = &mut self.status().conditions;
        if conditions.iter().any(is_obsolete) {
            conditions.to_mut().retain(|condition| !is_obsolete(condition));
        }
        self
    }

    /// Returns the object to write, with the conditions that tools wait for.
    pub(super) fn done(self) -> Installation {
        let updates = kstatus(self.installation.status.as_ref());
        self.conditions(&updates).installation
    }
}

/// Returns the three conditions that follow from phase, job and last error.
fn kstatus(status: Option<&InstallationStatus>) -> Vec<ConditionUpdate> {
    let Some(status) = status else { return Vec::new() };
    let phase = Phase::of(status.phase.as_deref());
    let is_running = status.job_id != status.job_id_finished || !phase.is_final();
    let current = status.phase.as_deref().filter(|phase| !phase.is_empty()).unwrap_or("Triggered");
    let error = status.last_error.as_ref();
    let reason = error.map_or(current, |error| error.reason.as_str());
    let message = error.map(|error| error.message.clone());
    let succeeded = !is_running && phase == Phase::Succeeded;
    let failed = !is_running && !succeeded;
    let said = |text: &str| message.clone().unwrap_or_else(|| text.to_owned());
    let condition = |type_name: &'static str, holds: bool, reason: &str, message: String| ConditionUpdate {
        type_name: type_name.into(),
        status: holds.into(),
        reason: condition_reason(reason),
        message,
        observed_generation: Some(status.observed_generation),
    };
    if status.job_id.as_ref().is_none_or(String::is_empty) {
        // A new Installation does nothing until a user requests a job, so the condition explains
        // how to do that.
        let message = "no job has been requested yet: set the annotation landscaper.gardener.cloud/operation to \
                       reconcile";
        return vec![
            condition(READY, false, NOT_REQUESTED, message.to_owned()),
            condition(RECONCILING, false, NOT_REQUESTED, "no job is running".to_owned()),
            condition(STALLED, false, NOT_REQUESTED, "no failed job blocks progress".to_owned()),
        ];
    }
    let ready = match (succeeded, failed) {
        (true, _) => condition(READY, true, Phase::Succeeded.as_str(), "the last job succeeded".to_owned()),
        (false, true) => condition(READY, false, reason, said("the last job failed")),
        (false, false) => condition(READY, false, reason, said("a job is running")),
    };
    let reconciling = if is_running {
        condition(RECONCILING, true, current, format!("the job is in phase {current}"))
    } else {
        condition(RECONCILING, false, current, "no job is running".to_owned())
    };
    let stalled = if failed {
        condition(STALLED, true, reason, said("the last job failed"))
    } else {
        condition(STALLED, false, current, "no failed job blocks progress".to_owned())
    };
    vec![ready, reconciling, stalled]
}

/// Converts a reason of an error, a free text in Landscaper, to a reason of a condition. The API
/// conventions forbid spaces and empty reasons.
fn condition_reason(reason: &str) -> String {
    let word = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    let reason: String = reason.split_whitespace().map(word).collect();
    if reason.is_empty() { "Unknown".to_owned() } else { reason }
}
