//! Installation (`installations.md` 1.1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::{Condition, LastError, ObjectReference, TransitionTimes};
use crate::duration::Duration;
use crate::imports::{
    DataExport, DataImport, InstallationExports, InstallationImports, TargetExport, TargetImport,
};
use crate::json::{AnyJson, IntOrString, List, Map};
use crate::object::{kind, part};
use crate::schema;

/// Name of the Context of an Installation that names none.
pub const DEFAULT_CONTEXT: &str = "default";

/// Returns the Context that a `context` field names; absent and empty mean `default`
/// (`installations.md` 1.1).
pub(crate) fn context_or_default(field: Option<&String>) -> &str {
    field.map(String::as_str).filter(|name| !name.is_empty()).unwrap_or(DEFAULT_CONTEXT)
}

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "installations"
    /// An Installation instantiates a blueprint: it gives values to the imports of the blueprint,
    /// deploys the items that the blueprint describes, and publishes the resulting exports.
    #[schemars(extend("required" = ["spec"], "x-kubernetes-validations" = [
        {
            "rule": "size(self.metadata.name) <= 58",
            "message": "metadata.name must be no more than 58 characters",
        },
        {
            "rule": "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name must conform to the RFC1123 DNS label standard",
        },
        {
            "rule": "!has(self.metadata.generateName) || size(self.metadata.generateName) <= 53",
            "message": "metadata.generateName must be no more than 53 characters",
        },
    ]))]
    pub struct Installation {
        /// Component, blueprint, imports and exports.
        pub spec: InstallationSpec,
        /// State of the Installation and its jobs.
        pub status: Option<InstallationStatus>,
    }
}

part! {
    /// Component, blueprint, imports and exports.
    #[schemars(extend("required" = ["blueprint"]))]
    pub struct InstallationSpec {
        /// Name of the Context in the same namespace, which has the repositories of components.
        /// Subinstallations and deploy items inherit it.
        #[schemars(extend("crdDefault" = DEFAULT_CONTEXT))]
        pub context: Option<String>,
        /// Signature that the component must have before the services use it.
        pub verification: Option<Verification>,
        /// Component version that holds the blueprint and its resources.
        pub component_descriptor: Option<ComponentDescriptorDefinition>,
        /// Blueprint to instantiate.
        pub blueprint: BlueprintDefinition,
        /// Values for the imports of the blueprint.
        pub imports: Option<InstallationImports>,
        /// Spiff templates that compute the values of blueprint imports from the data imports, by
        /// name of the blueprint import.
        pub import_data_mappings: Map<AnyJson>,
        /// Names under which the exports of the blueprint are published.
        pub exports: Option<InstallationExports>,
        /// Spiff templates that compute the values of data exports from the blueprint's exports, by
        /// name of the data export.
        pub export_data_mappings: Map<AnyJson>,
        /// Schedule on which the Installation runs again without a request.
        pub automatic_reconcile: Option<AutomaticReconcile>,
        /// Declarations of the author that save work for the services.
        pub optimization: Option<Optimization>,
        ..
    }
}

impl InstallationSpec {
    /// Returns the name of the Context to use.
    pub fn context(&self) -> &str {
        context_or_default(self.context.as_ref())
    }

    /// Returns the data imports, in the order written.
    pub fn data_imports(&self) -> &[DataImport] {
        self.imports.as_ref().map_or(&[], |imports| &imports.data)
    }

    /// Returns the target imports, in the order written.
    pub fn target_imports(&self) -> &[TargetImport] {
        self.imports.as_ref().map_or(&[], |imports| &imports.targets)
    }

    /// Returns the data exports, in the order written.
    pub fn data_exports(&self) -> &[DataExport] {
        self.exports.as_ref().map_or(&[], |exports| &exports.data)
    }

    /// Returns the target exports, in the order written.
    pub fn target_exports(&self) -> &[TargetExport] {
        self.exports.as_ref().map_or(&[], |exports| &exports.targets)
    }
}

