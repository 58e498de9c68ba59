//! Component descriptors (components.md 5).
//!
//! The types take incomplete documents, as inline descriptors are; unknown members are kept. Which members
//! are required, and which forms of names and versions are legal, is checked by whoever reads descriptors
//! from a repository.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{AnyJson, List, Map};
use crate::object::part;

/// `meta.schemaVersion` of the older form.
pub const SCHEMA_VERSION_V2: &str = "v2";
/// `apiVersion` of the newer form.
pub const API_VERSION_V3: &str = "ocm.software/v3alpha1";
/// Another `apiVersion` of the newer form, read but never written.
pub const API_VERSION_V3_ALIAS: &str = "ocm.gardener.cloud/v3alpha1";
/// `kind` of the newer form.
pub const KIND_V3: &str = "ComponentVersion";

/// A component descriptor in either form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ComponentDescriptor {
    /// The older form.
    V2(Box<ComponentDescriptorV2>),
    /// The newer form.
    V3(Box<ComponentDescriptorV3>),
}

/// Why a document is not a component descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// Neither form can be told.
    #[error("no component descriptor: neither `meta.schemaVersion` nor `apiVersion` is given")]
    NoVersion,
    /// Both forms are claimed.
    #[error("no component descriptor: both `meta.schemaVersion` and `apiVersion` are given")]
    TwoVersions,
    /// A form that we do not know.
    #[error(
        "the schema version {0:?} of the component descriptor is not known; known are \"v2\" and \"ocm.software/v3alpha1\""
    )]
    UnknownVersion(String),
    /// The newer form with another kind.
    #[error("kind {0:?} of the component descriptor: must be ComponentVersion")]
    Kind(String),
    /// A member of the wrong type.
    #[error("the component descriptor cannot be read: {0}")]
    Content(String),
}

impl ComponentDescriptor {
    /// Reads the JSON form of a component descriptor (components.md 5, detection).
    ///
    /// # Errors
    /// When the form is not clear or not known, or a member has the wrong type.
    pub fn from_json(document: &Value) -> Result<Self, DescriptorError> {
        let api_version = document.get("apiVersion");
        let schema_version = document.get("meta").and_then(|meta| meta.get("schemaVersion"));
        let content = |error: serde_json::Error| DescriptorError::Content(error.to_string());
        let text = |version: &Value| version.as_str().map_or_else(|| version.to_string(), str::to_owned);
        match (api_version, schema_version) {
            (None, None) => Err(DescriptorError::NoVersion),
            (Some(_), Some(_)) => Err(DescriptorError::TwoVersions),
            (None, Some(version)) if version == SCHEMA_VERSION_V2 => {
                Deserialize::deserialize(document).map(Self::V2).map_err(content)
            }
            (Some(version), None) if version == API_VERSION_V3 || version == API_VERSION_V3_ALIAS => {
                match document.get("kind") {
                    Some(kind) if kind == KIND_V3 => {
                        Deserialize::deserialize(document).map(Self::V3).map_err(content)
                    }
                    kind => Err(DescriptorError::Kind(kind.map(text).unwrap_or_default())),
                }
            }
            (Some(version), None) | (None, Some(version)) => {
                Err(DescriptorError::UnknownVersion(text(version)))
            }
        }
    }

    /// Name of the component.
    pub fn name(&self) -> &str {
        match self {
            Self::V2(descriptor) => &descriptor.component.name,
            Self::V3(descriptor) => &descriptor.metadata.name,
        }
    }

    /// Version of the component.
    pub fn version(&self) -> &str {
        match self {
            Self::V2(descriptor) => &descriptor.component.version,
            Self::V3(descriptor) => &descriptor.metadata.version,
        }
    }

    /// Resources of the component.
    pub fn resources(&self) -> &[Resource] {
        match self {
            Self::V2(descriptor) => &descriptor.component.resources,
            Self::V3(descriptor) => &descriptor.spec.resources,
        }
    }

