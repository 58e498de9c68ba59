//! A Repository: its exchange with the remote, the objects of what it holds, and its status (`packagevariants.md` 6.10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use groundwork_api::{MetaCondition, PackageRevision, PackageVariant, Repository, ResourceExt as _, Time};
use groundwork_controller::{ApiError, Key, Objects, ReconcileError, Reconciled};
use groundwork_fleet::{deletes, owner_reference};
use groundwork_packages::{GitRepository, Revision, Snapshot, StoreError};
use jiff::Timestamp;

use super::PackageStore;
use super::objects::{Attributes, ensure, latest, release};
use super::schedule::Schedule;

/// Objects of one repository that are written at the same time.
const MAX_PARALLEL_WRITES: usize = 8;
/// A Repository that cannot be used is tried again.
const UNUSABLE: Duration = Duration::from_secs(30);
/// The most that a condition says of problems, in bytes; the API server takes 32,768.
const MOST_OF_PROBLEMS: usize = 30_000;

/// Brings the objects of a repository to what its remote holds.
pub(crate) async fn handle(
    store: &PackageStore,
    key: &Key,
    objects: &Objects,
) -> Result<Reconciled, ReconcileError> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let found = objects.get::<Repository>(namespace, &key.name).await?;
    let Some(repository) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
        store.unregister(key);
        // Nothing happens in git: the objects only say what is there.
        for object in present(namespace, &key.name, objects).await?.values() {
            release(object, objects).await?;
        }
        return Ok(Reconciled::default());
    };
    // Listed before the exchange: what has an object by now was pushed before it was made, so the exchange knows of it. The other way
    // round, the object of a draft that was pushed in between would seem to be one whose revision is gone.
    let listed = present(namespace, &key.name, objects).await?;
    let synced = store.register(key, &repository, objects).await;
    let observed = match &synced {
        Ok(registered) => {
            let snapshot = registered.snapshot();
            write_objects(registered, &snapshot, listed, objects).await?;
            Observed::of(&snapshot)
        }
        Err(error) => Observed::Unusable(error),
    };
    let schedule = Schedule::of(&repository, Timestamp::now());
    report(&repository, &observed, &schedule, objects).await?;
    Ok(Reconciled::requeue_after(if synced.is_ok() { schedule.pause } else { UNUSABLE }))
}

/// The objects that there are of a repository's revisions.
async fn present(
    namespace: &str,
    repository: &str,
    objects: &Objects,
) -> Result<BTreeMap<String, PackageRevision>, ReconcileError> {
    let listed =
        objects.select::<PackageRevision>(namespace, &format!("spec.repository={repository}")).await?;
    Ok(listed.into_iter().map(|object| (object.name_any(), object)).collect())
}

async fn write_objects(
    repository: &Arc<GitRepository>,
    snapshot: &Snapshot,
    mut present: BTreeMap<String, PackageRevision>,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let latest = latest(repository);
    let wanted = snapshot.revisions.values().map(|revision| Wanted {
        revision: Arc::clone(revision),
        present: present.remove(&revision.name),
        is_latest: latest.contains(&revision.name),
    });
    let wanted: Vec<Wanted> = wanted.collect();
    let writes = stream::iter(wanted).map(|wanted| write_object(repository, wanted, objects));
    let written: Vec<Result<(), ReconcileError>> =
        writes.buffer_unordered(MAX_PARALLEL_WRITES).collect().await;
    written.into_iter().collect::<Result<(), _>>()?;
    for object in present.values() {
        release(object, objects).await?;
    }
    Ok(())
}

/// A revision, with the object that it has.
struct Wanted {
    revision: Arc<Revision>,
    present: Option<PackageRevision>,
    is_latest: bool,
}

