//! Helpers that the test suites share.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::time::Duration;

use groundwork_bus::{
    About, Bus, Change, Entry, Event, Feed, IndexFeed, Kind, NatsOptions, ObjectId, Record, Snapshot,
    SyncMarker, What,
};
use groundwork_testkit::Nats;
use jiff::Timestamp;

/// Time limit for everything that must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Short redelivery time, so that tests need not wait for half a minute.
pub(crate) const ACK_WAIT: Duration = Duration::from_millis(600);

pub(crate) fn secrets() -> Kind {
    Kind::new("", "secrets")
}

pub(crate) fn installations() -> Kind {
    Kind::new("landscaper.gardener.cloud", "installations")
}

pub(crate) fn secret(name: &str) -> ObjectId {
    ObjectId::new(secrets(), Some("n"), name)
}

/// Returns a record of an existing object, whose UID is derived from its name.
pub(crate) fn applied(object: &ObjectId, version: u64) -> Record {
    let snapshot = Snapshot {
        uid: format!("uid-{}", object.name),
        resource_version: version.to_string(),
        ..Snapshot::default()
    };
    event(object, Change::Applied(snapshot))
}

pub(crate) fn deleted(object: &ObjectId, version: u64) -> Record {
    let Record::Object(alive) = applied(object, version) else { panic!("an event") };
    event(object, Change::Deleted(alive.change.snapshot().clone()))
}

pub(crate) fn event(object: &ObjectId, change: Change) -> Record {
    Record::Object(Event {
        object: object.clone(),
        change,
        trace: None,
        replay: None,
        time: Timestamp::now(),
    })
}

pub(crate) fn replayed(record: Record, id: &str) -> Record {
    match record {
        Record::Object(event) => Record::Object(Event { replay: Some(id.to_owned()), ..event }),
        other => other,
    }
}

pub(crate) fn marker(kind: &Kind, count: u64) -> Record {
    Record::Synced(SyncMarker { kind: kind.clone(), namespace: None, resource_version: "9".into(), count })
}

/// Returns a journal entry about a key.
pub(crate) fn entry(key: &ObjectId, job: &str, text: &str) -> Entry {
    Entry {
        time: Timestamp::now(),
        service: "renderer".to_owned(),
        instance: "i".to_owned(),
        key: key.clone(),
        parent: String::new(),
        job: job.to_owned(),
        what: What::Decision,
        about: About::default(),
        reason: "Because".to_owned(),
        text: text.to_owned(),
        seen: String::new(),
        written: String::new(),
    }
}

/// Publishes without a fence, and returns the sequence.
pub(crate) async fn publish(bus: &Bus, record: &Record) -> u64 {
    let published = bus.publish(record, None).await.unwrap();
    assert!(!published.duplicate);
    published.sequence
}

pub(crate) fn options(nats: &Nats) -> NatsOptions {
    NatsOptions { ack_wait: ACK_WAIT, ..NatsOptions::new(nats.url()) }
}

/// Waits for something that must happen within the time limit.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in time: {what}"),
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Waits long enough for a few redeliveries, and fails if the future completes meanwhile.
pub(crate) async fn never<T>(what: &str, future: impl Future<Output = T>) {
    assert!(tokio::time::timeout(ACK_WAIT * 2, future).await.is_err(), "{what}");
}

/// Returns the next step in a few words.
pub(crate) async fn next(feed: &mut IndexFeed) -> String {
    match within("the feed goes on", feed.next()).await {
        Feed::Reset => "reset".to_owned(),
        Feed::Record { position, record } => {
            let what = match record {
                Record::Object(event) => match event.change {
                    Change::Applied(snapshot) => {
                        format!("{}@{}", event.object.name, snapshot.resource_version)
                    }
                    Change::Deleted(_) => format!("{} deleted", event.object.name),
                },
                Record::Synced(marker) => format!("synced {}", marker.kind),
                Record::Cluster(identity) => format!("cluster {}", identity.uid),
                Record::Interest(interest) => format!("interest of {}", interest.holder),
            };
            format!("{position} {what}")
        }
    }
}

/// Returns the next steps in a few words.
pub(crate) async fn steps(feed: &mut IndexFeed, count: usize) -> Vec<String> {
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(next(feed).await);
    }
    steps
}
