//! The journal of a service: entries about the keys that it handles, written without blocking the
//! handlers.
//!
//! An entry goes into a bounded queue and from there, in batches, to the bus. Entries that do not
//! fit into the queue, or that the bus does not store, are counted, and an entry of the journal
//! reports their number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_bus::{About, Bus, BusError, Entry, ObjectId, What};
use groundwork_telemetry::{Metrics as Registry, Telemetry};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

/// Maximum entries that wait to be sent. With a sentence each they take about two megabytes.
const QUEUE: usize = 4096;
/// Maximum entries in one batch.
const BATCH: usize = 256;
/// Time that the first entry of a batch waits for others.
const LINGER: Duration = Duration::from_millis(50);
/// Pause before the next attempt to reach the bus.
const PAUSE: Duration = Duration::from_millis(500);
/// Time that a service waits at its end for the last entries to be sent.
const LAST_ENTRIES: Duration = Duration::from_secs(2);
/// Maximum number of keys whose last wait is remembered.
const MOST_WAITS: usize = 10_000;

/// The journal of one service. Clones share a queue. The default journal discards all entries.
#[derive(Clone, Default)]
pub struct Journal(Option<Arc<Inner>>);

struct Inner {
    service: &'static str,
    instance: String,
    sender: mpsc::Sender<Message>,
    lost: Arc<Lost>,
    /// Last recorded wait of each key. A key that waits is handled repeatedly, and the same wait
    /// is not worth another entry.
    waits: Mutex<HashMap<ObjectId, (String, String)>>,
}

enum Message {
    Entry(Box<Entry>),
    /// Answered when every entry before it was sent or lost.
    Flush(oneshot::Sender<()>),
}

/// Entries that were lost and not yet reported.
struct Lost {
    service: &'static str,
    count: AtomicU64,
    entries: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    service: &'static str,
    outcome: &'static str,
}

impl Lost {
    fn new(registry: &Registry, service: &'static str) -> Self {
        let entries: Family<Labels, Counter> = registry.register(
            "journal_entries",
            "Entries for the journal, by outcome: written, dropped (the queue was full), lost (the bus did not store them)",
            &["service", "outcome"],
            Family::default(),
        );
        for outcome in ["written", "dropped", "lost"] {
            // Create the counters now, so that they show 0 instead of being absent.
            entries.get_or_create(&Labels { service, outcome }).inc_by(0);
        }
        Self { service, count: AtomicU64::new(0), entries }
    }

    fn count(&self, outcome: &'static str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.entries.get_or_create(&Labels { service: self.service, outcome }).inc_by(count);
        if outcome != "written" {
            self.count.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Journal").field(&self.0.as_ref().map(|inner| inner.service)).finish()
    }
}

impl Journal {
    /// Starts the journal on a bus. A task of its own sends the entries, until the last clone is
    /// dropped.
    pub fn start(bus: &Bus, service: &'static str, telemetry: &Telemetry) -> Self {
        let lost = Lost::new(&telemetry.metrics, service);
        let (journal, receiver) = Self::with_queue(service, lost, QUEUE);
        if let Some(inner) = &journal.0 {
            let sending = Sending {
                bus: bus.clone(),
                instance: inner.instance.clone(),
                lost: Arc::clone(&inner.lost),
                problem: None,
                lost_since: Timestamp::now(),
            };
            tokio::spawn(sending.run(receiver).in_current_span());
        }
        journal
    }

    fn with_queue(service: &'static str, lost: Lost, length: usize) -> (Self, mpsc::Receiver<Message>) {
        // Sent by `Scribe`, received by `Sending::run` in this file, which publishes to the bus.
        let (sender, receiver) = mpsc::channel(length);
        let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty());
        let instance = host.unwrap_or_else(|| std::process::id().to_string());
        let inner = Inner { service, instance, sender, lost: Arc::new(lost), waits: Mutex::default() };
        (Self(Some(Arc::new(inner))), receiver)
    }

    /// Returns the writer of the entries about one attempt at a key.
    pub fn scribe<'a>(&'a self, key: &'a ObjectId) -> Scribe<'a> {
        Scribe {
            journal: self,
            key,
            parent: String::new(),
            job: String::new(),
            held: Vec::new(),
            has_decided: false,
        }
    }

