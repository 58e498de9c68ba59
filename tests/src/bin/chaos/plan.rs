//! Plan of a round, generated from its seed: the acts of users, and the faults beside them. The
//! module is pure, so that a seed always gives the same round.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::unit::Unit;

/// Time in which users act and faults begin.
const WINDOW: Duration = Duration::from_secs(10);
/// Services that may die or freeze.
const SERVICES: [&str; 5] = ["watcher", "resolver", "renderer", "deployer", "variant"];
/// Second replicas of the services, for rounds that have them.
pub(crate) const REPLICAS: [(&str, &str); 5] = [
    ("watcher-2", "watcher"),
    ("resolver-2", "resolver"),
    ("renderer-2", "renderer"),
    ("deployer-2", "deployer"),
    ("variant-2", "variant"),
];
/// Maximum number of values that a unit has one after the other.
pub(crate) const VALUES: usize = 4;
/// Maximum number of faults in a round.
const MOST_FAULTS: usize = 3;

/// Acts and faults of one round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Set if each service has a second replica.
    pub(crate) has_replicas: bool,
    pub(crate) acts: Vec<(Duration, Act)>,
    pub(crate) faults: Vec<(Duration, Fault)>,
}

/// Act of a user on a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Create(Unit),
    /// Sets the unit's next value, and requests a job or a draft for it.
    Change(Unit, u32),
    Delete(Unit),
}

/// Size of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) installations: usize,
    pub(crate) variants: usize,
    /// Maximum duration of a fault.
    pub(crate) longest: Duration,
}

/// Fault of a server or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Affected service, for a fault of a single service. Two faults of the same victim never
    /// overlap.
    pub(crate) victim: &'static str,
    /// Time from the start of the fault to its end.
    pub(crate) length: Duration,
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// SIGKILL, then a restart at the end.
    Kill,
    /// SIGTERM, then a restart at the end.
    Terminate,
    /// SIGSTOP at the start, and SIGCONT at the end.
    Freeze,
    /// Closes the connections of one service to NATS and refuses new ones.
    CutWire,
    /// Keeps the connections of one service to NATS open, but stops all data on them.
    StallWire,
    /// Stops the data from NATS to one service. Messages of the service still arrive at NATS.
    DeafenWire,
    /// Delays the messages between one service and NATS.
    DelayWire,
    KillNats,
    /// Restarts NATS without its files.
    LoseNats,
    /// Restarts NATS with the files that it had when the fault began.
    RewindNats,
    FreezeNats,
    KillApiServer,
    FreezeApiServer,
    /// Rejects some writes of services, and answers others with an error after they were done.
    RefuseWrites,
    /// Delays each request of a service by a second.
    SlowDown,
    /// Compacts etcd to its last revision, so that watches cannot resume from an older one.
    Compact,
}

impl Kind {
    /// Returns the affected server for a kind that does not affect a single service.
    fn victim(self) -> Option<&'static str> {
        match self {
            Self::Kill
            | Self::Terminate
            | Self::Freeze
            | Self::CutWire
            | Self::StallWire
            | Self::DeafenWire
            | Self::DelayWire => None,
            Self::KillNats | Self::LoseNats | Self::RewindNats | Self::FreezeNats => Some("NATS"),
            Self::KillApiServer | Self::FreezeApiServer => Some("the API server"),
            Self::RefuseWrites | Self::SlowDown => Some("requests"),
            Self::Compact => Some("etcd"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, victim, length } = self;
        write!(f, "{kind:?} of {victim} for {:.1} s", length.as_secs_f64())
    }
}

