//! Which key is next: order, back-off and coalescing of events. Without a clock and tasks of its own, so that tests need neither.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use groundwork_bus::{Backoff, ObjectId};
use groundwork_turns::{Places, Rota};

use crate::known_versions::{KnownVersions, Sight};
use crate::reconcile::Key;

/// The number of places, as a multiple of a namespace's share. What some namespaces wait for elsewhere (slow registries, silent Targets)
/// leaves places for others then.
const SHARES: usize = 8;
/// The shortest pause after a conflict: somebody else wrote, and the next look is likely to do better.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// A failing key is tried again from memory; its event comes back this much later, for the case that the process
/// has died meanwhile.
const REDELIVERY_MARGIN: Duration = Duration::from_secs(20);
/// The events of failing keys come back no faster than one in this time, all together. A bus hands out what comes back before what is
/// new, so that more of them than can be looked at would keep everybody else's away.
const REDELIVERY_INTERVAL: Duration = Duration::from_millis(50);
/// A key that is attempted within this time anyway is not looked at before.
const SOON: Duration = Duration::from_secs(60);
/// One turn of so many goes to a key that has failed, however many others there are.
const FAILED_TURN: u32 = 4;
/// One turn of so many goes to a key in whose handling the process died, however many others there are.
const SUSPECT_TURN: u32 = 64;
/// The keys of all namespaces that may wait for a place, beside a few of each. Events of others go back to the bus for a while, so that
/// memory has a bound and other replicas get their part.
const MOST_WAITING: usize = 1000;
/// Every namespace may have so many times its share waiting, whatever others have.
const SHARES_WAITING: usize = 2;
/// An event that is sent back for that reason returns after this time at the earliest.
const FIRST_RETURN: Duration = Duration::from_secs(2);
/// The distance of two returning events of one namespace.
const RETURN_INTERVAL: Duration = Duration::from_millis(2);
/// The times of returns are tidied beyond this many namespaces.
const MOST_RETURNS: usize = 100;
/// Versions that idle keys know are dropped beyond this many keys; without them events are handled that say nothing new.
const MAX_IDLE_KEYS: usize = 50_000;

/// The namespace of a key; empty for objects of the cluster, which are together one.
fn namespace_of(key: &Key) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

/// Keys and the events (`T`) that wait for them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    backoff: Backoff,
    entries: HashMap<Key, Entry<T>>,
    /// How many of the entries have failed.
    failing: u32,
    /// How many of the entries are idle: nothing is to be done for these before their time.
    resting: usize,
    redelivery: Redelivery,
    returns: Returns,
    places: Places,
    ready: Rota<Key>,
    /// Keys that have failed and are due again. One that was made ready for another reason meanwhile is skipped here.
    ready_after_failure: Rota<Key>,
    /// Keys in whose handling a former process died.
    suspects: HashSet<Key>,
    ready_suspects: Rota<Key>,
    /// The suspect in hand: there is one at a time, so that a further death tells which it is.
    suspect_in_hand: Option<Key>,
    turn: u32,
    timers: BTreeSet<(Instant, Key)>,
    /// What the last successful attempt of each idle key has read and written.
    idle: HashMap<Key, KnownVersions>,
}

#[derive(Debug)]
struct Entry<T> {
    state: State,
    /// Events that the end of the current attempt answers.
    in_attempt: Vec<Waiting<T>>,
    /// Events that the next attempt answers: the newest about each object.
    waiting: HashMap<ObjectId, (Sight, T)>,
    /// The object of the event that came last.
    latest: Option<ObjectId>,
    /// States that failed attempts have dealt with; an event about them does not cut the pause short.
    tried: KnownVersions,
    failures: u32,
    timer: Option<Instant>,
    /// What the key waits for has come while it was handled, perhaps after the handler looked.
    is_woken: bool,
    /// The next attempt relies on nothing that memory holds.
    reads_anew: bool,
    /// The key is ready for no other reason than that.
    is_unasked: bool,
    /// What the earlier parts of an attempt have read and written, if it goes on in parts.
    known_so_far: KnownVersions,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Pausing,
    /// Nothing is to be done before the timer.
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
    /// An idle one, counted.
    fn new(resting: &mut usize) -> Self {
        *resting += 1;
        Self::default()
    }

    /// Lets an event wait. Of those about one object only the newest does; the answer is the one that need not wait any more.
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

/// Where a key waits that is ready.
#[derive(Debug, Clone, Copy)]
enum Lane {
    Others,
    AfterFailure,
    Suspects,
}

/// The number of keys that an event concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concerns {
    OneKey,
    Several,
}

/// What becomes of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered<T> {
    /// It waits for its key.
    Queued {
        /// The older of two events about the same object: acknowledge it.
        superseded: Option<T>,
    },
    /// It says nothing new: acknowledge it.
    Known(T),
    /// The key pauses, or too many of its namespace wait: have the bus deliver it again after a delay.
    Redeliver(T, Duration),
}

/// A key to handle now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt<T> {
    pub(crate) key: Key,
    /// The event that came last, if any did.
    pub(crate) latest: Option<T>,
    pub(crate) changed: Vec<(ObjectId, Sight)>,
    pub(crate) failures: u32,
    /// The attempt relies on nothing that memory holds.
    pub(crate) reads_anew: bool,
    /// The only reason for it is that the key has not come to rest.
    pub(crate) is_unasked: bool,
}

