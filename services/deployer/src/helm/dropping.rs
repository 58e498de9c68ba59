//! Objects that a release gives up: those that a new revision no longer lists, and all of them when
//! the release is uninstalled (`helm.md` 9.2, 9.7).

use groundwork_apply::{
    ApplyError, Awaited, Deadline, Disposal, Disposed, Reference, ResourceKind, Surplus, Waiting, held,
};
use groundwork_helm::{Record, Status, compare_for_uninstall};
use jiff::Timestamp;

use super::objects::{Object, Unknown, is_kept, objects};
use super::release::{Carried, ReleaseRun};
use super::status::is_listed;
use crate::siblings::Siblings;

impl ReleaseRun<'_> {
    /// Gives up objects that the new manifest lacks: those of the old manifests, those that the
    /// item applied without a release, and those that other items handed over. Returns the reason
    /// to wait if objects cannot be given up yet.
    pub(super) async fn drop_surplus(
        &mut self,
        wanted: &[Object],
        old: &[Object],
    ) -> Result<Option<Waiting>, ApplyError> {
        let is_wanted = |reference: &Reference| wanted.iter().any(|one| one.reference.is_same(reference));
        let of_old = old.iter().filter(|object| !is_wanted(&object.reference));
        let mut dropped: Vec<Surplus<'_>> = of_old.map(|object| surplus(object, false)).collect();
        for managed in self.estate.iter().filter(|managed| !is_wanted(&managed.resource)) {
            let resource = &managed.resource;
            if let Some(kind) = self.cluster.kind(&resource.api_version, &resource.kind).await? {
                dropped
                    .push(Surplus { settings: Some(managed), ..surplus_of(kind, resource.clone(), false) });
            }
        }
        if !dropped.is_empty() && !is_listed(self.round.item) {
            // Other items learn from the status which objects the release lists. Before the status
            // is written, another item could hand an object back to this release.
            return Ok(Some("helm deployer: the new list of objects to be saved".to_owned().into()));
        }
        let disposed = self.give_up(&dropped).await?;
        if let Some(reference) = disposed.in_transit {
            return Ok(Some(format!("helm deployer: {reference} is being handed over").into()));
        }
        self.estate.clear();
        Ok(None)
    }

    /// Deletes or hands over objects, without a time limit: an upgrade that failed on its time
    /// limit must still finish the deletions it began.
    async fn give_up(&self, surplus: &[Surplus<'_>]) -> Result<Disposed, ApplyError> {
        let siblings = Siblings { round: self.round, giver: self.marks.giver() };
        let disposal = Disposal {
            cluster: self.cluster,
            owner: &self.marks,
            succession: &siblings,
            deadline: Deadline(None),
            side_by_side: 1,
        };
        let disposed = disposal.dispose(surplus).await?;
        self.round.tell(&disposed.told).await;
        Ok(disposed)
    }

    /// Uninstalls the release. Returns the reason to wait while objects are left.
    pub(super) async fn uninstall(&mut self, waits: bool) -> Result<Carried, ApplyError> {
        let Some(mut record) = self.history.last().map(|stored| stored.record.clone()) else {
            return Ok(Carried::Done);
        };
        if record.status() != Status::Uninstalled {
            if record.status() != Status::Uninstalling {
                record.set_time("deleted", &Timestamp::now().to_string());
                record.set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
                self.history.update(record.clone(), &self.author).await?;
            }
            if let Some(what) = self.run_hooks(&mut record, "pre-delete").await? {
                return self.waits(what);
            }
            if let Some(what) = self.delete_objects(&record, waits).await? {
                return self.waits(what);
            }
            match self.run_hooks(&mut record, "post-delete").await {
                Ok(Some(what)) => return self.waits(what),
                Ok(None) => {}
                // Helm deletes the records in this case, too. The objects are gone, so a retry
                // could not help.
                Err(ApplyError::Configuration(error) | ApplyError::Failed(error)) => {
                    self.warn(&format!("uninstallation completed with 1 error(s): {error}")).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.history.forget().await?;
        Ok(Carried::Done)
    }

    async fn delete_objects(&mut self, record: &Record, waits: bool) -> Result<Option<Waiting>, ApplyError> {
        let namespace = self.owner.namespace.clone();
        let mut objects = objects(self.cluster, record.manifest(), &namespace, Unknown::IsSkipped).await?;
        // Delete the objects in Helm's order of kinds for an uninstall, not in the order of the
        // manifest.
        objects.sort_by(|left, right| compare_for_uninstall(&left.kind.kind, &right.kind.kind));
        let surplus: Vec<_> = objects.iter().map(|object| surplus(object, waits)).collect();
        let left = self.give_up(&surplus).await?.left;
        let mut waiting: Option<Waiting> = None;
        for (reference, live) in &left {
            let waiting = waiting.get_or_insert_with(|| {
                format!("helm deployer: deletion of resource {reference}{}", held(live)).into()
            });
            waiting.awaited.extend(Awaited::gone(self.cluster, live).await);
        }
        Ok(waiting)
    }
}

fn surplus(object: &Object, is_awaited: bool) -> Surplus<'static> {
    surplus_of(object.kind.clone(), object.reference.clone(), is_awaited)
}

fn surplus_of(kind: ResourceKind, reference: Reference, is_awaited: bool) -> Surplus<'static> {
    Surplus { kind, reference, settings: None, is_everybodys: false, is_forced: false, is_kept, is_awaited }
}
