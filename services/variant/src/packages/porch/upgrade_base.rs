//! Base revision of an upgrade on a Porch server (`packagevariants.md` 2.8).

use groundwork_api::{PackageRevision, Repository, ResourceExt as _};
use groundwork_fleet::{Base, VariantError, base};
use groundwork_packages::porch::{Porch, PorchError, Revision};

/// Reason why the base revision of a package is unknown.
#[derive(Debug)]
pub(super) enum OriginalError {
    /// The server does not list the repository.
    List(PorchError),
    /// The base does not exist as a revision, and this service cannot read commits of a Porch
    /// server.
    Missing(VariantError),
}

/// Finds the revision that a package was made from, among the known ones or in any repository of
/// the namespace (`packagevariants.md` 2.8).
///
/// # Errors
/// See [`OriginalError`].
pub(super) async fn original(
    porch: &Porch,
    local: &PackageRevision,
    known: &[PackageRevision],
    registered: &[Repository],
) -> Result<String, OriginalError> {
    let elsewhere = match base(local, known, registered) {
        Base::Revision(found) => return Ok(found.name_any()),
        Base::Missing(error) => return Err(OriginalError::Missing(error)),
        Base::Commit { repository, .. } => repository,
    };
    if let Some(repository) = elsewhere {
        let namespace = local.namespace().unwrap_or_default();
        let listed = porch.list(&namespace, repository, None).await.map_err(OriginalError::List)?;
        let revisions: Vec<PackageRevision> = listed.into_iter().map(Revision::into_object).collect();
        if let Base::Revision(found) = base(local, &revisions, registered) {
            return Ok(found.name_any());
        }
    }
    let lock = local.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
    let reference = lock.and_then(|lock| lock.reference.clone()).unwrap_or_default();
    let missing = VariantError::UpgradeBaseMissing { reference, downstream: local.name_any() };
    Err(OriginalError::Missing(missing))
}
