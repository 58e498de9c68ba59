//! Execution (`installations.md` 1.2).

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::{Condition, LastError, ObjectReference, TransitionTimes};
use crate::duration::Duration;
use crate::installation::{DEFAULT_CONTEXT, NamePair, context_or_default};
use crate::json::{AnyJson, List, Map};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "executions"
    /// An Execution has the deploy items of an Installation and runs them in their order.
    #[schemars(extend("required" = ["spec"]))]
    pub struct Execution {
        /// Deploy items to create.
        pub spec: ExecutionSpec,
        /// Progress of the deploy items.
        pub status: Option<ExecutionStatus>,
    }
}

part! {
    /// Deploy items to create.
    pub struct ExecutionSpec {
        /// Name of the Context of the Installation.
        #[schemars(extend("crdDefault" = DEFAULT_CONTEXT))]
        pub context: Option<String>,
        /// Templates of the deploy items.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub deploy_items: List<DeployItemTemplate>,
        /// List of the templates as JSON, compressed with gzip; used instead of `deployItems` if
        /// both are set.
        #[schemars(schema_with = "schema::bytes")]
        pub deploy_items_compressed: Option<ByteString>,
        ..
    }
}

impl ExecutionSpec {
    /// Returns the name of the Context to use.
    pub fn context(&self) -> &str {
        context_or_default(self.context.as_ref())
    }
}

part! {
    /// Template of a deploy item.
    #[schemars(extend("required" = ["name", "type"]))]
    pub struct DeployItemTemplate {
        /// Name of the item, unique in the Execution.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Type of the deployer that works on the item.
        #[serde(rename = "type")]
        #[schemars(length(min = 1))]
        pub type_: String,
        /// Target that the item is deployed to.
        #[schemars(extend("required" = ["name", "namespace"]))]
        pub target: Option<ObjectReference>,
        /// Labels of the item.
        pub labels: Map<String>,
        /// Configuration for the deployer.
        pub config: AnyJson,
        /// Names of the items that have to succeed before this one.
        pub depends_on: List<String>,
        /// Time that the deployer may take; 10 minutes if absent, `none` for any time.
        pub timeout: Option<Duration>,
        /// Leave the item alone as long as its specification does not change.
        pub update_on_change_only: Option<bool>,
        /// Options for the deletion of the item.
        pub on_delete: Option<OnDelete>,
        ..
    }
}

part! {
    /// Options for the deletion of a deploy item.
    #[derive(Eq)]
    pub struct OnDelete {
        /// Do not uninstall if the target cluster is gone.
        pub skip_uninstall_if_cluster_removed: Option<bool>,
    }
}

part! {
    /// Progress of the deploy items.
    #[schemars(extend("required" = ["observedGeneration"]))]
    pub struct ExecutionStatus {
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
        /// Observations about the Execution.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        pub conditions: List<Condition>,
        /// Error that stopped the last job.
        pub last_error: Option<LastError>,
        /// DataObject that holds the collected exports.
        pub export_ref: Option<ObjectReference>,
        /// Deploy items known in the current job.
        pub deploy_item_cache: Option<DeployItemCache>,
        /// When the job reached its stages.
        pub transition_times: Option<TransitionTimes>,
        ..
    }
}

part! {
    /// Deploy items known in the current job.
    pub struct DeployItemCache {
        /// Deploy items that the Execution asks for.
        #[serde(rename = "activeDIs")]
        pub active_dis: List<NamePair>,
        /// Names of deploy items that the Execution no longer asks for.
        #[serde(rename = "orphanedDIs")]
        pub orphaned_dis: List<String>,
        ..
    }
}