part! {
    /// Signature that the component must have.
    #[derive(Eq)]
    #[schemars(extend("required" = ["signatureName"]))]
    pub struct Verification {
        /// Name of the signature; the Context has the key that verifies it.
        pub signature_name: String,
    }
}

part! {
    /// Component version, by reference or in full.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.ref) != has(self.inline)",
        "message": "exactly one of ref and inline must be set",
    }]))]
    pub struct ComponentDescriptorDefinition {
        /// Name and version of a component in a repository.
        #[serde(rename = "ref")]
        pub reference: Option<ComponentVersionReference>,
        /// Component descriptor as an object. Nested descriptors are in the label
        /// `landscaper.gardener.cloud/component-descriptor` of component references.
        #[schemars(schema_with = "schema::any_object_but_null")]
        pub inline: AnyJson,
    }
}

part! {
    /// Name and version of a component in a repository.
    #[schemars(extend("required" = ["componentName", "version"]))]
    pub struct ComponentVersionReference {
        /// Repository of the component; without it the one of the Context is used. Members besides
        /// `type` depend on the type.
        #[schemars(schema_with = "schema::any_object")]
        pub repository_context: AnyJson,
        /// Name of the component.
        pub component_name: String,
        /// Version of the component.
        pub version: String,
    }
}

part! {
    /// Blueprint, as a resource of the component or in full.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.ref) != has(self.inline)",
        "message": "exactly one of ref and inline must be set",
    }]))]
    pub struct BlueprintDefinition {
        /// Resource of the component that holds the blueprint.
        #[serde(rename = "ref")]
        pub reference: Option<BlueprintReference>,
        /// Blueprint as an object.
        pub inline: Option<InlineBlueprint>,
    }
}

part! {
    /// Resource of the component that holds the blueprint.
    #[derive(Eq)]
    #[schemars(extend("required" = ["resourceName"]))]
    pub struct BlueprintReference {
        /// Name of the resource.
        #[schemars(length(min = 1))]
        pub resource_name: String,
    }
}

part! {
    /// A blueprint written into the manifest.
    #[schemars(extend("required" = ["filesystem"]))]
    pub struct InlineBlueprint {
        /// Files and folders by name, as a structure or as YAML text of that structure. One of them
        /// has to be `blueprint.yaml`.
        pub filesystem: AnyJson,
    }
}

part! {
    /// Schedule on which an Installation runs again without a request.
    #[derive(Eq)]
    pub struct AutomaticReconcile {
        /// Schedule after success.
        pub succeeded_reconcile: Option<SucceededReconcile>,
        /// Schedule after a failure.
        pub failed_reconcile: Option<FailedReconcile>,
    }
}

part! {
    /// Schedule after success.
    #[derive(Eq)]
    pub struct SucceededReconcile {
        /// Time between two runs; 24 hours if neither this nor `cronSpec` is given.
        pub interval: Option<Duration>,
        /// Times of the runs as a cron expression of five fields; wins over `interval`.
        pub cron_spec: Option<String>,
    }
}

part! {
    /// Schedule after a failure.
    #[derive(Eq)]
    pub struct FailedReconcile {
        /// Time between two runs; 5 minutes if neither this nor `cronSpec` is given.
        pub interval: Option<Duration>,
        /// Times of the runs as a cron expression of five fields; wins over `interval`.
        pub cron_spec: Option<String>,
        /// Maximum number of automatic runs; no limit if absent; 0 switches automatic runs off.
        pub number_of_reconciles: Option<i32>,
    }
}

part! {
    /// Declarations of the author that save work for the services.
    #[derive(Eq)]
    pub struct Optimization {
        /// True if the Installation has no imports from its siblings.
        pub has_no_sibling_imports: Option<bool>,
        /// True if the Installation has no exports to its siblings.
        pub has_no_sibling_exports: Option<bool>,
    }
}

