//! A compacted log and its consumers, as plain values without locks or waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::error::PublishError;
use crate::nats::stream::DUPLICATE_WINDOW;
use crate::record::{Published, Record, StreamState, WorkState};
use crate::subject;
use crate::wire::{self, Wire, is_tombstone};

/// A stored message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) wire: Wire,
    pub(super) time: Timestamp,
}

impl Message {
    fn size(&self) -> u64 {
        let size = self.wire.subject.len() + self.wire.id.len() + self.wire.body.len();
        u64::try_from(size).unwrap_or(u64::MAX)
    }
}

/// The compacted log: at most one message for each subject, with growing sequences.
#[derive(Debug)]
pub(super) struct Store {
    created: Timestamp,
    last_sequence: u64,
    bytes: u64,
    messages: BTreeMap<u64, Message>,
    subjects: HashMap<String, u64>,
    ids: HashMap<String, u64>,
    /// Message ids in order of arrival, to forget them after the duplicate window.
    id_ages: VecDeque<(Instant, String)>,
    consumers: HashMap<String, Consumer>,
}

/// State of a consumer that the replicas of a service share.
#[derive(Debug)]
struct Consumer {
    filter: String,
    /// Sequence up to which every message was delivered at least once.
    cursor: u64,
    unacknowledged: BTreeMap<u64, Unacknowledged>,
    /// Sequences of `unacknowledged`, ordered by the time of their next delivery.
    due: BTreeSet<(Instant, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    due: Instant,
    attempts: u64,
}

impl Consumer {
    fn forget(&mut self, sequence: u64) -> Option<Unacknowledged> {
        let entry = self.unacknowledged.remove(&sequence)?;
        self.due.remove(&(entry.due, sequence));
        Some(entry)
    }

    fn remember(&mut self, sequence: u64, entry: Unacknowledged) {
        self.unacknowledged.insert(sequence, entry);
        self.due.insert((entry.due, sequence));
    }

    /// Reports whether the consumer no longer needs this message.
    fn is_past(&self, sequence: u64) -> bool {
        self.cursor >= sequence && self.unacknowledged.keys().next().is_none_or(|first| *first > sequence)
    }
}

impl Store {
    pub(super) fn new(created: Timestamp) -> Self {
        Self {
            created,
            last_sequence: 0,
            bytes: 0,
            messages: BTreeMap::new(),
            subjects: HashMap::new(),
            ids: HashMap::new(),
            id_ages: VecDeque::new(),
            consumers: HashMap::new(),
        }
    }

    pub(super) fn state(&self) -> StreamState {
        StreamState {
            created: false,
            messages: u64::try_from(self.messages.len()).unwrap_or(u64::MAX),
            bytes: self.bytes,
            first_sequence: self.messages.keys().next().copied().unwrap_or(self.last_sequence + 1),
            last_sequence: self.last_sequence,
            created_at: self.created,
        }
    }

    /// Stores a message. Checks the fence first and the id then, as current servers do.
    pub(super) fn publish(
        &mut self,
        wire: Wire,
        fence: Option<u64>,
        now: Instant,
    ) -> Result<Published, PublishError> {
        self.forget_ids(now);
        let last = self.subjects.get(&wire.subject).copied();
        if fence.is_some_and(|fence| fence != last.unwrap_or(0)) {
            return Err(PublishError::Superseded { subject: wire.subject });
        }
        if let Some(sequence) = self.ids.get(&wire.id) {
            return Ok(Published { sequence: *sequence, duplicate: true });
        }
        if let Some(last) = last {
            self.remove(last);
        }
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        self.ids.insert(wire.id.clone(), sequence);
        self.id_ages.push_back((now, wire.id.clone()));
        self.subjects.insert(wire.subject.clone(), sequence);
        let message = Message { wire, time: Timestamp::now() };
        self.bytes += message.size();
        self.messages.insert(sequence, message);
        Ok(Published { sequence, duplicate: false })
    }

    fn forget_ids(&mut self, now: Instant) {
        while self.id_ages.front().is_some_and(|(age, _)| now.duration_since(*age) >= DUPLICATE_WINDOW) {
            if let Some((_, id)) = self.id_ages.pop_front() {
                self.ids.remove(&id);
            }
        }
    }

    /// Removes a message, and its pending redeliveries with it.
    fn remove(&mut self, sequence: u64) {
        if let Some(message) = self.messages.remove(&sequence) {
            self.bytes -= message.size();
            self.subjects.remove(&message.wire.subject);
        }
        for consumer in self.consumers.values_mut() {
            consumer.forget(sequence);
        }
    }

