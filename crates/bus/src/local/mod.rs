//! The bus in one process: the same rules as JetStream, without a server.

pub(crate) mod feed;
pub(crate) mod handle;
mod journal;
mod store;
pub(crate) mod work;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::epochs::Epochs;
use crate::error::{BusError, PublishError};
use crate::object::ObjectId;
use crate::record::{ClusterIdentity, Filter, Published, Record, Stored, StreamState};
use crate::subject;
use crate::wire::{self, Wire};

use store::{Message, Store};

/// The stream, its consumers, and the wake-ups for their readers.
#[derive(Debug)]
pub(crate) struct LocalBus {
    shared: Mutex<Shared>,
    /// Wakes all waiters after any change that may concern them.
    changed: Notify,
    ack_wait: Duration,
    journal: Mutex<journal::LocalJournal>,
    /// Count of connections, which never changes here because there is only one.
    connections: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Shared {
    store: Option<Store>,
    epochs: Epochs,
    /// Creation time of the last stream. The next stream must have a different one.
    last_created: Option<Timestamp>,
}

impl LocalBus {
    pub(crate) fn new(ack_wait: Duration) -> Self {
        Self {
            shared: Mutex::default(),
            changed: Notify::new(),
            ack_wait,
            journal: Mutex::default(),
            connections: watch::Sender::new(0),
        }
    }

    /// Locks the shared state. A panic elsewhere cannot leave a half-done change, since every
    /// change is one call of the store; so a poisoned lock is ignored.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> Result<T, BusError> {
        self.lock().store.as_mut().map(act).ok_or(BusError::StreamNotFound)
    }

    pub(crate) fn ensure_stream(&self) -> StreamState {
        let mut shared = self.lock();
        let created = shared.store.is_none();
        let last = shared.last_created;
        let store = shared.store.get_or_insert_with(|| {
            let now = Timestamp::now();
            Store::new(match last {
                Some(last) if last >= now => last + Duration::from_nanos(1),
                _ => now,
            })
        });
        let state = StreamState { created, ..store.state() };
        shared.last_created = Some(state.created_at);
        drop(shared);
        self.changed.notify_waiters();
        state
    }

    pub(crate) fn delete_stream(&self) {
        self.lock().store = None;
        self.changed.notify_waiters();
    }

    pub(crate) fn status(&self) -> Result<StreamState, BusError> {
        self.with(|store| store.state())
    }

    pub(crate) fn publish(&self, wire: Wire, fence: Option<u64>) -> Result<Published, PublishError> {
        let published = self.with(|store| store.publish(wire, fence, Instant::now()))??;
        self.changed.notify_waiters();
        Ok(published)
    }

    pub(crate) fn last(&self, object: &ObjectId) -> Result<Option<Stored>, BusError> {
        self.last_of(&subject::of_object(object)?)
    }

    fn last_of(&self, subject: &str) -> Result<Option<Stored>, BusError> {
        let message =
            self.with(|store| store.last(subject).map(|(sequence, message)| (sequence, message.clone())))?;
        message.map(|(sequence, message)| stored(sequence, &message)).transpose()
    }

    pub(crate) fn identity(&self) -> Result<Option<Stored>, BusError> {
        self.last_of(&subject::of_record(&Record::Cluster(ClusterIdentity::default()))?)
    }

    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    pub(crate) fn visit(&self, filter: Filter<'_>, mut visitor: impl FnMut(Stored)) -> Result<(), BusError> {
        let subjects = subject::of_filter(filter)?;
        // Call the visitor without the lock, because it may use the bus.
        let found: Vec<_> = self.with(|store| {
            store.after(0, &subjects).map(|(sequence, message)| (sequence, message.clone())).collect()
        })?;
        for (sequence, message) in found {
            match stored(sequence, &message) {
                Ok(stored) => visitor(stored),
                Err(error) => tracing::warn!(%error, "a message cannot be read and is skipped"),
            }
        }
        Ok(())
    }

    pub(crate) fn prune(&self, older_than: Duration) -> Result<usize, BusError> {
        self.with(|store| store.prune(older_than, Timestamp::now()))
    }

    /// Runs `attempt` after every change until it returns a result. The attempt may name a time for
    /// its next run.
    async fn wait<T>(&self, mut attempt: impl FnMut(&mut Shared, Instant) -> Attempt<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let due = match attempt(&mut self.lock(), Instant::now()) {
                Attempt::Done(value) => return value,
                Attempt::Wait(due) => due,
            };
            match due {
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => changed.await,
            }
        }
    }
}

enum Attempt<T> {
    Done(T),
    Wait(Option<Instant>),
}

fn stored(sequence: u64, message: &Message) -> Result<Stored, BusError> {
    Ok(Stored { sequence, record: decoded(sequence, message)?, time: message.time })
}

fn decoded(sequence: u64, message: &Message) -> Result<Record, BusError> {
    wire::decode(&message.wire).map_err(|reason| BusError::Message {
        sequence,
        subject: message.wire.subject.clone(),
        reason,
    })
}
