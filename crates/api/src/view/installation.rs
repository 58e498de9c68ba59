//! View of Installations in events.

use k8s_openapi::jiff::Timestamp;

use super::fields::{Job, view, view_part};
use super::snapshot::Owner;
use crate::installation::DEFAULT_CONTEXT;
use crate::metadata::{annotation, label};

view! {
    /// Installation as an event shows it.
    Installation
    fields {
        /// Name of the Context as written; see [`Installation::context`].
        written_context: &'a str = "spec.context",
        /// Name of the component as written; empty without a component, and if it is inline.
        component_name: &'a str = "spec.componentDescriptor.ref.componentName",
        /// Version of the component as written.
        component_version: &'a str = "spec.componentDescriptor.ref.version",
        /// Resource of the blueprint; empty if the blueprint is inline.
        blueprint_resource: &'a str = "spec.blueprint.ref.resourceName",
        /// True if the Installation declares that it has no imports from its siblings.
        has_no_sibling_imports: bool = "spec.optimization.hasNoSiblingImports",
        /// True if the Installation declares that it has no exports to its siblings.
        has_no_sibling_exports: bool = "spec.optimization.hasNoSiblingExports",
        /// Phase of the current or last job.
        phase: &'a str = "status.phase",
        /// Identifier of the current or last job.
        job_id: &'a str = "status.jobID",
        /// Identifier of the last job that finished.
        job_id_finished: &'a str = "status.jobIDFinished",
        /// Generation that the last job worked on.
        observed_generation: Option<i64> = "status.observedGeneration",
        /// Name of the Installation's Execution.
        execution: &'a str = "status.executionRef.name",
        /// When the current or last job began.
        trigger_time: Option<Timestamp> = "status.transitionTimes.triggerTime",
        /// When the current or last job ended; while a job runs, the value may still be that of the
        /// job before.
        finished_time: Option<Timestamp> = "status.transitionTimes.finishedTime",
    }
    lists {
        /// Imports of data, in the order written.
        data_imports: DataImport,
        /// Imports of Targets, in the order written.
        target_imports: TargetImport,
        /// Exports of data, in the order written.
        data_exports: DataExport,
        /// Exports of Targets, in the order written.
        target_exports: TargetExport,
        /// Siblings that are still to be triggered.
        dependents_to_trigger: Dependent,
    }
    parts {
        /// Schedule after success.
        succeeded_reconcile: SucceededReconcile,
        /// Schedule after a failure.
        failed_reconcile: FailedReconcile,
        /// State of the automatic runs.
        reconcile_status: ReconcileStatus,
    }
    shown {}
}

view_part! {
    /// Import of data; exactly one of the references is not empty.
    DataImport at "spec.imports.data[]" "." {
        /// Name of the import.
        name: &'a str = "name",
        /// Name of the DataObject in the scope, or `#` and the name of one in the namespace.
        data_ref: &'a str = "dataRef",
        /// Name of the Secret.
        secret: &'a str = "secretRef.name",
        /// Name of the ConfigMap.
        config_map: &'a str = "configMapRef.name",
    }
}

view_part! {
    /// Import of Targets; [`TargetImport::targets`] returns the Targets of all spellings.
    TargetImport at "spec.imports.targets[]" "." {
        /// Name of the import.
        name: &'a str = "name",
        /// Single Target.
        target: &'a str = "target",
        /// Members of a list of Targets.
        list: Vec<&'a str> = "targets[]",
        /// Members of a map of Targets that is written as a list.
        pairs: Vec<&'a str> = "targets[].*",
        /// Members of a map of Targets.
        map: Vec<&'a str> = "targetMap.*",
        /// Members of a map of Targets in its other spelling.
        maps: Vec<&'a str> = "targetMaps.*",
        /// Target list import of the parent that is passed on.
        list_ref: &'a str = "targetListRef",
        /// Target map import of the parent that is passed on.
        map_ref: &'a str = "targetMapRef",
    }
}

view_part! {
    /// Export of data.
    DataExport at "spec.exports.data[]" "." {
        /// Name of the export.
        name: &'a str = "name",
        /// Name of the DataObject in the scope of the Installation.
        data_ref: &'a str = "dataRef",
    }
}

view_part! {
    /// Export of a Target.
    TargetExport at "spec.exports.targets[]" "." {
        /// Name of the export.
        name: &'a str = "name",
        /// Name of the Target in the scope of the Installation.
        target: &'a str = "target",
    }
}

view_part! {
    /// A sibling that is still to be triggered.
    Dependent at "status.dependentsToTrigger[]" "." {
        /// Name of the Installation.
        name: &'a str = "name",
    }
}

view_part! {
    /// Schedule after success.
    SucceededReconcile at "spec.automaticReconcile.succeededReconcile" "." empty "{}" {
        /// Time between two runs.
        interval: Option<crate::Duration> = "interval",
        /// Cron expression; empty for none.
        cron_spec: &'a str = "cronSpec",
    }
}

