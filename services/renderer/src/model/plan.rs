//! The acts and faults of one order, as they follow from its seed.

use std::time::Duration;

use fastrand::Rng;

/// Longest time between two acts or faults of the same kind.
const LONGEST: u64 = 3000;

/// Everything that happens from outside in one order.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) lives: Vec<Life>,
    pub(super) watcher: Vec<Fault>,
    /// Of each replica of the renderer.
    pub(super) renderers: Vec<Vec<Fault>>,
    /// When all watches are ended, and whether what was before is forgotten.
    pub(super) endings: Vec<(Duration, bool)>,
    /// When the stream is made anew.
    pub(super) rebuilds: Vec<Duration>,
    /// When deliveries are taken, and how much later they are handed back.
    pub(super) late: Vec<(Duration, Duration)>,
    pub(super) ack_wait: Duration,
}

/// The acts of people on one Installation.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) name: &'static str,
    pub(super) has_child: bool,
    pub(super) items: usize,
    /// Each after a pause.
    pub(super) acts: Vec<(Duration, Act)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    /// A new spec, and a job.
    Change,
    /// A job for what is there.
    Reconcile,
    Delete,
}

/// A process ends after it has run for a while, and comes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) after: Duration,
    pub(super) down: Duration,
    /// It is asked to end, and may finish what runs.
    pub(super) is_asked: bool,
}

fn millis(chance: &mut Rng, most: u64) -> Duration {
    // Short times are as likely as long ones.
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
    /// With so many replicas of the renderer.
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

    /// True if events may be delivered to somebody else, or to a renderer that dies with them: a look may be ahead of those.
    pub(super) fn shares_deliveries(&self) -> bool {
        let dies = self.renderers.iter().flatten().any(|fault| !fault.is_asked);
        dies || self.renderers.len() > 1 || !self.late.is_empty()
    }
}
