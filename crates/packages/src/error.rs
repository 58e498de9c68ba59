//! Why an operation of a store failed, as callers tell it apart (`packagevariants.md` 6.2, 9.1).

use groundwork_api::RenderStatus;
use groundwork_krm::Package;

use crate::clone::CloneError;
use crate::objects::ObjectsError;
use crate::remote::RemoteError;
use crate::settings::SettingsError;

/// The words of a version that is not the present one.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Why an operation failed. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    NotFound(String),
    /// A revision, a ref or a package of this name is there.
    #[error("{0}")]
    AlreadyExists(String),
    /// The revision is another one by now; who wants to go on reads it again.
    #[error("{MODIFIED}")]
    Conflict,
    /// What is asked for is against the rules, and stays so.
    #[error("{0}")]
    Refused(String),
    /// The package has published revisions already (6.6).
    #[error("{0}")]
    DownstreamExists(String),
    /// The merge of an update failed (7).
    #[error("{0}")]
    Merge(String),
    /// A function of the pipeline failed; the text alone, what the functions said (8.1), and the files that cannot be rendered.
    #[error("{error}")]
    Render { error: String, status: Box<RenderStatus>, files: Box<Package> },
    /// Asked for now, it cannot be had: the remote is away, refuses us, or nobody has registered it.
    #[error("{0}")]
    Unavailable(String),
    /// The Repository was changed or deleted meanwhile, so nobody waits for the outcome.
    #[error("the Repository was changed or deleted meanwhile")]
    Interrupted,
}

impl From<RemoteError> for StoreError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Stale(_) => Self::Conflict,
            RemoteError::Interrupted => Self::Interrupted,
            RemoteError::Protocol { .. } => Self::Refused(error.to_string()),
            RemoteError::NoGit(_)
            | RemoteError::Failed(_)
            | RemoteError::Unauthorized { .. }
            | RemoteError::NotAtomic
            | RemoteError::TooSlow { .. }
            | RemoteError::Address(_)
            | RemoteError::Declined(_) => Self::Unavailable(error.to_string()),
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
