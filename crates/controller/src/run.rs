//! The loop of a controller: one task owns the queue, everything else talks to it.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use groundwork_bus::{Bus, Change, Delivery, Feed, Index, IndexFeed, Kind, ObjectId, Record, WorkQueue};
use groundwork_telemetry::{Condition, trace};
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::backoff::Backoff;
use crate::handler::{Failed, Handler, Key, Settled, Wake};
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::queue::{Ended, Offered, Queue, Started};
use crate::readiness::Readiness;
use crate::seen::Seen;
use crate::ticket::Ticket;

/// Unacknowledged events are announced as alive this often; consumers wait three times as long.
const PROGRESS: Duration = Duration::from_secs(10);
/// Pause after the bus refused something.
const BUS_PAUSE: Duration = Duration::from_secs(1);

/// What a controller works on.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the service, and of its consumers.
    pub service: &'static str,
    /// Kinds whose events are work, each through a queue that all replicas share.
    pub work: Vec<Kind>,
    /// Further kinds that the index holds.
    pub indexed: Vec<Kind>,
    /// Namespaces that the watcher was told to watch; empty for the whole cluster.
    pub namespaces: Vec<String>,
    /// Keys that are handled at the same time.
    pub concurrency: usize,
    pub backoff: Backoff,
}

impl Options {
    fn kinds(&self) -> Vec<Kind> {
        self.work.iter().chain(&self.indexed).cloned().collect()
    }
}

/// Runs a handler.
pub struct Controller {
    pub bus: Bus,
    pub objects: Objects,
    pub handler: Arc<dyn Handler>,
    pub options: Options,
    pub metrics: Metrics,
    /// Holds once the index is complete.
    pub ready: Condition,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("options", &self.options).finish_non_exhaustive()
    }
}

enum Message {
    Event {
        key: Key,
        object: ObjectId,
        version: String,
        arrival: Arrival,
    },
    Schedule {
        key: Key,
        at: Timestamp,
    },
    /// Versions that were seen before mean nothing any more.
    Reset,
}

/// An event on its way to its handling.
#[derive(Debug, Clone)]
struct Arrival {
    ticket: Arc<Ticket>,
    trace: Option<String>,
    time: Timestamp,
}

impl Controller {
    /// Works until `end` is cancelled; then finishes what runs, and gives the rest back to the bus.
    pub async fn run(self, end: CancellationToken) {
        let index = Index::in_namespaces(self.options.namespaces.clone());
        let (sender, mut receiver) = mpsc::channel(1024);
        let mut feeders = JoinSet::new();
        let readiness = Readiness::new(self.ready.clone());
        let follower = follow(
            self.bus.clone(),
            index.clone(),
            Arc::clone(&self.handler),
            self.options.kinds(),
            readiness.clone(),
            sender.clone(),
        );
        let until_end = end.clone();
        let follower = async move {
            until_end.run_until_cancelled(follower).await;
        };
        feeders.spawn(follower.in_current_span());
        for kind in self.options.work.clone() {
            let puller = Puller {
                bus: self.bus.clone(),
                index: index.clone(),
                handler: Arc::clone(&self.handler),
                service: self.options.service,
                kinds: self.options.kinds(),
                kind,
                readiness: readiness.clone(),
                slots: Arc::new(Semaphore::new(self.options.concurrency.saturating_mul(4).max(16))),
                batch: self.options.concurrency.max(1),
                sender: sender.clone(),
            };
            feeders.spawn(puller.run(end.clone()).in_current_span());
        }
        let mut worker = Worker {
            queue: Queue::new(self.options.backoff),
            running: JoinSet::new(),
            tasks: HashMap::new(),
            told: HashMap::new(),
            tickets: Vec::new(),
            controller: self,
            index,
        };
        worker.run(&mut receiver, &end).await;
        // They have ended, or are about to: what they hold goes back to the bus.
        while feeders.join_next().await.is_some() {}
        worker.drain(receiver).await;
    }
}

