//! Reconcile of a Repository: the sync with its remote, the objects of its revisions, and its
//! status (`packagevariants.md` 6.10).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use groundwork_api::metadata::annotation;
use groundwork_api::{
    Lifecycle, MetaCondition, PackageVariant, Repository, RepositoryStatus, ResourceExt, RevisionRecord, Time,
};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{ApiError, Objects, ReconcileError, ReconcileRequest, Reconciled};
use groundwork_fleet::{deletes, owner_reference};
use groundwork_packages::git::{GitRepository, Left, Revision, Settings, Snapshot, StoreError};
use jiff::Timestamp;

use super::PackageStore;
use super::git_content::synced;
use super::records::{Attributes, Note, ensure, release};
use super::schedule::Schedule;

/// Objects of one repository that are written at the same time.
const MAX_PARALLEL_WRITES: usize = 8;
/// Pause before the retry of a Repository that cannot be used.
const UNUSABLE: Duration = Duration::from_secs(30);
/// Pause before a sync that was interrupted continues.
const REST: Duration = Duration::from_secs(2);
/// Interval between updates of the progress in the status.
const PROGRESS: Duration = Duration::from_secs(2);
/// Limit for the problems in a condition, in bytes. The API server's limit for a message is 32,768.
const MOST_OF_PROBLEMS: usize = 30_000;

/// Updates the objects of a repository to match its remote.
pub(crate) async fn handle(
    store: &PackageStore,
    request: &ReconcileRequest<'_>,
) -> Result<Reconciled, ReconcileError> {
    let ReconcileRequest { key, objects, set_aside, waker, .. } = *request;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let found = objects.get::<Repository>(namespace, &key.name).await?;
    let Some(mut repository) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
        store.unregister(key);
        // Deleting a Repository changes nothing in git, so only the objects of its revisions go.
        for object in present(namespace, &key.name, objects).await?.values() {
            release(object, objects).await?;
        }
        return Ok(Reconciled::default());
    };
    if let Some(words) = set_aside.due() {
        store.unregister(key);
        let schedule = Schedule::of(&repository, Timestamp::now());
        report(&repository, &Observed::SetAside(words), &schedule, objects).await?;
        return Ok(Reconciled::default());
    }
    let status = repository
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().map(|one| (&*one.message, status.observed_generation)));
    if set_aside.covers(repository.metadata.generation, status) {
        return Ok(Reconciled::default());
    }
    // List the objects before the sync. A revision with an object was pushed before the object was
    // created, so the sync sees it. In the other order, the object of a draft pushed in between
    // would look like one whose revision is gone, and would be deleted.
    let listed = present(namespace, &key.name, objects).await?;
    let as_read = repository.clone();
    if let Err(error) = store.check(&as_read) {
        return refuse(&repository, &error, objects).await;
    }
    if let Some(other) = twin(&as_read, objects).await? {
        store.unregister(key);
        let error = StoreError::Refused(format!(
            "Repository {other:?} has the packages of this place in git: give this one another directory or branch, or delete one of \
             the two"
        ));
        let never = Schedule { next: None, problem: None, ..Schedule::of(&repository, Timestamp::now()) };
        report(&repository, &Observed::Unusable(&error), &never, objects).await?;
        // The other one may be deleted or changed.
        return Ok(Reconciled::requeue_after(UNUSABLE));
    }
    store.set_waker(key, waker);
    let reading = store.register(key, &as_read, objects);
    let synced = telling(&mut repository, objects, reading, || store.progress(key)).await;
    // After a failure or an incomplete sync, the pause is shorter than that of the schedule.
    let mut pause = UNUSABLE;
    let observed = match &synced {
        Ok(registered) => {
            let snapshot = registered.snapshot();
            let (done, all) = (AtomicUsize::new(0), snapshot.revisions.len());
            let writing = write_objects(registered, &snapshot, listed, &done, objects);
            let text =
                || Some(format!("{} of {all} package revisions written", done.load(Ordering::Relaxed)));
            telling(&mut repository, objects, writing, text).await?;
            pause = if snapshot.left.is_some() { REST } else { Duration::MAX };
            Observed::of(&snapshot)
        }
        // The sync was interrupted by a change of the Repository; the event of that change is next
        // in the queue.
        Err(StoreError::Interrupted) => return Ok(Reconciled::requeue_after(REST)),
        Err(error) => Observed::Unusable(error),
    };
    let schedule = Schedule::of(&repository, Timestamp::now());
    report(&repository, &observed, &schedule, objects).await?;
    Ok(Reconciled::requeue_after(if synced.is_ok() { schedule.pause.min(pause) } else { pause }))
}

