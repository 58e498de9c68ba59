//! Operations of users on packages in one store (`packagevariants.md` 6.2). The trait separates
//! calls, which check rights, from the stores, which carry the operations out.

use async_trait::async_trait;
use groundwork_api::{PackageRevision, RenderStatus};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::Key;
use groundwork_packages::git::{Actor, Files, StoreError};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::{self, reasons};
use tonic::{Code, Status};

use super::creation::Wanted;
use super::revision::repository_key;

/// A store, as calls use it. The caller has already been authorised.
#[async_trait]
pub(super) trait Content: Send + Sync {
    /// Returns a revision with its files.
    async fn read(&self, revision: &ObjectName) -> Result<Read, Status>;

    /// Replaces all files of a draft, if the version of its content is still `version`.
    async fn save(
        &self,
        revision: &ObjectName,
        version: String,
        files: Files,
        actor: Actor,
    ) -> Result<Saved, Status>;

    /// Creates a draft.
    async fn create(&self, new: WantedDraft, actor: Actor) -> Result<Made, Status>;
}

/// Revision as it was read.
pub(super) struct Read {
    /// Opaque version of the content.
    pub(super) version: String,
    pub(super) lifecycle: String,
    pub(super) files: Files,
}

/// Outcome of a save.
pub(super) struct Saved {
    pub(super) version: String,
    /// Result of the functions; `None` if the package was not rendered.
    pub(super) status: Option<RenderStatus>,
    /// Reason why the files were saved unrendered.
    pub(super) error: Option<String>,
}

/// Draft that a user asks for.
pub(super) struct WantedDraft {
    pub(super) namespace: String,
    /// Name of the Repository object.
    pub(super) repository: String,
    /// Path of the package in the repository.
    pub(super) package: String,
    pub(super) workspace: String,
    pub(super) source: Wanted,
    /// Revisions that the source of the draft names.
    pub(super) from: Vec<ObjectName>,
}

/// Result of creating a draft.
pub(super) struct Made {
    pub(super) name: String,
    pub(super) version: String,
    /// Result of the functions, if the store reports it.
    pub(super) status: Option<RenderStatus>,
}

/// Returns the repository of a revision, taken from the revision's name.
pub(super) fn repository_of(revision: &ObjectName) -> Key {
    let ObjectName { namespace, name } = revision;
    repository_key(&ObjectId::new(Kind::of::<PackageRevision>(), Some(namespace), name))
}

/// Returns the gRPC status for an error of the store.
pub(super) fn refused(error: &StoreError) -> Status {
    let text = error.to_string();
    match error {
        StoreError::NotFound(_) => status::not_found(reasons::PACKAGE_NOT_FOUND, text),
        StoreError::AlreadyExists(_) | StoreError::DownstreamExists(_) => {
            status::status(Code::AlreadyExists, reasons::PACKAGE_EXISTS, text)
        }
        StoreError::Conflict => status::status(Code::Aborted, reasons::PACKAGE_REVISION_CHANGED, text),
        StoreError::Refused(_) | StoreError::Merge(_) => {
            status::failed_precondition(reasons::PACKAGE_REFUSED, text)
        }
        StoreError::Render { .. } => status::failed_precondition(reasons::RENDER_FAILED, text),
        StoreError::Unavailable(_) | StoreError::Interrupted => {
            status::unavailable(reasons::PACKAGE_STORE_UNAVAILABLE, text)
        }
    }
}
