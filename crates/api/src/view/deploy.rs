//! Views of Executions, DeployItems, data objects, TargetSyncs and Contexts in events.

use k8s_openapi::jiff::Timestamp;

use super::fields::{Job, view};
use super::snapshot::Snapshot;
use crate::metadata::{annotation, label};

view! {
    /// Execution as an event shows it.
    Execution
    fields {
        /// Phase of the current or last job.
        phase: &'a str = "status.phase",
        /// Identifier of the current or last job.
        job_id: &'a str = "status.jobID",
        /// Identifier of the last job that finished.
        job_id_finished: &'a str = "status.jobIDFinished",
        /// When the current or last job began.
        trigger_time: Option<Timestamp> = "status.transitionTimes.triggerTime",
        /// When the current or last job ended; while a job runs, the value may still be that of the
        /// job before.
        finished_time: Option<Timestamp> = "status.transitionTimes.finishedTime",
    }
    lists {}
    parts {}
    shown { "spec.context", }
}

impl<'a> Execution<'a> {
    /// Returns the current or last job, and the last one that finished.
    pub fn job(self) -> Job<'a> {
        Job { id: self.job_id(), finished: self.job_id_finished() }
    }
}

view! {
    /// DeployItem as an event shows it.
    DeployItem
    fields {
        /// Type of the deployer that works on the item.
        deployer_type: &'a str = "spec.type",
        /// Phase of the current or last job.
        phase: &'a str = "status.phase",
        /// Identifier of the current or last job.
        job_id: &'a str = "status.jobID",
        /// Identifier of the last job that finished.
        job_id_finished: &'a str = "status.jobIDFinished",
        /// When the current or last job began.
        trigger_time: Option<Timestamp> = "status.transitionTimes.triggerTime",
        /// When the current or last job ended; while a job runs, the value may still be that of the
        /// job before.
        finished_time: Option<Timestamp> = "status.transitionTimes.finishedTime",
        /// When the current job was assigned.
        job_id_generation_time: Option<Timestamp> = "status.jobIDGenerationTime",
        /// When a deployer last picked up the item.
        last_reconcile_time: Option<Timestamp> = "status.lastReconcileTime",
    }
    lists {}
    parts {}
    shown { "spec.context", "spec.target.name", "status.exportRef.name", }
}

impl<'a> DeployItem<'a> {
    /// Returns the current or last job, and the last one that finished.
    pub fn job(self) -> Job<'a> {
        Job { id: self.job_id(), finished: self.job_id_finished() }
    }

    /// Reports whether the last job succeeded and no other one is running.
    pub fn is_deployed(self) -> bool {
        !self.job().is_running() && self.phase() == "Succeeded"
    }

    /// Returns the name of the item's Execution.
    pub fn execution(self) -> Option<&'a String> {
        self.0.labels.get(label::MANAGED_BY)
    }

    /// Returns the time at which the current job was assigned, if no deployer has picked the job up
    /// yet (`installations.md` 7.6).
    pub fn waits_since(self) -> Option<Timestamp> {
        let since = self.job_id_generation_time()?;
        let waits = self.job().is_running() && self.last_reconcile_time().is_none_or(|last| last < since);
        waits.then_some(since)
    }
}

/// DataObject or Target as an event shows it: only its labels, without its content
/// (`installations.md` 4.3).
#[derive(Debug, Clone, Copy)]
pub struct Data<'a>(pub &'a Snapshot);

impl<'a> Data<'a> {
    /// Returns the scope of the object; empty for the root scope.
    pub fn scope(self) -> &'a str {
        self.0.label(label::DATA_CONTEXT)
    }

    /// Returns the name of the object inside of its scope; empty if that is the name in its
    /// metadata.
    pub fn key(self) -> &'a str {
        self.0.label(label::DATA_KEY)
    }

    /// Returns the scope of the object's producer; empty if a user made the object.
    pub fn source(self) -> &'a str {
        self.0.label(label::DATA_SOURCE)
    }

    /// Returns `import` or `export`; empty if a user made the object.
    pub fn source_type(self) -> &'a str {
        self.0.label(label::DATA_SOURCE_TYPE)
    }

    /// Returns the job that wrote the object; empty if a user made the object.
    pub fn job_id(self) -> &'a str {
        self.0.label(label::DATA_JOB_ID)
    }

    /// Returns the position of the object in a target list.
    pub fn index(self) -> Option<usize> {
        self.0.label(label::DATA_INDEX).parse().ok()
    }

    /// Returns the key of the object in a target map.
    pub fn target_map_key(self) -> Option<&'a String> {
        self.0.labels.get(label::DATA_TARGET_MAP_KEY)
    }

    /// Returns the fingerprint of the object's content; empty if a user made the object.
    pub fn hash(self) -> &'a str {
        self.0.annotation(annotation::DATA_HASH)
    }
}

view! {
    /// TargetSync as an event shows it.
    TargetSync
    fields {
        /// When the last synchronization ended.
        last_update_time: Option<Timestamp> = "status.lastUpdateTime",
    }
    lists {}
    parts {}
    shown { "spec.sourceNamespace", "spec.secretRef.name", }
}

view! {
    /// Context as an event shows it.
    Context
    fields {
        /// Name of the ComponentVersionOverwrites; empty for none.
        overwrites: &'a str = "componentVersionOverwrites",
    }
    lists {}
    parts {}
    shown { "ocmConfig.name", "registryPullSecrets[].name", }
}
