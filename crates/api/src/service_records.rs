//! Kinds that services of the reference keep their own records in (installations.md 1.5, 10.5). Ours neither read nor write them; the
//! reference's deployers do not start without them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::json::List;
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "criticalproblems"
    /// CriticalProblems lists crashes inside of a service of Landscaper.
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
        /// When it happened.
        #[schemars(schema_with = "schema::time")]
        pub creation_time: Option<Time>,
        /// How it came to that.
        pub description: Option<String>,
    }
}

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "syncobjects"
    /// A SyncObject is a lock that one pod of a service of Landscaper holds on another object.
    #[schemars(extend("required" = ["spec"]))]
    pub struct SyncObject {
        /// Holder of the lock, and the object that it is about.
        pub spec: SyncObjectSpec,
        /// Always empty.
        pub status: Option<EmptyStatus>,
    }
}

part! {
    /// Holder of a lock, and the object that it is about.
    #[schemars(extend("required" = ["podName", "kind", "name", "lastUpdateTime", "prefix"]))]
    pub struct SyncObjectSpec {
        /// Pod that holds the lock; empty when it is free.
        pub pod_name: String,
        /// Kind of the locked object.
        pub kind: String,
        /// Name of the locked object.
        pub name: String,
        /// When the lock was taken or given back last.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// Beginning of the name of this object, by which services tell their locks apart.
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