async fn write_object(
    repository: &Arc<GitRepository>,
    wanted: Wanted,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let Wanted { revision, present, is_latest } = wanted;
    // Who deletes it is answered by itself.
    if present.as_ref().is_some_and(|object| object.metadata.deletion_timestamp.is_some()) {
        return Ok(());
    }
    let attributes = match &present {
        None => recovered(&revision, &repository.settings().namespace, objects).await?,
        Some(_) => Attributes::default(),
    };
    match ensure(repository, &revision, Some(is_latest), present, attributes, None, objects).await {
        // Somebody else has written it; its event, or the next exchange, looks at it again.
        Ok(_) | Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_)) => Ok(()),
        // One revision that no object can tell of hides none of the others.
        Err(error) if error.is_final() => {
            tracing::warn!(revision = revision.name, %error, "a package revision has no object");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// What is known of a revision whose object is lost: whose it is stands in git (6.4).
async fn recovered(
    revision: &Revision,
    namespace: &str,
    objects: &Objects,
) -> Result<Attributes, ReconcileError> {
    let owner = revision.facts.owner.as_ref().filter(|owner| owner.namespace == namespace);
    let Some(owner) = owner else { return Ok(Attributes::default()) };
    let variant = objects.get::<PackageVariant>(namespace, &owner.name).await?;
    // One that goes takes it along, unless it leaves its revisions to people.
    let keeps = |variant: &PackageVariant| {
        variant.metadata.deletion_timestamp.is_none() || deletes(variant.spec.deletion_policy.as_deref())
    };
    let is_owner = |variant: &PackageVariant| {
        let downstream = variant.spec.downstream.as_ref();
        downstream.is_some_and(|downstream| downstream.package.as_deref() == Some(&revision.package))
            && keeps(variant)
    };
    Ok(variant.filter(is_owner).map(|variant| attributes(&variant)).unwrap_or_default())
}

/// What a variant gives to its revisions when they are made (3.5).
pub(crate) fn attributes(variant: &PackageVariant) -> Attributes {
    let pairs = |map: &groundwork_api::Map<String>| {
        map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    Attributes {
        labels: pairs(&variant.spec.labels),
        annotations: pairs(&variant.spec.annotations),
        owner: Some(owner_reference(variant)),
    }
}

enum Observed<'a> {
    Ready { packages: i32, head: Option<String>, problems: String },
    Unusable(&'a StoreError),
}

impl Observed<'_> {
    fn of(snapshot: &Snapshot) -> Self {
        let packages: BTreeSet<&str> =
            snapshot.revisions.values().map(|revision| revision.package.as_str()).collect();
        Self::Ready {
            packages: i32::try_from(packages.len()).unwrap_or(i32::MAX),
            head: snapshot.head.map(|head| head.to_string()),
            problems: joined(&snapshot.problems),
        }
    }
}

/// As many problems as a condition has room for.
fn joined(problems: &[String]) -> String {
    let mut text = String::new();
    for (told, problem) in problems.iter().enumerate() {
        if text.len() + problem.len() > MOST_OF_PROBLEMS {
            text.push_str(&format!("{}and {} more", if told > 0 { "; " } else { "" }, problems.len() - told));
            break;
        }
        if told > 0 {
            text.push_str("; ");
        }
        text.push_str(problem);
    }
    text
}

/// Writes the status, if it says anything new.
async fn report(
    repository: &Repository,
    observed: &Observed<'_>,
    schedule: &Schedule,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let before = repository.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let now = Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
    let (status, reason, message) = match observed {
        Observed::Ready { problems, .. } => ("True", "Ready", problems.clone()),
        Observed::Unusable(error) => ("False", "Error", error.to_string()),
    };
    let message = Some(message).filter(|message| !message.is_empty());
    let message = message.into_iter().chain(schedule.problem.clone()).collect::<Vec<_>>().join("; ");
    let former = before.conditions.iter().find(|condition| condition.type_ == "Ready");
    let since =
        former.filter(|former| former.status == status).map(|former| former.last_transition_time.clone());
    after.conditions = vec![MetaCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: repository.metadata.generation,
        last_transition_time: since.unwrap_or_else(|| now.clone()),
    }]
    .into();
    after.observed_generation = repository.metadata.generation;
    after.next_full_sync_time = schedule.next.clone();
    if let Observed::Ready { packages, head, .. } = observed {
        after.package_count = Some(*packages);
        after.git_commit_hash = head.clone();
        after.observed_run_once_at = schedule.run_once.clone();
    }
    if after == before {
        return Ok(());
    }
    if matches!(observed, Observed::Ready { .. }) {
        // Not at each exchange: a status that is written once a minute for nothing wakes everybody who watches.
        after.last_full_sync_time = Some(now);
    }
    match objects.replace_status(&Repository { status: Some(after), ..repository.clone() }).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
