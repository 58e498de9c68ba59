//! What Installations consist of and work with, as events show it.

use k8s_openapi::jiff::Timestamp;

use super::fields::{Job, view};
use super::snapshot::Snapshot;
use crate::metadata::{annotation, label};

view! {
    /// An Execution as an event shows it.
    Execution
    fields {
        /// Phase of the current or last job.
        phase: &'a str = "status.phase",
        /// Identifier of the current or last job.
        job_id: &'a str = "status.jobID",
        /// Identifier of the last job that finished.
        job_id_finished: &'a str = "status.jobIDFinished",
        /// When its current or last job began.
        trigger_time: Option<Timestamp> = "status.transitionTimes.triggerTime",
        /// When that job ended; while one runs this may be the end of the one before.
        finished_time: Option<Timestamp> = "status.transitionTimes.finishedTime",
    }
    lists {}
    parts {}
    shown { "spec.context", }
}

impl<'a> Execution<'a> {
    /// The current or last job, and the last one that finished.
    pub fn job(self) -> Job<'a> {
        Job { id: self.job_id(), finished: self.job_id_finished() }
    }
}

view! {
    /// A DeployItem as an event shows it.
    DeployItem
    fields {
        /// Which deployer works on it.
        deployer_type: &'a str = "spec.type",
        /// Phase of the current or last job.
        phase: &'a str = "status.phase",
        /// Identifier of the current or last job.
        job_id: &'a str = "status.jobID",
        /// Identifier of the last job that finished.
        job_id_finished: &'a str = "status.jobIDFinished",
        /// When its current or last job began.
        trigger_time: Option<Timestamp> = "status.transitionTimes.triggerTime",
        /// When that job ended; while one runs this may be the end of the one before.
        finished_time: Option<Timestamp> = "status.transitionTimes.finishedTime",
        /// When the current job was handed to it.
        job_id_generation_time: Option<Timestamp> = "status.jobIDGenerationTime",
        /// When a deployer picked it up last.
        last_reconcile_time: Option<Timestamp> = "status.lastReconcileTime",
    }
    lists {}
    parts {}
    shown { "spec.context", "spec.target.name", "status.exportRef.name", }
}

impl<'a> DeployItem<'a> {
    /// The current or last job, and the last one that finished.
    pub fn job(self) -> Job<'a> {
        Job { id: self.job_id(), finished: self.job_id_finished() }
    }

    /// True of an item whose last job has ended well, and that has no other one.
    pub fn is_deployed(self) -> bool {
        !self.job().is_running() && self.phase() == "Succeeded"
    }

    /// Name of its Execution.
    pub fn execution(self) -> Option<&'a String> {
        self.0.labels.get(label::MANAGED_BY)
    }

    /// The time of its job if nobody has picked it up yet (`installations.md` 7.6).
    pub fn waits_since(self) -> Option<Timestamp> {
        let since = self.job_id_generation_time()?;
        let waits = self.job().is_running() && self.last_reconcile_time().is_none_or(|last| last < since);
        waits.then_some(since)
    }
}

/// A DataObject or a Target as an event shows it: nothing but its labels (`installations.md` 4.3).
#[derive(Debug, Clone, Copy)]
pub struct Data<'a>(pub &'a Snapshot);

impl<'a> Data<'a> {
    /// Scope that it lies in; empty for that of the root.
    pub fn scope(self) -> &'a str {
        self.0.label(label::DATA_CONTEXT)
    }

    /// Its name inside of its scope; empty where it is that of the object.
    pub fn key(self) -> &'a str {
        self.0.label(label::DATA_KEY)
    }

    /// Scope of its producer; empty where people made it.
    pub fn source(self) -> &'a str {
        self.0.label(label::DATA_SOURCE)
    }

    /// `import` or `export`; empty where people made it.
    pub fn source_type(self) -> &'a str {
        self.0.label(label::DATA_SOURCE_TYPE)
    }

    /// Job that wrote it; empty where people made it.
    pub fn job_id(self) -> &'a str {
        self.0.label(label::DATA_JOB_ID)
    }

    /// Position in a target list.
    pub fn index(self) -> Option<usize> {
        self.0.label(label::DATA_INDEX).parse().ok()
    }

    /// Key in a target map.
    pub fn target_map_key(self) -> Option<&'a String> {
        self.0.labels.get(label::DATA_TARGET_MAP_KEY)
    }

    /// Fingerprint of its content; empty where people made it.
    pub fn hash(self) -> &'a str {
        self.0.annotation(annotation::DATA_HASH)
    }
}

view! {
    /// A TargetSync as an event shows it.
    TargetSync
    fields {
        /// When its last round ended.
        last_update_time: Option<Timestamp> = "status.lastUpdateTime",
    }
    lists {}
    parts {}
    shown { "spec.sourceNamespace", "spec.secretRef.name", }
}

view! {
    /// A Context as an event shows it.
    Context
    fields {
        /// Name of the ComponentVersionOverwrites that it uses; empty for none.
        overwrites: &'a str = "componentVersionOverwrites",
    }
    lists {}
    parts {}
    shown { "ocmConfig.name", "registryPullSecrets[].name", }
}
