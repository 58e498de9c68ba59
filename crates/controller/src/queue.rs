//! Chooses the next key: order, back-off and coalescing of events. The queue has no clock and no
//! tasks of its own, so tests need neither.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use groundwork_bus::{Backoff, ObjectId};
use groundwork_turns::{Places, Rota};

use crate::known_versions::{KnownVersions, Sight};
use crate::reconcile::Key;

/// Total number of places, as a multiple of a namespace's share. While keys of some namespaces wait
/// for slow registries or silent Targets, other namespaces still have places.
const SHARES: usize = 8;
/// Shortest pause after a conflict. Another writer was faster, and a new attempt is likely to
/// succeed.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// A failing key is retried from memory. Its event comes back this much later than the retry, in
/// case the process has died meanwhile.
const REDELIVERY_MARGIN: Duration = Duration::from_secs(20);
/// Shortest interval between redeliveries of events of failing keys, all together. The bus delivers
/// returned events before new ones, so a faster stream of them would keep all other events away.
const REDELIVERY_INTERVAL: Duration = Duration::from_millis(50);
/// A recheck (an attempt without an event) is skipped if the key has another attempt within this
/// time.
const SOON: Duration = Duration::from_secs(60);
/// One of this many attempts goes to a failed key, even while other keys are ready.
const FAILED_TURN: u32 = 4;
/// One of this many attempts goes to a suspect, during whose handling a process died, even while
/// other keys are ready.
const SUSPECT_TURN: u32 = 64;
/// Maximum keys of all namespaces that wait for a place, beside a few of each namespace. Events of
/// further keys go back to the bus for a while, so that memory is bounded and other replicas get
/// their part.
const MOST_WAITING: usize = 1000;
/// Multiple of its share that every namespace may have waiting, regardless of the others.
const SHARES_WAITING: usize = 2;
/// Shortest delay of an event that goes back to the bus because too many keys wait.
const FIRST_RETURN: Duration = Duration::from_secs(2);
/// Interval between two returning events of one namespace.
const RETURN_INTERVAL: Duration = Duration::from_millis(2);
/// Number of namespaces above which old return times are removed.
const MOST_RETURNS: usize = 100;
/// Number of idle keys above which their known versions are dropped. Without known versions, events
/// that show nothing new are handled again.
const MAX_IDLE_KEYS: usize = 50_000;

/// Returns the namespace of a key; empty for cluster-scoped objects, which count as one namespace.
fn namespace_of(key: &Key) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

/// Keys and the events (`T`) that wait for them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    backoff: Backoff,
    entries: HashMap<Key, Entry<T>>,
    /// Number of entries that have failed.
    failing: u32,
    /// Number of idle entries, which have no work before their timer.
    resting: usize,
    redelivery: Redelivery,
    returns: Returns,
    places: Places,
    ready: Rota<Key>,
    /// Failed keys that are due again. A key that became ready for another reason meanwhile is
    /// skipped here.
    ready_after_failure: Rota<Key>,
    /// Keys during whose handling an earlier process died.
    suspects: HashSet<Key>,
    ready_suspects: Rota<Key>,
    /// The suspect that is being handled. Only one runs at a time, so that a further death
    /// identifies the cause.
    suspect_in_hand: Option<Key>,
    turn: u32,
    timers: BTreeSet<(Instant, Key)>,
    /// Versions that the last successful attempt of each idle key has read and written.
    idle: HashMap<Key, KnownVersions>,
}

#[derive(Debug)]
struct Entry<T> {
    state: State,
    /// Events that the current attempt handles; they are answered at its end.
    in_attempt: Vec<Waiting<T>>,
    /// Events for the next attempt: the newest about each object.
    waiting: HashMap<ObjectId, (Sight, T)>,
    /// Object of the newest event.
    latest: Option<ObjectId>,
    /// States that failed attempts have handled. An event about them does not cut the pause short.
    tried: KnownVersions,
    failures: u32,
    timer: Option<Instant>,
    /// The key was woken while it was being handled. The handler may have read the changed state
    /// before the change, so the key is handled once more.
    is_woken: bool,
    /// The next attempt must not use cached state.
    reads_anew: bool,
    /// True if a recheck is the only reason for the next attempt, which no event asked for.
    is_unasked: bool,
    /// Versions that earlier parts of an attempt have read and written, if it runs in parts.
    known_so_far: KnownVersions,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Pausing,
    /// The key has no work until its timer.
    Idle,
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self {
            state: State::Idle,
            in_attempt: Vec::new(),
            waiting: HashMap::new(),
            latest: None,
            tried: KnownVersions::default(),
            failures: 0,
            timer: None,
            is_woken: false,
            reads_anew: false,
            is_unasked: false,
            known_so_far: KnownVersions::default(),
        }
    }
}

