//! DataObject and Target (`installations.md` 1.4).

use serde_json::Value;

use crate::common::LocalSecretReference;
use crate::json::{AnyJson, Map};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "dataobjects"
    /// A DataObject carries a value between Installations.
    #[schemars(extend("required" = ["data"]))]
    pub struct DataObject {
        /// Value of the DataObject; anything that JSON can express.
        pub data: AnyJson,
    }
}

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "targets"
    /// A Target tells deployers how to reach the place that they deploy to.
    #[schemars(extend("required" = ["spec"]))]
    pub struct Target {
        /// Type and configuration of the Target.
        pub spec: TargetSpec,
    }
}

part! {
    /// Type and configuration of a Target.
    #[schemars(extend("required" = ["type"], "not" = {"required": ["config", "secretRef"]}))]
    pub struct TargetSpec {
        /// Type of the Target, such as `landscaper.gardener.cloud/kubernetes-cluster`.
        #[serde(rename = "type")]
        pub type_: String,
        /// Configuration of the Target; not together with `secretRef`.
        #[schemars(schema_with = "schema::any_but_null")]
        pub config: AnyJson,
        /// Secret of the same namespace that holds the configuration.
        pub secret_ref: Option<LocalSecretReference>,
        ..
    }
}

part! {
    /// Target as a blueprint exports it (`blueprints.md` 8.7).
    #[schemars(extend("required" = ["type"]))]
    pub struct TargetTemplate {
        /// Type of the Target.
        #[serde(rename = "type")]
        pub type_: String,
        /// The configuration.
        pub config: AnyJson,
        /// Another spelling of `config`.
        pub configuration: AnyJson,
        /// Secret that holds the configuration.
        pub secret_ref: Option<LocalSecretReference>,
        /// Labels of the Target.
        pub labels: Map<String>,
        /// Annotations of the Target.
        pub annotations: Map<String>,
        ..
    }
}

impl TargetTemplate {
    /// Returns the configuration under either name; `config` wins if both are set.
    pub fn config(&self) -> Option<&Value> {
        self.config.get().or_else(|| self.configuration.get())
    }
}