impl Plan {
    /// Generates the round of a seed.
    pub(crate) fn of(seed: u64, size: Size) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut acts = Vec::new();
        let installations = (0..size.installations).map(Unit::Installation);
        for unit in installations.chain((0..size.variants).map(Unit::Variant)) {
            acts.extend(life(&mut rng, unit));
        }
        acts.sort_by_key(|(at, _)| *at);
        let has_replicas = rng.usize(0..3) == 0;
        let mut faults: Vec<(Duration, Fault)> = Vec::new();
        for _ in 0..rng.usize(1..=MOST_FAULTS) {
            // One of three faults starts together with the fault before it, because real faults
            // often coincide.
            let former = faults.last().map(|(at, _)| *at).filter(|_| rng.usize(0..3) == 0);
            let at = former.unwrap_or_else(|| moment(&mut rng));
            let fault = fault(&mut rng, has_replicas, size.longest);
            let overlaps = |(begin, other): &(Duration, Fault)| {
                other.victim == fault.victim && *begin <= at + fault.length && at <= *begin + other.length
            };
            if !faults.iter().any(overlaps) {
                faults.push((at, fault));
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        Self { seed, has_replicas, acts, faults }
    }

    /// Returns the final value of each unit after all acts, `None` for a deleted unit.
    pub(crate) fn expected(&self) -> Expected {
        let after = |act: &Act| match *act {
            Act::Create(unit) => (unit, Some(0)),
            Act::Change(unit, value) => (unit, Some(value)),
            Act::Delete(unit) => (unit, None),
        };
        self.acts.iter().map(|(_, act)| after(act)).collect()
    }
}

/// Final values of the units, `None` for a deleted unit.
pub(crate) type Expected = BTreeMap<Unit, Option<u32>>;

fn moment(rng: &mut Rng) -> Duration {
    WINDOW.mul_f64(rng.f64())
}

/// Generates all acts on one unit, in order of time.
fn life(rng: &mut Rng, unit: Unit) -> Vec<(Duration, Act)> {
    let mut times: Vec<Duration> = (0..rng.usize(1..=VALUES)).map(|_| moment(rng)).collect();
    times.sort_unstable();
    let ends = rng.usize(0..4) == 0;
    let last = times.len() - 1;
    let act = |(number, at): (usize, Duration)| {
        let act = match number {
            0 => Act::Create(unit),
            number if number == last && ends => Act::Delete(unit),
            number => Act::Change(unit, u32::try_from(number).unwrap_or_default()),
        };
        (at, act)
    };
    times.into_iter().enumerate().map(act).collect()
}

fn fault(rng: &mut Rng, has_replicas: bool, longest: Duration) -> Fault {
    let number = rng.usize(0..SERVICES.len());
    let is_second = rng.bool() && has_replicas;
    let service = if is_second { REPLICAS[number].0 } else { SERVICES[number] };
    let length = longest.mul_f64(rng.f64());
    let kind = match rng.usize(0..20) {
        0..=2 => Kind::Kill,
        3 | 4 => Kind::Terminate,
        5 => Kind::Freeze,
        6 => Kind::KillNats,
        7 => Kind::LoseNats,
        8 => Kind::RewindNats,
        9 => Kind::FreezeNats,
        10 => Kind::KillApiServer,
        11 => Kind::FreezeApiServer,
        12 => Kind::RefuseWrites,
        13 => Kind::Compact,
        14 | 15 => Kind::CutWire,
        16 => Kind::StallWire,
        17 => Kind::DelayWire,
        18 => Kind::DeafenWire,
        _ => Kind::SlowDown,
    };
    Fault { kind, victim: kind.victim().unwrap_or(service), length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_round_each_time() {
        let size = Size { installations: 10, variants: 5, longest: Duration::from_secs(5) };
        assert_eq!(Plan::of(7, size), Plan::of(7, size));
        assert_ne!(Plan::of(7, size), Plan::of(8, size));
        for seed in 0..200 {
            let plan = Plan::of(seed, size);
            assert!((1..=MOST_FAULTS).contains(&plan.faults.len()), "{seed}");
            assert_eq!(plan.expected().len(), 15, "{seed}");
            for unit in plan.expected().into_keys() {
                let of_unit = |act: &Act| match *act {
                    Act::Create(of) | Act::Change(of, _) | Act::Delete(of) => of == unit,
                };
                let life: Vec<_> = plan.acts.iter().map(|(_, act)| act).filter(|act| of_unit(act)).collect();
                assert!(matches!(life.first(), Some(Act::Create(_))), "{seed}: {life:?}");
            }
        }
    }
}
