//! What a service implements: from changes to keys, and from a key to the state it should have.

use std::time::Duration;

use async_trait::async_trait;
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use jiff::Timestamp;

use tokio::sync::mpsc;

use crate::controller::Message;
use crate::error::ApiError;
use crate::known_versions::Sight;
use crate::objects::Objects;

/// What is reconciled: an object, and everything that belongs to it.
pub type Key = ObjectId;

/// Reconciles the objects of a service. The decision belongs into a pure function; a handler reads, asks that function, and writes.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The keys that a change concerns; none if there is nothing to do for it. The index knows the change when this is called,
    /// if it holds the object.
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key>;

    /// Takes note of a change before the index knows it, and so before [`Handler::keys`] is asked about it. Every replica is told of
    /// every change, in the order of the stream.
    fn observe(&self, object: &ObjectId, change: &Change) {
        let _ = (object, change);
    }

    /// Whether the index has to hold an object. One that the handler never looks up there would only take memory, about a kilobyte each.
    fn looks_up(&self, object: &ObjectId, snapshot: &Snapshot) -> bool {
        let _ = (object, snapshot);
        true
    }

    /// The key that has to see to an object which is not at rest: its job runs, it is being deleted, or it waits for something. `None` for an
    /// object at rest.
    ///
    /// Such a key is looked at although no event comes, with [`ReconcileRequest::reads_anew`]: once the feed has told of everything that
    /// there is, and every five minutes at the latest for as long as it sees to something.
    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let _ = (object, snapshot);
        None
    }

    /// A key to reconcile at a time although no event will come: for time-outs, and now for what memory has to know.
    ///
    /// Called whenever the feed of the index tells of an object, with `is_initial_sync` while it is filled for the first time. A later answer about
    /// the same key takes the place of the former one.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        let _ = (object, snapshot, is_initial_sync);
        None
    }

    /// The feed of some kinds begins anew: what [`Handler::observe`] was told is told again from the start, and what was deleted meanwhile is not told at
    /// all. Called in the order of the stream, as that is.
    fn forget_observed(&self, kinds: &[Kind]) {
        let _ = kinds;
    }

    /// The stream was rebuilt, perhaps for a cluster that was restored: versions that were read before cannot be compared any more.
    fn reset(&self) {}

    /// Does for a key what is left to do, until nothing remains but to wait for a change.
    ///
    /// # Errors
    ///
    /// It did not succeed. It is called again after a pause, which doubles with each failure.
    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError>;
}

/// A key to reconcile.
#[derive(Debug)]
pub struct ReconcileRequest<'a> {
    pub key: &'a Key,
    /// The API server, on behalf of this key.
    pub objects: &'a Objects,
    pub index: &'a Index,
    /// Objects that events told of since the key was reconciled last, and the states in which those showed them.
    pub changed: &'a [(ObjectId, Sight)],
    /// It is looked at because it has not come to rest: nothing that memory holds of it may be relied on.
    pub reads_anew: bool,
    /// Has the key reconciled again when something has come that no event tells of.
    pub waker: &'a Waker,
    pub set_aside: SetAside<'a>,
}

/// The words for an object in whose handling processes of the service died one after the other.
#[derive(Debug, Clone, Copy)]
pub struct SetAside<'a> {
    pub(crate) words: &'a str,
    pub(crate) is_due: bool,
}

impl<'a> SetAside<'a> {
    /// The words, if nothing is to be done now but to tell them at the object, as what keeps it from going on.
    pub fn due(&self) -> Option<&'a str> {
        self.is_due.then_some(self.words)
    }

    /// True if a message of the object has these words. A handler that is asked for a level, and not for a job, then leaves the object
    /// alone for as long as its generation is the one that the message is about.
    pub fn is_told_by(&self, message: &str) -> bool {
        message.contains(self.words)
    }
}

/// Has a key reconciled again.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) key: Key,
    pub(crate) messages: mpsc::Sender<Message>,
}

impl Waker {
    /// Has the key reconciled now, or once more if it is being reconciled. Nothing comes of it once the controller ends.
    pub async fn wake(&self) {
        // There is nobody left to wake it.
        let _ = self.messages.send(Message::Wake { key: self.key.clone() }).await;
    }
}

/// The end of a successful attempt, and when the next one follows. By default it follows the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Reconcile again after this time even if nothing changes. This is kept in memory only, so it is for polling; what must not be
    /// forgotten follows from [`Handler::schedule`].
    pub requeue_after: Option<Duration>,
    /// There is more to do, for which the key is put behind the others that wait.
    pub requeue: bool,
}

impl Reconciled {
    /// Nothing is left to do before this time, unless something changes.
    pub fn requeue_after(time: Duration) -> Self {
        Self { requeue_after: Some(time), ..Self::default() }
    }

    /// A part of the work is done, and the rest is to follow after the other keys that wait.
    pub fn requeue() -> Self {
        Self { requeue: true, ..Self::default() }
    }
}

/// Why an attempt has to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    pub message: String,
    /// Somebody else changed an object since it was read. A short pause is enough before it is read again.
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