/// Keeps the index, and the deadlines that follow from it.
async fn follow(
    bus: Bus,
    index: Index,
    handler: Arc<dyn Handler>,
    kinds: Vec<Kind>,
    readiness: Readiness,
    sender: mpsc::Sender<Message>,
) {
    let mut feed = loop {
        match bus.index(&kinds).await {
            Ok(feed) => break feed,
            Err(error) => {
                readiness.index(Some(&format_args!("the index cannot be read: {error}")));
                tokio::time::sleep(BUS_PAUSE).await;
            }
        }
    };
    loop {
        let was_synced = index.synced(&kinds);
        let next = next_of(&mut feed, &bus, (!was_synced).then_some(&readiness)).await;
        index.apply(&next);
        let is_synced = index.synced(&kinds);
        match (was_synced, is_synced) {
            (false, true) => readiness.index(None),
            (true, false) => readiness.index(Some(&"the stream was rebuilt and is not complete yet")),
            _ => {}
        }
        if matches!(next, Feed::Reset) && sender.send(Message::Reset).await.is_err() {
            return;
        }
        let Feed::Record { record: Record::Object(event), .. } = &next else { continue };
        let Change::Applied(snapshot) = &event.change else { continue };
        if let Some((key, at)) = handler.deadline(&event.object, snapshot, !was_synced)
            && sender.send(Message::Schedule { key, at }).await.is_err()
        {
            return;
        }
    }
}

/// The next of a feed. While there is none, an index that is not complete says what it waits for.
async fn next_of(feed: &mut IndexFeed, bus: &Bus, waiting: Option<&Readiness>) -> Feed {
    let mut next = pin!(feed.next());
    loop {
        let Some(readiness) = waiting else { return next.await };
        tokio::select! {
            next = &mut next => return next,
            () = tokio::time::sleep(BUS_PAUSE) => readiness.index(Some(match bus.is_connected() {
                true => &"the stream is not complete yet: the watcher fills it",
                false => &"NATS does not answer",
            })),
        }
    }
}

/// Takes events of one kind off the bus.
struct Puller {
    bus: Bus,
    index: Index,
    handler: Arc<dyn Handler>,
    service: &'static str,
    kinds: Vec<Kind>,
    kind: Kind,
    readiness: Readiness,
    /// Bounds what is taken and not answered, so that replicas share the work.
    slots: Arc<Semaphore>,
    /// The most that is taken at once.
    batch: usize,
    sender: mpsc::Sender<Message>,
}

impl Puller {
    /// Until `end`; what was taken and not passed on is given back then.
    async fn run(self, end: CancellationToken) {
        let Some(mut queue) = end.run_until_cancelled(self.open()).await else { return };
        let mut taken = VecDeque::new();
        let told = self.tell(queue.trouble());
        let pulling = async { tokio::join!(self.pull(&mut queue, &mut taken), told) };
        end.run_until_cancelled(pulling).await;
        queue.close().await;
        for (delivery, _slot) in taken {
            delivery.retry_after(Duration::ZERO).await;
        }
    }

    async fn open(&self) -> WorkQueue {
        self.index.until_synced(&self.kinds).await;
        let mut told = None;
        loop {
            match self.bus.work(self.service, &self.kind).await {
                Ok(queue) => {
                    self.readiness.queue(&self.kind, None);
                    return queue;
                }
                Err(error) => {
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        tracing::warn!(kind = %self.kind, %error, "cannot take work from the bus; trying again");
                        self.readiness.queue(&self.kind, Some(&error));
                        told = Some(text);
                    }
                    tokio::time::sleep(BUS_PAUSE).await;
                }
            }
        }
    }

    /// A service whose queue is broken looks well and does nothing, so readiness says it.
    async fn tell(&self, mut trouble: watch::Receiver<Option<String>>) {
        while trouble.changed().await.is_ok() {
            let text = trouble.borrow_and_update().clone();
            self.readiness.queue(&self.kind, text.as_ref().map(|text| text as &dyn std::fmt::Display));
        }
    }

    async fn pull(&self, queue: &mut WorkQueue, taken: &mut VecDeque<(Delivery, OwnedSemaphorePermit)>) {
        loop {
            let slots = self.free_slots().await;
            taken.extend(queue.pull(slots.len()).await.into_iter().zip(slots));
            while let Some((delivery, _)) = taken.front() {
                self.index.passed(delivery.sequence).await;
                let Some((delivery, slot)) = taken.pop_front() else { break };
                if !self.pass_on(delivery, slot).await {
                    return;
                }
            }
        }
    }

    /// At least one.
    async fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        let mut slots: Vec<_> = Arc::clone(&self.slots).acquire_owned().await.into_iter().collect();
        slots.extend((1..self.batch).map_while(|_| Arc::clone(&self.slots).try_acquire_owned().ok()));
        slots
    }

    async fn pass_on(&self, delivery: Delivery, slot: OwnedSemaphorePermit) -> bool {
        let (event, receipt) = delivery.split();
        let mut keys = self.handler.keys(&event.object, &event.change, &self.index);
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            receipt.ack().await;
            return true;
        }
        let version = event.change.resource_version().to_owned();
        let ticket = Arc::new(Ticket::new(receipt, keys.len(), slot));
        for key in keys {
            let arrival =
                Arrival { ticket: Arc::clone(&ticket), trace: event.trace.clone(), time: event.time };
            let message =
                Message::Event { key, object: event.object.clone(), version: version.clone(), arrival };
            if self.sender.send(message).await.is_err() {
                return false;
            }
        }
        true
    }
}