/// Returns the name of an older Repository of the namespace with the same packages. Two objects for
/// each revision would let two variants write to one package.
///
/// A Repository that is in use stays in use, so that only a new or changed one is compared.
async fn twin(repository: &Repository, objects: &Objects) -> Result<Option<String>, ReconcileError> {
    let status = repository.status.as_ref();
    let is_ready = |status: &&RepositoryStatus| {
        let mut conditions = status.conditions.iter();
        status.observed_generation == repository.metadata.generation
            && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let Some(own) = Settings::of(repository).ok().filter(|_| status.filter(is_ready).is_none()) else {
        return Ok(None);
    };
    let age = |repository: &Repository| (repository.creation_timestamp(), repository.name_any());
    let others = objects.list::<Repository>(&own.namespace, "").await?;
    let older = others.iter().filter(|other| other.name_any() != own.name && age(other) < age(repository));
    let mut twins = older.filter(|other| {
        let is_kept = other.metadata.deletion_timestamp.is_none();
        is_kept && Settings::of(other).is_ok_and(|other| other.overlaps(&own))
    });
    Ok(twins.next().map(ResourceExt::name_any))
}

/// Reports once why a Repository cannot be used. There is no retry: only a change of the Repository
/// can help, and a change is an event.
async fn refuse(
    repository: &Repository,
    error: &StoreError,
    objects: &Objects,
) -> Result<Reconciled, ReconcileError> {
    let never = Schedule { next: None, problem: None, ..Schedule::of(repository, Timestamp::now()) };
    report(repository, &Observed::Unusable(error), &never, objects).await?;
    Ok(Reconciled::default())
}

/// Writes the progress into the status while a long operation runs.
async fn telling<T>(
    repository: &mut Repository,
    objects: &Objects,
    work: impl Future<Output = T>,
    text: impl Fn() -> Option<String>,
) -> T {
    futures::pin_mut!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(PROGRESS) => {}
        }
        if let Some(text) = text() {
            tell(repository, text, objects).await;
        }
    }
}

/// Writes the progress once. A Repository that was ready stays ready. A failed write is ignored,
/// since the next one follows soon.
async fn tell(repository: &mut Repository, text: String, objects: &Objects) {
    let before = repository.status.clone().unwrap_or_default();
    let ready = before.conditions.iter().find(|condition| condition.type_ == "Ready");
    let status = ready.map_or("False", |ready| ready.status.as_str()).to_owned();
    let mut after = before.clone();
    after.conditions = vec![ready_condition(repository, &status, "Reconciling", text)].into();
    if after == before {
        return;
    }
    let wanted = Repository { status: Some(after), ..repository.clone() };
    match objects.replace_status(&wanted).await {
        // The next write of the status needs the new resourceVersion.
        Ok(written) => *repository = written,
        Err(error) => tracing::debug!(%error, "the progress of a repository cannot be reported"),
    }
}

/// Returns the existing objects of a repository's revisions.
async fn present(
    namespace: &str,
    repository: &str,
    objects: &Objects,
) -> Result<BTreeMap<String, RevisionRecord>, ReconcileError> {
    let listed =
        objects.select::<RevisionRecord>(namespace, &format!("spec.repository={repository}")).await?;
    Ok(listed.into_iter().map(|object| (object.name_any(), object)).collect())
}

async fn write_objects(
    repository: &Arc<GitRepository>,
    snapshot: &Snapshot,
    mut present: BTreeMap<String, RevisionRecord>,
    done: &AtomicUsize,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let latest = snapshot.latest(repository.settings());
    let wanted = snapshot.revisions.values().map(|revision| Wanted {
        revision: Arc::clone(revision),
        present: present.remove(&revision.name),
        is_latest: latest.contains(&revision.name),
    });
    let wanted: Vec<Wanted> = wanted.collect();
    let writes = stream::iter(wanted).map(|wanted| async {
        let written = write_object(repository, wanted, objects).await;
        done.fetch_add(1, Ordering::Relaxed);
        written
    });
    let written: Vec<Result<(), ReconcileError>> =
        writes.buffer_unordered(MAX_PARALLEL_WRITES).collect().await;
    written.into_iter().collect::<Result<(), _>>()?;
    // After a partial sync, a revision that was not read may still exist, so no object is deleted.
    if snapshot.is_partial {
        return Ok(());
    }
    for object in present.values() {
        release(object, objects).await?;
    }
    Ok(())
}

