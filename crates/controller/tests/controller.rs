//! A controller on a real bus, with handlers that only record their calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use groundwork_bus::{
    ACK_WAIT, Backoff, Bus, Change, Event, Index, Kind, ObjectId, Record, Snapshot, SyncMarker,
};
use groundwork_controller::{
    Casualties, Controller, Handler, Key, Metrics, Objects, Options, ReconcileError, ReconcileRequest,
    Reconciled, Sources, sources,
};
use groundwork_telemetry::Telemetry;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

fn kind() -> Kind {
    Kind::new("example.org", "things")
}

fn object(name: &str) -> ObjectId {
    ObjectId::new(kind(), Some("ns"), name)
}

/// Names of the handled keys, with the times.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, Vec<Instant>>>);

impl Notes {
    fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, Vec::len)
    }
}

/// Test handler. Objects labelled `waiting` are not at rest. Names that begin with `bad` always
/// fail, those with `panic` panic once, those with `slow` take their time, and `unheld` ones are
/// not looked up.
#[async_trait]
impl Handler for Notes {
    fn keys(&self, object: &ObjectId, change: &Change, _: &Index) -> Vec<Key> {
        if matches!(change, Change::Applied(_)) { vec![object.clone()] } else { Vec::new() }
    }

    fn looks_up(&self, object: &ObjectId, _: &Snapshot) -> bool {
        !object.name.starts_with("unheld")
    }

    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        snapshot.labels.contains_key("waiting").then(|| object.clone())
    }

    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        (is_initial_sync && snapshot.labels.contains_key("unfinished"))
            .then(|| (object.clone(), Timestamp::now()))
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let name = request.key.name.clone();
        self.0.lock().unwrap().entry(name.clone()).or_default().push(Instant::now());
        match name.as_str() {
            "held" | "unheld" if request.index.get(request.key).is_some() != (name == "held") => {
                Err(ReconcileError::new("the index holds something else"))
            }
            name if name.starts_with("bad") => Err(ReconcileError::new("it is bad")),
            name if name.starts_with("panic") && self.count(name) == 1 => panic!("on purpose"),
            name if name.starts_with("slow") => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(Reconciled::default())
            }
            _ => Ok(Reconciled::default()),
        }
    }
}

struct Bench {
    bus: Bus,
    notes: Arc<Notes>,
    end: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
    sources: Option<Sources>,
}

impl Bench {
    async fn new() -> Self {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        let bench =
            Self { bus, notes: Arc::default(), end: CancellationToken::new(), task: None, sources: None };
        let marker = SyncMarker { kind: kind(), namespace: None, resource_version: "1".into(), count: 0 };
        bench.bus.publish(&Record::Synced(marker), None).await.unwrap();
        bench
    }

    fn run(&mut self) {
        let telemetry = Telemetry::silent("test");
        let metrics = Metrics::new(&telemetry.metrics, "test");
        // This API server is never called.
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let controller = Controller {
            bus: self.bus.clone(),
            objects: Objects::new(client, "test", metrics.clone()),
            handler: Arc::<Notes>::clone(&self.notes),
            options: Options {
                service: "test",
                work: vec![kind()],
                indexed: Vec::new(),
                namespaces: Vec::new(),
                concurrency: 4,
                backoff: Backoff::OBJECT,
            },
            metrics,
            casualties: Casualties::default(),
            ready: telemetry.health.condition("index"),
        };
        let (sources, changes) = sources();
        self.sources = Some(sources);
        self.task = Some(tokio::spawn(controller.run_with(changes, self.end.clone())));
    }

    async fn publish(&self, name: &str, version: u64, labels: &[&str]) {
        self.publish_of(object(name), version, labels).await;
    }

    async fn publish_of(&self, object: ObjectId, version: u64, labels: &[&str]) {
        let name = &object.name;
        let snapshot = Snapshot {
            uid: format!("uid-{name}"),
            resource_version: version.to_string(),
            labels: labels.iter().map(|label| ((*label).to_owned(), String::new())).collect(),
            ..Snapshot::default()
        };
        let change = Change::Applied(snapshot);
        let event = Event { object, change, trace: None, replay: None, time: Timestamp::now() };
        self.bus.publish(&Record::Object(event), None).await.unwrap();
    }

