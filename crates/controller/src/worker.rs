//! The task that owns the queue of a controller: it starts attempts, and answers the bus when they
//! end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use groundwork_bus::{Index, ObjectId};
use groundwork_telemetry::trace;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::casualties::{self, Past};
use crate::controller::{Arrival, Controller, Message};
use crate::findings::Findings;
use crate::known_versions::KnownVersions;
use crate::objects::Observations;
use crate::queue::{Attempt, AttemptEnd, Offered, Queue};
use crate::reconcile::{Key, ReconcileError, ReconcileRequest, Reconciled, SetAside, Waker};
use crate::shared_delivery::SharedDelivery;

/// Interval at which unanswered events are reported in progress. Consumers wait three times as long
/// before they deliver an event again.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Worker {
    controller: Controller,
    index: Index,
    queue: Queue<Arrival>,
    running: JoinSet<Finished>,
    /// Key of each task, for the case that the task panics.
    tasks: HashMap<tokio::task::Id, Key>,
    /// Last logged error of each failing key.
    logged: HashMap<Key, String>,
    /// Deliveries that are not answered yet, and some that already are.
    deliveries: Vec<Weak<SharedDelivery>>,
    findings: Findings,
    /// Namespaces for which a metric of a full share is set.
    told_shares: HashSet<String>,
    /// Message at an object that is set aside.
    set_aside: Arc<str>,
    /// Sender of messages to this worker.
    sender: mpsc::Sender<Message>,
}

/// Returns the time of the clock that timers use.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// An attempt that has ended.
struct Finished {
    key: Key,
    ended: AttemptEnd,
    known: KnownVersions,
    /// Last logged error of the key, while it fails.
    logged: Option<String>,
    /// Versions that the attempt has written.
    written: Vec<(ObjectId, String)>,
}

impl Worker {
    pub(crate) fn new(controller: Controller, index: Index, sender: mpsc::Sender<Message>) -> Self {
        let mut told_shares = HashSet::new();
        controller.metrics.full_shares(controller.options.service, &mut told_shares, std::iter::empty());
        Self {
            queue: Queue::new(
                controller.options.backoff,
                controller.options.concurrency,
                controller.casualties.suspects(controller.options.service),
            ),
            running: JoinSet::new(),
            tasks: HashMap::new(),
            logged: HashMap::new(),
            deliveries: Vec::new(),
            findings: Findings::default(),
            told_shares,
            set_aside: casualties::words(controller.options.service).into(),
            sender,
            controller,
            index,
        }
    }