/// A revision and its present object.
struct Wanted {
    revision: Arc<Revision>,
    present: Option<RevisionRecord>,
    is_latest: bool,
}

async fn write_object(
    repository: &Arc<GitRepository>,
    wanted: Wanted,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let Wanted { revision, present, is_latest } = wanted;
    let attributes = match &present {
        None => recovered(repository, &revision, objects).await?,
        Some(_) => Attributes::default(),
    };
    match ensure(repository, &revision, Some(is_latest), present, attributes, Note::Kept, objects).await {
        // Another writer came first; the event of that write, or the next sync, checks the object
        // again.
        Ok(_) | Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_)) => Ok(()),
        // A revision that the API server refuses as an object must not block the others.
        Err(error) if error.is_final() => {
            tracing::warn!(revision = revision.name, %error, "the record of a package revision cannot be written");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Restores the attributes of a revision whose object is lost: git stores the owner
/// (`packagevariants.md` 6.4).
async fn recovered(
    repository: &GitRepository,
    revision: &Revision,
    objects: &Objects,
) -> Result<Attributes, ReconcileError> {
    let namespace = &repository.settings().namespace;
    let owner = revision.facts.owner.as_ref().filter(|owner| owner.namespace == *namespace);
    let Some(owner) = owner else { return Ok(Attributes::default()) };
    let variant = objects.get::<PackageVariant>(namespace, &owner.name).await?;
    // A variant that is being deleted still gets its revision as long as its policy deletes
    // revisions. With a policy that orphans them, the revision stays without owner.
    let keeps = |variant: &PackageVariant| {
        variant.metadata.deletion_timestamp.is_none() || deletes(variant.spec.deletion_policy.as_deref())
    };
    let is_owner = |variant: &PackageVariant| {
        let downstream = variant.spec.downstream.as_ref();
        downstream.is_some_and(|downstream| downstream.package.as_deref() == Some(&revision.package))
            && keeps(variant)
    };
    let Some(variant) = variant.filter(is_owner) else { return Ok(Attributes::default()) };
    Ok(attributes_of(repository, revision, &variant))
}

/// Makes the records of a variant's revisions that are in git without one, and returns their names
/// and versions. The process that pushed them ended before it made the records.
pub(crate) async fn recover_records(
    store: &PackageStore,
    variant: &PackageVariant,
    objects: &Objects,
) -> Result<Vec<(String, String)>, ReconcileError> {
    let namespace = variant.namespace().unwrap_or_default();
    let downstream = variant.spec.downstream.clone().unwrap_or_default();
    let key = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), downstream.repo.unwrap_or_default());
    let repository = match synced(store, &key, objects).await {
        Ok(repository) => repository,
        Err(StoreError::NotFound(_)) => return Ok(Vec::new()),
        Err(error) => return Err(ReconcileError::new(error.to_string())),
    };
    let snapshot = repository.snapshot();
    let is_own = |revision: &&Arc<Revision>| {
        let owner = revision.facts.owner.as_ref();
        Some(&revision.package) == downstream.package.as_ref()
            && owner.is_some_and(|owner| owner.namespace == namespace && owner.name == variant.name_any())
    };
    let mut made = Vec::new();
    for revision in snapshot.revisions.values().filter(is_own) {
        if objects.get::<RevisionRecord>(&namespace, &revision.name).await?.is_some() {
            continue;
        }
        let attributes = attributes_of(&repository, revision, variant);
        match ensure(&repository, revision, None, None, attributes, Note::Kept, objects).await {
            Ok(record) => made.push((record.name_any(), record.resource_version().unwrap_or_default())),
            Err(ApiError::AlreadyExists(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(made)
}

/// Returns the attributes of a variant's revision whose record is lost. A draft without its
/// variant's changes is marked, so that the next reconcile finishes it.
fn attributes_of(repository: &GitRepository, revision: &Revision, variant: &PackageVariant) -> Attributes {
    let mut attributes = attributes(variant);
    if revision.lifecycle == Lifecycle::Draft && repository.is_as_its_task_made_it(revision) {
        attributes.annotations.insert(annotation::UNFINISHED.to_owned(), "true".to_owned());
    }
    attributes
}

/// Returns the attributes that a variant gives to its revisions at their creation
/// (`packagevariants.md` 3.5).
pub(crate) fn attributes(variant: &PackageVariant) -> Attributes {
    let pairs = |map: &groundwork_api::Map<String>| {
        map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    Attributes {
        labels: pairs(&variant.spec.labels),
        annotations: pairs(&variant.spec.annotations),
        owners: vec![owner_reference(variant)],
        ..Attributes::default()
    }
}

enum Observed<'a> {
    Ready {
        packages: i32,
        head: Option<String>,
        problems: String,
        left: Option<Left>,
    },
    Unusable(&'a StoreError),
    /// Set aside, because processes died while they handled the Repository.
    SetAside(&'a str),
}

impl Observed<'_> {
    fn of(snapshot: &Snapshot) -> Self {
        let packages: BTreeSet<&str> =
            snapshot.revisions.values().map(|revision| revision.package.as_str()).collect();
        Self::Ready {
            packages: i32::try_from(packages.len()).unwrap_or(i32::MAX),
            head: snapshot.head.map(|head| head.to_string()),
            problems: joined(&snapshot.problems, snapshot.more_problems),
            left: snapshot.left,
        }
    }
}

/// Joins the problems that fit into a condition, and counts the rest.
fn joined(problems: &[String], more: usize) -> String {
    let mut text = String::new();
    let mut told = 0;
    for problem in problems {
        if text.len() + problem.len() > MOST_OF_PROBLEMS {
            break;
        }
        if told > 0 {
            text.push_str("; ");
        }
        text.push_str(problem);
        told += 1;
    }
    let left = problems.len() - told + more;
    if left > 0 {
        text.push_str(&format!("{}and {left} more", if told > 0 { "; " } else { "" }));
    }
    text
}

/// Returns the condition `Ready`, which keeps its transition time while its status is the same.
fn ready_condition(repository: &Repository, status: &str, reason: &str, message: String) -> MetaCondition {
    let former = repository.status.iter().flat_map(|status| status.conditions.iter());
    let former = former.filter(|former| former.type_ == "Ready" && former.status == status);
    let since = former.map(|former| former.last_transition_time.clone()).next();
    MetaCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: repository.metadata.generation,
        last_transition_time: since.unwrap_or_else(now),
    }
}

fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

/// Writes the status if it has changed.
async fn report(
    repository: &Repository,
    observed: &Observed<'_>,
    schedule: &Schedule,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let before = repository.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let (status, reason, message) = match observed {
        Observed::Ready { problems, left: None, .. } => ("True", "Ready", problems.clone()),
        Observed::Ready { problems, left: Some(Left { read, all }), .. } => {
            let text = format!("{read} of {all} refs read");
            ("False", "Reconciling", [text, problems.clone()].join("; ").trim_end_matches("; ").to_owned())
        }
        Observed::Unusable(error) => ("False", "Error", error.to_string()),
        Observed::SetAside(words) => ("False", "SetAside", (*words).to_owned()),
    };
    let message = Some(message).filter(|message| !message.is_empty());
    let message = message.into_iter().chain(schedule.problem.clone()).collect::<Vec<_>>().join("; ");
    after.conditions = vec![ready_condition(repository, status, reason, message)].into();
    after.observed_generation = repository.metadata.generation;
    after.next_full_sync_time = schedule.next.clone();
    if let Observed::Ready { packages, head, left: None, .. } = observed {
        after.package_count = Some(*packages);
        after.git_commit_hash = head.clone();
        after.observed_run_once_at = schedule.run_once.clone();
    }
    if after == before {
        return Ok(());
    }
    if matches!(observed, Observed::Ready { left: None, .. }) {
        // The time of the last sync changes only with other fields: writing it once a minute would
        // wake every watcher of Repositories.
        after.last_full_sync_time = Some(now());
    }
    match objects.replace_status(&Repository { status: Some(after), ..repository.clone() }).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
