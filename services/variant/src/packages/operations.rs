//! What a package store does for one variant (`packagevariants.md` 6.1, 6.2): the seam between what is decided, which is the same for all
//! stores, and how each of them does it.

use groundwork_api::{
    DownstreamTarget, Lifecycle, ObjectMeta, PackageRevision, PackageVariant, ResourceExt as _,
};
use groundwork_controller::Objects;
use groundwork_fleet::{Resolved, Unresolved};
use groundwork_krm::Strategy;

use super::downstream::{Failure, Progress};

/// One variant in one store, as it was read when a reconcile began.
pub(crate) trait Operations: Sync {
    fn variant(&self) -> &PackageVariant;

    /// The API server, for what is no package.
    fn objects(&self) -> &Objects;

    /// Revisions of upstream and downstream, and those that the variant controls elsewhere.
    fn revisions(&self) -> &[PackageRevision];

    /// What the variant is made from.
    fn resolve(&self) -> Result<Resolved<'_>, Unresolved>;

    /// Makes the first draft, from a revision of the upstream.
    fn make_first(
        &self,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<DownstreamTarget, Failure>> + Send;

    /// Brings one revision up to date: in place, if it is a draft, else by another one.
    fn update(
        &self,
        target: &PackageRevision,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<DownstreamTarget, Failure>> + Send;

    /// Moves a revision on.
    fn set_lifecycle(
        &self,
        revision: &PackageRevision,
        to: Lifecycle,
    ) -> impl Future<Output = Result<PackageRevision, Failure>> + Send;

    /// Deletes a revision. One that is gone already is deleted.
    fn delete(&self, revision: &PackageRevision) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Changes labels, annotations and owners of a revision. The rest of it stays as people have written it meanwhile.
    fn set_metadata(
        &self,
        revision: &PackageRevision,
        wanted: ObjectMeta,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Works on files, away from the threads that serve others. `revision` is what it is about.
    fn compute<T: Send + 'static>(
        &self,
        revision: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send;

    fn namespace(&self) -> String {
        self.variant().namespace().unwrap_or_default()
    }

    /// How upstream changes are merged; what is not known was told by the validation.
    fn strategy(&self) -> Strategy {
        let given = self.variant().spec.update_strategy.as_deref().unwrap_or_default();
        given.parse().unwrap_or_default()
    }

    /// What the status says of a revision that was not rendered now.
    fn target(&self, name: &str) -> DownstreamTarget {
        let status = self.variant().status.clone().unwrap_or_default();
        let known = status.downstream_targets.iter().find(|target| target.name == name).cloned();
        known.unwrap_or_else(|| DownstreamTarget { name: name.to_owned(), ..DownstreamTarget::default() })
    }
}
