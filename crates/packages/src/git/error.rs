//! Errors of store operations, in the classes that callers distinguish (`packagevariants.md` 6.2,
//! 9.1).

use groundwork_api::RenderStatus;
use groundwork_krm::Package;

use crate::git::clone::CloneError;
use crate::git::objects::ObjectsError;
use crate::git::remote::RemoteError;
use crate::git::settings::SettingsError;

/// Message for a version that is not the current one, as the API server has it.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Reason why an operation failed. It has not written anything then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    NotFound(String),
    /// A revision, a ref or a package with this name exists.
    #[error("{0}")]
    AlreadyExists(String),
    /// The revision has changed; the caller has to read it again.
    #[error("{MODIFIED}")]
    Conflict,
    /// The request breaks a rule, and a retry would too.
    #[error("{0}")]
    Refused(String),
    /// The package already has published revisions (`packagevariants.md` 6.6).
    #[error("{0}")]
    DownstreamExists(String),
    /// The merge of an update failed (`packagevariants.md` 7).
    #[error("{0}")]
    Merge(String),
    /// A function of the pipeline failed. The variant contains the error text alone, the results of
    /// the functions (`packagevariants.md` 8.1), and the files that cannot be rendered.
    #[error("{error}")]
    Render { error: String, status: Box<RenderStatus>, files: Box<Package> },
    /// The store is unavailable: the remote fails or refuses the credentials, or the repository is
    /// not registered. A retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The Repository was changed or deleted in the meantime, so the result is not needed.
    #[error("the Repository was changed or deleted in the meantime")]
    Interrupted,
}

impl StoreError {
    /// Names the fields of a clone task instead of those of a Repository, which has the same fields
    /// at another place.
    #[must_use]
    pub fn of_clone_task(self) -> Self {
        let renamed = |text: String| text.replace("spec.git.", "clone.upstreamRef.git.");
        match self {
            Self::Refused(text) => Self::Refused(renamed(text)),
            Self::Unavailable(text) => Self::Unavailable(renamed(text)),
            other => other,
        }
    }
}

impl From<RemoteError> for StoreError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Stale(_) => Self::Conflict,
            RemoteError::Interrupted => Self::Interrupted,
            RemoteError::Protocol { .. } | RemoteError::Unused { .. } => Self::Refused(error.to_string()),
            RemoteError::NoGit(_)
            | RemoteError::Failed(_)
            | RemoteError::Unauthorized { .. }
            | RemoteError::NotAtomic
            | RemoteError::TooSlow { .. }
            | RemoteError::Address(_)
            | RemoteError::Declined(_)
            | RemoteError::Untrusted { .. }
            | RemoteError::Proxy(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<ObjectsError> for StoreError {
    fn from(error: ObjectsError) -> Self {
        match error {
            ObjectsError::Interrupted => Self::Interrupted,
            ObjectsError::Storage(_) | ObjectsError::Unreadable { .. } | ObjectsError::OutOfTime => {
                Self::Unavailable(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<CloneError> for StoreError {
    fn from(error: CloneError) -> Self {
        match error {
            CloneError::Remote(error) => error.into(),
            CloneError::Objects(error) => error.into(),
        }
    }
}

impl From<SettingsError> for StoreError {
    fn from(error: SettingsError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<groundwork_fleet::Refusal> for StoreError {
    fn from(refusal: groundwork_fleet::Refusal) -> Self {
        Self::Refused(refusal.to_string())
    }
}

impl From<groundwork_fleet::CreationError> for StoreError {
    fn from(error: groundwork_fleet::CreationError) -> Self {
        use groundwork_fleet::CreationError as Error;
        let text = error.to_string();
        match error {
            Error::WorkspaceExists { .. } => Self::AlreadyExists(text),
            Error::PackageExists { task: "clone", .. } => Self::DownstreamExists(text),
            Error::PackageExists { .. } => Self::AlreadyExists(text),
            Error::NotFound(_) => Self::NotFound(text),
            _ => Self::Refused(text),
        }
    }
}