struct Worker {
    controller: Controller,
    index: Index,
    queue: Queue<Arrival>,
    running: JoinSet<Finished>,
    /// Which key a task works on, should it not live to tell.
    tasks: HashMap<tokio::task::Id, Key>,
    /// What was logged about keys that fail.
    told: HashMap<Key, String>,
    tickets: Vec<Weak<Ticket>>,
}

struct Finished {
    key: Key,
    ended: Ended,
    seen: Seen,
    /// What was logged about it, while it fails.
    told: Option<String>,
}

impl Worker {
    async fn run(&mut self, messages: &mut mpsc::Receiver<Message>, end: &CancellationToken) {
        let mut progress = tokio::time::interval(PROGRESS);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.start_ready();
            self.controller.metrics.keys(self.queue.len());
            let timer = self.queue.next_time().unwrap_or_else(|| Instant::now() + PROGRESS);
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                Some(finished) = self.running.join_next_with_id() => self.finish(finished).await,
                Some(message) = messages.recv() => self.take(message).await,
                () = tokio::time::sleep_until(timer.into()) => {}
                _ = progress.tick() => self.announce().await,
            }
        }
    }

    async fn take(&mut self, message: Message) {
        let now = Instant::now();
        match message {
            Message::Reset => {
                self.queue.forget_versions();
                self.controller.handler.reset();
            }
            Message::Schedule { key, at } => {
                let wait = at.duration_since(Timestamp::now()).max(jiff::SignedDuration::ZERO);
                self.queue.schedule(&key, now + wait.unsigned_abs());
            }
            Message::Event { key, object, version, arrival } => {
                let ticket = Arc::clone(&arrival.ticket);
                self.tickets.push(Arc::downgrade(&ticket));
                match self.queue.offer(&key, object, version, arrival, now) {
                    Offered::Taken { has_joined, superseded } => {
                        // One key is one piece of work, however many events tell of it: they must not keep other keys away.
                        if has_joined {
                            ticket.free_slot().await;
                        }
                        if let Some(arrival) = superseded {
                            arrival.ticket.done().await;
                        }
                    }
                    Offered::Known(arrival) => {
                        self.controller.metrics.known();
                        arrival.ticket.done().await;
                    }
                    Offered::Later(arrival, delay) => arrival.ticket.later(delay).await,
                }
            }
        }
    }

    fn start_ready(&mut self) {
        while self.running.len() < self.controller.options.concurrency {
            let Some(started) = self.queue.start(Instant::now()) else { return };
            self.spawn(started);
        }
    }

    fn spawn(&mut self, started: Started<Arrival>) {
        let Started { key, changed, failures, latest } = started;
        let span = tracing::info_span!(
            "handle",
            otel.name = format!("{} handle", self.controller.options.service),
            otel.kind = "consumer",
            key = %key
        );
        if let Some(arrival) = latest {
            if let Some(parent) = &arrival.trace {
                trace::set_parent(&span, parent);
            }
            let reaction = Timestamp::now().duration_since(arrival.time).max(jiff::SignedDuration::ZERO);
            self.controller.metrics.reaction(reaction.unsigned_abs());
        }
        let key_of_task = key.clone();
        let handler = Arc::clone(&self.controller.handler);
        let objects = self.controller.objects.fresh();
        let index = self.index.clone();
        let metrics = self.controller.metrics.clone();
        let told = self.told.remove(&key);
        let attempt = async move {
            let start = Instant::now();
            let wake = Wake { key: &key, objects: &objects, index: &index, changed: &changed };
            let result = handler.handle(wake).await;
            let (seen, has_written) = objects.take_notes();
            let told = tell(&key, failures, told, &result);
            let (outcome, ended) = judge(&result, has_written);
            metrics.handled(outcome, start.elapsed());
            Finished { key, ended, seen, told }
        };
        let task = self.running.spawn(attempt.instrument(span));
        self.tasks.insert(task.id(), key_of_task);
    }

    async fn finish(&mut self, finished: Result<(tokio::task::Id, Finished), tokio::task::JoinError>) {
        let finished = match finished {
            Ok((task, finished)) => {
                self.tasks.remove(&task);
                finished
            }
            Err(error) => {
                // A panic in a handler is a bug; its key is tried again like one that failed.
                let Some(key) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(%key, %error, "a handler did not end");
                let ended = Ended::Failed { is_conflict: false, made_progress: false };
                Finished { key, ended, seen: Seen::default(), told: None }
            }
        };
        if let Some(told) = finished.told {
            self.told.insert(finished.key.clone(), told);
        }
        let answers = self.queue.finish(&finished.key, &finished.ended, finished.seen, Instant::now());
        for arrival in answers.acknowledge {
            arrival.ticket.done().await;
        }
        for (arrival, delay) in answers.later {
            arrival.ticket.later(delay).await;
        }
    }

    async fn announce(&mut self) {
        self.tickets.retain(|ticket| ticket.strong_count() > 0);
        for ticket in self.tickets.iter().filter_map(Weak::upgrade) {
            ticket.progress().await;
        }
    }

    /// Lets running attempts end; events that wait go back to the bus for others.
    async fn drain(&mut self, mut messages: mpsc::Receiver<Message>) {
        while let Ok(message) = messages.try_recv() {
            if let Message::Event { arrival, .. } = message {
                arrival.ticket.later(Duration::ZERO).await;
            }
        }
        while let Some(finished) = self.running.join_next_with_id().await {
            self.finish(finished).await;
        }
        for arrival in self.queue.abandon() {
            arrival.ticket.later(Duration::ZERO).await;
        }
    }
}