impl<T> Entry<T> {
    /// Returns an idle entry, and counts it in `resting`.
    fn new(resting: &mut usize) -> Self {
        *resting += 1;
        Self::default()
    }

    /// Lets an event wait. Of several events about one object only the newest waits. Returns the
    /// older one, which needs no attempt any more.
    fn wait(&mut self, event: Waiting<T>) -> Option<T> {
        if self.waiting.get(&event.object).is_some_and(|(waits, _)| event.sight.is_before(waits)) {
            return Some(event.delivery);
        }
        self.latest = Some(event.object.clone());
        self.waiting.insert(event.object, (event.sight, event.delivery)).map(|(_, superseded)| superseded)
    }

    fn set_state(&mut self, state: State, resting: &mut usize) {
        *resting -= usize::from(self.state == State::Idle);
        *resting += usize::from(state == State::Idle);
        self.state = state;
    }

    fn set_failures(&mut self, failures: u32, failing: &mut u32) {
        *failing -= u32::from(self.failures > 0);
        *failing += u32::from(failures > 0);
        self.failures = failures;
    }
}

#[derive(Debug)]
struct Waiting<T> {
    object: ObjectId,
    sight: Sight,
    delivery: T,
}

/// One of the lists in which ready keys wait for their attempts.
#[derive(Debug, Clone, Copy)]
enum Lane {
    Others,
    AfterFailure,
    Suspects,
}

/// Number of keys that an event concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concerns {
    OneKey,
    Several,
}

/// Fate of an offered event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered<T> {
    /// The event waits for its key.
    Queued {
        /// The older of two events about the same object: acknowledge it.
        superseded: Option<T>,
    },
    /// The event shows nothing new: acknowledge it.
    Known(T),
    /// The key is in its back-off, or too many keys of its namespace wait: have the bus deliver the
    /// event again after a delay.
    Redeliver(T, Duration),
}

/// A key to handle now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt<T> {
    pub(crate) key: Key,
    /// The newest event, if there was one.
    pub(crate) latest: Option<T>,
    pub(crate) changed: Vec<(ObjectId, Sight)>,
    pub(crate) failures: u32,
    /// The attempt must not use cached state.
    pub(crate) reads_anew: bool,
    /// The only reason for the attempt is that the key has not come to rest.
    pub(crate) is_unasked: bool,
}

/// Outcome of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Reconciled {
        requeue_after: Option<Duration>,
    },
    /// Only a part was done. The rest follows after the other keys.
    Requeued,
    Failed {
        is_conflict: bool,
        made_progress: bool,
    },
}

/// Events to answer after an attempt.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    pub(crate) acknowledge: Vec<T>,
    /// Events to be delivered again, each after its delay.
    pub(crate) redeliver: Vec<(T, Duration)>,
}

/// Times at which the events of failing keys are delivered again.
#[derive(Debug, Default)]
struct Redelivery {
    last: Option<Instant>,
}

impl Redelivery {
    /// Returns the redelivery time for a key with its next attempt at `next`, while this many keys
    /// fail. Redeliveries follow one another, and start over when each key had one.
    fn after(&mut self, next: Instant, failing: u32) -> Instant {
        let earliest = next + REDELIVERY_MARGIN;
        let latest = next + REDELIVERY_MARGIN.max(REDELIVERY_INTERVAL.saturating_mul(failing));
        let in_turn = self.last.map_or(earliest, |last| earliest.max(last + REDELIVERY_INTERVAL));
        let at = if in_turn > latest { earliest } else { in_turn };
        self.last = Some(at);
        at
    }
}

/// Time of the last returned event, by namespace.
#[derive(Debug, Default)]
struct Returns(HashMap<String, Instant>);

impl Returns {
    fn after(&mut self, namespace: &str, now: Instant) -> Duration {
        if self.0.len() >= MOST_RETURNS {
            self.0.retain(|_, last| *last > now);
        }
        let earliest = now + FIRST_RETURN;
        let at = self.0.get(namespace).map_or(earliest, |last| earliest.max(*last + RETURN_INTERVAL));
        self.0.insert(namespace.to_owned(), at);
        at - now
    }
}