view_part! {
    /// Schedule after a failure.
    FailedReconcile at "spec.automaticReconcile.failedReconcile" "." empty "{}" {
        /// Time between two runs.
        interval: Option<crate::Duration> = "interval",
        /// Cron expression; empty for none.
        cron_spec: &'a str = "cronSpec",
        /// Maximum number of automatic runs.
        number_of_reconciles: Option<i64> = "numberOfReconciles",
    }
}

view_part! {
    /// State of the automatic runs.
    ReconcileStatus at "status.automaticReconcileStatus" "." empty "{}" {
        /// Generation of the spec that the counter belongs to.
        generation: Option<i64> = "generation",
        /// Automatic runs since the last success, change or request.
        number_of_reconciles: Option<i64> = "numberOfReconciles",
        /// When the last automatic run was started.
        last_reconcile_time: Option<Timestamp> = "lastReconcileTime",
        /// True if the runs follow a failure.
        on_failed: bool = "onFailed",
    }
}

impl<'a> Installation<'a> {
    /// Returns the name of the Context to use (`installations.md` 1.1).
    pub fn context(self) -> &'a str {
        match self.written_context() {
            "" => DEFAULT_CONTEXT,
            written => written,
        }
    }

    /// Returns the current or last job, and the last one that finished.
    pub fn job(self) -> Job<'a> {
        Job { id: self.job_id(), finished: self.job_id_finished() }
    }

    /// Returns the parent by owner reference; `None` for a root (`installations.md` 2.1).
    pub fn parent(self) -> Option<&'a Owner> {
        self.0.owner_references.iter().find(|owner| owner.is_a::<crate::Installation>())
    }

    /// Returns the name of the parent by label; empty for a root. Children are listed by this label
    /// (`installations.md` 1.7).
    pub fn encompassed_by(self) -> &'a str {
        self.0.label(label::ENCOMPASSED_BY)
    }

    /// Returns the name of the Installation inside of its parent; empty for a root.
    pub fn template_name(self) -> &'a str {
        self.0.annotation(annotation::SUBINSTALLATION_NAME)
    }

    /// Returns the requested operation: one of [`operation`](crate::metadata::operation), or any
    /// other text that a user has written.
    pub fn operation(self) -> Option<&'a str> {
        self.0.annotations.get(annotation::OPERATION).map(String::as_str)
    }

    /// Reports whether the request is that of the retry timer.
    pub fn is_retry(self) -> bool {
        self.0.annotation(annotation::RECONCILE_REASON) == annotation::RECONCILE_REASON_RETRY
    }

    /// Reports whether a job starts whenever the spec has changed.
    pub fn follows_spec(self) -> bool {
        self.0.is_annotated(annotation::RECONCILE_IF_CHANGED)
    }

    /// Reports whether the last job worked on this generation of the spec. Without a job the
    /// observed generation is 0.
    pub fn is_observed(self) -> bool {
        self.0.generation == Some(self.observed_generation().unwrap_or_default())
    }

    /// Returns the names of the DataObjects that the Installation imports from its scope
    /// (`installations.md` 5.2). Names with `#` are left out, since they are not exports of a
    /// sibling.
    pub fn imported_data(self) -> impl Iterator<Item = &'a str> {
        self.data_imports().into_iter().map(DataImport::data_ref).filter(is_in_scope)
    }

    /// Returns the names of the Targets that the Installation imports from its scope
    /// (`installations.md` 5.2).
    pub fn imported_targets(self) -> impl Iterator<Item = &'a str> {
        self.target_imports().into_iter().flat_map(TargetImport::targets).filter(is_in_scope)
    }

    /// Returns the names of the DataObjects that the Installation exports.
    pub fn exported_data(self) -> impl Iterator<Item = &'a str> {
        self.data_exports().into_iter().map(DataExport::data_ref).filter(|name| !name.is_empty())
    }

    /// Returns the names of the Targets that the Installation exports.
    pub fn exported_targets(self) -> impl Iterator<Item = &'a str> {
        self.target_exports().into_iter().map(TargetExport::target).filter(|name| !name.is_empty())
    }
}

impl<'a> TargetImport<'a> {
    /// Returns all Targets that the import names, in every spelling: a single one, those of a list
    /// or those of a map. Members of lists and maps that the parent passes on are not included.
    pub fn targets(self) -> impl Iterator<Item = &'a str> {
        let lists = [self.list(), self.pairs(), self.map(), self.maps()];
        Some(self.target()).filter(|target| !target.is_empty()).into_iter().chain(lists.into_iter().flatten())
    }
}

fn is_in_scope(name: &&str) -> bool {
    !name.is_empty() && !name.starts_with('#')
}
