//! What people do with packages, in one store (`packagevariants.md` 6.2): the seam between calls, which ask who may, and how each store does it.

use async_trait::async_trait;
use groundwork_api::{PackageRevision, RenderStatus};
use groundwork_bus::ObjectId;
use groundwork_controller::Key;
use groundwork_packages::{Actor, Files, StoreError};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::{self, reasons};
use tonic::{Code, Status};

use super::creation::Wanted;
use super::revision::repository_key;
use crate::handler::kind;

/// A store, for a call. Whoever asks has been found to be allowed to.
#[async_trait]
pub(super) trait Content: Send + Sync {
    /// A revision with its files.
    async fn read(&self, revision: &ObjectName) -> Result<Read, Status>;

    /// Gives a draft these files and no others, if its content is still of this version.
    async fn save(
        &self,
        revision: &ObjectName,
        version: String,
        files: Files,
        actor: Actor,
    ) -> Result<Saved, Status>;

    /// Makes a draft.
    async fn create(&self, new: WantedDraft, actor: Actor) -> Result<Made, Status>;
}

/// A revision as it was read.
pub(super) struct Read {
    /// Of its content; opaque.
    pub(super) version: String,
    pub(super) lifecycle: String,
    pub(super) files: Files,
}

/// What has become of a draft.
pub(super) struct Saved {
    pub(super) version: String,
    /// What its functions said; none if nothing was rendered.
    pub(super) status: Option<RenderStatus>,
    /// Why the files are there unrendered.
    pub(super) error: Option<String>,
}

/// A draft that somebody asks for.
pub(super) struct WantedDraft {
    pub(super) namespace: String,
    /// Name of the Repository.
    pub(super) repository: String,
    /// Path of the package in it.
    pub(super) package: String,
    pub(super) workspace: String,
    pub(super) source: Wanted,
    /// The revisions that the source names.
    pub(super) from: Vec<ObjectName>,
}

/// A draft that was made.
pub(super) struct Made {
    pub(super) name: String,
    pub(super) version: String,
    /// What its functions said, if the store tells.
    pub(super) status: Option<RenderStatus>,
}

/// The repository of a revision, by its name.
pub(super) fn repository_of(revision: &ObjectName) -> Key {
    let ObjectName { namespace, name } = revision;
    repository_key(&ObjectId::new(kind::<PackageRevision>(), Some(namespace), name))
}

/// What callers are told of an error of the store.
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
