//! Kinds in which services of Landscaper keep their own records (`installations.md` 1.5, 10.5). Our
//! services neither read nor write them, but Landscaper's deployers do not start without them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::json::List;
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "criticalproblems"
    /// CriticalProblems lists crashes of a Landscaper service.
    #[schemars(extend("required" = ["spec"]))]
    pub struct CriticalProblems {
        /// The newest crashes.
        pub spec: CriticalProblemsSpec,
        /// Always empty.
        pub status: Option<EmptyStatus>,
    }
}

part! {
    /// The newest crashes.
    pub struct CriticalProblemsSpec {
        /// One entry for each crash.
        pub critical_problem: List<CriticalProblem>,
        ..
    }
}

part! {
    /// One crash.
    #[derive(Eq)]
    pub struct CriticalProblem {
        /// Pod of the service.
        pub pod_name: Option<String>,
        /// When the crash happened.
        #[schemars(schema_with = "schema::time")]
        pub creation_time: Option<Time>,
        /// Cause of the crash.
        pub description: Option<String>,
    }
}

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "syncobjects"
    /// A SyncObject is a lock of one pod of a Landscaper service on another object.
    #[schemars(extend("required" = ["spec"]))]
    pub struct SyncObject {
        /// Owner of the lock, and the locked object.
        pub spec: SyncObjectSpec,
        /// Always empty.
        pub status: Option<EmptyStatus>,
    }
}

part! {
    /// Owner of a lock, and the locked object.
    #[schemars(extend("required" = ["podName", "kind", "name", "lastUpdateTime", "prefix"]))]
    pub struct SyncObjectSpec {
        /// Pod that owns the lock; empty if it is free.
        pub pod_name: String,
        /// Kind of the locked object.
        pub kind: String,
        /// Name of the locked object.
        pub name: String,
        /// When the lock was last acquired or released.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// Prefix of this object's name, by which services distinguish their locks.
        pub prefix: String,
        ..
    }
}

part! {
    /// Always empty.
    pub struct EmptyStatus {
        ..
    }
}
