//! Controller of TargetSyncs (`installations.md` 1.5). It reads the source cluster every five
//! minutes and keeps the Targets and Secrets of its own namespace up to date.
//! `groundwork_lifecycle::target_sync` decides their contents.
//!
//! ```text
//! event, or five minutes ──> token renewed if due ──> names of the source
//!     ──> Secrets, then Targets ──> obsolete objects deleted ──> status
//! ```

mod round;

use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::metadata::{FINALIZER, annotation, operation};
use groundwork_api::{Kind as _, ResourceExt, TargetSync, Time, view};
use groundwork_bus::{Backoff, Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{
    ApiError, Handler, Key, Metadata, ObjectEvent, Objects, Options, ReconcileError, ReconcileRequest,
    Reconciled,
};
use groundwork_deploy::Targets;
use groundwork_lifecycle::target_sync::{ROUND, concluded, everything, without_effect};
use jiff::Timestamp;

use round::RoundResult;

/// Name of the queue of TargetSyncs.
const QUEUE: &str = "deployer_targetsync";
/// TargetSyncs worked on at the same time. A source cluster that hangs occupies one of them until
/// its time-out.
const CONCURRENCY: usize = 8;
/// Back-off of a TargetSync whose round fails.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// Component that reports Events.
const COMPONENT: &str = "groundwork-target-sync";

pub(crate) fn options(namespaces: Vec<String>) -> Options {
    Options {
        service: QUEUE,
        work: vec![Kind::new(TargetSync::GROUP, TargetSync::PLURAL)],
        indexed: Vec::new(),
        namespaces,
        concurrency: CONCURRENCY,
        backoff: BACKOFF,
    }
}

/// Handler of TargetSyncs.
pub(crate) struct TargetSyncs {
    pub(crate) targets: Targets,
}

fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

#[async_trait]
impl Handler for TargetSyncs {
    /// Returns the other TargetSyncs of the namespace too: only one may exist, so its coming or
    /// going changes their result.
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let others = index.of_kind(&object.kind, object.namespace.as_deref());
        let mut keys: Vec<Key> =
            others.into_iter().map(|(other, _)| other).filter(|other| other != object).collect();
        if matches!(change, Change::Applied(_)) {
            keys.push(object.clone());
        }
        keys
    }

    /// Returns the key only for a TargetSync that is being deleted. The schedule covers all others.
    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        (snapshot.is_deleting() && snapshot.has_finalizer(FINALIZER)).then(|| object.clone())
    }

    fn schedule(&self, object: &ObjectId, snapshot: &Snapshot, _: bool) -> Option<(Key, Timestamp)> {
        let last = view::TargetSync(snapshot).last_update_time();
        let next = last.and_then(|last| last.checked_add(ROUND).ok()).unwrap_or_else(Timestamp::now);
        Some((object.clone(), next))
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let (namespace, objects) = (request.key.namespace.as_deref().unwrap_or_default(), request.objects);
        let Some(sync) = objects.get::<TargetSync>(namespace, &request.key.name).await? else {
            return Ok(Reconciled::default());
        };
        if sync.annotations().get(annotation::IGNORE).is_some_and(|value| value == "true") {
            return Ok(Reconciled::default());
        }
        if sync.metadata.deletion_timestamp.is_some() {
            return remove(&sync, objects).await;
        }
        let status = sync.status.clone().unwrap_or_default();
        let is_asked = sync.annotations().contains_key(annotation::OPERATION);
        if let Some(words) = request.set_aside.due() {
            let outcome = RoundResult::stopped(words.to_owned());
            let sync = conclude(&sync, &outcome, objects).await?;
            answered(&sync, &outcome, objects).await?;
            return Ok(Reconciled::default());
        }
        if !is_asked
            && Some(status.observed_generation) == sync.metadata.generation
            && status.last_errors.iter().any(|error| request.set_aside.is_told_by(error))
        {
            return Ok(Reconciled::default());
        }
        let has_finalizer = sync.finalizers().iter().any(|name| name == FINALIZER);
        let sync = if has_finalizer { sync } else { add_finalizer(&sync, objects).await? };
        let outcome = match others(&sync, objects).await? {
            others if others.is_empty() => round::run(&sync, &self.targets, objects).await,
            others => RoundResult::stopped(format!(
                "a namespace may have only one TargetSync, but beside this one it has {}: no Secret is mirrored until \
                 only one is left",
                others.join(", ")
            )),
        };
        for text in without_effect(&sync) {
            warn(&sync, "WithoutEffect", text, objects).await;
        }
        let sync = conclude(&sync, &outcome, objects).await?;
        answered(&sync, &outcome, objects).await?;
        match outcome.errors.first() {
            Some(error) if !outcome.is_stopped => Err(ReconcileError::new(error.clone())),
            // If the namespace has several, a retry is useless: only the deletion of the others
            // helps, and that is an event.
            Some(_) | None => Ok(Reconciled::requeue_after(ROUND)),
        }
    }
}

