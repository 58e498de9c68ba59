//! Context and ComponentVersionOverwrites (components.md 1.1 and 1.3). Neither has a `spec`: their fields
//! stand beside `metadata`.

use crate::common::{LocalObjectReference, SecretReference};
use crate::json::{AnyJson, List, Map};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "contexts"
    /// A Context holds what several Installations share: where components are found, how they are accessed and
    /// which of them are overwritten.
    pub struct Context {
        /// Repository that component versions are looked up in if the Installation names none. Members besides
        /// `type` depend on the type.
        #[schemars(schema_with = "schema::any_object")]
        pub repository_context: AnyJson,
        /// ConfigMap with an entry `.ocmconfig` that names further repositories.
        #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
        pub ocm_config: Option<LocalObjectReference>,
        /// Secrets with credentials for registries, in the order of their precedence.
        pub registry_pull_secrets: List<LocalObjectReference>,
        /// Configuration for deployers, by name.
        pub configurations: Map<AnyJson>,
        /// Name of the ComponentVersionOverwrites that apply.
        pub component_version_overwrites: Option<String>,
        /// Keys and certificates that signatures are checked with, by name of the signature.
        pub verification_signatures: Map<VerificationSignature>,
    }
}

impl Context {
    /// Name of the ConfigMap with repositories; an empty name counts as absent (components.md 1.1).
    pub fn ocm_config_map(&self) -> Option<&str> {
        self.ocm_config.as_ref().map(|reference| reference.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Names of the Secrets with credentials for registries, in the order of their precedence.
    pub fn pull_secrets(&self) -> impl Iterator<Item = &str> {
        self.registry_pull_secrets.iter().map(|reference| reference.name.as_str())
    }

    /// Name of the ComponentVersionOverwrites; an empty name counts as absent (components.md 1.1).
    pub fn overwrites(&self) -> Option<&str> {
        self.component_version_overwrites.as_deref().filter(|name| !name.is_empty())
    }
}

part! {
    /// What a signature is checked with.
    #[derive(Eq)]
    pub struct VerificationSignature {
        /// Entry of a Secret that holds a public key in PEM format.
        pub public_key_secret_reference: Option<SecretReference>,
        /// Entry of a Secret that holds certificates in PEM format.
        pub ca_certificate_secret_reference: Option<SecretReference>,
    }
}

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "componentversionoverwrites"
    /// ComponentVersionOverwrites replace component versions by others wherever Installations refer to them.
    pub struct ComponentVersionOverwrites {
        /// Rules, tried in the order written. A rule applies if no earlier one has set any of the attributes that
        /// it would set.
        pub overwrites: List<ComponentVersionOverwrite>,
    }
}

part! {
    /// A rule: what it matches and what it puts in place.
    #[schemars(extend("required" = ["source", "substitution"]))]
    pub struct ComponentVersionOverwrite {
        /// Attributes that a reference must have; an attribute that is not given matches anything.
        pub source: ComponentVersionOverwriteReference,
        /// Attributes that are replaced; an attribute that is not given stays as it is.
        pub substitution: ComponentVersionOverwriteReference,
    }
}

part! {
    /// Attributes of a reference to a component version.
    pub struct ComponentVersionOverwriteReference {
        /// Repository of the component. Members besides `type` depend on the type.
        #[schemars(schema_with = "schema::any_object")]
        pub repository_context: AnyJson,
        /// Name of the component.
        pub component_name: Option<String>,
        /// Version of the component.
        pub version: Option<String>,
    }
}

impl ComponentVersionOverwriteReference {
    /// The component name; empty and absent are the same (components.md 1.3).
    pub fn component_name(&self) -> Option<&str> {
        self.component_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The version; empty and absent are the same (components.md 1.3).
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| !version.is_empty())
    }
}