impl<T: Clone> Queue<T> {
    /// Creates a queue. `share` is the number of keys of one namespace that may be handled at a
    /// time. `suspects` are handled after all other keys.
    pub(crate) fn new(backoff: Backoff, share: usize, suspects: impl IntoIterator<Item = Key>) -> Self {
        Self {
            backoff,
            entries: HashMap::new(),
            failing: 0,
            resting: 0,
            redelivery: Redelivery::default(),
            returns: Returns::default(),
            places: Places::new(share.max(1).saturating_mul(SHARES), share),
            ready: Rota::default(),
            ready_after_failure: Rota::default(),
            suspects: suspects.into_iter().collect(),
            ready_suspects: Rota::default(),
            suspect_in_hand: None,
            turn: 1,
            timers: BTreeSet::new(),
            idle: HashMap::new(),
        }
    }

    /// Offers an event for a key. If `concerns` says that the event concerns other keys as well,
    /// the event is never sent back because of too many waiting keys: each redelivery would reach
    /// the other keys again.
    pub(crate) fn offer(
        &mut self,
        key: &Key,
        concerns: Concerns,
        (object, sight): (ObjectId, Sight),
        delivery: T,
        now: Instant,
    ) -> Offered<T> {
        if self.idle.get(key).is_some_and(|known| known.covers(&object, &sight)) {
            return Offered::Known(delivery);
        }
        let is_idle = self.entries.get(key).is_none_or(|entry| entry.state == State::Idle);
        let namespace = namespace_of(key);
        let are_many = || self.ready.waiting_of(namespace) >= self.most_waiting();
        if is_idle && concerns == Concerns::OneKey && are_many() {
            return Offered::Redeliver(delivery, self.returns.after(namespace, now));
        }
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        if entry.known_so_far.covers(&object, &sight) {
            return Offered::Known(delivery);
        }
        let is_news = !entry.tried.covers(&object, &sight);
        // A key that is due again after a failure may wait for long. Its events must not block
        // those of others at the bus.
        if !is_news && (entry.state == State::Pausing || entry.state == State::Ready && entry.failures > 0) {
            let next = entry.timer.unwrap_or(now).max(now);
            return Offered::Redeliver(delivery, self.redelivery.after(next, self.failing) - now);
        }
        let superseded = entry.wait(Waiting { object, sight, delivery });
        match entry.state {
            // A new state may have removed the cause of the failure, so end the pause.
            State::Pausing | State::Idle => {
                entry.set_failures(0, &mut self.failing);
                self.make_ready(key);
            }
            State::Ready if is_news && entry.failures > 0 => {
                entry.set_failures(0, &mut self.failing);
                self.push_ready(key);
            }
            State::Ready | State::Running => {}
        }
        Offered::Queued { superseded }
    }

    /// Returns the number of keys of one namespace that may wait.
    fn most_waiting(&self) -> usize {
        let part = MOST_WAITING / self.ready.tenants().max(1);
        part.max(self.places.share().saturating_mul(SHARES_WAITING))
    }

    /// Schedules a key for a time, or for now if that has passed. Replaces the earlier schedule of
    /// the key.
    pub(crate) fn schedule(&mut self, key: &Key, at: Instant) {
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        match entry.state {
            // A ready or pausing key has an attempt ahead anyway, which covers all work.
            State::Ready | State::Pausing => {}
            State::Running | State::Idle => {
                if let Some(old) = entry.timer.replace(at) {
                    self.timers.remove(&(old, key.clone()));
                }
                self.timers.insert((at, key.clone()));
            }
        }
    }

    /// Schedules a key for now, or once more if it is being handled, because its wait is over. A
    /// key that pauses after a failure keeps its back-off.
    pub(crate) fn wake(&mut self, key: &Key) {
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        entry.is_unasked = false;
        match entry.state {
            State::Ready | State::Pausing => {}
            State::Running => entry.is_woken = true,
            State::Idle => self.make_ready(key),
        }
    }

    /// Requests a recheck of the key that ignores cached state: with the next attempt if one is due
    /// soon, or else now. Keeps the key's timer.
    pub(crate) fn recheck(&mut self, key: &Key, now: Instant) {
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        entry.reads_anew = true;
        let comes_soon = entry.timer.is_some_and(|at| at <= now + SOON);
        if entry.state == State::Idle && !comes_soon {
            entry.is_unasked = true;
            entry.set_state(State::Ready, &mut self.resting);
            self.push_ready(key);
        }
    }

