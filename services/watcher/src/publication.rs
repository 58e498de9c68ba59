//! The publication of one object: attempts, until the stream has the desired state or a newer one.

use std::sync::Arc;
use std::time::Instant;

use groundwork_bus::{
    Backoff, BusError, Change, Event, Kind, ObjectId, PublishError, Published, Record, Snapshot,
};
use groundwork_telemetry::trace;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::Instrument;
use uuid::Uuid;

use crate::ledger::{Key, LastMessage, State, Uid, Version};
use crate::stream_writer::{StreamNotFoundError, StreamWriter};

/// State of an object that the stream should have.
#[derive(Debug, Clone)]
pub(crate) enum DesiredState {
    Applied(Box<Snapshot>),
    /// The object with this last state is deleted. `None` if the watcher did not see the deletion:
    /// then any object of this name up to this resourceVersion is deleted.
    Deleted {
        last: Option<Box<Snapshot>>,
        version: Version,
    },
    /// The current record of the stream, to be published again.
    Replay(Replay),
}

/// A request to publish objects again. The caller counts messages on the channel: one for each
/// published event, until the last clone of the sender is dropped, which marks the end.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    /// Id of the replay in the events, by which the caller recognises them.
    pub(crate) id: Arc<str>,
    pub(crate) published: mpsc::UnboundedSender<()>,
}

/// Time at which the API server showed a state: on the monotonic clock for latencies, and as the
/// time in the event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    instant: Instant,
    time: Timestamp,
}

impl Observed {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), time: Timestamp::now() }
    }
}

/// Result of the attempts to publish an object.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) key: Key,
    /// UID of the object whose state was to be published.
    pub(crate) uid: Option<String>,
    /// Last message about the object, now.
    pub(crate) last: LastMessage,
    pub(crate) outcome: PublicationOutcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PublicationOutcome {
    /// The stream has the desired state, or a newer one.
    UpToDate,
    /// The event has this size in bytes and did not fit. The stream has it without labels,
    /// finalizers and long annotations of others.
    Reduced(usize),
    /// The event has this size in bytes and did not fit in any form. The stream is unchanged.
    TooLarge(usize),
    StreamNotFound,
}

/// Outcome of one message.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    /// The message is the last one about its object.
    Stored,
    /// Another message is the last one, so the next message has to be decided again.
    Superseded,
    /// The message has this size in bytes, which is too large.
    TooLarge(usize),
    StreamNotFound,
}

/// The next message on the way to the desired state.
#[derive(Debug, PartialEq, Eq)]
enum NextMessage {
    Snapshot,
    Tombstone(Uid, Version),
}

/// Returns the message to publish, if any, when the stream has one state and should have another. A
/// state that is older than the stream's is dropped, since another watcher was faster. The UID of a
/// deleted object never comes back, except where versions are not numbers: servers of such kinds
/// also derive UIDs from names.
fn next_message(last: &State, desired: &DesiredState) -> Option<NextMessage> {
    match (desired, last) {
        (DesiredState::Applied(_), State::Absent) => Some(NextMessage::Snapshot),
        (DesiredState::Applied(snapshot), State::Alive { uid, version }) => {
            if version.covers(Version::new(&snapshot.resource_version)) {
                None
            } else if *uid == Uid::new(&snapshot.uid) {
                Some(NextMessage::Snapshot)
            } else {
                Some(NextMessage::Tombstone(uid.clone(), *version))
            }
        }
        (DesiredState::Applied(snapshot), State::Deleted { uid, version }) => {
            let applied = Version::new(&snapshot.resource_version);
            let is_outdated =
                applied.is_known() && *uid == Uid::new(&snapshot.uid) || version.covers(applied);
            (!is_outdated).then_some(NextMessage::Snapshot)
        }
        (DesiredState::Deleted { last, version: at }, State::Alive { uid, version }) => {
            if last.as_ref().is_some_and(|last| Uid::new(&last.uid) == *uid) {
                Some(NextMessage::Tombstone(uid.clone(), version.max(*at)))
            } else {
                (!version.is_after(*at)).then(|| NextMessage::Tombstone(uid.clone(), *version))
            }
        }
        (DesiredState::Deleted { .. }, State::Absent | State::Deleted { .. }) => None,
        (DesiredState::Replay(_), _) => None,
    }
}

