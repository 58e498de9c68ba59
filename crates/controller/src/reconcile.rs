//! Interface that a service implements: from changes to keys, and from a key to the desired state.

use std::time::Duration;

use async_trait::async_trait;
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use jiff::Timestamp;

use tokio::sync::mpsc;

use crate::controller::Message;
use crate::error::ApiError;
use crate::known_versions::Sight;
use crate::objects::Objects;

/// Unit of reconciliation: an object, and everything that belongs to it.
pub type Key = ObjectId;

/// Reconciles the objects of a service. Decisions belong into a pure function: a handler reads,
/// calls that function, and writes.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Returns the keys that a change concerns, or an empty list if there is no work for it. If the
    /// index keeps the object, it already contains the change when this is called.
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key>;

    /// Notes a change before the index contains it, and so before [`Handler::keys`] is called for
    /// it. Every replica gets every change, in the order of the stream.
    fn observe(&self, object: &ObjectId, change: &Change) {
        let _ = (object, change);
    }

    /// Reports whether the index must keep an object. An object that the handler never looks up
    /// would only take memory, about a kilobyte each.
    fn looks_up(&self, object: &ObjectId, snapshot: &Snapshot) -> bool {
        let _ = (object, snapshot);
        true
    }

    /// Returns the key that is responsible for an object which is not at rest: its job runs, it is
    /// being deleted, or it waits for something. `None` for an object at rest.
    ///
    /// The controller rechecks such a key even without an event, with
    /// [`ReconcileRequest::reads_anew`]: once the feed is complete, and then every five minutes at
    /// the latest, as long as the key is responsible for an object.
    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let _ = (object, snapshot);
        None
    }

    /// Returns a key to reconcile at a time even if no event comes: later for time-outs, or now to
    /// fill caches.
    ///
    /// Called for every object that the index feed shows, with `is_initial_sync` during the first
    /// fill. A later result for the same key replaces the earlier one.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        let _ = (object, snapshot, is_initial_sync);
        None
    }

    /// Forgets what [`Handler::observe`] has noted about some kinds, because their feed starts
    /// over: existing objects are observed again, and objects deleted meanwhile are never
    /// mentioned. Called in the order of the stream, like [`Handler::observe`].
    fn forget_observed(&self, kinds: &[Kind]) {
        let _ = kinds;
    }

    /// Forgets resourceVersions, because the stream was rebuilt, perhaps for a restored cluster,
    /// and earlier versions cannot be compared any more.
    fn reset(&self) {}

    /// Does all work for a key, until the key can only wait for a change.
    ///
    /// # Errors
    ///
    /// The attempt failed. The controller calls this again after a pause, which doubles with each
    /// failure.
    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError>;
}

/// A key to reconcile.
#[derive(Debug)]
pub struct ReconcileRequest<'a> {
    pub key: &'a Key,
    /// The API server, on behalf of this key.
    pub objects: &'a Objects,
    pub index: &'a Index,
    /// Objects with events since the last reconciliation of the key, and the states that those
    /// events showed.
    pub changed: &'a [(ObjectId, Sight)],
    /// The key is rechecked because it has not come to rest. The handler must not use state that it
    /// keeps in memory.
    pub reads_anew: bool,
    /// Requeues the key for changes that do not cause an event.
    pub waker: &'a Waker,
    pub set_aside: SetAside<'a>,
}

/// Message for an object during whose handling several processes of the service died.
#[derive(Debug, Clone, Copy)]
pub struct SetAside<'a> {
    pub(crate) words: &'a str,
    pub(crate) is_due: bool,
}

impl<'a> SetAside<'a> {
    /// Returns the message if the handler must do nothing now except report it at the object as the
    /// reason for the stop.
    pub fn due(&self) -> Option<&'a str> {
        self.is_due.then_some(self.words)
    }

    /// Reports whether a message of the object contains this one. A handler without jobs then
    /// leaves the object alone as long as its generation is the one that the message is about.
    pub fn is_told_by(&self, message: &str) -> bool {
        message.contains(self.words)
    }

    /// Reports whether the object is still set aside: one of `messages`, each with the generation
    /// that it is about, contains this message and is about the object's present generation.
    pub fn covers<'m>(
        &self,
        generation: Option<i64>,
        messages: impl IntoIterator<Item = (&'m str, Option<i64>)>,
    ) -> bool {
        let mut messages = messages.into_iter();
        messages.any(|(message, observed)| observed == generation && self.is_told_by(message))
    }
}

/// Requeues a key.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) key: Key,
    pub(crate) messages: mpsc::Sender<Message>,
}

impl Waker {
    /// Requeues the key now, or once more if it is being reconciled. Has no effect once the
    /// controller has ended.
    pub async fn wake(&self) {
        // Sending fails only when the controller has ended.
        let _ = self.messages.send(Message::Wake { key: self.key.clone() }).await;
    }
}

/// Result of a successful attempt, with the time of the next one. By default the next attempt
/// follows the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Pause after which the key is reconciled again even without a change. Only memory keeps this
    /// time, so it is for polling. Use [`Handler::schedule`] for times that must survive a restart.
    pub requeue_after: Option<Duration>,
    /// More work is left; the key is requeued behind the others that wait.
    pub requeue: bool,
}

impl Reconciled {
    /// Returns a result without further work before this time, unless something changes.
    pub fn requeue_after(time: Duration) -> Self {
        Self { requeue_after: Some(time), ..Self::default() }
    }

    /// Returns a result for work done in part; the rest follows after the other waiting keys.
    pub fn requeue() -> Self {
        Self { requeue: true, ..Self::default() }
    }
}

/// Reason why an attempt has to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    pub message: String,
    /// Another writer changed an object after it was read. A short pause before the next read is
    /// enough.
    pub is_conflict: bool,
}

impl ReconcileError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_conflict: false }
    }
}

impl From<ApiError> for ReconcileError {
    fn from(error: ApiError) -> Self {
        Self { is_conflict: matches!(error, ApiError::Conflict(_)), message: error.to_string() }
    }
}
