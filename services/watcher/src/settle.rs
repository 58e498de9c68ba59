//! Publishing one object until the stream says what it should.

use std::sync::Arc;
use std::time::{Duration, Instant};

use groundwork_bus::{Bus, Change, Event, Kind, ObjectId, PublishError, Published, Record, Snapshot};
use groundwork_telemetry::trace;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::Instrument;
use uuid::Uuid;

use crate::board::Board;
use crate::ledger::{Key, Known, State, Uid, Version};
use crate::metrics::Metrics;
use crate::publisher::StreamLost;
use crate::reign::Reign;

const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// What publishing needs.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) bus: Bus,
    pub(crate) board: Board,
    pub(crate) metrics: Metrics,
    pub(crate) reign: Reign,
}

/// What the stream should say of an object.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    Applied(Box<Snapshot>),
    /// It is gone: the object of this UID, or whichever there was up to this resourceVersion.
    Gone {
        uid: Option<Uid>,
        version: Version,
    },
    /// The same as now, once more.
    Replay(Replay),
}

/// A wish to publish again. Each event is told; dropping the last clone tells that all is done.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    pub(crate) id: Arc<str>,
    pub(crate) told: mpsc::UnboundedSender<()>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) key: Key,
    pub(crate) known: Known,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The stream says it, or something newer.
    Done,
    /// Size in bytes; the stream says what it said before.
    TooLarge(usize),
    /// There is no stream any more.
    Lost,
}

/// What became of one publication.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It is the last message of its subject.
    Stored,
    /// Another message is: decide again.
    Other,
    TooLarge(usize),
    Lost,
}

/// The next thing to publish.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Apply,
    /// A tombstone for this UID.
    Bury(Uid, Version),
}

/// What to publish, if anything, when the stream says one thing and should say another. What is older than the stream is dropped:
/// another watcher was faster. A UID that is gone never comes back.
fn next(known: &State, wanted: &Wanted) -> Option<Next> {
    match (wanted, known) {
        (Wanted::Applied(_), State::Nothing) => Some(Next::Apply),
        (Wanted::Applied(snapshot), State::Alive { uid, version }) => {
            if version.covers(Version::new(&snapshot.resource_version)) {
                None
            } else if *uid == Uid::new(&snapshot.uid) {
                Some(Next::Apply)
            } else {
                Some(Next::Bury(uid.clone(), *version))
            }
        }
        (Wanted::Applied(snapshot), State::Deleted { uid, version }) => {
            let is_over =
                *uid == Uid::new(&snapshot.uid) || version.covers(Version::new(&snapshot.resource_version));
            (!is_over).then_some(Next::Apply)
        }
        (Wanted::Gone { uid: gone, version: at }, State::Alive { uid, version }) => {
            if gone.as_ref() == Some(uid) {
                Some(Next::Bury(uid.clone(), version.max(*at)))
            } else {
                (!version.is_after(*at)).then(|| Next::Bury(uid.clone(), *version))
            }
        }
        (Wanted::Gone { .. }, State::Nothing | State::Deleted { .. }) => None,
        (Wanted::Replay(_), _) => None,
    }
}

impl Wanted {
    /// Whether there is something to publish.
    pub(crate) fn is_needed(&self, known: &State) -> bool {
        matches!(self, Self::Replay(_)) || next(known, self).is_some()
    }
}

/// Publishes until nothing is left to do; waits as long as the bus is away.
pub(crate) async fn settle(
    outlet: Outlet,
    kind: Kind,
    key: Key,
    mut known: Known,
    wanted: Wanted,
    seen: (Instant, Timestamp),
) -> Settled {
    let object = key.object(&kind);
    if let Wanted::Replay(replay) = wanted {
        let outcome = again(&outlet, &object, &mut known, &replay).await;
        return Settled { key, known, outcome };
    }
    let outcome = loop {
        let (change, is_last) = match (next(&known.state, &wanted), &wanted) {
            (Some(Next::Bury(uid, version)), _) => {
                let (uid, resource_version) = (uid.to_string(), version.to_string());
                (Change::Deleted { uid, resource_version }, !matches!(wanted, Wanted::Applied(_)))
            }
            (Some(Next::Apply), Wanted::Applied(snapshot)) => {
                (Change::Applied(Snapshot::clone(snapshot)), true)
            }
            _ => break Outcome::Done,
        };
        let span = tracing::info_span!(
            parent: None,
            "watch event",
            otel.kind = "producer",
            %kind,
            namespace = key.namespace(),
            name = key.name()
        );
        let trace = trace::traceparent(&span);
        let event = Event { object: object.clone(), change, trace, replay: None, time: seen.1 };
        match publish(&outlet, event, &mut known).instrument(span).await {
            Answer::Stored if is_last => {
                outlet.metrics.latency(seen.0.elapsed());
                break Outcome::Done;
            }
            Answer::Stored | Answer::Other => {}
            Answer::TooLarge(size) => break Outcome::TooLarge(size),
            Answer::Lost => break Outcome::Lost,
        }
    };
    Settled { key, known, outcome }
}

