//! The publications of one watch: many objects concurrently, and for each object one state after
//! the other.

use std::collections::{HashMap, HashSet, VecDeque};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use crate::ledger::{Key, Ledger};
use crate::publication::{DesiredState, Observed, Publication, PublicationOutcome, publish_object};
use crate::scopes::Scope;
use crate::stream_writer::{StreamNotFoundError, StreamWriter};
use crate::warnings::Warnings;

/// Maximum objects that are published concurrently.
const MAX_IN_FLIGHT: usize = 64;
/// Number of waiting objects above which the watch stops reading.
const MAX_PENDING: usize = 256;

/// Publishes the objects of one watch.
///
/// If an object changes faster than it can be published, only its newest state is. The stream keeps
/// no other anyway.
pub(crate) struct Publisher {
    scope: Scope,
    writer: StreamWriter,
    ledger: Ledger,
    warnings: Warnings,
    /// Newest state of each object that is not yet being published.
    pending: HashMap<Key, (DesiredState, Observed)>,
    /// Keys of `pending` without those in flight, in the order of their arrival.
    queue: VecDeque<Key>,
    in_flight: FuturesUnordered<BoxFuture<'static, Publication>>,
    keys_in_flight: HashSet<Key>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Publisher {
    pub(crate) fn new(scope: Scope, writer: StreamWriter, ledger: Ledger, warnings: Warnings) -> Self {
        writer.status.set_object_count(&scope, ledger.count_alive());
        Self {
            scope,
            writer,
            ledger,
            warnings,
            pending: HashMap::new(),
            queue: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            keys_in_flight: HashSet::new(),
        }
    }

    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Queues a state of an object for [`Self::next_finished`] to publish, unless the stream
    /// already has it.
    pub(crate) fn publish(&mut self, key: Key, desired: DesiredState) {
        if matches!(desired, DesiredState::Replay(_)) && self.pending.contains_key(&key) {
            // A change of the object is about to be published, and its event also serves as the
            // replay.
            return;
        }
        let is_waiting = self.keys_in_flight.contains(&key) || self.pending.contains_key(&key);
        if !is_waiting && !desired.needs_publication(&self.ledger.last_message(&key).state) {
            self.track_too_large(&key, None, &PublicationOutcome::UpToDate);
            return;
        }
        let is_new = self.pending.insert(key.clone(), (desired, Observed::now())).is_none();
        if is_new && !self.keys_in_flight.contains(&key) {
            self.queue.push_back(key);
        }
        self.start_queued();
    }

    /// Reports whether the watch may read more from the API server.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < MAX_PENDING
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.pending.is_empty()
    }

    /// Waits until one publication has ended, and for ever while there is none, because callers use
    /// it in `select!` with other waits. Dropping the future loses nothing.
    pub(crate) async fn next_finished(&mut self) -> Result<(), StreamNotFoundError> {
        let Some(publication) = self.in_flight.next().await else { return std::future::pending().await };
        let Publication { key, uid, last, outcome } = publication;
        self.keys_in_flight.remove(&key);
        if outcome == PublicationOutcome::StreamNotFound {
            return Err(StreamNotFoundError);
        }
        self.track_too_large(&key, uid, &outcome);
        self.ledger.set_last_message(key.clone(), last);
        self.writer.status.set_object_count(&self.scope, self.ledger.count_alive());
        if self.pending.contains_key(&key) {
            self.queue.push_back(key);
        }
        self.start_queued();
        Ok(())
    }

    /// Waits until everything is published.
    pub(crate) async fn flush(&mut self) -> Result<(), StreamNotFoundError> {
        while !self.is_idle() {
            self.next_finished().await?;
        }
        Ok(())
    }

    /// Forgets deleted objects without a pending publication.
    pub(crate) fn forget_deleted(&mut self) {
        let (pending, in_flight) = (&self.pending, &self.keys_in_flight);
        self.ledger.forget_deleted(|key| pending.contains_key(key) || in_flight.contains(key));
    }

    fn start_queued(&mut self) {
        while self.in_flight.len() < MAX_IN_FLIGHT
            && let Some(key) = self.queue.pop_front()
        {
            let Some((desired, observed)) = self.pending.remove(&key) else { continue };
            self.keys_in_flight.insert(key.clone());
            let (writer, kind, last) =
                (self.writer.clone(), self.scope.kind.clone(), self.ledger.last_message(&key));
            self.in_flight.push(Box::pin(publish_object(writer, kind, key, last, desired, observed)));
        }
    }

    /// Records objects whose events are too large. The watcher stays ready, because one tenant's
    /// oversized object must not affect other tenants.
    fn track_too_large(&self, key: &Key, uid: Option<String>, outcome: &PublicationOutcome) {
        let was_too_large = self.writer.status.read(|status| {
            let watch = status.watches.get(&self.scope);
            watch.is_some_and(|watch| watch.too_large.contains_key(key))
        });
        match outcome {
            PublicationOutcome::TooLarge(size) | PublicationOutcome::Reduced(size) => {
                if !was_too_large {
                    self.warn_of_size(key, uid, *size, matches!(outcome, PublicationOutcome::Reduced(_)));
                }
                self.writer.status.update_watch(&self.scope, |watch| {
                    watch.too_large.insert(key.clone(), *size);
                });
            }
            PublicationOutcome::UpToDate if was_too_large => {
                tracing::info!(kind = %self.scope.kind, object = %key, "an object is no longer too large for an event");
                self.writer.status.update_watch(&self.scope, |watch| {
                    watch.too_large.remove(key);
                });
            }
            PublicationOutcome::UpToDate | PublicationOutcome::StreamNotFound => {}
        }
    }

    /// Warns of a large event by the log, and by an Event at the object.
    fn warn_of_size(&self, key: &Key, uid: Option<String>, size: usize, is_reduced: bool) {
        let (kind, object, most) = (&self.scope.kind, key.to_string(), groundwork_bus::MAX_EVENT_BYTES);
        let consequence = if is_reduced {
            "published without labels and finalizers of other systems and without long annotations; shorten them"
        } else {
            "not published, so no service sees its changes; shorten it"
        };
        if is_reduced {
            tracing::warn!(%kind, object, size, most, "an object is too large for an event: {consequence}");
        } else {
            tracing::error!(%kind, object, size, most, "an object is too large for an event: {consequence}");
        }
        let message = format!(
            "the state of this object takes {size} bytes as an event for services, but at most {most} are allowed: \
             {consequence}"
        );
        self.warnings.warn(key, uid, &message);
    }
}
