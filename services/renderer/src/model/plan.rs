//! User actions and faults of one order, generated from its seed.

use std::time::Duration;

use fastrand::Rng;

/// Longest time between two actions or faults of the same kind, in milliseconds.
const LONGEST: u64 = 3000;

/// All external events in one order.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) lives: Vec<Life>,
    pub(super) watcher: Vec<Fault>,
    /// Faults of each replica of the renderer.
    pub(super) renderers: Vec<Vec<Fault>>,
    /// Times at which all watches are ended, and whether the log is compacted.
    pub(super) endings: Vec<(Duration, bool)>,
    /// Times at which the stream is rebuilt.
    pub(super) rebuilds: Vec<Duration>,
    /// Times at which deliveries are taken away, and the delay until they are returned.
    pub(super) late: Vec<(Duration, Duration)>,
    pub(super) ack_wait: Duration,
}

/// User actions on one Installation.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) name: &'static str,
    pub(super) has_child: bool,
    pub(super) items: usize,
    /// Actions, each after a pause.
    pub(super) acts: Vec<(Duration, Act)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    /// Write a new spec and start a job.
    Change,
    /// Start a job for the present spec.
    Reconcile,
    Delete,
}

/// Fault of a process: it ends after some time, and is started again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) after: Duration,
    pub(super) down: Duration,
    /// True for a requested shutdown, in which running work may finish; false for a crash.
    pub(super) is_asked: bool,
}

fn millis(chance: &mut Rng, most: u64) -> Duration {
    // Draw the magnitude first, so that short times are as likely as long ones.
    let most = most >> chance.u32(0..8);
    Duration::from_millis(chance.u64(0..=most))
}

fn some<T>(chance: &mut Rng, most: usize, mut make: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    let count = chance.usize(0..=most);
    (0..count).map(|_| make(chance)).collect()
}

fn faults(chance: &mut Rng, most: usize) -> Vec<Fault> {
    some(chance, most, |chance| Fault {
        after: Duration::from_millis(200) + millis(chance, LONGEST),
        down: millis(chance, LONGEST),
        is_asked: chance.bool(),
    })
}

fn life(chance: &mut Rng, name: &'static str) -> Life {
    let mut acts = vec![(millis(chance, LONGEST), Act::Create)];
    let changes = some(chance, 2, |chance| {
        let act = if chance.bool() { Act::Change } else { Act::Reconcile };
        (millis(chance, LONGEST), act)
    });
    acts.extend(changes);
    if chance.u8(0..5) > 0 {
        acts.push((millis(chance, 2 * LONGEST), Act::Delete));
        if chance.u8(0..4) == 0 {
            acts.push((millis(chance, LONGEST), Act::Create));
        }
    }
    Life { name, has_child: chance.u8(0..3) == 0, items: chance.usize(1..=2), acts }
}

impl Plan {
    /// Generates the plan for a seed and a number of replicas of the renderer.
    pub(super) fn of(seed: u64, replicas: usize) -> Self {
        let chance = &mut Rng::with_seed(seed);
        let mut lives = vec![life(chance, "one")];
        if chance.u8(0..3) == 0 {
            lives.push(life(chance, "two"));
        }
        let most = if chance.bool() { 1 } else { 0 };
        Self {
            lives,
            watcher: faults(chance, 4),
            renderers: (0..replicas).map(|_| faults(chance, most)).collect(),
            endings: some(chance, 2, |chance| (millis(chance, 4 * LONGEST), chance.bool())),
            rebuilds: some(chance, most, |chance| millis(chance, 4 * LONGEST)),
            late: some(chance, 3 * most, |chance| (millis(chance, 4 * LONGEST), millis(chance, 2 * LONGEST))),
            ack_wait: if chance.u8(0..4) == 0 { Duration::from_secs(4) } else { groundwork_bus::ACK_WAIT },
        }
    }

    /// Returns true if events may be delivered to another replica, or to a renderer that crashes.
    /// Then the periodic check of all objects may find a change before its event is delivered.
    pub(super) fn shares_deliveries(&self) -> bool {
        let dies = self.renderers.iter().flatten().any(|fault| !fault.is_asked);
        dies || self.renderers.len() > 1 || !self.late.is_empty()
    }
}