    /// Waits until all recorded entries are sent. Call this when the service ends.
    pub async fn flush(&self) {
        let Some(inner) = &self.0 else { return };
        let (sender, done) = oneshot::channel();
        let flushed = async {
            if inner.sender.send(Message::Flush(sender)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = tokio::time::timeout(LAST_ENTRIES, flushed).await;
    }
}

impl Inner {
    /// Queues an entry without waiting.
    fn record(&self, entry: Entry) {
        if self.is_known_wait(&entry) {
            return;
        }
        if self.sender.try_send(Message::Entry(Box::new(entry))).is_err() {
            self.lost.count("dropped", 1);
        }
    }

    /// Reports whether a key still waits for the same thing as before.
    fn is_known_wait(&self, entry: &Entry) -> bool {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.what != What::Wait {
            // An event that a key has seen does not end its wait; any other entry does.
            if entry.what != What::Event {
                waits.remove(&entry.key);
            }
            return false;
        }
        if waits.len() >= MOST_WAITS {
            waits.clear();
        }
        let now = (entry.job.clone(), entry.text.clone());
        waits.insert(entry.key.clone(), now.clone()) == Some(now)
    }
}

/// The task that sends queued entries.
struct Sending {
    bus: Bus,
    instance: String,
    lost: Arc<Lost>,
    /// Last logged problem.
    problem: Option<String>,
    /// Time of the last successful write.
    lost_since: Timestamp,
}

impl Sending {
    async fn run(mut self, mut receiver: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        loop {
            let Some(first) = receiver.recv().await else { return };
            let is_flush = matches!(first, Message::Flush(_));
            messages.push(first);
            if !is_flush {
                tokio::time::sleep(LINGER).await;
            }
            while messages.len() < BATCH
                && let Ok(message) = receiver.try_recv()
            {
                messages.push(message);
            }
            // Wait for a connection first. Meanwhile the queue fills, and entries beyond its limit
            // are dropped.
            while let Err(error) = self.bus.journal_ready().await {
                self.report(&error);
                if receiver.is_closed() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
            self.send(messages.drain(..)).await;
        }
    }

    async fn send(&mut self, messages: impl Iterator<Item = Message>) {
        let (mut entries, mut waiting) = (Vec::with_capacity(BATCH), Vec::new());
        for message in messages {
            match message {
                Message::Entry(entry) => entries.push(*entry),
                Message::Flush(done) => waiting.push(done),
            }
        }
        let told = self.lost.count.load(Ordering::Relaxed);
        let count = entries.len();
        if told > 0 {
            entries.push(Entry::loss(self.lost.service, &self.instance, told, self.lost_since));
        }
        match self.bus.write_journal(&entries).await {
            Ok(()) => {
                self.lost.count("written", count);
                self.lost.count.fetch_sub(told, Ordering::Relaxed);
                self.lost_since = Timestamp::now();
                if self.problem.take().is_some() {
                    tracing::info!("the journal is written again");
                }
            }
            Err(error) => {
                self.lost.count("lost", count);
                self.report(&error);
            }
        }
        for done in waiting {
            // The waiter may have been dropped, which is fine.
            let _ = done.send(());
        }
    }

    /// Logs a problem, unless it was logged last.
    fn report(&mut self, error: &BusError) {
        let problem = error.to_string();
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(%error, "the journal cannot be written; jobs continue without it");
            self.problem = Some(problem);
        }
    }
}

/// One remark of a service for the journal.
#[derive(Debug, Clone, Default)]
pub struct Note {
    pub about: About,
    /// Reason in one word.
    pub reason: String,
    /// A sentence without any value of an import, a Secret or a chart.
    pub text: String,
    pub seen: Option<String>,
    pub written: Option<String>,
}

/// Writes the journal entries of one attempt at a key. Seen events are recorded only once something
/// follows from them, and entries from before the job is known are recorded with the job.
#[derive(Debug)]
pub struct Scribe<'a> {
    journal: &'a Journal,
    key: &'a ObjectId,
    parent: String,
    job: String,
    held: Vec<Entry>,
    has_decided: bool,
}

impl Scribe<'_> {
    /// Reports whether entries are kept at all.
    pub fn is_heard(&self) -> bool {
        self.journal.0.is_some()
    }

    /// Reports whether an entry other than an event was recorded.
    pub fn has_decided(&self) -> bool {
        self.has_decided
    }

    /// Sets the job that runs now, and the Installation to which the key belongs.
    pub fn set_job(&mut self, job: &str, parent: Option<&str>) {
        if self.is_heard() && (self.job != job || self.parent != parent.unwrap_or_default()) {
            job.clone_into(&mut self.job);
            parent.unwrap_or_default().clone_into(&mut self.parent);
        }
        self.pass_on();
    }

    /// Records a remark of the attempt, without waiting.
    pub fn note(&mut self, what: What, note: Note) {
        let Some(inner) = &self.journal.0 else { return };
        self.held.push(Entry {
            time: Timestamp::now(),
            service: inner.service.to_owned(),
            instance: inner.instance.clone(),
            key: self.key.clone(),
            parent: String::new(),
            job: self.job.clone(),
            what,
            about: note.about,
            reason: note.reason,
            text: note.text,
            seen: note.seen.unwrap_or_default(),
            written: note.written.unwrap_or_default(),
        });
        self.has_decided |= what != What::Event;
        self.pass_on();
    }

    fn pass_on(&mut self) {
        if self.has_decided && !self.job.is_empty() {
            self.release();
        }
    }

    fn release(&mut self) {
        let Some(inner) = &self.journal.0 else { return };
        for mut entry in self.held.drain(..) {
            if entry.job.is_empty() {
                entry.job.clone_from(&self.job);
            }
            entry.parent.clone_from(&self.parent);
            inner.record(entry);
        }
    }
}

impl Drop for Scribe<'_> {
    fn drop(&mut self) {
        if self.has_decided {
            self.release();
        }
    }
}

#[cfg(test)]
mod tests;
