//! A PackageRevision that people edit: its lifecycle and its deletion, done in git (`packagevariants.md` 6.14).

use std::sync::Arc;

use groundwork_api::metadata::annotation;
use groundwork_api::{PackageRevision, Repository, ResourceExt as _};
use groundwork_bus::ObjectId;
use groundwork_controller::{
    ApiError, Key, ObjectEvent, Objects, ReconcileError, ReconcileRequest, Reconciled,
};
use groundwork_krm::{CreationError, set_package_metadata, set_readiness_gates};
use groundwork_packages::{Actor, GitRepository, Revision, StoreError};

use super::edits::{Edits, edits};
use super::objects::{Answer, Attributes, ensure, release};
use super::{PackageStore, is_ending, key_of};
use crate::handler::kind;

/// What stands before the words of a function that failed (8.1).
const NOT_PUSHED: &str = "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn \
                          render' succeeds) and retry. Details: ";
/// The author of a commit that nobody has put a name to.
const UNKNOWN: &str = "unknown";

/// Brings git to what an object asks for, and the object to what git holds.
pub(crate) async fn handle(
    store: &PackageStore,
    request: &ReconcileRequest<'_>,
) -> Result<Reconciled, ReconcileError> {
    let ReconcileRequest { key, objects, set_aside, .. } = *request;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(object) = objects.get::<PackageRevision>(namespace, &key.name).await? else {
        return Ok(Reconciled::default());
    };
    if let Some(words) = set_aside.due() {
        let occurrence = object.metadata.generation.unwrap_or_default().to_string();
        let warning = ObjectEvent {
            reason: "SetAside",
            message: words,
            component: "groundwork-variant",
            occurrence: &occurrence,
        };
        objects.warn(&object, &warning).await?;
        return Ok(Reconciled::default());
    }
    let place = repository_key(key);
    let repository = match store.repository(&place, objects).await {
        Ok(repository) => repository,
        // Its objects go without a word to git: the Repository is gone, so nothing is wanted of it.
        Err(StoreError::NotFound(_)) => {
            release(&object, objects).await?;
            return Ok(Reconciled::default());
        }
        Err(error) => return Err(ReconcileError::new(error.to_string())),
    };
    if object.metadata.deletion_timestamp.is_some() {
        if is_ending(namespace, objects).await? {
            release(&object, objects).await?;
            return Ok(Reconciled::default());
        }
        return delete(store, &repository, &object, objects).await;
    }
    let Some(revision) = known(store, &repository, &object).await? else {
        release(&object, objects).await?;
        return Ok(Reconciled::default());
    };
    let mut changed = Changed { revision, answer: Answer::default() };
    changed.save_spec(store, &repository, &object).await?;
    changed.move_on(store, namespace, &object).await?;
    let Changed { revision, answer } = changed;
    if let Some(text) = &answer.refusal {
        let warning = ObjectEvent {
            reason: "LifecycleRefused",
            message: text,
            component: "groundwork-variant",
            occurrence: &object.metadata.generation.unwrap_or_default().to_string(),
        };
        // Nothing depends on it, and the status says the same.
        drop(objects.warn(&object, &warning).await);
    }
    let is_latest = Some(repository.snapshot().latest(repository.settings()).contains(&revision.name));
    let none = Attributes::default();
    let written = ensure(&repository, &revision, is_latest, Some(object), none, Some(&answer), objects).await;
    match written {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
        Err(error) => Err(error.into()),
    }
}

/// A revision while what people ask for is done, and why some of it is not.
struct Changed {
    revision: Arc<Revision>,
    answer: Answer,
}

impl Changed {
    /// Writes labels, annotations and gates that people have changed on the object of a draft into its Kptfile.
    async fn save_spec(
        &mut self,
        store: &PackageStore,
        repository: &Arc<GitRepository>,
        object: &PackageRevision,
    ) -> Result<(), ReconcileError> {
        let Some(edits) = edits(repository, &self.revision, object) else { return Ok(()) };
        let Edits { labels, annotations, gates } = edits;
        let key = key_of(repository);
        let (repository, revision) = (Arc::clone(repository), Arc::clone(&self.revision));
        let (namespace, actor) = (object.namespace().unwrap_or_default(), actor_of(object));
        let saved = store.write(&key, move |store| {
            let mut files = repository.content(&revision)?.texts;
            let package = &revision.package;
            let refused = |error: CreationError| StoreError::Refused(error.to_string());
            set_package_metadata(&mut files, package, &labels, &annotations).map_err(refused)?;
            set_readiness_gates(&mut files, package, &gates).map_err(refused)?;
            store.stage_save(&namespace, &revision.name, &revision.version(), files)?.commit(&actor)
        });
        let saved = saved.await.map(|saved| saved.revision).map_err(|error| match error {
            StoreError::Render { error, .. } => StoreError::Refused(format!("{NOT_PUSHED}{error}")),
            other => other,
        });
        self.take(saved)
    }