impl DesiredState {
    /// Reports whether a publication is needed after this last message.
    pub(crate) fn needs_publication(&self, last: &State) -> bool {
        matches!(self, Self::Replay(_)) || next_message(last, self).is_some()
    }

    fn uid(&self) -> Option<String> {
        match self {
            Self::Applied(snapshot) => Some(snapshot.uid.clone()),
            Self::Deleted { .. } | Self::Replay(_) => None,
        }
    }

    /// Returns the last state of a deleted object, if the API server has shown it.
    fn last(&self) -> Option<&Snapshot> {
        match self {
            Self::Deleted { last, .. } => last.as_deref(),
            Self::Applied(_) | Self::Replay(_) => None,
        }
    }
}

/// Publishes until the stream has the desired state or a newer one. Waits while the bus does not
/// answer.
pub(crate) async fn publish_object(
    writer: StreamWriter,
    kind: Kind,
    key: Key,
    mut last: LastMessage,
    desired: DesiredState,
    observed: Observed,
) -> Publication {
    let object = key.object(&kind);
    if let DesiredState::Replay(replay) = desired {
        let outcome = republish(&writer, &object, &mut last, &replay).await;
        return Publication { key, uid: None, last, outcome };
    }
    let uid = desired.uid();
    let (mut fits, mut reduced) = (true, None);
    let outcome = loop {
        let Some(message) = next_message(&last.state, &desired) else { break PublicationOutcome::UpToDate };
        let is_last =
            matches!(&message, NextMessage::Snapshot) || !matches!(desired, DesiredState::Applied(_));
        let change = match message {
            NextMessage::Snapshot => match &desired {
                DesiredState::Applied(snapshot) if reduced.is_some() => Change::Applied(snapshot.reduced()),
                DesiredState::Applied(snapshot) => Change::Applied(Snapshot::clone(snapshot)),
                DesiredState::Deleted { .. } | DesiredState::Replay(_) => break PublicationOutcome::UpToDate,
            },
            NextMessage::Tombstone(uid, version) => {
                let told = desired.last().filter(|_| fits);
                let Ok(snapshot) = last_seen(&writer, &object, told, &uid).await else {
                    break PublicationOutcome::StreamNotFound;
                };
                let (uid, resource_version) = (uid.to_string(), version.to_string());
                Change::Deleted(Snapshot { uid, resource_version, ..snapshot })
            }
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
        let event = Event { object: object.clone(), change, trace, replay: None, time: observed.time };
        match send(&writer, event, &mut last).instrument(span).await {
            Sent::Stored if is_last => {
                writer.metrics.latency(observed.instant.elapsed());
                break reduced.map_or(PublicationOutcome::UpToDate, PublicationOutcome::Reduced);
            }
            Sent::Stored | Sent::Superseded => {}
            // A deletion must be published in any case. Fall back to the state on the stream, which
            // did fit.
            Sent::TooLarge(_) if fits && desired.last().is_some() => fits = false,
            Sent::TooLarge(size) if reduced.is_none() && matches!(desired, DesiredState::Applied(_)) => {
                reduced = Some(size);
            }
            Sent::TooLarge(size) => break PublicationOutcome::TooLarge(size),
            Sent::StreamNotFound => break PublicationOutcome::StreamNotFound,
        }
    };
    Publication { key, uid, last, outcome }
}

/// Returns the last state of a deleted object: from the API server, or else from the stream. An
/// unreadable message gives an empty state.
async fn last_seen(
    writer: &StreamWriter,
    object: &ObjectId,
    told: Option<&Snapshot>,
    uid: &Uid,
) -> Result<Snapshot, StreamNotFoundError> {
    let is_same = |snapshot: &Snapshot| Uid::new(&snapshot.uid) == *uid;
    if let Some(told) = told.filter(|told| is_same(told)) {
        return Ok(told.clone());
    }
    let mut failures = 0;
    loop {
        match writer.bus.last(object).await {
            Ok(stored) => {
                let Some(Record::Object(event)) = stored.map(|stored| stored.record) else { break };
                return Ok(Some(event.change.snapshot().clone()).filter(is_same).unwrap_or_default());
            }
            Err(BusError::StreamNotFound) => return Err(StreamNotFoundError),
            Err(BusError::Message { .. }) => break,
            Err(error) => writer.back_off(&error.to_string(), &mut failures).await,
        }
    }
    Ok(Snapshot::default())
}

/// Publishes the current record of the stream again. Stops if a change is published meanwhile,
/// because that event serves the same purpose.
async fn republish(
    writer: &StreamWriter,
    object: &ObjectId,
    last: &mut LastMessage,
    replay: &Replay,
) -> PublicationOutcome {
    let mut failures = 0;
    let stored = loop {
        match writer.bus.last(object).await {
            Ok(stored) => break stored,
            Err(BusError::StreamNotFound) => return PublicationOutcome::StreamNotFound,
            Err(error) => writer.back_off(&error.to_string(), &mut failures).await,
        }
    };
    let Some((sequence, Record::Object(event))) = stored.map(|stored| (stored.sequence, stored.record))
    else {
        return PublicationOutcome::UpToDate;
    };
    *last = LastMessage { sequence, state: State::of(&event.change) };
    if !last.state.is_alive() {
        return PublicationOutcome::UpToDate;
    }
    let span = tracing::info_span!(parent: None, "replay", otel.kind = "producer", %object);
    let trace = trace::traceparent(&span);
    let id = Some(replay.id.to_string());
    let event = Event { trace, replay: id, time: Timestamp::now(), ..event };
    match send(writer, event, last).instrument(span).await {
        Sent::StreamNotFound => return PublicationOutcome::StreamNotFound,
        Sent::Stored | Sent::Superseded | Sent::TooLarge(_) => {}
    }
    // The caller may have gone, which is fine.
    let _ = replay.published.send(());
    PublicationOutcome::UpToDate
}

/// Publishes one event with the last message as its fence. Afterwards `last` is the stream's last
/// message.
async fn send(writer: &StreamWriter, event: Event, last: &mut LastMessage) -> Sent {
    let (kind, state) = (event.object.kind.clone(), State::of(&event.change));
    let mut record = Record::Object(event);
    let mut failures = 0;
    loop {
        writer.until_compared().await;
        writer.leadership.block_if_ended().await;
        let before = writer.continuity.acknowledged();
        let answer = writer.bus.publish(&record, Some(last.sequence)).await;
        if !matches!(&answer, Err(PublishError::Unavailable(_) | PublishError::Failed(_))) {
            writer.status.set_bus_problem(None);
        }
        match answer {
            Ok(Published { sequence, duplicate: false }) => {
                if let Err(gone) = writer.continuity.note(sequence, before) {
                    tracing::debug!(%gone, "a record was published to another stream than before");
                    return Sent::StreamNotFound;
                }
                writer.metrics.published(&kind, "stored");
                *last = LastMessage { sequence, state };
                return Sent::Stored;
            }
            Ok(Published { duplicate: true, sequence }) => {
                writer.metrics.published(&kind, "duplicate");
                let Ok(stored) = read_last(writer, &record).await else { return Sent::StreamNotFound };
                let is_ours = stored.sequence == sequence;
                let has_changed = stored != *last;
                *last = stored;
                if is_ours {
                    return Sent::Stored;
                }
                if has_changed {
                    return Sent::Superseded;
                }
                // The server treats the message as a duplicate: it stored the same one a while ago,
                // and another one after it. A new id makes it a new message.
                if let Record::Object(event) = &mut record {
                    event.replay = Some(Uuid::new_v4().simple().to_string());
                }
            }
            Err(PublishError::Superseded { .. }) => {
                writer.metrics.published(&kind, "superseded");
                let Ok(stored) = read_last(writer, &record).await else { return Sent::StreamNotFound };
                if stored == *last {
                    // In a NATS cluster, one server refused the fence and another one does not have
                    // the newer message yet.
                    tokio::time::sleep(Backoff::PUBLICATION.longest).await;
                }
                *last = stored;
                return Sent::Superseded;
            }
            Err(PublishError::StreamNotFound) => return Sent::StreamNotFound,
            Err(PublishError::TooLarge { size, .. }) => {
                writer.metrics.published(&kind, "too_large");
                return Sent::TooLarge(size);
            }
            Err(PublishError::Unavailable(error)) => {
                writer.metrics.published(&kind, "unavailable");
                writer.back_off(&error.to_string(), &mut failures).await;
            }
            Err(PublishError::Failed(error)) => {
                writer.metrics.published(&kind, "failed");
                writer.back_off(&error.to_string(), &mut failures).await;
            }
        }
    }
}

/// Returns the stream's last message about the object of a record.
async fn read_last(writer: &StreamWriter, record: &Record) -> Result<LastMessage, StreamNotFoundError> {
    let Record::Object(event) = record else { return Ok(LastMessage::default()) };
    let mut failures = 0;
    loop {
        match writer.bus.last(&event.object).await {
            Ok(None) => return Ok(LastMessage::default()),
            Ok(Some(stored)) => {
                let state = match &stored.record {
                    Record::Object(event) => State::of(&event.change),
                    Record::Synced(_) | Record::Cluster(_) | Record::Interest(_) => State::Absent,
                };
                return Ok(LastMessage { sequence: stored.sequence, state });
            }
            Err(BusError::StreamNotFound) => return Err(StreamNotFoundError),
            Err(BusError::Message { sequence, .. }) => {
                // No reader can use this unreadable message, so the next one replaces it.
                return Ok(LastMessage { sequence, state: State::Absent });
            }
            Err(error) => writer.back_off(&error.to_string(), &mut failures).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use groundwork_bus::Bus;
    use groundwork_telemetry::Telemetry;

    use super::*;
    use crate::continuity::Continuity;
    use crate::leadership::Leadership;
    use crate::metrics::Metrics;
    use crate::status::SharedStatus;

    fn alive(uid: &str, version: &str) -> State {
        State::Alive { uid: Uid::new(uid), version: Version::new(version) }
    }

    fn deleted(uid: &str, version: &str) -> State {
        State::Deleted { uid: Uid::new(uid), version: Version::new(version) }
    }

    fn snapshot(uid: &str, version: &str) -> Box<Snapshot> {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        Box::new(Snapshot { uid, resource_version, ..Snapshot::default() })
    }

    fn applied(uid: &str, version: &str) -> DesiredState {
        DesiredState::Applied(snapshot(uid, version))
    }

    fn missing(uid: Option<&str>, version: &str) -> DesiredState {
        let last = uid.map(|uid| snapshot(uid, version));
        DesiredState::Deleted { last, version: Version::new(version) }
    }

    fn tombstone(uid: &str, version: &str) -> Option<NextMessage> {
        Some(NextMessage::Tombstone(Uid::new(uid), Version::new(version)))
    }

    #[test]
    fn the_newer_state_wins() {
        let snapshot = || Some(NextMessage::Snapshot);
        let table = [
            (State::Absent, applied("a", "5"), snapshot()),
            (alive("a", "4"), applied("a", "5"), snapshot()),
            (alive("a", "5"), applied("a", "5"), None),
            (alive("a", "6"), applied("a", "5"), None),
            // Another object has the same name: publish the deletion of the first, then the second.
            (alive("a", "4"), applied("b", "5"), tombstone("a", "4")),
            (deleted("a", "4"), applied("b", "5"), snapshot()),
            (alive("b", "6"), applied("a", "5"), None),
            // A deleted object does not come back with the same UID.
            (deleted("a", "4"), applied("a", "5"), None),
            (deleted("b", "6"), applied("a", "5"), None),
            (State::Absent, missing(Some("a"), "5"), None),
            (alive("a", "4"), missing(Some("a"), "5"), tombstone("a", "5")),
            (alive("b", "6"), missing(Some("a"), "5"), None),
            (alive("b", "4"), missing(Some("a"), "5"), tombstone("b", "4")),
            (deleted("a", "4"), missing(Some("a"), "5"), None),
            // The object is missing in a list, so its UID is unknown.
            (alive("a", "4"), missing(None, "5"), tombstone("a", "4")),
            (alive("a", "6"), missing(None, "5"), None),
            (alive("a", "6"), missing(None, ""), tombstone("a", "6")),
            // Versions that are not numbers cannot be compared, so the API server's order counts.
            (deleted("a", "0"), applied("a", "x"), snapshot()),
            (alive("a", "x"), applied("a", "y"), snapshot()),
            (alive("a", "x"), missing(None, "5"), tombstone("a", "0")),
        ];
        for (last, desired, expected) in table {
            assert_eq!(next_message(&last, &desired), expected, "{last:?} {desired:?}");
        }
    }

    fn writer(leadership: Leadership) -> (StreamWriter, Telemetry) {
        let telemetry = Telemetry::silent("watcher");
        let metrics = Metrics::new(&telemetry.metrics);
        let status = SharedStatus::new(telemetry.health.condition("stream"), metrics.clone());
        (
            StreamWriter {
                bus: Bus::in_process(),
                status,
                metrics,
                leadership,
                continuity: Continuity::default(),
            },
            telemetry,
        )
    }

    async fn publish(writer: &StreamWriter, last: LastMessage, desired: DesiredState) -> Publication {
        let key = Key::new(Some("n"), "a");
        publish_object(writer.clone(), Kind::new("", "secrets"), key, last, desired, Observed::now()).await
    }

    /// A watcher that missed the publication of another one must not overwrite newer records with
    /// its old fence.
    #[tokio::test]
    async fn a_late_publication_is_refused() {
        let (writer, telemetry) = writer(Leadership::unlimited());
        writer.bus.ensure_stream().await.unwrap();
        let first = publish(&writer, LastMessage::default(), applied("u", "5")).await.last;
        let newest = publish(&writer, first.clone(), applied("u", "7")).await.last;

        let late = publish(&writer, first.clone(), applied("u", "6")).await;
        assert_eq!((late.last, late.outcome), (newest.clone(), PublicationOutcome::UpToDate));
        let late = publish(&writer, first.clone(), missing(None, "6")).await;
        assert_eq!(late.last, newest);
        assert_eq!(writer.bus.status().await.unwrap().last_sequence, newest.sequence);

        // A newer state is stored all the same, with the fence that was read from the stream.
        let newer = publish(&writer, first.clone(), applied("v", "8")).await.last;
        assert_eq!((newer.sequence, newer.state), (newest.sequence + 2, alive("v", "8")));
        let text = telemetry.metrics.encode().unwrap();
        let counted = |outcome: &str, count: u32| {
            text.contains(&format!("published_total{{kind=\"secrets\",outcome=\"{outcome}\"}} {count}\n"))
        };
        assert!(counted("stored", 4) && counted("superseded", 3), "{text}");
    }

    fn secret() -> ObjectId {
        Key::new(Some("n"), "a").object(&Kind::new("", "secrets"))
    }

    /// Returns the change in the last message about the object.
    async fn change(writer: &StreamWriter) -> Change {
        let stored = writer.bus.last(&secret()).await;
        let Ok(Some(groundwork_bus::Stored { record: Record::Object(event), .. })) = stored else { panic!() };
        event.change
    }

    /// Readers need the owner of a deleted object, so the tombstone must contain it even if no
    /// watcher saw the deletion.
    #[tokio::test]
    async fn a_tombstone_tells_what_the_last_state_told() {
        let labelled = |uid: &str, version: &str, label: &str| {
            Box::new(Snapshot {
                labels: [("l".to_owned(), label.to_owned())].into(),
                ..*snapshot(uid, version)
            })
        };
        let label = |change: &Change| match change {
            Change::Deleted(snapshot) => snapshot.label("l").to_owned(),
            Change::Applied(_) => panic!("it is there"),
        };
        let large = "x".repeat(groundwork_bus::MAX_EVENT_BYTES);
        let deletions = [
            (
                DesiredState::Deleted { last: Some(labelled("u", "7", "seen")), version: Version::new("7") },
                "seen",
                "7",
            ),
            (missing(None, "7"), "stored", "5"),
            (
                DesiredState::Deleted { last: Some(labelled("u", "7", &large)), version: Version::new("7") },
                "stored",
                "7",
            ),
        ];
        for (deletion, expected, version) in deletions {
            let (writer, _telemetry) = writer(Leadership::unlimited());
            writer.bus.ensure_stream().await.unwrap();
            let first =
                publish(&writer, LastMessage::default(), DesiredState::Applied(labelled("u", "5", "stored")));
            let last = first.await.last;
            let outcome = publish(&writer, last, deletion).await.outcome;
            let change = change(&writer).await;
            assert_eq!((outcome, label(&change).as_str()), (PublicationOutcome::UpToDate, expected));
            assert_eq!((change.uid(), change.resource_version()), ("u", version));
        }
        // A new object has taken the name of one whose deletion the watcher missed.
        let (writer, _telemetry) = writer(Leadership::unlimited());
        writer.bus.ensure_stream().await.unwrap();
        let first =
            publish(&writer, LastMessage::default(), DesiredState::Applied(labelled("u", "5", "stored")));
        let last = first.await.last;
        let told = last_seen(&writer, &secret(), None, &Uid::new("u")).await.unwrap();
        assert_eq!(told.label("l"), "stored");
        assert_eq!(publish(&writer, last, applied("v", "8")).await.last.state, alive("v", "8"));
    }

    /// A state that was published within the duplicate window, and is not the last one any more.
    #[tokio::test]
    async fn a_duplicate_is_looked_at() {
        let (writer, _telemetry) = writer(Leadership::unlimited());
        writer.bus.ensure_stream().await.unwrap();
        let first = publish(&writer, LastMessage::default(), applied("u", "x")).await.last;
        let second = publish(&writer, first, applied("u", "y")).await.last;
        // Versions that are not numbers cannot be compared, so the API server's order counts.
        let third = publish(&writer, second.clone(), applied("u", "x")).await;
        assert_eq!((third.outcome, third.last.sequence), (PublicationOutcome::UpToDate, second.sequence + 1));
        assert_eq!(change(&writer).await.resource_version(), "x");
    }

    #[tokio::test]
    async fn nothing_is_published_after_the_leadership() {
        let (writer, _telemetry) = writer(Leadership::until(tokio::time::Instant::now()));
        writer.bus.ensure_stream().await.unwrap();
        let late = publish(&writer, LastMessage::default(), applied("u", "5"));
        assert!(tokio::time::timeout(Duration::from_millis(50), late).await.is_err());
        assert_eq!(writer.bus.status().await.unwrap().messages, 0);
    }

    #[tokio::test]
    async fn a_missing_stream_and_what_is_too_large_are_outcomes() {
        let (writer, _telemetry) = writer(Leadership::unlimited());
        let without_stream = publish(&writer, LastMessage::default(), applied("u", "5")).await;
        assert_eq!(without_stream.outcome, PublicationOutcome::StreamNotFound);
        writer.bus.ensure_stream().await.unwrap();
        let long = "x".repeat(groundwork_bus::MAX_EVENT_BYTES);
        let small = Snapshot { uid: "u".into(), resource_version: "6".into(), ..Snapshot::default() };
        let fields = [("spec".to_owned(), long.clone().into())].into_iter().collect();
        let large = DesiredState::Applied(Box::new(Snapshot { fields, ..small.clone() }));
        let large = publish(&writer, LastMessage::default(), large).await;
        assert!(matches!(large.outcome, PublicationOutcome::TooLarge(65_536..)), "{large:?}");
        assert_eq!(large.last, LastMessage::default());
        // Labels and annotations of others are dropped, and those that services read stay.
        let labels = [("l".to_owned(), long.clone()), ("groundwork.dev/l".to_owned(), "v".to_owned())].into();
        let annotation = |name: &str, value: String| (format!("landscaper.gardener.cloud/{name}"), value);
        let annotations = [annotation("operation", "reconcile".to_owned()), annotation("x", long)].into();
        let finalizers = (0..2_000).map(|number| format!("example.org/finalizer-{number}")).collect();
        let large = Snapshot { labels, annotations, finalizers, ..small };
        let large = publish(&writer, LastMessage::default(), DesiredState::Applied(Box::new(large))).await;
        assert!(matches!(large.outcome, PublicationOutcome::Reduced(65_536..)), "{large:?}");
        let Change::Applied(kept) = change(&writer).await else { panic!("it lives") };
        assert_eq!((kept.label("l"), kept.label("groundwork.dev/l")), ("", "v"));
        assert_eq!(kept.annotations.len(), 1);
        assert!(
            kept.annotation("landscaper.gardener.cloud/operation") == "reconcile"
                && kept.finalizers.len() == 16
        );
    }
}
