//! Reconcile of a PackageRevision that users edit: lifecycle changes and deletions are carried out
//! in git (`packagevariants.md` 6.14).

use std::sync::Arc;
use std::time::Duration;

use groundwork_api::metadata::annotation;
use groundwork_api::{Lifecycle, PackageRevision, Repository, ResourceExt as _, Time};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{
    ApiError, Key, ObjectEvent, Objects, ReconcileError, ReconcileRequest, Reconciled,
};
use groundwork_fleet::{Approval, RULE, Rule, Ruling, approval, has_policy};
use groundwork_krm::{CreationError, changes, set_package_metadata, set_readiness_gates};
use groundwork_packages::git::{Actor, GitRepository, Revision, StoreError};
use jiff::Timestamp;

use super::edits::{Edits, edits};
use super::objects::{Answer, Attributes, ensure, release};
use super::{PackageStore, is_ending, key_of};
use crate::work::Expanders;

/// Prefix of the message of a failed function, word for word as Porch has it (`packagevariants.md`
/// 8.1).
const NOT_PUSHED: &str = "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn \
                          render' succeeds) and retry. Details: ";
/// Pause before the next look at a draft whose approval rule reads the time.
const RULE_PAUSE: Duration = Duration::from_secs(60);
/// Author of a commit for an edit without a known user.
const UNKNOWN: &str = "unknown";

/// Changes git to match the request in an object, and the object to match git.
pub(crate) async fn handle(
    store: &PackageStore,
    expanders: &Expanders,
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
        // The Repository is gone, so its objects are released and git stays unchanged.
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
    changed.move_on(store, &repository, &object).await?;
    let pause = changed.approve(store, expanders, &repository, &object).await?;
    let Changed { revision, answer } = changed;
    if let Some(text) = &answer.refusal {
        let warning = ObjectEvent {
            reason: "LifecycleRefused",
            message: text,
            component: "groundwork-variant",
            occurrence: &object.metadata.generation.unwrap_or_default().to_string(),
        };
        // A lost Event is acceptable, because the status contains the same text.
        drop(objects.warn(&object, &warning).await);
    }
    let is_latest = Some(repository.snapshot().latest(repository.settings()).contains(&revision.name));
    let none = Attributes::default();
    let written = ensure(&repository, &revision, is_latest, Some(object), none, Some(&answer), objects).await;
    match written {
        Ok(_) | Err(ApiError::NotFound(_)) => {
            Ok(pause.map_or_else(Reconciled::default, Reconciled::requeue_after))
        }
        Err(error) => Err(error.into()),
    }
}

/// State of a revision while requests of users are carried out, with the reasons for refusals.
struct Changed {
    revision: Arc<Revision>,
    answer: Answer,
}

impl Changed {
    /// Writes the labels, annotations and gates that users have changed on the object of a draft
    /// into the Kptfile.
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

    /// Moves a revision to the lifecycle that users ask for.
    async fn move_on(
        &mut self,
        store: &PackageStore,
        repository: &Arc<GitRepository>,
        object: &PackageRevision,
    ) -> Result<(), ReconcileError> {
        let told = object.status.as_ref().and_then(|status| status.lifecycle.as_deref());
        // A change in git counts, even if a user has asked for another lifecycle in the meantime.
        let is_current = told == Some(self.revision.lifecycle.as_str());
        let asked_for =
            object.spec.lifecycle().filter(|wanted| is_current && *wanted != self.revision.lifecycle);
        let Some(wanted) = asked_for.filter(|_| self.answer.refusal.is_none()) else { return Ok(()) };
        self.move_to(store, repository, wanted, actor_of(object)).await
    }

