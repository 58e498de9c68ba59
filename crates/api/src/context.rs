//! Context and ComponentVersionOverwrites (`components.md` 1.1, 1.3). Neither kind has a `spec`;
//! the fields are beside `metadata`.

use crate::common::{LocalObjectReference, SecretReference};
use crate::json::{AnyJson, List, Map};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "landscaper.gardener.cloud" / "v1alpha1" / "contexts"
    /// A Context has settings that several Installations share: the repositories of components, the
    /// credentials for them, and the overwrites.
    pub struct Context {
        /// Repository for component versions if the Installation names none. Members besides `type`
        /// depend on the type.
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
        /// Keys and certificates for the verification of signatures, by name of the signature.
        pub verification_signatures: Map<VerificationSignature>,
    }
}

impl Context {
    /// Returns the name of the ConfigMap with repositories; an empty name counts as absent
    /// (`components.md` 1.1).
    pub fn ocm_config_map(&self) -> Option<&str> {
        self.ocm_config.as_ref().map(|reference| reference.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the names of the Secrets with credentials for registries, in the order of their
    /// precedence.
    pub fn pull_secrets(&self) -> impl Iterator<Item = &str> {
        self.registry_pull_secrets.iter().map(|reference| reference.name.as_str())
    }

    /// Returns the name of the ComponentVersionOverwrites; an empty name counts as absent
    /// (`components.md` 1.1).
    pub fn overwrites(&self) -> Option<&str> {
        self.component_version_overwrites.as_deref().filter(|name| !name.is_empty())
    }
}

part! {
    /// Key or certificates that verify a signature.
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
    /// ComponentVersionOverwrites replace component versions by others wherever Installations refer
    /// to them.
    pub struct ComponentVersionOverwrites {
        /// Rules, tried in the order written. A rule applies if no earlier one has set any of the
        /// attributes that it would set.
        pub overwrites: List<ComponentVersionOverwrite>,
    }
}

part! {
    /// Rule with the references that it matches and the attributes that it replaces.
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
    /// Returns the component name; an empty name counts as absent (`components.md` 1.3).
    pub fn component_name(&self) -> Option<&str> {
        self.component_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the version; an empty version counts as absent (`components.md` 1.3).
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| !version.is_empty())
    }
}