/// Logs why an attempt failed, unless that was logged about the key already: it is tried until it succeeds, and a line for each
/// attempt would hide those of others. The answer is what was logged, to be kept until the key succeeds.
fn tell(key: &Key, failures: u32, told: Option<String>, result: &Result<Settled, Failed>) -> Option<String> {
    let Err(Failed { message, is_conflict }) = result else { return None };
    if *is_conflict {
        tracing::debug!(%key, message, "will be decided again");
        return told;
    }
    if told.as_ref() == Some(message) {
        tracing::debug!(%key, failures = failures + 1, message, "will be tried again");
        return told;
    }
    tracing::warn!(%key, failures = failures + 1, message, "will be tried again");
    Some(message.clone())
}

fn judge(result: &Result<Settled, Failed>, made_progress: bool) -> (&'static str, Ended) {
    match result {
        Ok(Settled { has_more: true, .. }) => ("yielded", Ended::Yielded),
        Ok(Settled { look_again, .. }) => ("settled", Ended::Settled { look_again: *look_again }),
        Err(Failed { is_conflict, .. }) => {
            let outcome = if *is_conflict { "conflict" } else { "failed" };
            (outcome, Ended::Failed { is_conflict: *is_conflict, made_progress })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_of_a_key_is_told_once() {
        let key = Key::new(Kind::new("", "things"), None, "a");
        let after = |told: Option<&str>, result| tell(&key, 0, told.map(str::to_owned), &result);
        let failed = |message: &str| Err(Failed::new(message.to_owned()));
        assert_eq!(after(None, failed("away")).as_deref(), Some("away"));
        assert_eq!(after(Some("away"), failed("away")).as_deref(), Some("away"));
        assert_eq!(after(Some("away"), failed("refused")).as_deref(), Some("refused"));
        let conflict = Err(Failed { message: "conflict".to_owned(), is_conflict: true });
        assert_eq!(
            after(Some("away"), conflict).as_deref(),
            Some("away"),
            "it says nothing about the trouble"
        );
        assert_eq!(after(Some("away"), Ok(Settled::default())), None);
    }
}
