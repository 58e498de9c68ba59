//! Deletion of revisions (`packagevariants.md` 6.5, 6.14).

use groundwork_api::{Lifecycle, List, PackageRevision, ResourceExt as _, RevisionRecord, Time};
use groundwork_apiserver::{Answer, Refusal, Request, Selector};
use groundwork_controller::{ApiError, ReconcileError};
use groundwork_fleet::{Actor as Permission, deletion, derives_from};
use groundwork_grpc::ResourceAttributes;
use groundwork_packages::git::{Actor, StoreError};
use jiff::Timestamp;

use super::kinds::{GROUP, REVISIONS_OF_GROUP};
use super::{Api, object, refusals};
use crate::packages::git_content::knowing;
use crate::packages::is_ending;
use crate::packages::records::{release, served};
use crate::packages::revision::{repository_key, revision_key};

/// Garbage collector of Kubernetes, which deletes objects whose owners are gone. No user has asked
/// for that, so packages stay in git. Clusters differ in the account that it has; it names itself
/// in the same way everywhere.
const COLLECTOR: &str = "generic-garbage-collector";

impl Api {
    /// Deletes a revision: from git if a user asks for it.
    pub(super) async fn remove(&self, request: &Request) -> Result<Answer, Refusal> {
        let (namespace, name) = (&request.namespace, &request.name);
        let record = self.record(namespace, name).await?;
        let present = served(&record);
        let (uid, version) = request.preconditions()?;
        if uid.is_some_and(|uid| Some(uid) != present.metadata.uid)
            || version.is_some_and(|version| Some(version) != present.metadata.resource_version)
        {
            let why = "Precondition failed: the object is another one, or has been modified";
            return Err(Refusal::conflict(REVISIONS_OF_GROUP, name, why));
        }
        let uid = present.uid().unwrap_or_default();
        let unavailable = |error: ReconcileError| Refusal::unavailable(error.message);
        let is_ending = is_ending(namespace, &self.objects).await.map_err(unavailable)?;
        if is_ending && !request.options.is_dry_run {
            // The end of a namespace is not that of its packages.
            release(&record, &self.objects).await.map_err(unavailable)?;
            return Ok(Answer::Done { uid });
        }
        if request.user.name.ends_with(COLLECTOR) || request.user_agent.ends_with(COLLECTOR) {
            if !request.options.is_dry_run {
                self.disown(record, request).await?;
            }
            return Ok(Answer::Done { uid });
        }
        self.check_removal(&present, request).await?;
        if request.options.is_dry_run {
            return Ok(Answer::Object(object(&present)?));
        }
        if !record.attributes.finalizers.is_empty() {
            return self.mark(record, name).await;
        }
        self.finish_removal(&record, &Actor { name: request.user.name.clone() }).await
    }

    /// Takes the owners off a record, so that the garbage collector leaves it alone.
    async fn disown(&self, mut record: RevisionRecord, request: &Request) -> Result<(), Refusal> {
        record.attributes.owner_references = List::absent();
        match self.objects.replace(&record).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(refusals::of_api(&error, &request.name)),
        }
    }

    /// Refuses the deletion of a revision that is published, or that others are made from.
    async fn check_removal(&self, present: &PackageRevision, request: &Request) -> Result<(), Refusal> {
        let name = &request.name;
        let forbidden = |why: &str| Refusal::forbidden(REVISIONS_OF_GROUP, name, why);
        let spec = &present.spec;
        let reference = present.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
        let reference = reference.and_then(|lock| lock.reference.clone());
        let is_placeholder = spec.revision == Some(-1) && reference == spec.workspace_name;
        let lifecycle = spec.lifecycle().unwrap_or(Lifecycle::Draft);
        let attributes = ResourceAttributes {
            group: GROUP.name,
            resource: "packagerevisions/approval",
            namespace: Some(&request.namespace),
            name: Some(name),
        };
        let may_approve = self.access.may(&request.user, "update", &attributes).await;
        let may_approve =
            may_approve.map_err(|status| Refusal::of_review(&status, REVISIONS_OF_GROUP, name))?;
        if is_placeholder && !may_approve {
            return Err(forbidden("deletion needs update on packagerevisions/approval"));
        }
        let permission = if may_approve { Permission::Approver } else { Permission::Anybody };
        deletion(lifecycle, is_placeholder, permission).map_err(|refusal| forbidden(&refusal.to_string()))?;
        // Only published revisions are kept for those that are made from them.
        if matches!(lifecycle, Lifecycle::Draft | Lifecycle::Proposed) {
            return Ok(());
        }
        let log = self.log(&request.namespace, &request.options).await?;
        let (revisions, _) = log.list(&request.namespace, &Selector::default());
        let derived = revisions.iter().find(|found| {
            let object = serde_json::from_slice::<PackageRevision>(&found.json);
            found.name != *name && object.is_ok_and(|object| derives_from(&object, present))
        });
        match derived {
            Some(found) => Err(forbidden(&format!(
                "cannot delete package revision, it is referenced as upstream by: {}",
                found.name
            ))),
            None => Ok(()),
        }
    }

    /// Records that a deletion waits for finalizers.
    async fn mark(&self, mut record: RevisionRecord, name: &str) -> Result<Answer, Refusal> {
        if record.attributes.deletion_timestamp.is_none() {
            let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
            record.attributes.deletion_timestamp = Some(Time(now));
            record = self.objects.replace(&record).await.map_err(|error| refusals::of_api(&error, name))?;
            self.seen(&record).await;
        }
        Ok(Answer::Object(object(&served(&record))?))
    }

    /// Deletes a revision without finalizers from git, and its record.
    pub(super) async fn finish_removal(
        &self,
        record: &RevisionRecord,
        actor: &Actor,
    ) -> Result<Answer, Refusal> {
        let (namespace, name) = (record.namespace().unwrap_or_default(), record.name_any());
        let store = self.store()?;
        let key = repository_key(&revision_key(&namespace, &name));
        let repository = knowing(store, &key, record, &self.objects).await;
        let repository = repository.map_err(|error| refusals::of_store(&error, &name))?;
        let deleted = {
            let (namespace, name, actor) = (namespace.clone(), name.clone(), actor.clone());
            store.write(&key, move |store| {
                let (_, revision) = store.revision(&namespace, &name)?;
                store.delete(&namespace, &name, &revision.version(), &actor)?;
                Ok(revision)
            })
        };
        let deleted = match deleted.await {
            Ok(revision) => Some(revision),
            // The revision was deleted in git, and the record is left over.
            Err(StoreError::NotFound(_)) => None,
            Err(error) => return Err(refusals::of_store(&error, &name)),
        };
        let removed =
            self.objects.delete::<RevisionRecord>(&namespace, &name, record.uid().as_deref(), None).await;
        match removed {
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(refusals::of_api(&error, &name)),
        }
        if let Some(revision) = deleted {
            self.follow_package(&repository, &revision).await;
        }
        Ok(Answer::Done { uid: served(record).uid().unwrap_or_default() })
    }
}