    pub(super) fn last(&self, subject: &str) -> Option<(u64, &Message)> {
        let sequence = *self.subjects.get(subject)?;
        Some((sequence, self.messages.get(&sequence)?))
    }

    /// Returns the messages of these subjects after a sequence.
    pub(super) fn after(&self, sequence: u64, filters: &[String]) -> impl Iterator<Item = (u64, &Message)> {
        self.messages
            .range(sequence + 1..)
            .filter(|(_, message)| {
                filters.iter().any(|filter| subject::matches(filter, &message.wire.subject))
            })
            .map(|(sequence, message)| (*sequence, message))
    }

    pub(super) fn ensure_consumer(&mut self, name: &str, filter: &str) {
        if !self.consumers.contains_key(name) {
            let consumer = Consumer {
                filter: filter.to_owned(),
                cursor: 0,
                unacknowledged: BTreeMap::new(),
                due: BTreeSet::new(),
            };
            self.consumers.insert(name.to_owned(), consumer);
        }
    }

    /// Returns the next message for a consumer with its number of deliveries: one that is due
    /// again, or a new one.
    pub(super) fn take(
        &mut self,
        name: &str,
        now: Instant,
        ack_wait: Duration,
    ) -> Option<(u64, u64, Message)> {
        let consumer = self.consumers.get_mut(name)?;
        let again =
            consumer.due.first().copied().filter(|(due, _)| *due <= now).map(|(_, sequence)| sequence);
        let (sequence, attempts) = match again {
            Some(sequence) => (sequence, consumer.forget(sequence).map_or(1, |entry| entry.attempts + 1)),
            None => {
                let fresh = self
                    .messages
                    .range(consumer.cursor + 1..)
                    .find(|(_, message)| subject::matches(&consumer.filter, &message.wire.subject));
                let Some((sequence, _)) = fresh else {
                    consumer.cursor = self.last_sequence;
                    return None;
                };
                consumer.cursor = *sequence;
                (*sequence, 1)
            }
        };
        consumer.remember(sequence, Unacknowledged { due: now + ack_wait, attempts });
        Some((sequence, attempts, self.messages.get(&sequence)?.clone()))
    }

    /// Returns the time at which a consumer's next message is due again.
    pub(super) fn due(&self, name: &str) -> Option<Instant> {
        self.consumers.get(name)?.due.first().map(|(due, _)| *due)
    }

    pub(super) fn ack(&mut self, name: &str, sequence: u64) {
        if let Some(consumer) = self.consumers.get_mut(name) {
            consumer.forget(sequence);
        }
    }

    /// Sets the time of a message's next delivery. Has no effect if the message was acknowledged or
    /// superseded.
    pub(super) fn put_off(&mut self, name: &str, sequence: u64, due: Instant) {
        if let Some(consumer) = self.consumers.get_mut(name)
            && let Some(entry) = consumer.forget(sequence)
        {
            consumer.remember(sequence, Unacknowledged { due, ..entry });
        }
    }

    pub(super) fn work_state(&self, name: &str) -> WorkState {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        self.consumers.get(name).map_or(WorkState { pending: 0, unacknowledged: 0 }, |consumer| WorkState {
            pending: count(self.after(consumer.cursor, std::slice::from_ref(&consumer.filter)).count()),
            unacknowledged: count(consumer.unacknowledged.len()),
        })
    }

    pub(super) fn prune(&mut self, older_than: Duration, now: Timestamp) -> usize {
        let is_old = |message: &Message| {
            let age = now.duration_since(message.time);
            Duration::try_from(age).is_ok_and(|age| age >= older_than)
        };
        let is_unneeded = |sequence: &u64, message: &Message| {
            let concerned = |consumer: &&Consumer| subject::matches(&consumer.filter, &message.wire.subject);
            self.consumers.values().filter(concerned).all(|consumer| consumer.is_past(*sequence))
        };
        let doomed: Vec<_> = self
            .messages
            .iter()
            .filter(|(sequence, message)| {
                is_tombstone(&message.wire.event_type) && is_old(message) && is_unneeded(sequence, message)
                    || subject::matches(&subject::of_interests(), &message.wire.subject)
                        && is_expired(message, now)
            })
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in &doomed {
            self.remove(*sequence);
        }
        doomed.len()
    }
}

fn is_expired(message: &Message, now: Timestamp) -> bool {
    matches!(wire::decode(&message.wire), Ok(Record::Interest(interest)) if interest.expires < now)
}