/// Returns the names of the other TargetSyncs of the namespace, without those being deleted.
async fn others(sync: &TargetSync, objects: &Objects) -> Result<Vec<String>, ApiError> {
    let all = objects.list::<TargetSync>(&sync.namespace().unwrap_or_default(), "").await?;
    let stay = all.iter().filter(|other| other.metadata.deletion_timestamp.is_none());
    Ok(stay.map(ResourceExt::name_any).filter(|name| *name != sync.name_any()).collect())
}

/// Writes the result of a round, and an Event if the errors differ from those before.
async fn conclude(
    sync: &TargetSync,
    outcome: &RoundResult,
    objects: &Objects,
) -> Result<TargetSync, ApiError> {
    let Some(changed) = concluded(sync, &outcome.errors, outcome.rotated.as_ref(), &now()) else {
        return Ok(sync.clone());
    };
    let stored = objects.replace_status(&changed).await?;
    let errors = |sync: &TargetSync| sync.status.clone().unwrap_or_default().last_errors;
    if errors(&stored) != errors(sync) {
        for error in &outcome.errors {
            tracing::warn!(target_sync = %sync.name_any(), namespace = ?sync.namespace(), error);
        }
        if let Some(error) = outcome.errors.first() {
            warn(&stored, outcome.reason(), error, objects).await;
        }
    }
    Ok(stored)
}

/// Removes the annotations of requests that the round has carried out. A token request stays until
/// the token is renewed.
async fn answered(sync: &TargetSync, outcome: &RoundResult, objects: &Objects) -> Result<(), ApiError> {
    let annotations = sync.annotations();
    let mut answered = Vec::new();
    if annotations.get(annotation::OPERATION).is_some_and(|value| value == operation::RECONCILE) {
        answered.push((annotation::OPERATION.to_owned(), None));
    }
    if outcome.rotated.is_some() && annotations.contains_key(annotation::ROTATE_TOKEN) {
        answered.push((annotation::ROTATE_TOKEN.to_owned(), None));
    }
    if answered.is_empty() {
        return Ok(());
    }
    let change =
        Metadata { resource_version: sync.resource_version(), annotations: answered, ..Metadata::default() };
    patch(sync, &change, objects).await.map(drop)
}

/// Deletes Targets and Secrets, and then removes the finalizer. If the namespace has another
/// TargetSync, the objects stay for that.
async fn remove(sync: &TargetSync, objects: &Objects) -> Result<Reconciled, ReconcileError> {
    if !sync.finalizers().iter().any(|name| name == FINALIZER) {
        return Ok(Reconciled::default());
    }
    if others(sync, objects).await?.is_empty()
        && let Err(error) = remove_all(sync, objects).await
    {
        let outcome = RoundResult { errors: vec![error.to_string()], ..RoundResult::default() };
        conclude(sync, &outcome, objects).await?;
        return Err(error.into());
    }
    let others = sync.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
    let change = Metadata {
        resource_version: sync.resource_version(),
        finalizers: Some(others),
        ..Metadata::default()
    };
    match patch(sync, &change, objects).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
        Err(error) => Err(error.into()),
    }
}

async fn remove_all(sync: &TargetSync, objects: &Objects) -> Result<(), ApiError> {
    let all = everything(sync, round::home(sync, objects).await?);
    round::delete(sync, all, objects).await
}

async fn add_finalizer(sync: &TargetSync, objects: &Objects) -> Result<TargetSync, ApiError> {
    let finalizers = sync.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
    let change = Metadata {
        resource_version: sync.resource_version(),
        finalizers: Some(finalizers),
        ..Metadata::default()
    };
    patch(sync, &change, objects).await
}

async fn patch(sync: &TargetSync, change: &Metadata, objects: &Objects) -> Result<TargetSync, ApiError> {
    objects.patch_metadata(&sync.namespace().unwrap_or_default(), &sync.name_any(), change).await
}

/// Reports an Event. Its failure is only logged.
async fn warn(sync: &TargetSync, reason: &str, message: &str, objects: &Objects) {
    let generation = sync.metadata.generation.unwrap_or_default().to_string();
    let report = ObjectEvent { reason, message, component: COMPONENT, occurrence: &generation };
    if let Err(error) = objects.warn(sync, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}
