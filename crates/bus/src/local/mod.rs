//! The bus in one process: the same rules as JetStream, without a server.

mod store;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::epochs::Epochs;
use crate::error::{BusError, PublishError};
use crate::feed::Step;
use crate::object::ObjectId;
use crate::record::{Filter, Published, Record, Stored, StreamState, WorkState};
use crate::subject;
use crate::wire::{self, Wire};
use crate::work::{Delivery, Handle};

use store::{Message, Store};

/// The stream, the consumers, and who waits for them.
#[derive(Debug)]
pub(crate) struct LocalBus {
    shared: Mutex<Shared>,
    /// Wakes all that wait, after anything that may concern them.
    changed: Notify,
    ack_wait: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    store: Option<Store>,
    epochs: Epochs,
    /// When the last stream was created; the next must be another.
    last_created: Option<Timestamp>,
}

impl LocalBus {
    pub(crate) fn new(ack_wait: Duration) -> Self {
        Self { shared: Mutex::default(), changed: Notify::new(), ack_wait }
    }

    /// A panic elsewhere leaves no half-done change here: every change is one call of the store.
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
        let subject = subject::of_object(object)?;
        let message =
            self.with(|store| store.last(&subject).map(|(sequence, message)| (sequence, message.clone())))?;
        message.map(|(sequence, message)| stored(sequence, &message)).transpose()
    }

    pub(crate) fn visit(&self, filter: Filter<'_>, mut visitor: impl FnMut(Stored)) -> Result<(), BusError> {
        let subjects = subject::of_filter(filter)?;
        // The visitor is called without the lock: it may use the bus.
        let found: Vec<_> = self.with(|store| {
            store.after(0, &subjects).map(|(sequence, message)| (sequence, message.clone())).collect()
        })?;
        for (sequence, message) in found {
            match stored(sequence, &message) {
                Ok(stored) => visitor(stored),
                Err(error) => tracing::warn!(%error, "skipped"),
            }
        }
        Ok(())
    }

    pub(crate) fn prune(&self, older_than: Duration) -> Result<usize, BusError> {
        self.with(|store| store.prune(older_than, Timestamp::now()))
    }

    /// Runs `attempt` after every change until it has a result; it may name a time at which to run again.
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

/// The index feed of a replica.
#[derive(Debug)]
pub(crate) struct LocalFeed {
    bus: Arc<LocalBus>,
    subjects: Vec<String>,
    place: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    base: u64,
    sequence: u64,
    target: u64,
}

impl LocalFeed {
    pub(crate) fn new(bus: Arc<LocalBus>, subjects: Vec<String>) -> Self {
        Self { bus, subjects, place: None }
    }

    pub(crate) async fn next(&mut self) -> Step {
        let (subjects, place) = (&self.subjects, &mut self.place);
        self.bus.wait(|shared, _| advance(shared, subjects, place)).await
    }
}

fn advance(shared: &mut Shared, subjects: &[String], place: &mut Option<Place>) -> Attempt<Step> {
    let Some(store) = &shared.store else { return Attempt::Wait(None) };
    let base = shared.epochs.base(store.state().created_at);
    let Some(here) = place.as_mut().filter(|place| place.base == base) else {
        let target = store.after(0, subjects).map(|(sequence, _)| sequence).last().unwrap_or(0);
        *place = Some(Place { base, sequence: 0, target });
        return Attempt::Done(Step::Reset { caught_up: target == 0 });
    };
    let next = store.after(here.sequence, subjects).next();
    let Some((sequence, message)) = next else {
        let was_behind = here.sequence < here.target;
        here.sequence = store.state().last_sequence.max(here.sequence);
        return if was_behind { Attempt::Done(Step::CaughtUp) } else { Attempt::Wait(None) };
    };
    here.sequence = sequence;
    Attempt::Done(Step::Record {
        position: base + sequence,
        record: decoded(sequence, message).map(Box::new),
        caught_up: sequence >= here.target,
    })
}

/// Work of a service for one kind.
#[derive(Debug)]
pub(crate) struct LocalWork {
    bus: Arc<LocalBus>,
    name: String,
    filter: String,
}

impl LocalWork {
    pub(crate) fn new(bus: Arc<LocalBus>, name: String, filter: String) -> Self {
        let work = Self { bus, name, filter };
        // As on a server, what is published from now on waits for this queue.
        let _ = work.bus.with(|store| store.ensure_consumer(&work.name, &work.filter));
        work
    }

    pub(crate) async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        let (bus, name, filter) = (&self.bus, &self.name, &self.filter);
        bus.wait(|shared, now| {
            let Some(store) = &mut shared.store else { return Attempt::Wait(None) };
            let created = store.state().created_at;
            let base = shared.epochs.base(created);
            store.ensure_consumer(name, filter);
            let mut taken = VecDeque::new();
            while taken.len() < limit.max(1) {
                let Some((sequence, attempts, message)) = store.take(name, now, bus.ack_wait) else { break };
                match decoded(sequence, &message) {
                    Ok(Record::Object(event)) => {
                        let handle =
                            LocalHandle { bus: Arc::clone(bus), consumer: name.clone(), created, sequence };
                        taken.push_back(Delivery::new(
                            event,
                            base + sequence,
                            attempts,
                            Handle::Local(handle),
                        ));
                    }
                    Ok(_) => store.ack(name, sequence),
                    Err(error) => {
                        tracing::error!(%error, "dropped");
                        store.ack(name, sequence);
                    }
                }
            }
            match taken.is_empty() {
                true => Attempt::Wait(store.due(name)),
                false => Attempt::Done(taken.into()),
            }
        })
        .await
    }

    pub(crate) fn state(&self) -> Result<WorkState, BusError> {
        self.bus.with(|store| {
            store.ensure_consumer(&self.name, &self.filter);
            store.work_state(&self.name)
        })
    }
}

/// How a delivery is answered.
#[derive(Debug)]
pub(crate) struct LocalHandle {
    bus: Arc<LocalBus>,
    consumer: String,
    created: Timestamp,
    sequence: u64,
}

impl LocalHandle {
    pub(crate) fn ack(&self) {
        self.answer(|store| store.ack(&self.consumer, self.sequence));
    }

    pub(crate) fn retry_after(&self, delay: Duration) {
        self.answer(|store| store.put_off(&self.consumer, self.sequence, Instant::now() + delay));
    }

    pub(crate) fn progress(&self) {
        let due = Instant::now() + self.bus.ack_wait;
        self.answer(|store| store.put_off(&self.consumer, self.sequence, due));
    }

    /// An answer that comes after the stream was made again is about another message.
    fn answer(&self, act: impl FnOnce(&mut Store)) {
        let answered = self.bus.with(|store| {
            if store.state().created_at == self.created {
                act(store);
            }
        });
        if answered.is_ok() {
            self.bus.changed.notify_waiters();
        }
    }
}
