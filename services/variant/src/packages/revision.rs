//! A PackageRevision that people edit: its lifecycle and its deletion, done in git (`packagevariants.md` 6.14).

use std::sync::Arc;

use groundwork_api::{PackageRevision, Repository, ResourceExt as _};
use groundwork_bus::ObjectId;
use groundwork_controller::{ApiError, Key, Objects, ReconcileError, Reconciled, WarningEvent};
use groundwork_packages::{Actor, GitRepository, Revision, StoreError};

use super::PackageStore;
use super::objects::{Answer, Attributes, ensure, latest, release};
use crate::handler::kind;

/// Who has asked for a change, as the admission policy makes them say.
const APPROVED_BY: &str = "groundwork/approved-by";
/// The author of a commit that nobody has put a name to.
const UNKNOWN: &str = "unknown";

/// Brings git to what an object asks for, and the object to what git holds.
pub(crate) async fn handle(
    store: &PackageStore,
    key: &Key,
    objects: &Objects,
) -> Result<Reconciled, ReconcileError> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(object) = objects.get::<PackageRevision>(namespace, &key.name).await? else {
        return Ok(Reconciled::default());
    };
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
        return delete(store, &repository, &object, objects).await;
    }
    let Some(revision) = known(store, &repository, &object).await? else {
        release(&object, objects).await?;
        return Ok(Reconciled::default());
    };
    let in_git = Some(revision.lifecycle.as_str());
    let told = object.status.as_ref().and_then(|status| status.lifecycle.as_deref());
    let asked_for = object.spec.lifecycle();
    let mut revision = revision;
    let mut answer = Answer::default();
    if let Some(wanted) = asked_for.filter(|wanted| told == in_git && *wanted != revision.lifecycle) {
        let actor = actor_of(&object);
        let (name, version, namespace) = (key.name.clone(), revision.version(), namespace.to_owned());
        let moved =
            store.run(move |store| store.set_lifecycle(&namespace, &name, &version, wanted, &actor)).await;
        match moved {
            Ok(moved) => revision = moved,
            Err(StoreError::Refused(text)) => answer.refusal = Some(text),
            Err(error @ StoreError::Conflict) => {
                return Err(ReconcileError { message: error.to_string(), is_conflict: true });
            }
            Err(error) => return Err(ReconcileError::new(error.to_string())),
        }
    }
    if let Some(text) = &answer.refusal {
        let warning = WarningEvent {
            reason: "LifecycleRefused",
            message: text,
            component: "groundwork-variant",
            occurrence: &object.metadata.generation.unwrap_or_default().to_string(),
        };
        // Nothing depends on it, and the status says the same.
        drop(objects.warn(&object, &warning).await);
    }
    let is_latest = Some(latest(&repository).contains(&revision.name));
    let none = Attributes::default();
    let written = ensure(&repository, &revision, is_latest, Some(object), none, Some(&answer), objects).await;
    match written {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
        Err(error) => Err(error.into()),
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
    let repository = Arc::clone(repository);
    let synced =
        store.run(move |_| repository.sync().map(|snapshot| snapshot.revisions.get(&name).cloned())).await;
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
        let deleted = store.run(move |store| store.delete(&namespace, &name, &version, &actor)).await;
        match deleted {
            Ok(()) | Err(StoreError::NotFound(_)) => {}
            // The object goes all the same, and comes back from git without its labels: a deletion cannot be refused any more.
            Err(StoreError::Refused(text)) => {
                let (namespace, name) =
                    (object.namespace().unwrap_or_default(), repository.settings().name.clone());
                let warning = WarningEvent {
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
    let name = object.annotations().get(APPROVED_BY).cloned();
    Actor { name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned()) }
}

/// The Repository of a revision: its name is what stands before the first dot (1.5).
pub(crate) fn repository_key(revision: &Key) -> Key {
    let name = revision.name.split('.').next().unwrap_or_default();
    ObjectId::new(kind::<Repository>(), revision.namespace.as_deref(), name)
}