/// The end of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Reconciled {
        requeue_after: Option<Duration>,
    },
    /// Only a part was done: the rest comes after the other keys.
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
    /// To be delivered again, each after its delay.
    pub(crate) redeliver: Vec<(T, Duration)>,
}

/// When the events of failing keys are delivered again.
#[derive(Debug, Default)]
struct Redelivery {
    last: Option<Instant>,
}

impl Redelivery {
    /// For a key that is tried next at a time, while so many keys fail: one after the other, and from the start again when there was a
    /// turn for each.
    fn after(&mut self, next: Instant, failing: u32) -> Instant {
        let earliest = next + REDELIVERY_MARGIN;
        let latest = next + REDELIVERY_MARGIN.max(REDELIVERY_INTERVAL.saturating_mul(failing));
        let in_turn = self.last.map_or(earliest, |last| earliest.max(last + REDELIVERY_INTERVAL));
        let at = if in_turn > latest { earliest } else { in_turn };
        self.last = Some(at);
        at
    }
}

/// The last return of an event that was sent back, by namespace.
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
    /// `share` is how many keys of one namespace are handled at a time. `suspects` come after all others.
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

    /// An event for a key. One that `concerns` others as well is not sent back for the number of keys that wait: the others would see it
    /// again each time.
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
        // What is due again after a failure may wait for long; its events are not to keep those of others away.
        if !is_news && (entry.state == State::Pausing || entry.state == State::Ready && entry.failures > 0) {
            let next = entry.timer.unwrap_or(now).max(now);
            return Offered::Redeliver(delivery, self.redelivery.after(next, self.failing) - now);
        }
        let superseded = entry.wait(Waiting { object, sight, delivery });
        match entry.state {
            // Something is new: the reason to pause may be gone.
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

    /// How many keys of one namespace may wait.
    fn most_waiting(&self) -> usize {
        let part = MOST_WAITING / self.ready.tenants().max(1);
        part.max(self.places.share().saturating_mul(SHARES_WAITING))
    }

    /// Handle a key at a time, or now if that has passed. Takes the place of its former time.
    pub(crate) fn schedule(&mut self, key: &Key, at: Instant) {
        let resting = &mut self.resting;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(resting));
        match entry.state {
            // The attempt to come or under way looks at everything; a pause has its own time.
            State::Ready | State::Pausing => {}
            State::Running | State::Idle => {
                if let Some(old) = entry.timer.replace(at) {
                    self.timers.remove(&(old, key.clone()));
                }
                self.timers.insert((at, key.clone()));
            }
        }
    }

    /// Handle a key now, or once more if it is being handled: what it waits for has come. One that pauses after a failure keeps its own time.
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

    /// Has the key looked at with nothing taken from memory: with the attempt that comes anyway soon, or else now. Its time, if it has one, stays.
    pub(crate) fn look(&mut self, key: &Key, now: Instant) {
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

    /// The next time at which [`Queue::start`] may have something to give.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A key to handle now, if there is one.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Attempt<T>> {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.timer = None;
            if entry.state == State::Running {
                // Due while it is handled: once more afterwards.
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

    /// Keys that have not failed go first: those that fail over and over delay no other, even if there is not enough time for all of
    /// their attempts.
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

    /// The attempt for a key has ended; `known` is what it read and wrote.
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
                    self.look(key, now);
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

    /// Puts a key whose attempt goes on behind the others. Its events stay unanswered, but for those that it has caused itself.
    fn requeue(&mut self, key: &Key, known: KnownVersions, answers: &mut Answers<T>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let covered = entry.waiting.extract_if(|object, (sight, _)| known.covers(object, sight));
        answers.acknowledge.extend(covered.map(|(_, (_, delivery))| delivery));
        entry.known_so_far = known;
        entry.set_failures(0, &mut self.failing);
        self.make_ready(key);
    }

    /// Events that came during the attempt: it answers those about versions that it has read or written itself.
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
            // As for an event that comes during a pause: the reason to fail may be gone.
            entry.set_failures(0, &mut self.failing);
            self.make_ready(key);
        }
    }

    /// Keeps what an idle key knows, and nothing else of it.
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

    /// Versions of a former cluster are not comparable with those of the present one.
    pub(crate) fn forget_versions(&mut self) {
        self.idle.clear();
        for entry in self.entries.values_mut() {
            entry.tried = KnownVersions::default();
            entry.known_so_far = KnownVersions::default();
        }
    }

    /// Gives up: all events that have not been answered.
    pub(crate) fn abandon(&mut self) -> Vec<T> {
        let entries = std::mem::take(&mut self.entries).into_values();
        (self.failing, self.resting) = (0, 0);
        let deliveries = |entry: Entry<T>| {
            let taken = entry.in_attempt.into_iter().map(|waiting| waiting.delivery);
            taken.chain(entry.waiting.into_values().map(|(_, delivery)| delivery)).collect::<Vec<_>>()
        };
        entries.flat_map(deliveries).collect()
    }

    /// Keys that wait, run or pause: for metrics.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.resting
    }

    /// The namespaces whose whole share is in use, with the number of keys that wait for it.
    pub(crate) fn full_shares(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ready.waiting().filter(|(namespace, _)| self.places.is_share_used(namespace))
    }
}

#[cfg(test)]
mod tests;
