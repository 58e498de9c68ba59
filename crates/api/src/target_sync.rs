//! TargetSync (`installations.md` 1.5).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::LocalSecretReference;
use crate::json::List;
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "targetsyncs"
    /// A TargetSync keeps Targets of its namespace for the clusters that a source cluster has
    /// Secrets or Shoots of. A namespace may have one TargetSync.
    #[schemars(extend("required" = ["spec"]))]
    pub struct TargetSync {
        /// Source cluster, and the clusters that get a Target.
        pub spec: TargetSyncSpec,
        /// Result of the last synchronization.
        pub status: Option<TargetSyncStatus>,
    }
}

part! {
    /// Source cluster, and the clusters that get a Target.
    #[schemars(extend("required" = ["sourceNamespace", "secretRef"]))]
    pub struct TargetSyncSpec {
        /// Namespace of the source cluster to read from.
        #[schemars(length(min = 1))]
        pub source_namespace: String,
        /// Secret of the same namespace with a kubeconfig of the source cluster, under `kubeconfig`
        /// if no key is given.
        pub secret_ref: LocalSecretReference,
        /// True to create a Target for the source cluster, too.
        pub create_target_to_source: Option<bool>,
        /// Name of the Target for the source cluster; the default is the name of the source
        /// namespace.
        pub target_to_source_name: Option<String>,
        /// Names of the Secrets that are mirrored: a regular expression, `*` for all, absent for
        /// none. Not together with `shootNameExpression`.
        pub secret_name_expression: Option<String>,
        /// Names of the Gardener Shoots that get a short-lived kubeconfig: a regular expression,
        /// `*` for all, absent for none. Not together with `secretNameExpression`.
        pub shoot_name_expression: Option<String>,
        /// Renewal of the token in `secretRef`.
        pub token_rotation: Option<TokenRotation>,
        ..
    }
}

part! {
    /// Renewal of the token for the source cluster.
    #[derive(Eq)]
    pub struct TokenRotation {
        /// True to renew the token every 60 days, with a validity of 90 days.
        pub enabled: Option<bool>,
    }
}

part! {
    /// Result of the last synchronization.
    #[schemars(extend("required" = ["observedGeneration"]))]
    pub struct TargetSyncStatus {
        /// Generation of the spec that was synchronized last; 0 before the first time.
        #[schemars(extend("crdDefault" = 0))]
        pub observed_generation: i64,
        /// When the last synchronization ended.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// Errors of the last synchronization; absent if there were none.
        pub last_errors: List<String>,
        /// When the token was renewed last.
        #[schemars(schema_with = "schema::time")]
        pub last_token_rotation_time: Option<Time>,
        ..
    }
}

/// Default key of the kubeconfig in the Secret.
const KUBECONFIG: &str = "kubeconfig";

impl TargetSyncSpec {
    /// Returns the key of the kubeconfig in the Secret.
    pub fn secret_key(&self) -> &str {
        self.secret_ref.entry().unwrap_or(KUBECONFIG)
    }

    /// Returns the name of the Target for the source cluster, if the spec asks for one.
    pub fn target_to_source(&self) -> Option<&str> {
        let given = self.target_to_source_name.as_deref().filter(|name| !name.is_empty());
        (self.create_target_to_source == Some(true)).then(|| given.unwrap_or(&self.source_namespace))
    }

    /// Reports whether the token is renewed.
    pub fn rotates_token(&self) -> bool {
        self.token_rotation.as_ref().is_some_and(|rotation| rotation.enabled == Some(true))
    }
}
