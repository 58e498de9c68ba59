use std::io::{self, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::descriptor::{Descriptor, DescriptorError};
use crate::reference::RepositoryContext;

/// A descriptor that is there, or what is wrong with it.
pub type LoadedDescriptor = Result<Descriptor, DescriptorError>;

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

    /// The same, decoded and checked, with `context`, that of this repository, as the last one of its history. Whoever keeps descriptors
    /// keeps them so: decoding costs a hundred times what looking one up does.
    ///
    /// # Errors
    ///
    /// As [`Repository::descriptor`]; inside, what is wrong with the descriptor.
    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        Ok(self.descriptor(name, version)?.map(|bytes| Descriptor::load(&bytes, context)))
    }

    /// The content that an access of that version describes, wherever it lies.
    ///
    /// # Errors
    ///
    /// As [`Repository::descriptor`], and when there is no such content. Reading the body may fail as well.
    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError>;

    /// The SHA-256 of the manifest that an access leads to, in hex, without what that names; `None` where the repository cannot tell.
    ///
    /// # Errors
    ///
    /// As [`Repository::content`].
    fn artifact_digest(&self, _: &str, _: &str, _: &Access) -> Result<Option<String>, RepositoryError> {
        Ok(None)
    }
}

/// Turns repository contexts into repositories.
///
/// What is needed to be let in belongs to the implementation, which is made for one Context: engines see no credentials.
pub trait Repositories: Send + Sync {
    /// Opens the repository that `context` describes.
    ///
    /// # Errors
    ///
    /// The type of the context is unknown, or nothing is reachable there.
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError>;
}

/// Content on its way. Whoever reads the body to its end knows that it is what its digest says.
pub struct Blob {
    /// Under which type it is stored; empty when the store knows none.
    pub media_type: String,
    /// Bytes of the body, where the store knows that beforehand.
    pub size: Option<u64>,
    /// Errors of the repository come as the source of an `io::Error`; see [`RepositoryError::of_read`].
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
    /// Content that is at hand.
    pub fn from_bytes(media_type: impl Into<String>, bytes: Vec<u8>) -> Self {
        let size = Some(bytes.len() as u64);
        Self { media_type: media_type.into(), size, body: Box::new(io::Cursor::new(bytes)) }
    }

    /// The whole content; `address` is what messages call it.
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

/// Why a repository gave no answer. Each text says where it looked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RepositoryError {
    /// `components.md` 8, E17.
    #[error("repository type {type_name:?} is unknown")]
    UnknownType { type_name: String },
    /// A repository context for which the configuration names no store.
    #[error("no store is configured for the repository context {context}; add it to {map}")]
    NotMapped { context: String, map: String },
    /// Content that lies in a registry, asked for where only files are read.
    #[error("{address} lies in a registry, and here only files are read; put the content into the component")]
    Offline { address: String },
    /// Content that lies in another registry than its component, where only that one is asked.
    #[error(
        "{address} lies in another registry than its component, and only that one is asked; put the content into the component"
    )]
    Elsewhere { address: String },
    /// `components.md` 8, E14.
    #[error("digest mismatch for {address}: expected {expected}, got {actual}")]
    Digest { address: String, expected: String, actual: String },
    #[error("{address} is larger than {limit} bytes")]
    TooLarge { address: String, limit: u64 },
    /// There is no more memory for what somebody fetches.
    #[error("{address} takes what is fetched for one piece of work beyond {limit} bytes of memory")]
    TooMuch { address: String, limit: u64 },
    /// Others hold the memory that there is.
    #[error(
        "cannot read {address} now: answers of all registries and chart repositories together take up the {total} bytes of memory that there are \
         for them, {share} for one namespace"
    )]
    NoRoom { address: String, total: u64, share: u64 },
    #[error("{address}: {problem}")]
    Malformed { address: String, problem: String },
    /// A blob that a descriptor mentions is not there.
    #[error("{address} does not exist")]
    Missing { address: String },
    /// `components.md` 8, E20. `credentials` says whose were sent, and nothing of what they are.
    #[error("access to {address} denied (credentials: {credentials})")]
    Denied { address: String, credentials: String },
    /// `components.md` 8, E21: a server does not answer as it should.
    #[error("cannot reach {host}: {cause}")]
    Unreachable { host: String, cause: String },
    #[error("cannot read {address}: {cause}")]
    Unreadable { address: String, cause: String },
}

impl RepositoryError {
    /// What an error of a body means.
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
