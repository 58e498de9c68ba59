use std::io::{self, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::descriptor::{Descriptor, DescriptorError};
use crate::reference::RepositoryContext;

/// Existing descriptor, or the error of decoding it.
pub type LoadedDescriptor = Result<Descriptor, DescriptorError>;

/// Store of component versions: a registry, an archive, a directory.
///
/// Implementations do the I/O and return bytes to the engines. The content of a version is
/// immutable, so responses can be cached.
pub trait Repository: Send + Sync {
    /// Returns the stored component descriptor of a version (YAML or JSON, v2 or v3), or `None` if
    /// the repository does not have that version.
    ///
    /// # Errors
    ///
    /// The repository could not be read, or the stored object is not a component version.
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError>;

    /// Returns the decoded and checked descriptor, with `context`, the context of this repository,
    /// appended to its history. Caches store descriptors in this form: decoding costs a hundred
    /// times as much as a lookup.
    ///
    /// # Errors
    ///
    /// Fails as [`Repository::descriptor`] does. The inner result contains the error of decoding.
    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        Ok(self.descriptor(name, version)?.map(|bytes| Descriptor::load(&bytes, context)))
    }

    /// Returns the content that an access of that version describes, at any location.
    ///
    /// # Errors
    ///
    /// Fails as [`Repository::descriptor`] does, and if the content does not exist. Reading the
    /// body may fail as well.
    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError>;

    /// Returns the SHA-256, in hex, of the manifest that an access leads to, without the blobs that
    /// the manifest names; `None` if the repository cannot tell.
    ///
    /// # Errors
    ///
    /// As for [`Repository::content`].
    fn artifact_digest(&self, _: &str, _: &str, _: &Access) -> Result<Option<String>, RepositoryError> {
        Ok(None)
    }
}

/// Factory of repositories for repository contexts.
///
/// An implementation serves one Context and keeps its credentials, so that engines never see them.
pub trait Repositories: Send + Sync {
    /// Opens the repository that `context` describes.
    ///
    /// # Errors
    ///
    /// The type of the context is unknown, or the repository is unreachable.
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError>;
}

/// Stream of content. After a complete read, its digest is verified.
pub struct Blob {
    /// Media type in the store; empty if the store does not know it.
    pub media_type: String,
    /// Size of the body in bytes, if the store knows it in advance.
    pub size: Option<u64>,
    /// Body. Errors of the repository are the source of an `io::Error`, see
    /// [`RepositoryError::of_read`].
    pub body: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("media_type", &self.media_type)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Blob {
    /// Creates a blob from bytes in memory.
    pub fn from_bytes(media_type: impl Into<String>, bytes: Vec<u8>) -> Self {
        let size = Some(bytes.len() as u64);
        Self { media_type: media_type.into(), size, body: Box::new(io::Cursor::new(bytes)) }
    }

    /// Reads the whole content. `address` names it in messages.
    ///
    /// # Errors
    ///
    /// The body has more than `limit` bytes, or cannot be read to its end.
    pub fn read_all(self, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        let too_large = || RepositoryError::TooLarge { address: address.to_owned(), limit };
        if self.size.is_some_and(|size| size > limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        self.body
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| RepositoryError::of_read(&error, address))?;
        if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
    }
}

/// Error of a repository. Each text names the address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RepositoryError {
    /// Error E17 (`components.md` 8): the repository type is unknown.
    #[error("repository type {type_name:?} is unknown")]
    UnknownType { type_name: String },
    /// The configuration names no store for this repository context.
    #[error("no store is configured for the repository context {context}; add it to {map}")]
    NotMapped { context: String, map: String },
    /// The content is in a registry, but the caller reads only files.
    #[error("{address} is in a registry, but only files are read here; put the content into the component")]
    Offline { address: String },
    /// The content is in another registry than its component, but the caller accesses only that
    /// one.
    #[error(
        "{address} is in another registry than its component, but only the registry of the component is read; put the \
         content into the component"
    )]
    Elsewhere { address: String },
    /// The configuration permits no access of this type to this place (`components.md` 6.10).
    #[error(
        "{address} may not be fetched: no entry for access type {type_name} in {map} covers it; add one to the list \
         accesses there, or put the content into the component"
    )]
    NotPermitted { address: String, type_name: String, map: String },
    /// Error E14 (`components.md` 8): the digest does not match.
    #[error("digest mismatch for {address}: expected {expected}, got {actual}")]
    Digest { address: String, expected: String, actual: String },
    #[error("{address} is larger than {limit} bytes")]
    TooLarge { address: String, limit: u64 },
    /// One unit of work would exceed its memory limit for fetched content.
    #[error("{address} exceeds the {limit} bytes of memory for the content that one unit of work fetches")]
    TooMuch { address: String, limit: u64 },
    /// Other requests currently use the shared memory for fetched content.
    #[error(
        "cannot read {address} now: the answers of all registries and chart repositories use the {total} bytes of \
         memory that they may have together ({share} for one namespace)"
    )]
    NoRoom { address: String, total: u64, share: u64 },
    #[error("{address}: {problem}")]
    Malformed { address: String, problem: String },
    /// A blob of a descriptor does not exist.
    #[error("{address} does not exist")]
    Missing { address: String },
    /// Error E20 (`components.md` 8). `credentials` names the source of the credentials, never
    /// their content.
    #[error("access to {address} denied (credentials: {credentials})")]
    Denied { address: String, credentials: String },
    /// Error E21 (`components.md` 8): a server does not respond properly.
    #[error("cannot reach {host}: {cause}")]
    Unreachable { host: String, cause: String },
    #[error("cannot read {address}: {cause}")]
    Unreadable { address: String, cause: String },
}

impl RepositoryError {
    /// Converts an error of reading a body.
    pub fn of_read(error: &io::Error, address: &str) -> Self {
        let own = error.get_ref().and_then(|source| source.downcast_ref::<Self>());
        own.cloned()
            .unwrap_or_else(|| Self::Unreadable { address: address.to_owned(), cause: error.to_string() })
    }
}

impl From<RepositoryError> for io::Error {
    fn from(error: RepositoryError) -> Self {
        Self::other(error)
    }
}
