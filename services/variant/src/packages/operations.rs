//! Operations of a package store for one variant (`packagevariants.md` 6.1, 6.2). The trait
//! separates the decisions, which are the same for all stores, from their execution in each store.

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

    /// Access to the API server, for objects that are not packages.
    fn objects(&self) -> &Objects;

    /// Returns the revisions of upstream and downstream, and other revisions that the variant
    /// controls.
    fn revisions(&self) -> &[PackageRevision];

    /// Returns the upstream revision that the variant is made from.
    fn resolve(&self) -> Result<Resolved<'_>, Unresolved>;

    /// Makes the first draft, from a revision of the upstream.
    fn make_first(
        &self,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<DownstreamTarget, Failure>> + Send;

    /// Updates one revision: a draft in place, a published one by a new draft.
    fn update(
        &self,
        target: &PackageRevision,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<DownstreamTarget, Failure>> + Send;

    /// Changes the lifecycle of a revision.
    fn set_lifecycle(
        &self,
        revision: &PackageRevision,
        to: Lifecycle,
    ) -> impl Future<Output = Result<PackageRevision, Failure>> + Send;

    /// Deletes a revision. Succeeds if the revision is gone already.
    fn delete(&self, revision: &PackageRevision) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Changes labels, annotations and owners of a revision. Other fields keep the values that
    /// users have written meanwhile.
    fn set_metadata(
        &self,
        revision: &PackageRevision,
        wanted: ObjectMeta,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs work on files outside the threads that serve requests. `revision` is the revision named
    /// in errors.
    fn compute<T: Send + 'static>(
        &self,
        revision: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send;

    fn namespace(&self) -> String {
        self.variant().namespace().unwrap_or_default()
    }

    /// Returns the merge strategy for updates. The validation has already rejected an unknown one.
    fn strategy(&self) -> Strategy {
        let given = self.variant().spec.update_strategy.as_deref().unwrap_or_default();
        given.parse().unwrap_or_default()
    }

    /// Returns the status entry of a revision that this reconcile did not render.
    fn target(&self, name: &str) -> DownstreamTarget {
        let status = self.variant().status.clone().unwrap_or_default();
        let known = status.downstream_targets.iter().find(|target| target.name == name).cloned();
        known.unwrap_or_else(|| DownstreamTarget { name: name.to_owned(), ..DownstreamTarget::default() })
    }
}
