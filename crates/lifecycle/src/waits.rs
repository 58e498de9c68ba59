//! Waits of the objects of a tree: the reason, the start, and the time of the next check
//! (`installations.md` 9).
//!
//! ```text
//! object as read ──> Found (Wait, by itself or below) ──> Wait of its Node
//!                      └── Cause ──> Wait of the nodes above: only the deepest causes
//! ```
//!
//! A change of the awaited object wakes the waiting one at once. The times here apply if that event
//! gets lost, and only while the services run.

mod installations;
mod packages;
mod parts;
#[cfg(test)]
mod tests;

use std::time::Duration;

use groundwork_api::{LastError, Time};
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

pub use installations::names_around;
pub(crate) use installations::{Around, of_installation};
pub use packages::{of_revision, of_variant};
pub(crate) use parts::{Beside, of_execution, of_item};

/// Time after which awaited siblings are checked again (`installations.md` 2.2).
pub const SIBLING_LOOK: Duration = Duration::from_secs(30);
/// Longest back-off after a failed attempt (`installations.md` 2.2).
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// Longest time between two checks of an item by its deployer (`installations.md` 7.7).
pub const WORK_LOOK: Duration = Duration::from_secs(10);
/// Time without a sign of life from its deployer after which another process takes over an item
/// (`installations.md` 7.7).
pub const OWNED: Duration = Duration::from_secs(60);
/// Longest time between two checks of an object that is not at rest, independent of its wait.
pub const LONGEST_LOOK: Duration = Duration::from_secs(300);
/// Time between the pickup deadline of an item and the end of its job (`installations.md` 7.6).
pub const PICKUP_MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// Limit for the names in one sentence. Further objects are only counted.
const MOST_NAMES: usize = 5;

/// Time of a description, and the known settings of the services.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub now: Timestamp,
    /// Time that a deployer may take to pick an item up. `None` if it is unknown or unlimited.
    pub pickup_timeout: Option<SignedDuration>,
}

impl Clock {
    /// Returns a clock with the current time, for callers that do not know the settings of the
    /// renderer.
    pub fn now() -> Self {
        Self { now: Timestamp::now(), pickup_timeout: None }
    }
}

/// Wait of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Noun that completes "waits for".
    pub what: String,
    /// Start of the wait; absent if no object contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Absent if the object waits for a user or another program, so that no Groundwork service
    /// checks it.
    #[serde(flatten)]
    pub next_look: Option<Look>,
}

/// Time of the next check that does not need a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Look {
    #[serde(rename = "lookedAtWithinSeconds", serialize_with = "seconds")]
    Within(Duration),
    #[serde(rename = "lookedAtBy")]
    By(Timestamp),
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}

impl Look {
    /// Returns the time until the check.
    fn left(self, now: Timestamp) -> SignedDuration {
        match self {
            Self::Within(duration) => SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX),
            Self::By(time) => time.duration_since(now),
        }
    }

    /// Returns the time in words, such as `looked at again within 30s`.
    pub fn words(self, now: Timestamp) -> String {
        match self {
            Self::Within(duration) if duration.as_secs().is_multiple_of(60) => {
                format!("looked at again within {}m", duration.as_secs() / 60)
            }
            Self::Within(duration) => format!("looked at again within {}s", duration.as_secs()),
            Self::By(time) if time <= now => "due now".to_owned(),
            Self::By(time) => {
                let left = elapsed(time.duration_since(now));
                format!("looked at again in {left}, by {}", time.strftime("%Y-%m-%dT%H:%M:%SZ"))
            }
        }
    }
}

impl Wait {
    /// Returns the sentence for users, such as `waits for 2 items: a, b, since 3m10s (looked at
    /// again within 10s)`.
    pub fn sentence(&self, now: Timestamp) -> String {
        let space = match (self.since, self.next_look) {
            (Some(_), _) => ", ",
            (None, Some(_)) => " ",
            (None, None) => "",
        };
        format!("waits for {}{space}{}", self.what, self.times(now))
    }

    /// Returns the part of the sentence about times; empty if none is known.
    pub fn times(&self, now: Timestamp) -> String {
        let since = self
            .since
            .map(|since| format!("since {}", elapsed(now.duration_since(since).max(SignedDuration::ZERO))));
        let look = self.next_look.map(|look| format!("({})", look.words(now)));
        since.into_iter().chain(look).collect::<Vec<_>>().join(" ")
    }
}

/// Formats a duration by its two largest units.
pub fn elapsed(time: SignedDuration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (0, hours, minutes, _) => format!("{hours}h{minutes:02}m"),
        (days, hours, ..) => format!("{days}d{hours:02}h"),
    }
}

