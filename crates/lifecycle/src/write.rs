//! Writes of a job as data. The [`machine`](crate::machine) decides on them,
//! [`prepare`](crate::prepare()) builds those of computed values, and the caller sends them to the
//! API server.

use groundwork_api::{DataObject, DeployItem, Execution, Installation, ObjectMeta, ResourceExt, Target};
use k8s_openapi::api::core::v1::Secret;

/// One write of an object of a job, by its kind.
#[allow(clippy::large_enum_variant, reason = "few are held at a time")]
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Installation(Change<Installation>),
    /// A nested installation.
    Child(Change<Installation>),
    /// Write of another Installation of the same scope.
    Sibling(MetadataPatch),
    Execution(Change<Execution>),
    DeployItem(Change<DeployItem>),
    DataObject(Change<DataObject>),
    Target(Change<Target>),
    /// State that an execution keeps from one job to the next.
    Secret(Change<Secret>),
}

/// Change of an object. Every change of an existing object carries the resourceVersion that the
/// decision was based on.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K> {
    /// Create the object. If it exists already, the caller reads it, and the step does not count as
    /// a failure.
    Create(K),
    /// Create the object, or replace the object of the same name.
    Ensure(K),
    /// Create or replace the object, unless another Installation owns the object of the same name.
    Publish(K),
    Replace(K),
    /// Replace the status.
    Status(K),
    Metadata(MetadataPatch),
    /// Delete the object with exactly this UID and, if given, only at this version.
    Delete {
        name: String,
        uid: Option<String>,
        resource_version: Option<String>,
    },
}

impl<K> Change<K> {
    pub(crate) fn delete(metadata: &ObjectMeta) -> Self {
        Self::Delete {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: None,
        }
    }
}

impl<K: ResourceExt> Change<K> {
    /// Returns the name of the object that changes.
    pub fn name(&self) -> String {
        match self {
            Self::Create(object)
            | Self::Ensure(object)
            | Self::Publish(object)
            | Self::Replace(object)
            | Self::Status(object) => object.name_any(),
            Self::Metadata(MetadataPatch { name, .. }) | Self::Delete { name, .. } => name.clone(),
        }
    }
}

/// Merge patch of metadata. Annotations and finalizers of users stay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetadataPatch {
    pub name: String,
    pub resource_version: Option<String>,
    /// Complete new list; `None` if it does not change.
    pub finalizers: Option<Vec<String>>,
    /// Annotations to set, and with `None` to remove.
    pub annotations: Vec<(&'static str, Option<String>)>,
}

impl MetadataPatch {
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            ..Self::default()
        }
    }
}