    async fn until(&self, what: &str, holds: impl Fn(&Notes) -> bool) {
        let start = Instant::now();
        while !holds(&self.notes) {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}: {:?}", self.notes.0.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until events of a kind are no longer handled.
    async fn until_source_ended(&self, object: &ObjectId) {
        let start = Instant::now();
        for version in 100.. {
            let before = self.notes.count(&object.name);
            self.publish_of(object.clone(), version, &[]).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            if self.notes.count(&object.name) == before {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{object} is handled for ever");
        }
    }

    /// Waits until the bus has no unanswered event for this controller.
    async fn until_answered(&self) {
        let queue = self.bus.work("test", &kind()).await.unwrap();
        let start = Instant::now();
        loop {
            let state = queue.state().await.unwrap();
            if state.pending + state.unacknowledged == 0 {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{state:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn every_event_is_handled_and_answered() {
    let mut bench = Bench::new().await;
    bench.run();
    for index in 0..50 {
        bench.publish(&format!("thing-{index}"), 1, &[]).await;
    }
    bench
        .until("all are handled", |notes| (0..50).all(|index| notes.count(&format!("thing-{index}")) == 1))
        .await;
    bench.until_answered().await;
}

/// An object that the handler does not look up is not kept in the index, and is handled all the
/// same: as a new event, and after a restart.
#[tokio::test]
async fn what_is_not_looked_up_is_not_held() {
    let mut bench = Bench::new().await;
    bench.publish("unheld", 1, &["unfinished"]).await;
    bench.run();
    bench.until("it was left behind", |notes| notes.count("unheld") >= 1).await;
    for name in ["held", "unheld"] {
        bench.publish(name, 2, &[]).await;
    }
    bench.until("both are handled", |notes| notes.count("held") >= 1 && notes.count("unheld") >= 2).await;
    bench.until_answered().await;
}

/// An event that is superseded while its predecessor is being handled must leave nothing pending.
#[tokio::test]
async fn superseded_events_leave_nothing_behind() {
    let mut bench = Bench::new().await;
    bench.run();
    for version in 1..20 {
        bench.publish("slow", version, &[]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.until("the last one is handled", |notes| notes.count("slow") >= 2).await;
    bench.until_answered().await;
    assert!(bench.notes.count("slow") < 19, "events of one key are handled together");
}

/// 2,000 objects that always fail must not delay others, and each is tried as often as its back-off
/// allows.
#[tokio::test(flavor = "multi_thread")]
async fn failing_keys_delay_no_other() {
    let mut bench = Bench::new().await;
    bench.run();
    for index in 0..2000 {
        bench.publish(&format!("bad-{index}"), 1, &[]).await;
    }
    bench.until("bad ones have failed twice", |notes| notes.count("bad-1999") >= 2).await;
    let start = Instant::now();
    bench.publish("good", 1, &[]).await;
    bench.until("the good one is handled", |notes| notes.count("good") == 1).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    bench.until("some more attempts", |notes| notes.count("bad-0") >= 5).await;
    let notes = bench.notes.0.lock().unwrap();
    for (name, times) in notes.iter().filter(|(name, _)| name.starts_with("bad")) {
        for (index, pair) in times.windows(2).enumerate() {
            let pause = Backoff::OBJECT.pause(u32::try_from(index).unwrap() + 1);
            let waited = pair[1] - pair[0];
            assert!(
                waited + Duration::from_millis(2) >= pause,
                "{name}: {waited:?} after failure {}",
                index + 1
            );
        }
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_tried_again() {
    let mut bench = Bench::new().await;
    bench.run();
    bench.publish("panic", 1, &[]).await;
    bench.until("it is tried again", |notes| notes.count("panic") == 2).await;
    bench.publish("panic", 2, &[]).await;
    bench.until("and handled on", |notes| notes.count("panic") == 3).await;
}

/// Unfinished work of an earlier process is found from the state of objects, even if the bus counts
/// its events as answered.
#[tokio::test]
async fn unfinished_work_is_taken_up_at_start() {
    let mut bench = Bench::new().await;
    bench.publish("left", 1, &["unfinished"]).await;
    bench.publish("done", 1, &[]).await;
    let mut queue = bench.bus.work("test", &kind()).await.unwrap();
    for delivery in queue.pull(2).await {
        delivery.ack().await;
    }
    bench.until_answered().await;
    bench.run();
    bench.until("what was left is handled", |notes| notes.count("left") == 1).await;
    assert_eq!(bench.notes.count("done"), 0);
}

/// An object that is not at rest is rechecked when a service starts, and again within five minutes,
/// although all of its events were answered. Once it is at rest, the rechecks stop.
#[tokio::test(start_paused = true)]
async fn what_waits_is_rechecked_and_what_rests_is_not() {
    let mut bench = Bench::new().await;
    bench.publish("stuck", 1, &["waiting"]).await;
    bench.publish("idle", 1, &[]).await;
    let mut queue = bench.bus.work("test", &kind()).await.unwrap();
    for delivery in queue.pull(2).await {
        delivery.ack().await;
    }
    bench.until_answered().await;
    let begin = tokio::time::Instant::now();
    bench.run();
    while bench.notes.count("stuck") == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "at the start: {:?}", begin.elapsed());
    for count in 2..5 {
        let begin = tokio::time::Instant::now();
        while bench.notes.count("stuck") < count {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let waited = begin.elapsed();
        assert!((200..=310).contains(&waited.as_secs()), "recheck {count} after {waited:?}");
    }
    bench.publish("stuck", 2, &[]).await;
    while bench.notes.count("stuck") < 5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((bench.notes.count("stuck"), bench.notes.count("idle")), (5, 0));
}

/// The end of the controller waits for running attempts, and gives other events back at once.
#[tokio::test]
async fn the_end_drains() {
    const COUNT: usize = 50;
    let mut bench = Bench::new().await;
    for index in 0..COUNT {
        bench.publish(&format!("slow-{index}"), 1, &[]).await;
    }
    bench.run();
    bench.until("some run", |notes| notes.count("slow-0") == 1).await;
    bench.end.cancel();
    bench.task.take().unwrap().await.unwrap();
    let ended = Instant::now();
    let handled = (0..COUNT).filter(|index| bench.notes.count(&format!("slow-{index}")) == 1).count();
    assert!((1..COUNT).contains(&handled), "{handled}");
    let mut queue = bench.bus.work("test", &kind()).await.unwrap();
    let mut left = 0;
    while left < COUNT - handled {
        for delivery in queue.pull(COUNT).await {
            delivery.ack().await;
            left += 1;
        }
    }
    assert!(ended.elapsed() < ACK_WAIT / 2, "they came back by their time-out: {:?}", ended.elapsed());
    bench.until_answered().await;
}

/// A kind is added to a running controller and removed again. A kind that never becomes complete
/// must not delay others.
#[tokio::test]
async fn kinds_come_and_go() {
    let mut bench = Bench::new().await;
    bench.run();
    bench.publish("own", 1, &[]).await;
    bench.until("its own kind is handled", |notes| notes.count("own") == 1).await;
    let other = |plural: &str, name: &str| ObjectId::new(Kind::new("example.org", plural), Some("ns"), name);
    let sources = bench.sources.clone().unwrap();
    for plural in ["gadgets", "unwatched"] {
        sources.add(Kind::new("example.org", plural));
    }
    bench.publish_of(other("unwatched", "waits"), 1, &[]).await;
    bench.publish_of(other("gadgets", "new"), 2, &[]).await;
    let marker = |plural: &str| {
        Record::Synced(SyncMarker {
            kind: Kind::new("example.org", plural),
            namespace: None,
            resource_version: "2".into(),
            count: 1,
        })
    };
    bench.bus.publish(&marker("gadgets"), None).await.unwrap();
    bench.until("the new kind is handled", |notes| notes.count("new") == 1).await;
    bench.publish("own", 3, &[]).await;
    bench.until("and the old one too", |notes| notes.count("own") == 2).await;
    assert_eq!(bench.notes.count("waits"), 0, "not everything of that kind is known");
    bench.bus.publish(&marker("unwatched"), None).await.unwrap();
    bench.until("now it is", |notes| notes.count("waits") == 1).await;

    sources.remove(Kind::new("example.org", "gadgets"));
    bench.until_source_ended(&other("gadgets", "gone")).await;
    sources.add(Kind::new("example.org", "gadgets"));
    bench.publish_of(other("gadgets", "back"), 9, &[]).await;
    bench.until("it comes back", |notes| notes.count("back") == 1).await;
}