part! {
    /// State of the Installation and its jobs.
    #[schemars(extend("required" = ["observedGeneration"]))]
    pub struct InstallationStatus {
        /// Phase of the current or last job.
        pub phase: Option<String>,
        /// When `phase` changed last.
        #[schemars(schema_with = "schema::time")]
        pub phase_transition_time: Option<Time>,
        /// Generation of the spec that the last job worked on; 0 before the first job.
        #[schemars(extend("crdDefault" = 0))]
        pub observed_generation: i64,
        /// Identifier of the current or last job.
        #[serde(rename = "jobID")]
        pub job_id: Option<String>,
        /// Identifier of the last job that finished.
        #[serde(rename = "jobIDFinished")]
        pub job_id_finished: Option<String>,
        /// Observations about the Installation.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        pub conditions: List<Condition>,
        /// Component version that the current or last job uses, overwrites applied.
        pub component_reference: Option<Box<ComponentVersionReference>>,
        /// SHA-256 of all component versions that the component of the current or last job refers
        /// to, overwrites applied; absent if it refers to none.
        pub component_closure: Option<String>,
        /// Error that stopped the last job.
        pub last_error: Option<LastError>,
        /// Execution that carries the deploy items.
        pub execution_ref: Option<ObjectReference>,
        /// Hash over all imported values at the start of the job.
        pub imports_hash: Option<String>,
        /// One entry for each element of `spec.imports`.
        pub imports: List<ImportStatus>,
        /// Active subinstallations by the names of their templates.
        pub installation_refs: List<NamedObjectReference>,
        /// Subinstallations known in the current job.
        pub sub_inst_cache: Option<SubInstallationCache>,
        /// State of the automatic runs.
        pub automatic_reconcile_status: Option<AutomaticReconcileStatus>,
        /// Sibling Installations that are still to be triggered.
        pub dependents_to_trigger: List<DependentToTrigger>,
        /// When the job reached its stages.
        pub transition_times: Option<TransitionTimes>,
        /// Number of times that the current job has begun to render without reaching the end. After
        /// three renderings that ended the renderer process, the job fails.
        pub rendering_attempts: Option<i64>,
        ..
    }
}

part! {
    /// Object that was imported under one name.
    pub struct ImportStatus {
        /// Name of the import.
        pub name: String,
        /// `dataobject` or `target`.
        #[serde(rename = "type")]
        pub type_: String,
        /// Name of the imported object as written in the import.
        pub data_ref: Option<String>,
        /// Generation of the imported object; the largest one of a list or map.
        pub config_generation: Option<IntOrString>,
        ..
    }
}

part! {
    /// A subinstallation and the name of its template.
    pub struct NamedObjectReference {
        /// Name of the installation template.
        pub name: String,
        /// Object of the subinstallation.
        #[serde(rename = "ref")]
        pub reference: ObjectReference,
        ..
    }
}

part! {
    /// Subinstallations known in the current job.
    pub struct SubInstallationCache {
        /// Subinstallations that the blueprint asks for.
        pub active_subs: List<NamePair>,
        /// Names of subinstallations that the blueprint no longer asks for.
        pub orphaned_subs: List<String>,
        ..
    }
}

part! {
    /// Name in the blueprint and name of the object.
    #[derive(Eq)]
    pub struct NamePair {
        /// Name of the template in the blueprint.
        pub spec_name: String,
        /// Name of the object.
        pub object_name: String,
    }
}

part! {
    /// State of the automatic runs.
    pub struct AutomaticReconcileStatus {
        /// Generation of the spec that the counter belongs to.
        pub generation: Option<i64>,
        /// Automatic runs since the last success, change or request.
        pub number_of_reconciles: Option<i32>,
        /// When the last automatic run was started.
        #[schemars(schema_with = "schema::time")]
        pub last_reconcile_time: Option<Time>,
        /// True if the runs follow a failure.
        pub on_failed: Option<bool>,
        ..
    }
}

part! {
    /// A sibling Installation that is still to be triggered.
    #[derive(Eq)]
    pub struct DependentToTrigger {
        /// Name of the Installation.
        pub name: String,
    }
}
