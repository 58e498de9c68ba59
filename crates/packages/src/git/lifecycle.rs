//! Lifecycle of a revision, from draft to deletion (`packagevariants.md` 2.13, 6.5).

use std::sync::Arc;

use groundwork_api::{Lifecycle, PackageRevision};
use groundwork_fleet::{
    Actor as Permission, Package, Transition, approvable, deletion, next_revision, transition,
};

use crate::git::error::StoreError;
use crate::git::repository::{Actor, GitRepository};
use crate::git::revision::Revision;
use crate::git::store::Store;

impl Store {
    /// Changes the lifecycle of a revision. If it has that lifecycle already, nothing is written.
    /// The caller must have checked the actor's right to approve.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a transition that does not exist, [`StoreError::Conflict`] if
    /// the revision no longer has `version`.
    pub fn set_lifecycle(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        to: Lifecycle,
        actor: &Actor,
    ) -> Result<Arc<Revision>, StoreError> {
        let (repository, _) = self.revision(namespace, name)?;
        let revision = repository.revision_of(name, version)?;
        if revision.is_placeholder(&repository.settings().branch) {
            return Err(StoreError::Refused(format!(
                "{name:?} is the head of a branch, which has no lifecycle"
            )));
        }
        let step = transition(revision.lifecycle, to, Permission::Approver)?;
        repository.exclusively(&revision.package, || match step {
            Transition::None => Ok(()),
            Transition::Propose => repository.move_draft(&revision, true),
            Transition::Reject => repository.move_draft(&revision, false),
            Transition::Approve => publish(&repository, &revision, actor),
            Transition::ProposeDeletion => repository.mark_for_deletion(&revision, true),
            Transition::RejectDeletion => repository.mark_for_deletion(&revision, false),
        })?;
        repository.revision(name)
    }

    /// Deletes a revision. The caller must have checked the actor's right to approve.
    ///
    /// # Errors
    /// The revision is published and its deletion was not proposed, or it no longer has `version`.
    pub fn delete(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        actor: &Actor,
    ) -> Result<(), StoreError> {
        let (repository, _) = self.revision(namespace, name)?;
        let revision = repository.revision_of(name, version)?;
        let is_placeholder = revision.is_placeholder(&repository.settings().branch);
        deletion(revision.lifecycle, is_placeholder, Permission::Approver)?;
        repository.exclusively(&revision.package, || repository.remove(&revision, actor))
    }
}

fn publish(repository: &GitRepository, revision: &Revision, actor: &Actor) -> Result<(), StoreError> {
    let settings = repository.settings();
    approvable(&revision.object(&settings.place()))?;
    let snapshot = repository.snapshot();
    let of_package = snapshot.revisions.values().filter(|found| found.package == revision.package);
    let objects: Vec<PackageRevision> = of_package.map(|found| found.object(&settings.place())).collect();
    let package = Package { repository: &settings.name, path: &revision.package };
    let given = snapshot.marks_of(&settings.directory, &revision.package).revision;
    repository.approve(revision, next_revision(package, &objects, given), actor)
}