    /// Sources of the component.
    pub fn sources(&self) -> &[Source] {
        match self {
            Self::V2(descriptor) => &descriptor.component.sources,
            Self::V3(descriptor) => &descriptor.spec.sources,
        }
    }

    /// References to other components.
    pub fn references(&self) -> &[Reference] {
        match self {
            Self::V2(descriptor) => &descriptor.component.component_references,
            Self::V3(descriptor) => &descriptor.spec.references,
        }
    }

    /// Repositories that the component has been in, the current one last.
    pub fn repository_contexts(&self) -> &[Value] {
        match self {
            Self::V2(descriptor) => &descriptor.component.repository_contexts,
            Self::V3(descriptor) => &descriptor.repository_contexts,
        }
    }

    /// Signatures of the component.
    pub fn signatures(&self) -> &[Signature] {
        match self {
            Self::V2(descriptor) => &descriptor.signatures,
            Self::V3(descriptor) => &descriptor.signatures,
        }
    }
}

part! {
    /// A component descriptor of schema version `v2`.
    pub struct ComponentDescriptorV2 {
        /// Form of the document.
        pub meta: DescriptorMeta,
        /// The component.
        pub component: ComponentV2,
        /// Signatures of the component.
        pub signatures: List<Signature>,
        /// Digests of referenced components.
        pub nested_digests: List<NestedDigest>,
        ..
    }
}

part! {
    /// Form of a document.
    pub struct DescriptorMeta {
        /// `v2`.
        pub schema_version: String,
        ..
    }
}

part! {
    /// A component of schema version `v2`.
    pub struct ComponentV2 {
        /// Name of the component.
        pub name: String,
        /// Version of the component.
        pub version: String,
        /// Labels of the component.
        pub labels: List<Label>,
        /// Who provides the component; may be an object in the form of a text.
        pub provider: Option<String>,
        /// When this version was made.
        pub creation_time: AnyJson,
        /// Repositories that the component has been in, the current one last.
        pub repository_contexts: List<Value>,
        /// Sources of the component.
        pub sources: List<Source>,
        /// References to other components.
        pub component_references: List<Reference>,
        /// Resources of the component.
        pub resources: List<Resource>,
        ..
    }
}

part! {
    /// A component descriptor of version `ocm.software/v3alpha1`.
    pub struct ComponentDescriptorV3 {
        /// `ocm.software/v3alpha1`.
        pub api_version: String,
        /// `ComponentVersion`.
        pub kind: String,
        /// Identity of the component.
        pub metadata: DescriptorMetadata,
        /// Repositories that the component has been in, the current one last.
        pub repository_contexts: List<Value>,
        /// Content of the component.
        pub spec: DescriptorSpec,
        /// Signatures of the component.
        pub signatures: List<Signature>,
        /// Digests of referenced components.
        pub nested_digests: List<NestedDigest>,
        ..
    }
}

part! {
    /// Identity of a component.
    pub struct DescriptorMetadata {
        /// Name of the component.
        pub name: String,
        /// Version of the component.
        pub version: String,
        /// Labels of the component.
        pub labels: List<Label>,
        /// Who provides the component.
        pub provider: Option<Provider>,
        /// When this version was made.
        pub creation_time: AnyJson,
        ..
    }
}

part! {
    /// Who provides a component.
    pub struct Provider {
        /// Name of the provider.
        pub name: String,
        /// Labels of the provider.
        pub labels: List<Label>,
        ..
    }
}

part! {
    /// Content of a component.
    pub struct DescriptorSpec {
        /// Sources of the component.
        pub sources: List<Source>,
        /// References to other components.
        pub references: List<Reference>,
        /// Resources of the component.
        pub resources: List<Resource>,
        ..
    }
}

part! {
    /// A label.
    pub struct Label {
        /// Name of the label.
        pub name: String,
        /// Value of the label.
        pub value: AnyJson,
        /// Version of the format of the value.
        pub version: Option<String>,
        /// Whether signatures cover the label.
        pub signing: Option<bool>,
        /// How values are merged when descriptors are copied.
        pub merge: AnyJson,
        ..
    }
}

