use std::sync::Arc;

use crate::reference::RepositoryContext;

/// A place that holds component versions: a registry, an archive, a directory.
///
/// Implementations do the I/O; engines only ask for bytes. Contents are immutable for a version, so answers may
/// be cached.
pub trait Repository: Send + Sync {
    /// The component descriptor of a version as stored (YAML or JSON, v2 or v3); `None` when the repository
    /// does not hold that version.
    ///
    /// # Errors
    ///
    /// The repository could not be read, or holds something that is no component version.
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError>;

    /// The content that a `localBlob` access of that version refers to by `reference`.
    ///
    /// # Errors
    ///
    /// As [`Repository::descriptor`], and when there is no such blob.
    fn blob(&self, name: &str, version: &str, reference: &str) -> Result<Vec<u8>, RepositoryError>;
}

/// Turns repository contexts into repositories.
pub trait Repositories: Send + Sync {
    /// Opens the repository that `context` describes.
    ///
    /// # Errors
    ///
    /// The type of the context is unknown, or nothing is reachable there.
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError>;
}

/// Why a repository gave no answer. Each text says where it looked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryError {
    /// `components.md` 8, E17.
    #[error("repository type {type_name:?} is unknown")]
    UnknownType { type_name: String },
    /// A repository context for which the configuration names no store.
    #[error("no store is configured for the repository context {context}; add it to {map}")]
    NotMapped { context: String, map: String },
    /// `components.md` 8, E14.
    #[error("digest mismatch for {address}: expected {expected}, got {actual}")]
    Digest { address: String, expected: String, actual: String },
    #[error("{address} is larger than {limit} bytes")]
    TooLarge { address: String, limit: u64 },
    #[error("{address}: {problem}")]
    Malformed { address: String, problem: String },
    /// A blob that a descriptor mentions is not there.
    #[error("{address} does not exist")]
    Missing { address: String },
    /// `components.md` 8, E21.
    #[error("cannot read {address}: {cause}")]
    Unreadable { address: String, cause: String },
}