/// Publishes what the stream holds once more. A change that comes between is as good.
async fn again(outlet: &Outlet, object: &ObjectId, known: &mut Known, replay: &Replay) -> Outcome {
    let mut pause = SHORTEST;
    let stored = loop {
        match outlet.bus.last(object).await {
            Ok(stored) => break stored,
            Err(groundwork_bus::BusError::NoStream) => return Outcome::Lost,
            Err(error) => outlet.wait(&error.to_string(), &mut pause).await,
        }
    };
    let Some((sequence, Record::Object(event))) = stored.map(|stored| (stored.sequence, stored.record))
    else {
        return Outcome::Done;
    };
    *known = Known { sequence, state: State::of(&event.change) };
    if !known.state.is_alive() {
        return Outcome::Done;
    }
    let span = tracing::info_span!(parent: None, "replay", otel.kind = "producer", %object);
    let trace = trace::traceparent(&span);
    let id = Some(replay.id.to_string());
    let event = Event { trace, replay: id, time: Timestamp::now(), ..event };
    match publish(outlet, event, known).instrument(span).await {
        Answer::Lost => return Outcome::Lost,
        Answer::Stored | Answer::Other | Answer::TooLarge(_) => {}
    }
    // Nobody may be listening any more.
    let _ = replay.told.send(());
    Outcome::Done
}

/// Publishes one event behind its fence. Afterwards `known` is what the stream says.
async fn publish(outlet: &Outlet, event: Event, known: &mut Known) -> Answer {
    let (kind, state) = (event.object.kind.clone(), State::of(&event.change));
    let mut record = Record::Object(event);
    let mut pause = SHORTEST;
    loop {
        outlet.reign.needed().await;
        let answer = outlet.bus.publish(&record, Some(known.sequence)).await;
        if !matches!(&answer, Err(PublishError::Unavailable(_) | PublishError::Failed(_))) {
            outlet.board.bus(None);
        }
        match answer {
            Ok(Published { sequence, duplicate: false }) => {
                outlet.metrics.published(&kind, "stored");
                *known = Known { sequence, state };
                return Answer::Stored;
            }
            Ok(Published { duplicate: true, .. }) => {
                outlet.metrics.published(&kind, "duplicate");
                let Some(stored) = look(outlet, &record).await else { return Answer::Lost };
                let is_ours = stored.state == state;
                let is_moving = stored != *known;
                *known = stored;
                if is_ours {
                    return Answer::Stored;
                }
                if is_moving {
                    return Answer::Other;
                }
                // It was published before, and what came after it is on the stream; under another id it will be stored.
                if let Record::Object(event) = &mut record {
                    event.replay = Some(Uuid::new_v4().simple().to_string());
                }
            }
            Err(PublishError::Superseded { .. }) => {
                outlet.metrics.published(&kind, "superseded");
                let Some(stored) = look(outlet, &record).await else { return Answer::Lost };
                if stored == *known {
                    // A server of a cluster that does not know the newest message yet.
                    tokio::time::sleep(LONGEST).await;
                }
                *known = stored;
                return Answer::Other;
            }
            Err(PublishError::NoStream) => return Answer::Lost,
            Err(PublishError::TooLarge { size, .. }) => {
                outlet.metrics.published(&kind, "too_large");
                return Answer::TooLarge(size);
            }
            Err(PublishError::Unavailable(error)) => {
                outlet.metrics.published(&kind, "unavailable");
                outlet.wait(&error.to_string(), &mut pause).await;
            }
            Err(PublishError::Failed(error)) => {
                outlet.metrics.published(&kind, "failed");
                outlet.wait(&error.to_string(), &mut pause).await;
            }
        }
    }
}

