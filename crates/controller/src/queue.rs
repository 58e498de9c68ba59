//! Which key is next: order, back-off and coalescing, without time or tasks of its own.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use groundwork_bus::ObjectId;
use groundwork_kubernetes::ResourceVersion;

use crate::backoff::Backoff;
use crate::handler::Key;
use crate::seen::Seen;

/// A failing key is tried again from memory; its event comes back this much later, for the case that the process
/// has died meanwhile.
const DURABLE_MARGIN: Duration = Duration::from_secs(20);
/// The events of failing keys come back no faster than one in this time, all together. A bus hands out what comes back before what is
/// new, so that more of them than can be looked at would keep everybody else's away.
const RETURN_EVERY: Duration = Duration::from_millis(50);
/// One turn of so many is for keys that have failed, however many others there are.
const TURNS: u32 = 4;
/// Knowledge about idle keys is dropped beyond this many; it only saves handling.
const REMEMBERED_KEYS: usize = 50_000;

/// Keys and the events (`T`) that wait for them.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    backoff: Backoff,
    entries: HashMap<Key, Entry<T>>,
    /// How many of the entries have failed.
    failing: u32,
    returns: Returns,
    ready: VecDeque<Key>,
    /// Keys that have failed and are due again. One that was made ready for another reason meanwhile is skipped here.
    again: VecDeque<Key>,
    turn: u32,
    timers: BTreeSet<(Instant, Key)>,
    /// What the last successful handling of idle keys knew.
    settled: HashMap<Key, Seen>,
}

#[derive(Debug)]
struct Entry<T> {
    state: State,
    /// Events that the current attempt answers.
    taken: Vec<Waiting<T>>,
    /// Events that the next attempt answers: the newest about each object.
    waiting: HashMap<ObjectId, (String, T)>,
    /// The object of the event that came last.
    latest: Option<ObjectId>,
    /// What attempts that failed were about; an event about the same does not cut the pause short.
    considered: Seen,
    failures: u32,
    timer: Option<Instant>,
    /// What the earlier parts of an attempt have read and written, while it goes on in parts.
    carried: Seen,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    Pausing,
    /// Only a timer is set.
    Idle,
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self {
            state: State::Idle,
            taken: Vec::new(),
            waiting: HashMap::new(),
            latest: None,
            considered: Seen::default(),
            failures: 0,
            timer: None,
            carried: Seen::default(),
        }
    }
}

impl<T> Entry<T> {
    /// Lets an event wait. Of those about one object only the newest does: what is answered by it comes back.
    fn wait(&mut self, event: Waiting<T>) -> Option<T> {
        if let Some((version, _)) = self.waiting.get(&event.object)
            && let (Some(waits), Some(comes)) =
                (ResourceVersion::parse(version), ResourceVersion::parse(&event.version))
            && comes < waits
        {
            return Some(event.ticket);
        }
        self.latest = Some(event.object.clone());
        self.waiting.insert(event.object, (event.version, event.ticket)).map(|(_, superseded)| superseded)
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
    version: String,
    ticket: T,
}

/// What becomes of an event that is offered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered<T> {
    /// It waits for its key.
    Taken {
        /// The key has other events already, and is as much work without this one.
        has_joined: bool,
        /// The older of two events about the same object: acknowledge it.
        superseded: Option<T>,
    },
    /// It says nothing new: acknowledge it.
    Known(T),
    /// The key pauses: give it back with a delay.
    Later(T, Duration),
}

/// A key to handle now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Started<T> {
    pub(crate) key: Key,
    /// The event that came last, if any did.
    pub(crate) latest: Option<T>,
    pub(crate) changed: Vec<(ObjectId, String)>,
    pub(crate) failures: u32,
}

/// The end of an attempt.
#[derive(Debug)]
pub(crate) enum Ended {
    Settled {
        look_again: Option<Duration>,
    },
    /// Only a part was done: the rest comes after the other keys.
    Yielded,
    Failed {
        is_conflict: bool,
        made_progress: bool,
    },
}

/// Events to answer after an attempt.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    pub(crate) acknowledge: Vec<T>,
    pub(crate) later: Vec<(T, Duration)>,
}

/// When the events of failing keys come back.
#[derive(Debug, Default)]
struct Returns {
    last: Option<Instant>,
}

