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
            Ok(Published { duplicate: true, sequence }) => {
                outlet.metrics.published(&kind, "duplicate");
                let Some(stored) = look(outlet, &record).await else { return Answer::Lost };
                let is_ours = stored.sequence == sequence;
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
    use groundwork_telemetry::Telemetry;

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

    fn outlet(reign: Reign) -> (Outlet, Telemetry) {
        let telemetry = Telemetry::silent("watcher");
        let metrics = Metrics::new(&telemetry.metrics);
        let board = Board::new(telemetry.health.condition("stream"), metrics.clone());
        (Outlet { bus: Bus::in_process(), board, metrics, reign }, telemetry)
    }

    async fn settled(outlet: &Outlet, known: Known, wanted: Wanted) -> Settled {
        let key = Key::new(Some("n"), "a");
        let seen = (Instant::now(), Timestamp::now());
        settle(outlet.clone(), Kind::new("", "secrets"), key, known, wanted, seen).await
    }

    /// A watcher that did not see what another one published: with its old fence it changes nothing that is newer.
    #[tokio::test]
    async fn a_late_publication_is_refused() {
        let (outlet, telemetry) = outlet(Reign::unlimited());
        outlet.bus.ensure_stream().await.unwrap();
        let first = settled(&outlet, Known::default(), applied("u", "5")).await.known;
        let newest = settled(&outlet, first.clone(), applied("u", "7")).await.known;

        let late = settled(&outlet, first.clone(), applied("u", "6")).await;
        assert_eq!((late.known, late.outcome), (newest.clone(), Outcome::Done));
        let late = settled(&outlet, first.clone(), gone(None, "6")).await;
        assert_eq!(late.known, newest);
        assert_eq!(outlet.bus.status().await.unwrap().last_sequence, newest.sequence);

        // What is newer is stored all the same, behind the fence that was read.
        let newer = settled(&outlet, first.clone(), applied("v", "8")).await.known;
        assert_eq!((newer.sequence, newer.state), (newest.sequence + 2, alive("v", "8")));
        let text = telemetry.metrics.encode().unwrap();
        let counted = |outcome: &str, count: u32| {
            text.contains(&format!("published_total{{kind=\"secrets\",outcome=\"{outcome}\"}} {count}\n"))
        };
        assert!(counted("stored", 4) && counted("superseded", 3), "{text}");
    }

    /// Something that was published within the duplicate window, and is not what the stream says now.
    #[tokio::test]
    async fn a_duplicate_is_looked_at() {
        let (outlet, _telemetry) = outlet(Reign::unlimited());
        outlet.bus.ensure_stream().await.unwrap();
        let first = settled(&outlet, Known::default(), applied("u", "x")).await.known;
        let second = settled(&outlet, first, applied("u", "y")).await.known;
        // Versions that are no numbers say nothing about which is newer: the API server is believed.
        let third = settled(&outlet, second.clone(), applied("u", "x")).await;
        assert_eq!((third.outcome, third.known.sequence), (Outcome::Done, second.sequence + 1));
        let stored = outlet.bus.last(&Key::new(Some("n"), "a").object(&Kind::new("", "secrets"))).await;
        let Ok(Some(groundwork_bus::Stored { record: Record::Object(event), .. })) = stored else { panic!() };
        assert_eq!(event.change.resource_version(), "x");
    }

    #[tokio::test]
    async fn nothing_is_published_after_the_reign() {
        let (outlet, _telemetry) = outlet(Reign::until(tokio::time::Instant::now()));
        outlet.bus.ensure_stream().await.unwrap();
        let late = settled(&outlet, Known::default(), applied("u", "5"));
        assert!(tokio::time::timeout(Duration::from_millis(50), late).await.is_err());
        assert_eq!(outlet.bus.status().await.unwrap().messages, 0);
    }

    #[tokio::test]
    async fn a_lost_stream_and_what_is_too_large_are_told() {
        let (outlet, _telemetry) = outlet(Reign::unlimited());
        let lost = settled(&outlet, Known::default(), applied("u", "5")).await;
        assert_eq!(lost.outcome, Outcome::Lost);
        outlet.bus.ensure_stream().await.unwrap();
        let labels = [("l".to_owned(), "x".repeat(groundwork_bus::LARGEST))].into();
        let large = Snapshot { uid: "u".into(), resource_version: "6".into(), labels, ..Snapshot::default() };
        let large = settled(&outlet, Known::default(), Wanted::Applied(Box::new(large))).await;
        assert!(matches!(large.outcome, Outcome::TooLarge(65_536..)), "{large:?}");
        assert_eq!(large.known, Known::default());
    }
}
