//! DeployItem (`installations.md` 1.3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::{Condition, LastError, ObjectReference, TransitionTimes};
use crate::duration::Duration;
use crate::execution::OnDelete;
use crate::installation::{DEFAULT_CONTEXT, context_or_default};
use crate::json::{AnyJson, List};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "deployitems"
    /// A DeployItem is the smallest unit of deployment; one deployer works on it.
    #[schemars(extend("required" = ["spec"]))]
    pub struct DeployItem {
        /// Configuration of the deployment, and its Target.
        pub spec: DeployItemSpec,
        /// Results of the deployer.
        pub status: Option<DeployItemStatus>,
    }
}

part! {
    /// Configuration of the deployment, and its Target.
    #[schemars(extend("required" = ["type"]))]
    pub struct DeployItemSpec {
        /// Type of the deployer that works on the item. It cannot be changed.
        #[serde(rename = "type")]
        #[schemars(length(min = 1))]
        pub type_: String,
        /// Target that the item is deployed to.
        #[schemars(extend("required" = ["name", "namespace"]))]
        pub target: Option<ObjectReference>,
        /// Name of the Context of the Installation.
        #[schemars(extend("crdDefault" = DEFAULT_CONTEXT))]
        pub context: Option<String>,
        /// Configuration for the deployer.
        pub config: AnyJson,
        /// Time that the deployer may take; 10 minutes if absent, `none` for any time.
        pub timeout: Option<Duration>,
        /// Leave the item alone as long as its specification does not change.
        pub update_on_change_only: Option<bool>,
        /// Options for the deletion of the item.
        pub on_delete: Option<OnDelete>,
        ..
    }
}

impl DeployItemSpec {
    /// Returns the name of the Context to use.
    pub fn context(&self) -> &str {
        context_or_default(self.context.as_ref())
    }
}

part! {
    /// Results of the deployer.
    #[schemars(extend("required" = ["observedGeneration"]))]
    pub struct DeployItemStatus {
        /// Phase of the current or last job.
        pub phase: Option<String>,
        /// When `phase` changed last.
        #[schemars(schema_with = "schema::time")]
        pub phase_transition_time: Option<Time>,
        /// Generation of the spec that the deployer worked on; 0 before it did.
        #[schemars(extend("crdDefault" = 0))]
        pub observed_generation: i64,
        /// Identifier of the current or last job.
        #[serde(rename = "jobID")]
        pub job_id: Option<String>,
        /// When the job was assigned.
        #[serde(rename = "jobIDGenerationTime")]
        #[schemars(schema_with = "schema::time")]
        pub job_id_generation_time: Option<Time>,
        /// Identifier of the last job that finished.
        #[serde(rename = "jobIDFinished")]
        pub job_id_finished: Option<String>,
        /// When a deployer picked the current job up.
        #[schemars(schema_with = "schema::time")]
        pub last_reconcile_time: Option<Time>,
        /// Deployer that works on the item.
        pub deployer: Option<DeployerInformation>,
        /// Observations about the item.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        pub conditions: List<Condition>,
        /// Newest error of the job.
        pub last_error: Option<LastError>,
        /// First error of the job.
        pub first_error: Option<LastError>,
        /// Newest errors of the job, oldest first.
        pub last_errors: List<LastError>,
        /// State of the deployer itself; the format is its own.
        #[schemars(schema_with = "schema::embedded_object")]
        pub provider_status: AnyJson,
        /// Secret that holds the exported values.
        pub export_ref: Option<ObjectReference>,
        /// When the job reached its stages.
        pub transition_times: Option<TransitionTimes>,
        /// Without effect; kept for objects that have it.
        pub deploy_item_phase: Option<String>,
        ..
    }
}

part! {
    /// Deployer that works on an item.
    pub struct DeployerInformation {
        /// Identity of the running deployer.
        pub identity: String,
        /// Name of the deployer.
        pub name: String,
        /// Version of the deployer.
        pub version: String,
        ..
    }
}