    /// Returns the next time at which [`Queue::start`] may return a key.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns a key to handle now, if there is one.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Attempt<T>> {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.timer = None;
            if entry.state == State::Running {
                // The key is due while it is being handled, so handle it once more afterwards.
                let again = now + self.backoff.first;
                entry.timer = Some(again);
                self.timers.insert((again, key));
            } else {
                entry.is_unasked = false;
                self.make_ready(&key);
            }
        }
        let key = self.next_ready()?;
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        entry.set_state(State::Running, &mut self.resting);
        entry.is_woken = false;
        let failures = entry.failures;
        let latest = entry.latest.take().and_then(|object| entry.waiting.get(&object));
        let latest = latest.map(|(_, delivery)| delivery.clone());
        let mut changed = Vec::with_capacity(entry.waiting.len());
        for (object, (sight, delivery)) in entry.waiting.drain() {
            entry.tried.add_told(object.clone(), &sight);
            changed.push((object.clone(), sight.clone()));
            entry.in_attempt.push(Waiting { object, sight, delivery });
        }
        let reads_anew = std::mem::take(&mut entry.reads_anew);
        let is_unasked = std::mem::take(&mut entry.is_unasked) && changed.is_empty();
        self.idle.remove(&key);
        Some(Attempt { key, changed, failures, latest, reads_anew, is_unasked })
    }

    /// Returns the next ready key. Keys that have not failed come first, so that failing keys do
    /// not delay others even if there is not enough time for all attempts.
    fn next_ready(&mut self) -> Option<Key> {
        use Lane::{AfterFailure, Others, Suspects};
        let lanes = match self.turn {
            turn if turn.is_multiple_of(SUSPECT_TURN) => [Suspects, Others, AfterFailure],
            turn if turn.is_multiple_of(FAILED_TURN) => [AfterFailure, Others, Suspects],
            _ => [Others, AfterFailure, Suspects],
        };
        let key = lanes.into_iter().find_map(|lane| self.pop(lane))?;
        if self.suspects.contains(&key) {
            self.suspect_in_hand = Some(key.clone());
        }
        self.turn = self.turn.wrapping_add(1);
        Some(key)
    }

    fn pop(&mut self, lane: Lane) -> Option<Key> {
        let entries = &self.entries;
        let is_ready = |key: &Key| entries.get(key).is_some_and(|entry| entry.state == State::Ready);
        let has_failed = |key: &Key| entries.get(key).is_some_and(|entry| entry.failures > 0);
        let popped = match lane {
            Lane::Others => self.ready.pop(&mut self.places, is_ready),
            Lane::AfterFailure => {
                self.ready_after_failure.pop(&mut self.places, |key| is_ready(key) && has_failed(key))
            }
            Lane::Suspects if self.suspect_in_hand.is_some() => None,
            Lane::Suspects => self.ready_suspects.pop(&mut self.places, is_ready),
        };
        popped.map(|(_, key)| key)
    }

    /// Ends the attempt for a key; `known` contains the versions that it read and wrote.
    pub(crate) fn finish(
        &mut self,
        key: &Key,
        ended: &AttemptEnd,
        mut known: KnownVersions,
        now: Instant,
    ) -> Answers<T> {
        let mut answers = Answers { acknowledge: Vec::new(), redeliver: Vec::new() };
        let Some(entry) = self.entries.get_mut(key) else { return answers };
        if entry.state != State::Running {
            return answers;
        }
        entry.set_state(State::Idle, &mut self.resting);
        self.places.give_back(namespace_of(key));
        if self.suspect_in_hand.as_ref() == Some(key) {
            self.suspect_in_hand = None;
            if matches!(ended, AttemptEnd::Reconciled { .. }) {
                self.suspects.remove(key);
            }
        }
        known.merge(std::mem::take(&mut entry.known_so_far));
        if matches!(ended, AttemptEnd::Requeued) {
            self.requeue(key, known, &mut answers);
            return answers;
        }
        let answered = std::mem::take(&mut entry.in_attempt);
        match ended {
            AttemptEnd::Reconciled { requeue_after } => {
                answers.acknowledge.extend(answered.into_iter().map(|waiting| waiting.delivery));
                entry.set_failures(0, &mut self.failing);
                entry.tried = KnownVersions::default();
                let is_woken = entry.is_woken;
                let reads_anew = entry.reads_anew;
                if let Some(after) = requeue_after {
                    self.schedule(key, now + *after);
                }
                if is_woken {
                    self.make_ready(key);
                } else if reads_anew {
                    self.recheck(key, now);
                }
            }
            AttemptEnd::Requeued => {}
            AttemptEnd::Failed { is_conflict, made_progress } => {
                let failures = if *made_progress { 1 } else { entry.failures.saturating_add(1) };
                entry.set_failures(failures, &mut self.failing);
                let pause = if *is_conflict {
                    CONFLICT_PAUSE.max(self.backoff.pause(entry.failures) / 2)
                } else {
                    self.backoff.pause(entry.failures)
                };
                answers.redeliver.extend(answered.into_iter().map(|waiting| {
                    (waiting.delivery, self.redelivery.after(now + pause, self.failing) - now)
                }));
                entry.tried.merge(known.clone());
                entry.set_state(State::Pausing, &mut self.resting);
                if let Some(old) = entry.timer.replace(now + pause) {
                    self.timers.remove(&(old, key.clone()));
                }
                self.timers.insert((now + pause, key.clone()));
            }
        }
        self.answer_arrived(key, &known, ended, now, &mut answers);
        self.make_idle(key, ended, known);
        answers
    }

    /// Puts a key with an unfinished attempt behind the others. Its events stay unanswered, except
    /// those that the attempt caused itself.
    fn requeue(&mut self, key: &Key, known: KnownVersions, answers: &mut Answers<T>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let covered = entry.waiting.extract_if(|object, (sight, _)| known.covers(object, sight));
        answers.acknowledge.extend(covered.map(|(_, (_, delivery))| delivery));
        entry.known_so_far = known;
        entry.set_failures(0, &mut self.failing);
        self.make_ready(key);
    }

    /// Answers the events that came during the attempt and show versions that it has read or
    /// written itself.
    fn answer_arrived(
        &mut self,
        key: &Key,
        known: &KnownVersions,
        ended: &AttemptEnd,
        now: Instant,
        answers: &mut Answers<T>,
    ) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let covered = entry.waiting.extract_if(|object, (sight, _)| known.covers(object, sight));
        for (_, (_, delivery)) in covered {
            if matches!(ended, AttemptEnd::Reconciled { .. }) {
                answers.acknowledge.push(delivery);
            } else {
                let next = entry.timer.unwrap_or(now);
                answers.redeliver.push((delivery, self.redelivery.after(next, self.failing) - now));
            }
        }
        let is_new = !entry.waiting.is_empty();
        if is_new {
            // A new event during the attempt may have removed the cause of its failure, as with an
            // event during a pause.
            entry.set_failures(0, &mut self.failing);
            self.make_ready(key);
        }
    }

    /// Keeps only the known versions of an idle key.
    fn make_idle(&mut self, key: &Key, ended: &AttemptEnd, known: KnownVersions) {
        let is_idle = self.entries.get(key).is_none_or(|entry| entry.state == State::Idle);
        if matches!(ended, AttemptEnd::Reconciled { .. }) && is_idle {
            if self.idle.len() >= MAX_IDLE_KEYS {
                self.idle.clear();
            }
            self.idle.insert(key.clone(), known);
            if self.entries.get(key).is_some_and(|entry| entry.timer.is_none()) {
                self.entries.remove(key);
                self.resting -= 1;
            }
        }
    }

    fn make_ready(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.state == State::Ready {
            return;
        }
        entry.set_state(State::Ready, &mut self.resting);
        if let Some(old) = entry.timer.take() {
            self.timers.remove(&(old, key.clone()));
        }
        self.push_ready(key);
    }

    fn push_ready(&mut self, key: &Key) {
        let has_failed = self.entries.get(key).is_some_and(|entry| entry.failures > 0);
        let lane = match self.suspects.contains(key) {
            true => &mut self.ready_suspects,
            false if has_failed => &mut self.ready_after_failure,
            false => &mut self.ready,
        };
        lane.push(namespace_of(key), key.clone());
    }

    /// Forgets all known versions, because versions of an earlier cluster cannot be compared with
    /// those of the current one.
    pub(crate) fn forget_versions(&mut self) {
        self.idle.clear();
        for entry in self.entries.values_mut() {
            entry.tried = KnownVersions::default();
            entry.known_so_far = KnownVersions::default();
        }
    }

    /// Removes and returns all unanswered events, because the worker stops.
    pub(crate) fn abandon(&mut self) -> Vec<T> {
        let entries = std::mem::take(&mut self.entries).into_values();
        (self.failing, self.resting) = (0, 0);
        let deliveries = |entry: Entry<T>| {
            let taken = entry.in_attempt.into_iter().map(|waiting| waiting.delivery);
            taken.chain(entry.waiting.into_values().map(|(_, delivery)| delivery)).collect::<Vec<_>>()
        };
        entries.flat_map(deliveries).collect()
    }

    /// Returns the number of keys that wait, run or pause, for metrics.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.resting
    }

    /// Returns the namespaces whose whole share is in use, with the number of keys that wait for
    /// the share.
    pub(crate) fn full_shares(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ready.waiting().filter(|(namespace, _)| self.places.is_share_used(namespace))
    }
}

#[cfg(test)]
mod tests;