    /// Moves a revision to the lifecycle that people ask for.
    async fn move_on(
        &mut self,
        store: &PackageStore,
        namespace: &str,
        object: &PackageRevision,
    ) -> Result<(), ReconcileError> {
        let told = object.status.as_ref().and_then(|status| status.lifecycle.as_deref());
        // What was changed in git counts, even if somebody has asked for something else meanwhile.
        let is_current = told == Some(self.revision.lifecycle.as_str());
        let asked_for =
            object.spec.lifecycle().filter(|wanted| is_current && *wanted != self.revision.lifecycle);
        let Some(wanted) = asked_for.filter(|_| self.answer.refusal.is_none()) else { return Ok(()) };
        let actor = actor_of(object);
        let key =
            repository_key(&ObjectId::new(kind::<PackageRevision>(), Some(namespace), &self.revision.name));
        let (name, version) = (self.revision.name.clone(), self.revision.version());
        let namespace = namespace.to_owned();
        let moved = store
            .write(&key, move |store| store.set_lifecycle(&namespace, &name, &version, wanted, &actor))
            .await;
        self.take(moved)
    }

    fn take(&mut self, done: Result<Arc<Revision>, StoreError>) -> Result<(), ReconcileError> {
        match done {
            Ok(revision) => self.revision = revision,
            Err(StoreError::Refused(text)) => self.answer.refusal = Some(text),
            Err(error @ StoreError::Conflict) => {
                return Err(ReconcileError { message: error.to_string(), is_conflict: true });
            }
            Err(error) => return Err(ReconcileError::new(error.to_string())),
        }
        Ok(())
    }
}

/// What git holds of an object. What another replica has just made is asked of the remote.
async fn known(
    store: &PackageStore,
    repository: &Arc<GitRepository>,
    object: &PackageRevision,
) -> Result<Option<Arc<Revision>>, ReconcileError> {
    let name = object.name_any();
    let lock = object.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
    let commit = lock.and_then(|lock| lock.commit.clone());
    if let Ok(found) = repository.revision(&name)
        && commit.is_none_or(|commit| commit == format!("{}", found.commit))
    {
        return Ok(Some(found));
    }
    let (key, repository) = (key_of(repository), Arc::clone(repository));
    let synced = store
        .run(&key, move |_| {
            let snapshot = repository.sync()?;
            match snapshot.revisions.get(&name) {
                // Its absence would be the end of its object.
                None if snapshot.is_partial => Err(StoreError::Unavailable(format!(
                    "{name:?}: its repository is not read to its end yet"
                ))),
                found => Ok(found.cloned()),
            }
        })
        .await;
    synced.map_err(|error| ReconcileError::new(error.to_string()))
}

async fn delete(
    store: &PackageStore,
    repository: &Arc<GitRepository>,
    object: &PackageRevision,
    objects: &Objects,
) -> Result<Reconciled, ReconcileError> {
    if let Some(revision) = known(store, repository, object).await? {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let (version, actor) = (revision.version(), actor_of(object));
        let deleted = store
            .write(&key_of(repository), move |store| store.delete(&namespace, &name, &version, &actor))
            .await;
        match deleted {
            Ok(()) | Err(StoreError::NotFound(_)) => {}
            // The object goes all the same, and comes back from git without its labels: a deletion cannot be refused any more.
            Err(StoreError::Refused(text)) => {
                let (namespace, name) =
                    (object.namespace().unwrap_or_default(), repository.settings().name.clone());
                let warning = ObjectEvent {
                    reason: "DeletionRefused",
                    message: &format!("{}: {text}", object.name_any()),
                    component: "groundwork-variant",
                    occurrence: &object.uid().unwrap_or_default(),
                };
                if let Some(about) = objects.get::<Repository>(&namespace, &name).await? {
                    drop(objects.warn(&about, &warning).await);
                }
            }
            Err(error @ StoreError::Conflict) => {
                return Err(ReconcileError { message: error.to_string(), is_conflict: true });
            }
            Err(error) => return Err(ReconcileError::new(error.to_string())),
        }
    }
    release(object, objects).await?;
    Ok(Reconciled::default())
}

fn actor_of(object: &PackageRevision) -> Actor {
    let name = object.annotations().get(annotation::APPROVED_BY).cloned();
    Actor { name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned()) }
}

/// The Repository of a revision: its name is what stands before the first dot (1.5).
pub(crate) fn repository_key(revision: &Key) -> Key {
    let name = revision.name.split('.').next().unwrap_or_default();
    ObjectId::new(kind::<Repository>(), revision.namespace.as_deref(), name)
}