impl Returns {
    /// For a key that is tried next at a time, while so many keys fail: one after the other, and from the start again when there was a
    /// turn for each.
    fn after(&mut self, next: Instant, failing: u32) -> Instant {
        let earliest = next + DURABLE_MARGIN;
        let latest = next + DURABLE_MARGIN.max(RETURN_EVERY.saturating_mul(failing));
        let in_turn = self.last.map_or(earliest, |last| earliest.max(last + RETURN_EVERY));
        let at = if in_turn > latest { earliest } else { in_turn };
        self.last = Some(at);
        at
    }
}

impl<T: Clone> Queue<T> {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            entries: HashMap::new(),
            failing: 0,
            returns: Returns::default(),
            ready: VecDeque::new(),
            again: VecDeque::new(),
            turn: 0,
            timers: BTreeSet::new(),
            settled: HashMap::new(),
        }
    }

    /// An event for a key.
    pub(crate) fn offer(
        &mut self,
        key: &Key,
        object: ObjectId,
        version: String,
        ticket: T,
        now: Instant,
    ) -> Offered<T> {
        if self.settled.get(key).is_some_and(|seen| seen.covers(&object, &version)) {
            return Offered::Known(ticket);
        }
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.carried.covers(&object, &version) {
            return Offered::Known(ticket);
        }
        let is_news = !entry.considered.covers(&object, &version);
        // What is due again after a failure may wait for long; its events are not to keep those of others away.
        if !is_news && (entry.state == State::Pausing || entry.state == State::Ready && entry.failures > 0) {
            let next = entry.timer.unwrap_or(now).max(now);
            return Offered::Later(ticket, self.returns.after(next, self.failing) - now);
        }
        let has_joined = !entry.waiting.is_empty() || entry.state == State::Running;
        let superseded = entry.wait(Waiting { object, version, ticket });
        match entry.state {
            // Something is new: the reason to pause may be gone.
            State::Pausing | State::Idle => {
                entry.set_failures(0, &mut self.failing);
                self.make_ready(key);
            }
            State::Ready if is_news && entry.failures > 0 => {
                entry.set_failures(0, &mut self.failing);
                self.ready.push_back(key.clone());
            }
            State::Ready | State::Running => {}
        }
        Offered::Taken { has_joined, superseded }
    }

    /// Handle a key at a time, or now if that has passed. Takes the place of its former time.
    pub(crate) fn schedule(&mut self, key: &Key, at: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
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

    /// The next time at which [`Queue::start`] may have something to give.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A key to handle now, if there is one.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Started<T>> {
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
                self.make_ready(&key);
            }
        }
        let key = self.next_ready()?;
        let entry = self.entries.entry(key.clone()).or_default();
        entry.state = State::Running;
        let failures = entry.failures;
        let latest = entry.latest.take().and_then(|object| entry.waiting.get(&object));
        let latest = latest.map(|(_, ticket)| ticket.clone());
        let mut changed = Vec::with_capacity(entry.waiting.len());
        for (object, (version, ticket)) in entry.waiting.drain() {
            entry.considered.note(object.clone(), &version);
            changed.push((object.clone(), version.clone()));
            entry.taken.push(Waiting { object, version, ticket });
        }
        self.settled.remove(&key);
        Some(Started { key, changed, failures, latest })
    }

    /// Keys that have not failed go first: those that fail over and over delay no other, even if there is not enough time for all of
    /// their attempts.
    fn next_ready(&mut self) -> Option<Key> {
        self.turn = self.turn.wrapping_add(1);
        let is_turn_of_failed = self.turn.is_multiple_of(TURNS) || self.ready.is_empty();
        if is_turn_of_failed {
            while let Some(key) = self.again.pop_front() {
                let entry = self.entries.get(&key);
                if entry.is_some_and(|entry| entry.state == State::Ready && entry.failures > 0) {
                    return Some(key);
                }
            }
        }
        self.ready.pop_front()
    }

    /// The attempt for a key has ended; `seen` is what it read and wrote.
    pub(crate) fn finish(&mut self, key: &Key, ended: &Ended, mut seen: Seen, now: Instant) -> Answers<T> {
        let mut answers = Answers { acknowledge: Vec::new(), later: Vec::new() };
        let Some(entry) = self.entries.get_mut(key) else { return answers };
        if entry.state != State::Running {
            return answers;
        }
        entry.state = State::Idle;
        seen.merge(std::mem::take(&mut entry.carried));
        if matches!(ended, Ended::Yielded) {
            self.go_on(key, seen, &mut answers);
            return answers;
        }
        let answered = std::mem::take(&mut entry.taken);
        match ended {
            Ended::Settled { look_again } => {
                answers.acknowledge.extend(answered.into_iter().map(|waiting| waiting.ticket));
                entry.set_failures(0, &mut self.failing);
                entry.considered = Seen::default();
                if let Some(after) = look_again {
                    self.schedule(key, now + *after);
                }
            }
            Ended::Yielded => {}
            Ended::Failed { is_conflict, made_progress } => {
                let failures = if *made_progress { 1 } else { entry.failures.saturating_add(1) };
                entry.set_failures(failures, &mut self.failing);
                let pause = if *is_conflict {
                    self.backoff.conflict.max(self.backoff.pause(entry.failures) / 2)
                } else {
                    self.backoff.pause(entry.failures)
                };
                answers.later.extend(
                    answered
                        .into_iter()
                        .map(|waiting| (waiting.ticket, self.returns.after(now + pause, self.failing) - now)),
                );
                entry.considered.merge(seen.clone());
                entry.state = State::Pausing;
                if let Some(old) = entry.timer.replace(now + pause) {
                    self.timers.remove(&(old, key.clone()));
                }
                self.timers.insert((now + pause, key.clone()));
            }
        }
        self.answer_arrived(key, &seen, ended, now, &mut answers);
        self.settle(key, ended, seen);
        answers
    }

    /// Puts a key whose attempt goes on behind the others. Its events stay unanswered, but for those that it has caused itself.
    fn go_on(&mut self, key: &Key, seen: Seen, answers: &mut Answers<T>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let known = entry.waiting.extract_if(|object, (version, _)| seen.covers(object, version));
        answers.acknowledge.extend(known.map(|(_, (_, ticket))| ticket));
        entry.carried = seen;
        entry.set_failures(0, &mut self.failing);
        self.make_ready(key);
    }

    /// Events that came during the attempt: those about what it saw are answered by it.
    fn answer_arrived(
        &mut self,
        key: &Key,
        seen: &Seen,
        ended: &Ended,
        now: Instant,
        answers: &mut Answers<T>,
    ) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let known = entry.waiting.extract_if(|object, (version, _)| seen.covers(object, version));
        for (_, (_, ticket)) in known {
            if matches!(ended, Ended::Settled { .. }) {
                answers.acknowledge.push(ticket);
            } else {
                let next = entry.timer.unwrap_or(now);
                answers.later.push((ticket, self.returns.after(next, self.failing) - now));
            }
        }
        let is_new = !entry.waiting.is_empty();
        if is_new {
            // As for an event that comes during a pause: the reason to fail may be gone.
            entry.set_failures(0, &mut self.failing);
            self.make_ready(key);
        }
    }

    fn settle(&mut self, key: &Key, ended: &Ended, seen: Seen) {
        let is_idle = self.entries.get(key).is_none_or(|entry| entry.state == State::Idle);
        if matches!(ended, Ended::Settled { .. }) && is_idle {
            if self.settled.len() >= REMEMBERED_KEYS {
                self.settled.clear();
            }
            self.settled.insert(key.clone(), seen);
            if self.entries.get(key).is_some_and(|entry| entry.timer.is_none()) {
                self.entries.remove(key);
            }
        }
    }

    fn make_ready(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.state == State::Ready {
            return;
        }
        entry.state = State::Ready;
        if let Some(old) = entry.timer.take() {
            self.timers.remove(&(old, key.clone()));
        }
        let lane = if entry.failures > 0 { &mut self.again } else { &mut self.ready };
        lane.push_back(key.clone());
    }

    /// Versions of a former cluster are not comparable with those of the present one.
    pub(crate) fn forget_versions(&mut self) {
        self.settled.clear();
        for entry in self.entries.values_mut() {
            entry.considered = Seen::default();
            entry.carried = Seen::default();
        }
    }

    /// Gives up: all events that have not been answered.
    pub(crate) fn abandon(&mut self) -> Vec<T> {
        let entries = std::mem::take(&mut self.entries).into_values();
        self.failing = 0;
        let tickets = |entry: Entry<T>| {
            let taken = entry.taken.into_iter().map(|waiting| waiting.ticket);
            taken.chain(entry.waiting.into_values().map(|(_, ticket)| ticket)).collect::<Vec<_>>()
        };
        entries.flat_map(tickets).collect()
    }

    /// Keys that are known to need something: for metrics.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests;