    /// Works until `end` is cancelled.
    pub(crate) async fn run(&mut self, messages: &mut mpsc::Receiver<Message>, end: &CancellationToken) {
        let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.start_ready();
            self.controller.metrics.keys(self.queue.len());
            let timer = self.queue.next_time().unwrap_or_else(|| now() + PROGRESS_INTERVAL);
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                // Before messages in this `select!`: even under many messages the bus must learn
                // that the waiting events are still in progress.
                _ = progress.tick() => {
                    self.tell_findings();
                    let shares = self.queue.full_shares();
                    self.controller.metrics.full_shares(self.controller.options.service, &mut self.told_shares, shares);
                    self.announce_progress().await;
                }
                Some(finished) = self.running.join_next_with_id() => self.finish(finished).await,
                // Sent by the feeders; `Controller::run_with` makes the channel.
                Some(message) = messages.recv() => self.handle_message(message).await,
                () = tokio::time::sleep_until(timer.into()) => {}
            }
        }
    }

    async fn handle_message(&mut self, message: Message) {
        let now = now();
        match message {
            Message::Reset => {
                self.queue.forget_versions();
                self.controller.handler.reset();
            }
            Message::Schedule { key, at } => {
                let wait = at.duration_since(Timestamp::now()).max(jiff::SignedDuration::ZERO);
                self.queue.schedule(&key, now + wait.unsigned_abs());
            }
            Message::Wake { key } => self.queue.wake(&key),
            Message::Recheck { key } => self.queue.recheck(&key, now),
            Message::Event { key, object, sight, arrival } => {
                self.deliveries.push(Arc::downgrade(&arrival.delivery));
                self.findings.told(&key, &object, &sight);
                let concerns = arrival.delivery.concerns();
                match self.queue.offer(&key, concerns, (object, sight), arrival, now) {
                    Offered::Queued { superseded: None } => {}
                    Offered::Queued { superseded: Some(arrival) } => arrival.delivery.key_done().await,
                    Offered::Known(arrival) => {
                        self.controller.metrics.known();
                        arrival.delivery.key_done().await;
                    }
                    Offered::Redeliver(arrival, delay) => arrival.delivery.key_failed(delay).await,
                }
            }
        }
    }

    fn start_ready(&mut self) {
        while let Some(attempt) = self.queue.start(now()) {
            self.spawn(attempt);
        }
    }

    fn spawn(&mut self, attempt: Attempt<Arrival>) {
        let Attempt { key, changed, failures, latest, reads_anew, is_unasked } = attempt;
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
        if is_unasked {
            self.findings.begin(&key);
        }
        let key_of_task = key.clone();
        let handler = Arc::clone(&self.controller.handler);
        let objects = self.controller.objects.for_attempt();
        let index = self.index.clone();
        let metrics = self.controller.metrics.clone();
        let logged = self.logged.remove(&key);
        let waker = Waker { key: key.clone(), messages: self.sender.clone() };
        let service = self.controller.options.service;
        let casualties = &self.controller.casualties;
        let is_due = casualties.past(service, &key) == Past::Guilty;
        let words = Arc::clone(&self.set_aside);
        let in_hand = casualties.begin(service, &key);
        let run = async move {
            let start = Instant::now();
            let request = ReconcileRequest {
                key: &key,
                objects: &objects,
                index: &index,
                changed: &changed,
                reads_anew,
                waker: &waker,
                set_aside: SetAside { words: &words, is_due },
            };
            let result = handler.reconcile(request).await;
            if matches!(result, Ok(Reconciled { requeue: false, .. })) {
                in_hand.done();
            }
            let Observations { known, has_written, written } = objects.take_observations();
            let logged = log_failure(&key, failures, logged, &result);
            let (outcome, ended) = end_of(&result, has_written);
            metrics.handled(outcome, start.elapsed());
            Finished { key, ended, known, logged, written }
        };
        let task = self.running.spawn(run.instrument(span));
        self.tasks.insert(task.id(), key_of_task);
    }

    async fn finish(&mut self, finished: Result<(tokio::task::Id, Finished), tokio::task::JoinError>) {
        let finished = match finished {
            Ok((task, finished)) => {
                self.tasks.remove(&task);
                finished
            }
            Err(error) => {
                // A panic in a handler is a bug; retry its key like one that failed.
                let Some(key) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(%key, %error, "a handler panicked; its key is handled again");
                let ended = AttemptEnd::Failed { is_conflict: false, made_progress: false };
                Finished { key, ended, known: KnownVersions::default(), logged: None, written: Vec::new() }
            }
        };
        if let Some(logged) = finished.logged {
            self.logged.insert(finished.key.clone(), logged);
        }
        self.findings.end(&finished.key, finished.written, now());
        let answers = self.queue.finish(&finished.key, &finished.ended, finished.known, now());
        for arrival in answers.acknowledge {
            arrival.delivery.key_done().await;
        }
        for (arrival, delay) in answers.redeliver {
            arrival.delivery.key_failed(delay).await;
        }
    }

    /// Counts and logs changes that rechecks have found although no event about them arrived.
    fn tell_findings(&mut self) {
        for key in self.findings.take_untold(now()) {
            tracing::warn!(%key, "a periodic check found a change that no event reported");
            self.controller.metrics.untold();
        }
    }

    /// Reports the events to the bus as in progress, so that the bus does not deliver them again.
    async fn announce_progress(&mut self) {
        self.deliveries.retain(|delivery| delivery.strong_count() > 0);
        for delivery in self.deliveries.iter().filter_map(Weak::upgrade) {
            delivery.progress().await;
        }
    }

    /// Lets running attempts end, and hands the waiting events back to the bus, for other replicas.
    pub(crate) async fn drain(&mut self, mut messages: mpsc::Receiver<Message>) {
        while let Ok(message) = messages.try_recv() {
            if let Message::Event { arrival, .. } = message {
                arrival.delivery.key_failed(Duration::ZERO).await;
            }
        }
        while let Some(finished) = self.running.join_next_with_id().await {
            self.finish(finished).await;
        }
        for arrival in self.queue.abandon() {
            arrival.delivery.key_failed(Duration::ZERO).await;
        }
    }
}

/// Logs the reason of a failed attempt, unless the same reason was already logged for the key. A
/// key is retried until it succeeds, and a line for each attempt would hide the lines of other
/// keys. Returns the logged text, to be kept until the key succeeds.
fn log_failure(
    key: &Key,
    failures: u32,
    logged: Option<String>,
    result: &Result<Reconciled, ReconcileError>,
) -> Option<String> {
    let Err(ReconcileError { message, is_conflict }) = result else { return None };
    if *is_conflict {
        tracing::debug!(%key, "another client wrote first; deciding again: {message}");
        return logged;
    }
    if logged.as_ref() == Some(message) {
        tracing::debug!(%key, failures = failures + 1, "the attempt failed; trying again: {message}");
        return logged;
    }
    tracing::warn!(%key, failures = failures + 1, "the attempt failed; trying again: {message}");
    Some(message.clone())
}

/// Returns the outcome for the metrics and for the queue.
fn end_of(result: &Result<Reconciled, ReconcileError>, made_progress: bool) -> (&'static str, AttemptEnd) {
    match result {
        Ok(Reconciled { requeue: true, .. }) => ("yielded", AttemptEnd::Requeued),
        Ok(Reconciled { requeue_after, .. }) => {
            ("settled", AttemptEnd::Reconciled { requeue_after: *requeue_after })
        }
        Err(ReconcileError { is_conflict, .. }) => {
            let outcome = if *is_conflict { "conflict" } else { "failed" };
            (outcome, AttemptEnd::Failed { is_conflict: *is_conflict, made_progress })
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    #[test]
    fn the_same_failure_of_a_key_is_told_once() {
        let key = Key::new(Kind::new("", "things"), None, "a");
        let after = |logged: Option<&str>, result| log_failure(&key, 0, logged.map(str::to_owned), &result);
        let failed = |message: &str| Err(ReconcileError::new(message.to_owned()));
        assert_eq!(after(None, failed("away")).as_deref(), Some("away"));
        assert_eq!(after(Some("away"), failed("away")).as_deref(), Some("away"));
        assert_eq!(after(Some("away"), failed("refused")).as_deref(), Some("refused"));
        let conflict = Err(ReconcileError { message: "conflict".to_owned(), is_conflict: true });
        assert_eq!(
            after(Some("away"), conflict).as_deref(),
            Some("away"),
            "it says nothing about the trouble"
        );
        assert_eq!(after(Some("away"), Ok(Reconciled::default())), None);
    }
}