/// What the stream says of the object of a record; nothing if there is no stream.
async fn look(outlet: &Outlet, record: &Record) -> Option<Known> {
    let Record::Object(event) = record else { return Some(Known::default()) };
    let mut pause = SHORTEST;
    loop {
        match outlet.bus.last(&event.object).await {
            Ok(None) => return Some(Known::default()),
            Ok(Some(stored)) => {
                let state = match &stored.record {
                    Record::Object(event) => State::of(&event.change),
                    Record::Synced(_) | Record::Cluster(_) | Record::Interest(_) => State::Nothing,
                };
                return Some(Known { sequence: stored.sequence, state });
            }
            Err(groundwork_bus::BusError::NoStream) => return None,
            Err(groundwork_bus::BusError::Message { sequence, .. }) => {
                // Nobody can read it: it is to be replaced.
                return Some(Known { sequence, state: State::Nothing });
            }
            Err(error) => outlet.wait(&error.to_string(), &mut pause).await,
        }
    }
}

impl Outlet {
    /// Publishes something that is no object.
    pub(crate) async fn store(&self, record: &Record) -> Result<(), StreamLost> {
        let mut pause = SHORTEST;
        loop {
            self.reign.needed().await;
            match self.bus.publish(record, None).await {
                Ok(_) => {
                    self.board.bus(None);
                    return Ok(());
                }
                Err(PublishError::NoStream) => return Err(StreamLost),
                Err(error) => self.wait(&error.to_string(), &mut pause).await,
            }
        }
    }

    /// Says what is wrong with the bus, and waits a little, longer each time.
    pub(crate) async fn wait(&self, problem: &str, pause: &mut Duration) {
        self.board.bus(Some(problem.to_owned()));
        tokio::time::sleep(*pause).await;
        *pause = LONGEST.min(*pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(uid: &str, version: &str) -> State {
        State::Alive { uid: Uid::new(uid), version: Version::new(version) }
    }

    fn deleted(uid: &str, version: &str) -> State {
        State::Deleted { uid: Uid::new(uid), version: Version::new(version) }
    }

    fn applied(uid: &str, version: &str) -> Wanted {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        Wanted::Applied(Box::new(Snapshot { uid, resource_version, ..Snapshot::default() }))
    }

    fn gone(uid: Option<&str>, version: &str) -> Wanted {
        Wanted::Gone { uid: uid.map(Uid::new), version: Version::new(version) }
    }

    fn bury(uid: &str, version: &str) -> Option<Next> {
        Some(Next::Bury(Uid::new(uid), Version::new(version)))
    }

    #[test]
    fn the_newer_state_wins() {
        let apply = || Some(Next::Apply);
        let table = [
            (State::Nothing, applied("a", "5"), apply()),
            (alive("a", "4"), applied("a", "5"), apply()),
            (alive("a", "5"), applied("a", "5"), None),
            (alive("a", "6"), applied("a", "5"), None),
            // Another object of the same name: first the end of the one, then the other.
            (alive("a", "4"), applied("b", "5"), bury("a", "4")),
            (deleted("a", "4"), applied("b", "5"), apply()),
            (alive("b", "6"), applied("a", "5"), None),
            // What is gone does not come back.
            (deleted("a", "4"), applied("a", "5"), None),
            (deleted("b", "6"), applied("a", "5"), None),
            (State::Nothing, gone(Some("a"), "5"), None),
            (alive("a", "4"), gone(Some("a"), "5"), bury("a", "5")),
            (alive("b", "6"), gone(Some("a"), "5"), None),
            (alive("b", "4"), gone(Some("a"), "5"), bury("b", "4")),
            (deleted("a", "4"), gone(Some("a"), "5"), None),
            // Missing in a list.
            (alive("a", "4"), gone(None, "5"), bury("a", "4")),
            (alive("a", "6"), gone(None, "5"), None),
            (alive("a", "6"), gone(None, ""), bury("a", "6")),
            // Versions that are no numbers: the API server is believed.
            (alive("a", "x"), applied("a", "y"), apply()),
            (alive("a", "x"), gone(None, "5"), bury("a", "0")),
        ];
        for (known, wanted, expected) in table {
            assert_eq!(next(&known, &wanted), expected, "{known:?} {wanted:?}");
        }
    }
}