/// Wait, with the place of the awaited object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) wait: Wait,
    pub(crate) reach: Reach,
}

/// Place of the object that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Outside the tree, or in the object itself.
    Own,
    /// Other objects of the same tree, which go first.
    InLine,
    /// Objects below the waiting one.
    Below,
}

impl Found {
    fn new(
        reach: Reach,
        what: impl Into<String>,
        since: Option<Timestamp>,
        next_look: Option<Look>,
    ) -> Option<Self> {
        Some(Self { wait: Wait { what: what.into(), since, next_look }, reach })
    }

    /// Creates the wait of an object that does not depend on objects of its tree. The service
    /// checks the object in its regular round over all objects that are not at rest.
    fn own(what: impl Into<String>, since: Option<Timestamp>) -> Option<Self> {
        Self::new(Reach::Own, what, since, Some(Look::Within(LONGEST_LOOK)))
    }

    /// Creates a wait for a user or another program.
    fn unseen(what: impl Into<String>, since: Option<Timestamp>) -> Option<Self> {
        Self::new(Reach::Own, what, since, None)
    }

    /// Creates a wait for other objects of the tree that go first.
    fn in_line(what: impl Into<String>, since: Option<Timestamp>) -> Option<Self> {
        Self::new(Reach::InLine, what, since, Some(Look::Within(LONGEST_LOOK)))
    }
}

/// Wait of an object that the objects above it repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    kind: &'static str,
    name: String,
    what: String,
    next_look: Option<Look>,
    in_line: bool,
}

/// Returns the causes that the objects above repeat, of an object and all objects below it.
pub(crate) fn causes(kind: &'static str, name: &str, found: Option<&Found>, below: Vec<Cause>) -> Vec<Cause> {
    match found {
        Some(Found { wait, reach: reach @ (Reach::Own | Reach::InLine) }) => vec![Cause {
            kind,
            name: name.to_owned(),
            what: wait.what.clone(),
            next_look: wait.next_look,
            in_line: *reach == Reach::InLine,
        }],
        Some(Found { reach: Reach::Below, .. }) | None => below,
    }
}

/// Returns the wait of an object for the objects below it; `None` if none of them waits.
fn below(causes: &[Cause], since: Option<Timestamp>, clock: &Clock) -> Option<Found> {
    let (behind, first): (Vec<&Cause>, Vec<&Cause>) = causes.iter().partition(|cause| cause.in_line);
    let deepest = if first.is_empty() { behind } else { first };
    let what = match deepest[..] {
        [] => return None,
        [only] => format!("{} {}: {}", only.kind, only.name, only.what),
        _ => {
            let mut kinds: Vec<&'static str> = deepest.iter().map(|cause| cause.kind).collect();
            kinds.sort_unstable_by_key(|kind| (*kind != ITEM, *kind));
            kinds.dedup();
            let of = |kind: &str| {
                let found = deepest.iter().filter(|cause| cause.kind == kind);
                counted(kind, &found.map(|cause| cause.name.as_str()).collect::<Vec<_>>())
            };
            kinds.into_iter().map(of).collect::<Vec<_>>().join(", and ")
        }
    };
    let next_look =
        deepest.iter().filter_map(|cause| cause.next_look).min_by_key(|look| look.left(clock.now));
    Found::new(Reach::Below, what, since, next_look)
}

/// Word for an item in sentences. Installations and Executions use their kinds.
pub(crate) const ITEM: &str = "item";

/// Formats names with their count: `item a`, or `3 items: a, b, c`.
fn counted(kind: &str, names: &[&str]) -> String {
    match names {
        [name] => format!("{kind} {name}"),
        names => format!("{} {kind}s: {}", names.len(), listed(names)),
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names.get(..MOST_NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Describes a failed attempt that is repeated.
fn retried(error: &LastError, look: Duration) -> Option<Found> {
    let first = error.message.lines().next().unwrap_or_default();
    let what = format!("another attempt after {}: {first}", error.reason);
    Found::new(Reach::Own, what, time(error.last_transition_time.as_ref()), Some(Look::Within(look)))
}

/// Describes an object that is being deleted and held by finalizers of other controllers.
fn held(finalizers: &[String], since: Option<Timestamp>) -> Option<Found> {
    if finalizers.is_empty() {
        return None;
    }
    let names: Vec<&str> = finalizers.iter().map(String::as_str).collect();
    Found::unseen(format!("the finalizers that hold it to be removed: {}", listed(&names)), since)
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|Time(time)| *time)
}