part! {
    /// A source of a component.
    pub struct Source {
        /// Name of the source.
        pub name: String,
        /// Version of the source.
        pub version: Option<String>,
        /// What distinguishes sources of the same name.
        pub extra_identity: Map<String>,
        /// Labels of the source.
        pub labels: List<Label>,
        /// Type of the source.
        #[serde(rename = "type")]
        pub type_: String,
        /// How the source is accessed.
        pub access: AnyJson,
        ..
    }
}

part! {
    /// A resource of a component.
    pub struct Resource {
        /// Name of the resource.
        pub name: String,
        /// Version of the resource.
        pub version: Option<String>,
        /// What distinguishes resources of the same name.
        pub extra_identity: Map<String>,
        /// Labels of the resource.
        pub labels: List<Label>,
        /// Type of the resource.
        #[serde(rename = "type")]
        pub type_: String,
        /// `local` or `external`.
        pub relation: Option<String>,
        /// How the resource is accessed.
        pub access: AnyJson,
        /// Sources that the resource was made from.
        pub src_refs: List<SourceReference>,
        /// Older spelling of `srcRefs`.
        pub src_ref: List<SourceReference>,
        /// Digest of the content.
        pub digest: Option<Digest>,
        ..
    }
}

impl Resource {
    /// Sources that the resource was made from, under either name (components.md 5.1).
    pub fn source_references(&self) -> &[SourceReference] {
        self.src_refs.written().unwrap_or(&self.src_ref)
    }
}

part! {
    /// Names sources of the same component.
    pub struct SourceReference {
        /// Members that the identity of a source has to have.
        pub identity_selector: Map<String>,
        /// Labels of the reference.
        pub labels: List<Label>,
        ..
    }
}

part! {
    /// A reference to another component.
    pub struct Reference {
        /// Name of the reference.
        pub name: String,
        /// Version of the other component.
        pub version: Option<String>,
        /// What distinguishes references of the same name.
        pub extra_identity: Map<String>,
        /// Labels of the reference.
        pub labels: List<Label>,
        /// Name of the other component.
        pub component_name: String,
        /// Digest of the other component.
        pub digest: Option<Digest>,
        ..
    }
}

part! {
    /// A digest, and how it is computed.
    pub struct Digest {
        /// Algorithm of the digest.
        pub hash_algorithm: String,
        /// How the content is brought into its normal form.
        pub normalisation_algorithm: String,
        /// The digest.
        pub value: String,
        ..
    }
}

part! {
    /// A signature.
    pub struct Signature {
        /// Name of the signature.
        pub name: String,
        /// Digest that was signed.
        pub digest: Digest,
        /// The signature proper.
        pub signature: SignatureValue,
        /// Proof of the time of signing.
        pub timestamp: Option<SignatureTimestamp>,
        ..
    }
}

part! {
    /// The signature proper.
    pub struct SignatureValue {
        /// Algorithm of the signature.
        pub algorithm: String,
        /// The signature.
        pub value: String,
        /// Form of `value`.
        pub media_type: String,
        /// Who signed.
        pub issuer: Option<String>,
        ..
    }
}

part! {
    /// Proof of the time of signing.
    pub struct SignatureTimestamp {
        /// The proof.
        pub value: Option<String>,
        /// The time.
        pub time: AnyJson,
        ..
    }
}

part! {
    /// Digests of a referenced component and its resources.
    pub struct NestedDigest {
        /// Name of the component.
        pub name: String,
        /// Version of the component.
        pub version: String,
        /// Digest of the component.
        pub digest: Option<Digest>,
        /// Digests of the resources.
        pub resource_digests: List<ResourceDigest>,
        ..
    }
}

part! {
    /// Digest of a resource.
    pub struct ResourceDigest {
        /// Name of the resource.
        pub name: String,
        /// Version of the resource.
        pub version: Option<String>,
        /// What distinguishes resources of the same name.
        pub extra_identity: Map<String>,
        /// The digest.
        pub digest: Digest,
        ..
    }
}

#[cfg(test)]
mod tests;
