//! Approval of drafts by their annotations (`packagevariants.md` 6.11).

use std::sync::Arc;
use std::time::Duration;

use groundwork_api::{Lifecycle, PackageRevision, Repository, ResourceExt as _, RevisionRecord, Time};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{
    ApiError, Key, ObjectEvent, Objects, ReconcileError, ReconcileRequest, Reconciled,
};
use groundwork_fleet::{Approval, RULE, Rule, Ruling, approvable, approval, has_policy};
use groundwork_krm::changes;
use groundwork_packages::git::{Actor, GitRepository, Revision, StoreError};
use jiff::Timestamp;

use super::git_content::knowing;
use super::records::{Attributes, Note, ensure, served};
use super::{PackageStore, key_of};
use crate::work::Expanders;

/// Pause before the next look at a draft whose approval rule reads the time.
const RULE_PAUSE: Duration = Duration::from_secs(60);

/// Publishes a draft whose annotations ask for it.
pub(crate) async fn handle(
    store: &PackageStore,
    expanders: &Expanders,
    request: &ReconcileRequest<'_>,
) -> Result<Reconciled, ReconcileError> {
    let ReconcileRequest { key, objects, set_aside, .. } = *request;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(record) = objects.get::<RevisionRecord>(namespace, &key.name).await? else {
        return Ok(Reconciled::default());
    };
    let object = served(&record);
    if let Some(words) = set_aside.due() {
        warn(&object, "SetAside", words, objects).await;
        return Ok(Reconciled::default());
    }
    if !has_policy(&object) {
        return Ok(Reconciled::default());
    }
    let repository = match knowing(store, &repository_key(key), &record, objects).await {
        Ok(repository) => repository,
        // The Repository is gone, and its reconcile releases the records.
        Err(StoreError::NotFound(_)) => return Ok(Reconciled::default()),
        Err(error) => return Err(ReconcileError::new(error.to_string())),
    };
    let Ok(revision) = repository.revision(&key.name) else { return Ok(Reconciled::default()) };
    let mut deciding = Deciding { store, repository, revision, told: String::new(), is_refused: false };
    let pause = deciding.approve(expanders, &object).await?;
    let Deciding { repository, revision, told, is_refused, .. } = deciding;
    if is_refused {
        warn(&object, "LifecycleRefused", &told, objects).await;
    }
    let is_latest = Some(repository.snapshot().latest(repository.settings()).contains(&revision.name));
    let none = Attributes::default();
    let written =
        ensure(&repository, &revision, is_latest, Some(record), none, Note::Told(&told), objects).await;
    match written {
        Ok(_) | Err(ApiError::NotFound(_)) => {
            Ok(pause.map_or_else(Reconciled::default, Reconciled::requeue_after))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes an Event. A lost one is acceptable, because the status contains the same text.
async fn warn(object: &PackageRevision, reason: &'static str, message: &str, objects: &Objects) {
    let occurrence = object.resource_version().unwrap_or_default();
    let warning = ObjectEvent { reason, message, component: "groundwork-variant", occurrence: &occurrence };
    drop(objects.warn(object, &warning).await);
}

/// Decision about a draft.
struct Deciding<'a> {
    store: &'a PackageStore,
    repository: Arc<GitRepository>,
    revision: Arc<Revision>,
    /// Text for users: why the draft waits, or why it was refused.
    told: String,
    is_refused: bool,
}

impl Deciding<'_> {
    fn refuse(&mut self, text: String) {
        self.told = text;
        self.is_refused = true;
    }

    /// Returns the pause before the next look, if the draft waits for a time.
    async fn approve(
        &mut self,
        expanders: &Expanders,
        object: &PackageRevision,
    ) -> Result<Option<Duration>, ReconcileError> {
        let place = self.repository.settings().place();
        // Content and lifecycle are those of git; annotations, age and written conditions those of
        // the record.
        let mut present = self.revision.object(&place);
        present.metadata = object.metadata.clone();
        let snapshot = self.repository.snapshot();
        let of_package = snapshot.revisions.values().filter(|found| found.package == self.revision.package);
        let of_package: Vec<PackageRevision> = of_package.map(|found| found.object(&place)).collect();
        let policy = match approval(&present, &of_package, &Time(Timestamp::now())) {
            Approval::Approve(policy) => policy,
            Approval::Wait(rest) => return Ok(Some(rest)),
            Approval::None => return Ok(None),
            Approval::Invalid(text) => {
                self.refuse(text);
                return Ok(None);
            }
        };
        match self.ruling(expanders, &present).await? {
            None => {}
            Some(Ok(Ruling { approves: true, .. })) => {}
            Some(Ok(Ruling { reads_time, .. })) => {
                self.told = "the approval rule does not approve this revision".to_owned();
                return Ok(reads_time.then_some(RULE_PAUSE));
            }
            Some(Err(text)) => {
                self.refuse(text);
                return Ok(None);
            }
        }
        if let Err(refusal) = approvable(object) {
            self.refuse(refusal.to_string());
            return Ok(None);
        }
        let actor = Actor { name: format!("approval policy {policy}") };
        for to in [Lifecycle::Proposed, Lifecycle::Published] {
            if !self.is_refused && self.revision.lifecycle != to {
                self.move_to(to, actor.clone()).await?;
            }
        }
        Ok(None)
    }

    /// Evaluates the approval rule of a revision; `None` if it has none.
    async fn ruling(
        &self,
        expanders: &Expanders,
        present: &PackageRevision,
    ) -> Result<Option<Result<Ruling, String>>, ReconcileError> {
        if !present.annotations().contains_key(RULE) {
            return Ok(None);
        }
        let snapshot = self.repository.snapshot();
        let of_package = snapshot.revisions.values().filter(|found| found.package == self.revision.package);
        let published = of_package.filter(|found| found.number > 0).max_by_key(|found| found.number).cloned();
        let is_first = published.is_none();
        let (reading, draft) = (Arc::clone(&self.repository), Arc::clone(&self.revision));
        let key = key_of(&self.repository);
        let changes = self.store.run(&key, move |_| {
            let texts = |revision: &Revision| Ok::<_, StoreError>(reading.content(revision)?.texts);
            let before = published.as_deref().map(texts).transpose()?.unwrap_or_default();
            Ok(changes(&before, &texts(&draft)?))
        });
        let changes = changes.await.map_err(|error| ReconcileError::new(error.to_string()))?;
        let now = Timestamp::now().as_second();
        let Some(rule) = Rule::of(present, &changes, is_first, now) else { return Ok(None) };
        Ok(Some(expanders.rule(&self.repository.settings().namespace, rule).await))
    }

    async fn move_to(&mut self, to: Lifecycle, actor: Actor) -> Result<(), ReconcileError> {
        let namespace = self.repository.settings().namespace.clone();
        let (name, version) = (self.revision.name.clone(), self.revision.version());
        let key = key_of(&self.repository);
        let moved =
            self.store.write(&key, move |store| store.set_lifecycle(&namespace, &name, &version, to, &actor));
        match moved.await {
            Ok(revision) => self.revision = revision,
            Err(StoreError::Refused(text)) => self.refuse(text),
            Err(error @ StoreError::Conflict) => {
                return Err(ReconcileError { message: error.to_string(), is_conflict: true });
            }
            Err(error) => return Err(ReconcileError::new(error.to_string())),
        }
        Ok(())
    }
}

/// Returns the key of a revision by its name.
pub(super) fn revision_key(namespace: &str, name: &str) -> Key {
    ObjectId::new(Kind::of::<PackageRevision>(), Some(namespace), name)
}

/// Returns the Repository of a revision: the repository's name is the part of the revision's name
/// before the first dot (`packagevariants.md` 1.5).
pub(crate) fn repository_key(revision: &Key) -> Key {
    let name = revision.name.split('.').next().unwrap_or_default();
    ObjectId::new(Kind::of::<Repository>(), revision.namespace.as_deref(), name)
}
