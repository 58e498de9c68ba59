//! Operations of users on packages in git repositories (`packagevariants.md` 6.2).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::metadata::annotation;
use groundwork_api::{Map, Repository, ResourceExt as _, RevisionRecord};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{ApiError, Key, Objects};
use groundwork_packages::git::{
    Actor, Committed, Files, GitRepository, NewDraft, Revision, Source, Store, StoreError, Update,
};
use groundwork_proto::component::v1::ObjectName;
use tonic::Status;

use super::PackageStore;
use super::content::{Content, Made, Read, Saved, WantedDraft, refused, repository_of};
use super::creation::Wanted;
use super::progress::keeps_failures;
use super::records::{Attributes, Note, ensure, served};
use crate::status::of_api;

/// Age up to which the knowledge of a remote is good enough to make a draft.
const RECENT: Duration = Duration::from_secs(5);

/// The git store of this service, for one call.
pub(super) struct GitContent<'a> {
    pub(super) store: &'a PackageStore,
    pub(super) objects: &'a Objects,
}

#[async_trait]
impl Content for GitContent<'_> {
    async fn read(&self, name: &ObjectName) -> Result<Read, Status> {
        let key = repository_of(name);
        let repository = self.synced(&key).await?;
        let name = name.name.clone();
        let read = self.store.run(&key, move |_| {
            let revision = repository.revision(&name)?;
            let files = repository.files(&revision)?;
            Ok(Read { version: revision.version(), lifecycle: revision.lifecycle.as_str().to_owned(), files })
        });
        read.await.map_err(|error| refused(&error))
    }

    async fn save(
        &self,
        name: &ObjectName,
        version: String,
        files: Files,
        actor: Actor,
    ) -> Result<Saved, Status> {
        let key = repository_of(name);
        let repository = self.synced(&key).await?;
        let ObjectName { namespace, name } = name.clone();
        let present = self.objects.get::<RevisionRecord>(&namespace, &name).await.map_err(of_api)?;
        let keeps = present.as_ref().is_some_and(|present| keeps_failures(&served(present)));
        let saved = self.store.write(&key, move |store| {
            let staged = store.stage_files(&namespace, &name, &version, files)?;
            staged.keep_failures(keeps).commit(&actor)
        });
        let Committed { revision, status, error } = saved.await.map_err(|error| refused(&error))?;
        // With the mark, the variant could delete the draft together with what was saved here.
        let present = present.map(|mut present| {
            let mut annotations = (*present.attributes.annotations).clone();
            annotations.remove(annotation::UNFINISHED);
            present.attributes.annotations = Map::unless_empty(annotations);
            present
        });
        self.tell(&repository, &revision, present).await?;
        Ok(Saved { version: revision.version(), status, error })
    }

    async fn create(&self, new: WantedDraft, actor: Actor) -> Result<Made, Status> {
        let WantedDraft { namespace, repository, package, workspace, source, from } = new;
        // The sources may be in other repositories, so sync those on this replica too.
        for name in &from {
            self.synced(&repository_of(name)).await?;
        }
        let key = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), &repository);
        let registered = self.synced(&key).await?;
        let made = self.store.write(&key, move |store| {
            let source = source_in(store, source, &namespace)?;
            let new = NewDraft { namespace, repository, package, workspace, source, owner: None };
            store.stage(&new)?.commit(&actor)
        });
        let Committed { revision, status, .. } = made.await.map_err(|error| refused(&error))?;
        self.tell(&registered, &revision, None).await?;
        Ok(Made { name: revision.name.clone(), version: revision.version(), status })
    }
}

impl GitContent<'_> {
    /// Returns a repository after a sync with its remote.
    async fn synced(&self, key: &Key) -> Result<Arc<GitRepository>, Status> {
        synced(self.store, key, self.objects).await.map_err(|error| refused(&error))
    }

    /// Writes the record of a revision so that the cluster shows the new state of git.
    async fn tell(
        &self,
        repository: &GitRepository,
        revision: &Revision,
        present: Option<RevisionRecord>,
    ) -> Result<(), Status> {
        let none = Attributes::default();
        match ensure(repository, revision, None, present, none, Note::Kept, self.objects).await {
            Ok(_) => Ok(()),
            // Another writer came first. The next sync compares the record with git.
            Err(ApiError::AlreadyExists(_) | ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(of_api(error)),
        }
    }
}

/// Returns a repository after a sync with its remote: users and other replicas may have pushed a
/// moment ago.
pub(super) async fn synced(
    store: &PackageStore,
    key: &Key,
    objects: &Objects,
) -> Result<Arc<GitRepository>, StoreError> {
    let repository = store.repository(key, objects).await?;
    let syncing = Arc::clone(&repository);
    store.run(key, move |_| syncing.sync().map(drop)).await?;
    Ok(repository)
}

/// Returns a repository that was in contact with its remote within the last seconds. A push decides
/// in any case whether another one came first.
pub(super) async fn recent(
    store: &PackageStore,
    key: &Key,
    objects: &Objects,
) -> Result<Arc<GitRepository>, StoreError> {
    let repository = store.repository(key, objects).await?;
    match repository.age() {
        Some(age) if age < RECENT => Ok(repository),
        _ => synced(store, key, objects).await,
    }
}

/// Returns the repository of a revision. If this replica does not know the revision at the commit
/// in its record, it asks the remote: another replica may have just pushed it.
pub(super) async fn knowing(
    store: &PackageStore,
    key: &Key,
    record: &RevisionRecord,
    objects: &Objects,
) -> Result<Arc<GitRepository>, StoreError> {
    let repository = store.repository(key, objects).await?;
    let lock = record.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
    let told = lock.and_then(|lock| lock.commit.as_deref());
    let found = repository.revision(&record.name_any());
    if found.is_ok_and(|found| told == Some(&format!("{}", found.commit))) {
        return Ok(repository);
    }
    let syncing = Arc::clone(&repository);
    store.run(key, move |_| syncing.sync().map(drop)).await?;
    Ok(repository)
}

/// Returns the complete source of a draft. The calls to the store block.
fn source_in(store: &Store, source: Wanted, namespace: &str) -> Result<Source, StoreError> {
    Ok(match source {
        Wanted::Known(source) => source,
        Wanted::Upgrade { local, upstream, strategy } => {
            let original = store.original_of(namespace, &local)?;
            Source::Upgrade { local, update: Update { original, upstream, strategy } }
        }
    })
}
