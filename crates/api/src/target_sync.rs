//! TargetSync (installations.md 1.5).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::LocalSecretReference;
use crate::json::List;
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "targetsyncs"
    /// A TargetSync keeps Targets of its namespace for the clusters that another cluster knows. There may be one in a namespace.
    #[schemars(extend("required" = ["spec"]))]
    pub struct TargetSync {
        /// Which clusters, and where they are found.
        pub spec: TargetSyncSpec,
        /// How the last round has ended.
        pub status: Option<TargetSyncStatus>,
    }
}

part! {
    /// Which clusters get a Target, and where they are found.
    #[schemars(extend("required" = ["sourceNamespace", "secretRef"]))]
    pub struct TargetSyncSpec {
        /// Namespace of the source cluster that is looked at.
        #[schemars(length(min = 1))]
        pub source_namespace: String,
        /// Secret of the own namespace with a kubeconfig of the source cluster, under `kubeconfig` if no key is given.
        pub secret_ref: LocalSecretReference,
        /// Make a Target for the source cluster, too.
        pub create_target_to_source: Option<bool>,
        /// Name of that Target; that of the source namespace if it is absent.
        pub target_to_source_name: Option<String>,
        /// Names of the Secrets that are mirrored: a regular expression, `*` for all, absent for none. Not together with
        /// `shootNameExpression`.
        pub secret_name_expression: Option<String>,
        /// Names of the Gardener Shoots that get a short-lived kubeconfig: a regular expression, `*` for all, absent for none. Not
        /// together with `secretNameExpression`.
        pub shoot_name_expression: Option<String>,
        /// Renewal of the token in `secretRef`.
        pub token_rotation: Option<TokenRotation>,
        ..
    }
}

part! {
    /// Renewal of the token that the source cluster is reached with.
    #[derive(Eq)]
    pub struct TokenRotation {
        /// Renew the token every 60 days, for 90 days.
        pub enabled: Option<bool>,
    }
}

part! {
    /// How the last round has ended.
    #[schemars(extend("required" = ["observedGeneration"]))]
    pub struct TargetSyncStatus {
        /// Generation of the spec that the last round worked on; 0 before the first one.
        #[schemars(extend("crdDefault" = 0))]
        pub observed_generation: i64,
        /// When the last round ended.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// What went wrong in the last round; absent if nothing did.
        pub last_errors: List<String>,
        /// When the token was renewed last.
        #[schemars(schema_with = "schema::time")]
        pub last_token_rotation_time: Option<Time>,
        ..
    }
}

/// The entry of a Secret that holds a kubeconfig if nobody says otherwise.
const KUBECONFIG: &str = "kubeconfig";

impl TargetSyncSpec {
    /// Key of the kubeconfig in the Secret.
    pub fn secret_key(&self) -> &str {
        self.secret_ref.entry().unwrap_or(KUBECONFIG)
    }

    /// Name of the Target for the source cluster itself, if there is to be one.
    pub fn target_to_source(&self) -> Option<&str> {
        let given = self.target_to_source_name.as_deref().filter(|name| !name.is_empty());
        (self.create_target_to_source == Some(true)).then(|| given.unwrap_or(&self.source_namespace))
    }

    /// Whether the token is to be renewed.
    pub fn rotates_token(&self) -> bool {
        self.token_rotation.as_ref().is_some_and(|rotation| rotation.enabled == Some(true))
    }
}