    /// Publishes a draft whose annotations ask for it. Returns the pause before the next look, if
    /// the draft waits for a time.
    async fn approve(
        &mut self,
        store: &PackageStore,
        expanders: &Expanders,
        repository: &Arc<GitRepository>,
        object: &PackageRevision,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !store.approves || self.answer.refusal.is_some() {
            return Ok(None);
        }
        let place = repository.settings().place();
        // Content and lifecycle are those of git; annotations and age those of the object.
        let mut present = self.revision.object(&place);
        present.metadata = object.metadata.clone();
        if !has_policy(&present) {
            return Ok(None);
        }
        let snapshot = repository.snapshot();
        let of_package = snapshot.revisions.values().filter(|found| found.package == self.revision.package);
        let of_package: Vec<PackageRevision> = of_package.map(|found| found.object(&place)).collect();
        let policy = match approval(&present, &of_package, &Time(Timestamp::now())) {
            Approval::Approve(policy) => policy,
            Approval::Wait(rest) => return Ok(Some(rest)),
            Approval::None => return Ok(None),
            Approval::Invalid(text) => {
                self.answer.refusal = Some(text);
                return Ok(None);
            }
        };
        match self.ruling(store, expanders, repository, &present).await? {
            None => {}
            Some(Ok(Ruling { approves: true, .. })) => {}
            Some(Ok(Ruling { reads_time, .. })) => {
                self.answer.note = Some("the approval rule does not approve this revision".to_owned());
                return Ok(reads_time.then_some(RULE_PAUSE));
            }
            Some(Err(text)) => {
                self.answer.refusal = Some(text);
                return Ok(None);
            }
        }
        let actor = Actor { name: format!("approval policy {policy}") };
        for to in [Lifecycle::Proposed, Lifecycle::Published] {
            if self.answer.refusal.is_none() && self.revision.lifecycle != to {
                self.move_to(store, repository, to, actor.clone()).await?;
            }
        }
        Ok(None)
    }

    /// Evaluates the approval rule of a revision; `None` if it has none.
    async fn ruling(
        &self,
        store: &PackageStore,
        expanders: &Expanders,
        repository: &Arc<GitRepository>,
        present: &PackageRevision,
    ) -> Result<Option<Result<Ruling, String>>, ReconcileError> {
        if !present.annotations().contains_key(RULE) {
            return Ok(None);
        }
        let snapshot = repository.snapshot();
        let of_package = snapshot.revisions.values().filter(|found| found.package == self.revision.package);
        let published = of_package.filter(|found| found.number > 0).max_by_key(|found| found.number).cloned();
        let is_first = published.is_none();
        let (reading, draft) = (Arc::clone(repository), Arc::clone(&self.revision));
        let key = key_of(repository);
        let changes = store.run(&key, move |_| {
            let texts = |revision: &Revision| Ok::<_, StoreError>(reading.content(revision)?.texts);
            let before = published.as_deref().map(texts).transpose()?.unwrap_or_default();
            Ok(changes(&before, &texts(&draft)?))
        });
        let changes = changes.await.map_err(|error| ReconcileError::new(error.to_string()))?;
        let now = Timestamp::now().as_second();
        let Some(rule) = Rule::of(present, &changes, is_first, now) else { return Ok(None) };
        Ok(Some(expanders.rule(&repository.settings().namespace, rule).await))
    }

    async fn move_to(
        &mut self,
        store: &PackageStore,
        repository: &Arc<GitRepository>,
        to: Lifecycle,
        actor: Actor,
    ) -> Result<(), ReconcileError> {
        let namespace = repository.settings().namespace.clone();
        let (name, version) = (self.revision.name.clone(), self.revision.version());
        let moved = store
            .write(&key_of(repository), move |store| {
                store.set_lifecycle(&namespace, &name, &version, to, &actor)
            })
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

/// Returns the revision of an object in git. If this replica does not know the revision, it syncs
/// with the remote first, since another replica may have just pushed it.
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
                // After a partial sync, an unread revision must not count as absent: its object
                // would be deleted.
                None if snapshot.is_partial => Err(StoreError::Unavailable(format!(
                    "{name:?}: its repository has not been read completely yet"
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
            // A deletion cannot be refused once it is requested. The object goes, and the next sync
            // creates it again from git, without its labels.
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

/// Returns the Repository of a revision: the repository's name is the part of the revision's name
/// before the first dot (`packagevariants.md` 1.5).
pub(crate) fn repository_key(revision: &Key) -> Key {
    let name = revision.name.split('.').next().unwrap_or_default();
    ObjectId::new(Kind::of::<Repository>(), revision.namespace.as_deref(), name)
}
