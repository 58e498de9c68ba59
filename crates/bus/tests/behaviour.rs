//! Rules of the bus, tested on both backends.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use groundwork_bus::{
    Bus, BusError, Change, ClusterIdentity, Entry, Filter, Index, Interest, JournalPart, Kind,
    MAX_EVENT_BYTES, NatsOptions, ObjectId, PublishError, Published, Record, Snapshot, WorkQueue, WorkState,
};
use groundwork_testkit::{Nats, Server, servers_or_skip};
use jiff::Timestamp;

/// Turns each function into two tests. Those of the second list need fast redelivery. The others
/// use a long redelivery time, so that a slow machine does not change the number of deliveries.
macro_rules! on_both {
    ($($name:ident),* $(,)?; $($soon:ident),* $(,)?) => {
        mod in_process {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(Bus::in_process()).await;
                }
            )*
            $(
                #[tokio::test]
                async fn $soon() {
                    super::$soon(Bus::in_process_with(ACK_WAIT)).await;
                }
            )*
        }
        mod on_nats {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    let Some(nats) = start().await else { return };
                    super::$name(Bus::connect(NatsOptions::new(nats.url())).await.unwrap()).await;
                }
            )*
            $(
                #[tokio::test]
                async fn $soon() {
                    let Some(nats) = start().await else { return };
                    super::$soon(Bus::connect(options(&nats)).await.unwrap()).await;
                }
            )*
        }
    };
}

on_both![
    without_a_stream_nothing_works_and_readers_wait,
    one_message_a_subject_is_kept,
    a_fence_keeps_an_old_publisher_out,
    duplicates_are_told,
    large_events_and_wrong_kinds_are_refused,
    a_part_of_the_stream_is_loaded,
    a_feed_replays_and_follows,
    kinds_are_read_in_the_order_of_the_stream,
    an_index_knows_what_the_stream_says,
    replicas_share_work_and_services_do_not,
    only_what_is_asked_for_is_delivered,
    a_delayed_event_comes_later_and_does_not_hold_up_others,
    a_dropped_call_loses_nothing,
    tombstones_are_pruned_when_nobody_needs_them,
    a_rebuilt_stream_is_read_anew,
    the_journal_is_read_by_key_and_by_job,
    publications_side_by_side;
    a_queue_starts_with_the_last_of_each_subject,
    what_is_not_acknowledged_comes_again,
    progress_puts_the_next_delivery_off,
    superseded_in_flight_nothing_stays_pending,
    superseded_while_delayed_nothing_stays_pending,
];

async fn start() -> Option<Nats> {
    if !servers_or_skip(&[Server::NatsServer]) {
        return None;
    }
    Some(Nats::start().await.unwrap())
}

async fn state(queue: &WorkQueue) -> WorkState {
    queue.state().await.unwrap()
}

fn idle() -> WorkState {
    WorkState { pending: 0, unacknowledged: 0 }
}

async fn the_journal_is_read_by_key_and_by_job(bus: Bus) {
    bus.ensure_journal().await.unwrap();
    assert!(!bus.ensure_journal().await.unwrap(), "it is there already");
    let (a, b, all) = (secret("a"), secret("b.c"), JournalPart::Key(secret("a")));
    bus.write_journal(&[]).await.unwrap();
    bus.write_journal(&[entry(&a, "j", "1"), entry(&b, "j", "2"), entry(&a, "", "3")]).await.unwrap();
    let loss = Entry::loss("renderer", "i", 5, Timestamp::now());
    bus.write_journal(&[entry(&a, "k", "4"), loss.clone(), entry(&a, "j", "5")]).await.unwrap();
    let texts = async |part: &JournalPart, most| {
        let entries = bus.read_journal(part, most).await.unwrap();
        entries.into_iter().map(|entry| entry.text).collect::<Vec<_>>()
    };
    assert_eq!(texts(&all, 10).await, ["1", "3", "4", "5"]);
    assert_eq!(texts(&all, 2).await, ["1", "3"]);
    assert_eq!(texts(&JournalPart::LastOfEachJob(a.clone()), 10).await, ["3", "4", "5"]);
    assert_eq!(texts(&JournalPart::Key(b.clone()), 10).await, ["2"]);
    let jobs = |key: &ObjectId, jobs: &[&str]| JournalPart::Jobs {
        key: key.clone(),
        jobs: jobs.iter().map(|job| (*job).to_owned()).collect(),
    };
    assert_eq!(texts(&jobs(&b, &["j"]), 10).await, ["1", "2", &loss.text, "5"]);
    assert_eq!(texts(&jobs(&a, &["j", "k"]), 10).await, ["1", "2", "3", "4", &loss.text, "5"]);
    let elsewhere = ObjectId::new(secrets(), Some("other"), "a");
    assert_eq!(texts(&jobs(&elsewhere, &["j"]), 10).await, [loss.text]);
}

async fn without_a_stream_nothing_works_and_readers_wait(bus: Bus) {
    let a = secret("a");
    assert!(matches!(bus.publish(&applied(&a, 1), None).await, Err(PublishError::StreamNotFound)));
    assert!(matches!(bus.last(&a).await, Err(BusError::StreamNotFound)));
    assert!(matches!(bus.load(Filter::Everything).await, Err(BusError::StreamNotFound)));
    assert!(matches!(bus.status().await, Err(BusError::StreamNotFound)));
    assert!(matches!(bus.prune(Duration::ZERO).await, Err(BusError::StreamNotFound)));
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();

    assert!(bus.ensure_stream().await.unwrap().created);
    assert!(!bus.ensure_stream().await.unwrap().created);
    publish(&bus, &applied(&a, 1)).await;
    let (steps, delivery) = tokio::join!(steps(&mut feed, 2), within("work", queue.next()));
    assert_eq!(steps, ["reset", "1 a@1"]);
    assert_eq!((delivery.event.object.clone(), delivery.position, delivery.attempts), (a, 1, 1));
}

async fn one_message_a_subject_is_kept(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let (a, b) = (secret("a"), secret("b.c"));
    assert_eq!(bus.last(&a).await.unwrap(), None);
    let records = [applied(&a, 1), applied(&b, 2), applied(&a, 3)];
    for record in &records {
        publish(&bus, record).await;
    }
    let last = bus.last(&a).await.unwrap().unwrap();
    assert_eq!((last.sequence, &last.record), (3, &records[2]));
    assert!(Timestamp::now().duration_since(last.time).abs() < jiff::SignedDuration::from_mins(1));
    let all = bus.load(Filter::Everything).await.unwrap();
    assert_eq!(all.iter().map(|stored| stored.sequence).collect::<Vec<_>>(), [2, 3]);
    let state = bus.status().await.unwrap();
    assert_eq!((state.messages, state.first_sequence, state.last_sequence), (2, 2, 3));
    assert!(state.bytes > 0);
}

async fn a_fence_keeps_an_old_publisher_out(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let a = secret("a");
    let refused = bus.publish(&applied(&a, 1), Some(7)).await.unwrap_err();
    assert!(matches!(refused, PublishError::Superseded { .. }), "{refused}");
    assert_eq!(
        bus.publish(&applied(&a, 1), Some(0)).await.unwrap(),
        Published { sequence: 1, duplicate: false }
    );
    publish(&bus, &applied(&secret("b"), 2)).await;
    assert_eq!(
        bus.publish(&applied(&a, 3), Some(1)).await.unwrap(),
        Published { sequence: 3, duplicate: false }
    );
    for fence in [0, 1, 2] {
        let refused = bus.publish(&applied(&a, 4), Some(fence)).await.unwrap_err();
        let PublishError::Superseded { subject } = refused else { panic!("{refused}") };
        assert_eq!(subject, "groundwork.v1.secrets.core.n.a");
    }
    assert_eq!(bus.last(&a).await.unwrap().unwrap().record.version(), "3");
}

async fn duplicates_are_told(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let a = secret("a");
    publish(&bus, &applied(&a, 1)).await;
    publish(&bus, &applied(&a, 2)).await;
    // A repeated publication is a duplicate, even when the subject has a newer message meanwhile.
    for (version, fence, sequence) in [(2, None, 2), (1, None, 1), (1, Some(2), 1)] {
        let published = bus.publish(&applied(&a, version), fence).await.unwrap();
        assert_eq!(published, Published { sequence, duplicate: true });
    }
    // A publication is repeated because its answer was lost: the fence does not match any more.
    let again = bus.publish(&applied(&a, 2), Some(1)).await;
    assert!(matches!(again, Err(PublishError::Superseded { .. })), "{again:?}");
    assert_eq!(bus.status().await.unwrap().last_sequence, 2);
    publish(&bus, &replayed(applied(&a, 2), "again")).await;
    publish(&bus, &deleted(&a, 2)).await;
    // Markers and identities are stored each time, even if they repeat.
    for _ in 0..2 {
        publish(&bus, &marker(&secrets(), 0)).await;
        publish(&bus, &Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() }))
            .await;
    }
    assert_eq!(bus.status().await.unwrap().messages, 3);
}

async fn large_events_and_wrong_kinds_are_refused(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let large = |size: usize| {
        let mut snapshot = Snapshot { uid: "u".into(), ..Snapshot::default() };
        snapshot.labels.insert("l".into(), "x".repeat(size));
        event(&secret("a"), Change::Applied(snapshot))
    };
    let frame = r#"{"uid":"u","resourceVersion":"","labels":{"l":""}}"#.len();
    publish(&bus, &large(MAX_EVENT_BYTES - frame)).await;
    let refused = bus.publish(&large(MAX_EVENT_BYTES - frame + 1), None).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the event of secrets n/a has 65537 bytes; an event may have at most 65536"
    );
    let wrong = groundwork_bus::Kind::new("a_b", "things");
    assert!(matches!(bus.work("renderer", &wrong).await, Err(BusError::Subject(_))));
    assert!(matches!(bus.index(&[wrong]).await, Err(BusError::Subject(_))));
}

async fn a_part_of_the_stream_is_loaded(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let interest = Record::Interest(Interest {
        kind: secrets(),
        namespace: None,
        holder: "variant".into(),
        expires: "2099-01-01T00:00:00Z".parse().unwrap(),
    });
    let records = [
        applied(&secret("a"), 1),
        marker(&secrets(), 1),
        Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() }),
        interest.clone(),
        applied(&groundwork_bus::ObjectId::new(installations(), Some("n"), "i"), 2),
        marker(&installations(), 1),
    ];
    assert_eq!(bus.load(Filter::Everything).await.unwrap(), []);
    for record in &records {
        publish(&bus, record).await;
    }
    let load = async |filter: Filter<'_>| -> Vec<Record> {
        bus.load(filter).await.unwrap().into_iter().map(|stored| stored.record).collect()
    };
    assert_eq!(load(Filter::Everything).await, records);
    assert_eq!(load(Filter::Interests).await, [interest]);
    assert_eq!(load(Filter::Kinds(&[secrets()])).await, records[..3]);
    assert_eq!(load(Filter::Kinds(&[])).await, records[2..3]);
}

async fn a_feed_replays_and_follows(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    publish(&bus, &marker(&secrets(), 2)).await;
    publish(&bus, &applied(&groundwork_bus::ObjectId::new(installations(), Some("n"), "i"), 1)).await;
    publish(&bus, &applied(&secret("b"), 3)).await;
    publish(&bus, &applied(&secret("a"), 4)).await;
    publish(&bus, &Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() })).await;

    let mut feed = bus.index(&[secrets()]).await.unwrap();
    // The marker arrives behind records that were published later: without "a@4" the index would
    // lack "a".
    assert_eq!(steps(&mut feed, 5).await, ["reset", "4 b@3", "5 a@4", "6 cluster c", "2 synced secrets"]);
    publish(&bus, &marker(&secrets(), 2)).await;
    publish(&bus, &deleted(&secret("a"), 5)).await;
    assert_eq!(steps(&mut feed, 2).await, ["7 synced secrets", "8 a deleted"]);
    let mut empty = bus.index(&[installations()]).await.unwrap();
    assert_eq!(steps(&mut empty, 3).await, ["reset", "3 i@1", "6 cluster c"]);
}

/// Each kind has more records than one request asks for.
async fn kinds_are_read_in_the_order_of_the_stream(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let kinds = [secrets(), installations()];
    let mut expected = Vec::new();
    for number in 0..700 {
        // Two of three records in a row have the same kind; every tenth is replaced at once.
        let object =
            ObjectId::new(kinds[usize::from(number % 3 == 0)].clone(), Some("n"), number.to_string());
        let mut sequence = publish(&bus, &applied(&object, 1)).await;
        if number % 10 == 0 {
            sequence = publish(&bus, &applied(&object, 2)).await;
        }
        expected.push(sequence);
        let other = ObjectId::new(Kind::new("", "pods"), Some("n"), "other");
        publish(&bus, &applied(&other, number)).await;
    }
    let loaded = bus.load(Filter::Kinds(&kinds)).await.unwrap();
    assert_eq!(loaded.iter().map(|stored| stored.sequence).collect::<Vec<_>>(), expected);

    let mut feed = bus.index(&kinds).await.unwrap();
    assert_eq!(next(&mut feed).await, "reset");
    expected.push(publish(&bus, &applied(&secret("late"), 1)).await);
    let steps = steps(&mut feed, expected.len()).await;
    let positions =
        steps.iter().filter_map(|step| step.split_once(' ')?.0.parse().ok()).collect::<Vec<u64>>();
    assert_eq!(positions, expected);
}

async fn an_index_knows_what_the_stream_says(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let (a, b) = (secret("a"), secret("b"));
    publish(&bus, &applied(&a, 1)).await;
    publish(&bus, &marker(&secrets(), 1)).await;
    let index = Index::new();
    let part = Arc::new(index.part(vec![secrets()]));
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let reader = tokio::spawn({
        let part = Arc::clone(&part);
        async move {
            loop {
                part.apply(&feed.next().await);
            }
        }
    });
    within("synced", index.until_synced(&[secrets()])).await;
    assert!(!index.synced(&[secrets(), installations()]));
    assert_eq!(index.get(&a).unwrap().resource_version, "1");
    let sequence = publish(&bus, &applied(&b, 2)).await;
    within("passed", part.passed(sequence)).await;
    assert_eq!(index.of_kind(&secrets(), Some("n")).len(), 2);
    let sequence = publish(&bus, &deleted(&a, 3)).await;
    within("passed", part.passed(sequence)).await;
    assert_eq!(index.get(&a), None);
    assert_eq!(part.position(), sequence);
    reader.abort();
}

async fn a_queue_starts_with_the_last_of_each_subject(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    for (name, version) in [("a", 1), ("b", 2), ("a", 3)] {
        publish(&bus, &applied(&secret(name), version)).await;
    }
    publish(&bus, &marker(&secrets(), 2)).await;
    publish(&bus, &applied(&groundwork_bus::ObjectId::new(installations(), Some("n"), "i"), 1)).await;
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    for expected in ["b", "a"] {
        let delivery = within("work", queue.next()).await;
        assert_eq!(delivery.event.object.name, expected);
        delivery.ack().await;
    }
    until("nothing is left", async || state(&queue).await == idle()).await;
    never("nothing else comes", queue.next()).await;
    // A reopened queue continues at its last acknowledgement.
    drop(queue);
    let mut again = bus.work("renderer", &secrets()).await.unwrap();
    never("acknowledged is acknowledged", again.next()).await;
}

async fn replicas_share_work_and_services_do_not(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut first = bus.work("renderer", &secrets()).await.unwrap();
    let mut second = bus.work("renderer", &secrets()).await.unwrap();
    let mut other = bus.work("resolver", &secrets()).await.unwrap();
    let names: BTreeSet<_> = (0..40).map(|number| format!("s{number}")).collect();
    for name in &names {
        publish(&bus, &applied(&secret(name), 1)).await;
    }
    let mut shared = Vec::new();
    while shared.len() < names.len() {
        let (mine, queue) = tokio::select! {
            delivery = first.next() => (delivery, "first"),
            delivery = second.next() => (delivery, "second"),
            () = tokio::time::sleep(LIMIT) => panic!("only {} of {} came", shared.len(), names.len()),
        };
        shared.push((mine.event.object.name.clone(), queue));
        mine.ack().await;
    }
    let seen: BTreeSet<_> = shared.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!((seen, shared.len()), (names.clone(), 40), "each comes once");
    assert_eq!(shared.iter().map(|(_, queue)| queue).collect::<BTreeSet<_>>().len(), 2, "both get some");
    let mut theirs = BTreeSet::new();
    while theirs.len() < names.len() {
        for delivery in within("work of the other service", other.pull(16)).await {
            theirs.insert(delivery.event.object.name.clone());
            delivery.ack().await;
        }
    }
    assert_eq!(theirs, names);
    until("nothing is left", async || state(&other).await == idle() && state(&first).await == idle()).await;
}

async fn only_what_is_asked_for_is_delivered(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    for number in 0..10 {
        publish(&bus, &applied(&secret(&number.to_string()), 1)).await;
    }
    assert_eq!(state(&queue).await, WorkState { pending: 10, unacknowledged: 0 });
    let deliveries = within("work", queue.pull(3)).await;
    assert_eq!(deliveries.len(), 3);
    assert_eq!(state(&queue).await, WorkState { pending: 7, unacknowledged: 3 });
    assert_eq!(within("work", queue.pull(100)).await.len(), 7);
    for delivery in deliveries {
        delivery.ack().await;
    }
    until("acknowledged", async || state(&queue).await.unacknowledged == 7).await;
}

async fn what_is_not_acknowledged_comes_again(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    for attempts in 1..=3 {
        let delivery = within("again", queue.next()).await;
        assert_eq!((delivery.position, delivery.attempts), (1, attempts));
        if attempts == 3 {
            delivery.ack().await;
        }
    }
    never("it was acknowledged", queue.next()).await;
    assert_eq!(state(&queue).await, idle());
}

async fn progress_puts_the_next_delivery_off(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    let delivery = within("work", queue.next()).await;
    let mut ticks = tokio::time::interval(ACK_WAIT / 6);
    let working = async {
        for _ in 0..20 {
            ticks.tick().await;
            delivery.progress().await;
        }
    };
    tokio::select! {
        () = working => {}
        again = queue.next() => panic!("it came again: {again:?}"),
    }
    drop(delivery);
    assert_eq!(within("without progress", queue.next()).await.attempts, 2);
}

async fn a_delayed_event_comes_later_and_does_not_hold_up_others(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    publish(&bus, &applied(&secret("b"), 1)).await;
    let delay = ACK_WAIT * 2;
    let start = std::time::Instant::now();
    within("a", queue.next()).await.retry_after(delay).await;
    let other = within("b", queue.next()).await;
    assert_eq!(other.event.object.name, "b");
    other.ack().await;
    let again = within("a again", queue.next()).await;
    assert_eq!((again.event.object.name.as_str(), again.attempts), ("a", 2));
    assert!(start.elapsed() >= delay, "too early: {:?}", start.elapsed());
    again.retry_after(Duration::ZERO).await;
    assert_eq!(within("at once", queue.next()).await.attempts, 3);
}

async fn superseded_in_flight_nothing_stays_pending(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    let old = within("work", queue.next()).await;
    publish(&bus, &applied(&secret("a"), 2)).await;
    let new = within("its successor", queue.next()).await;
    assert_eq!((new.position, new.attempts), (2, 1));
    new.ack().await;
    until("nothing stays pending", async || state(&queue).await == idle()).await;
    // Answers to the old delivery come too late and have no effect.
    old.progress().await;
    old.retry_after(Duration::ZERO).await;
    never("the old one comes again", queue.next()).await;
    assert_eq!(state(&queue).await, idle());
}

async fn superseded_while_delayed_nothing_stays_pending(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    within("work", queue.next()).await.retry_after(ACK_WAIT).await;
    until("it is delayed", async || state(&queue).await.unacknowledged == 1).await;
    publish(&bus, &applied(&secret("a"), 2)).await;
    let new = within("its successor", queue.next()).await;
    assert_eq!((new.position, new.attempts), (2, 1));
    new.ack().await;
    until("nothing stays pending", async || state(&queue).await == idle()).await;
    never("the old one comes again", queue.next()).await;
    assert_eq!(state(&queue).await, idle());
}

async fn a_dropped_call_loses_nothing(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let (mut work, mut fed) = (BTreeSet::new(), Vec::new());
    let publisher = async {
        for number in 0..50 {
            publish(&bus, &applied(&secret(&format!("{number:02}")), 1)).await;
        }
    };
    let reader = async {
        let mut round = 0;
        while work.len() < 50 || fed.len() < 51 {
            round += 1;
            let patience = Duration::from_micros(100 * (round % 9));
            tokio::select! {
                biased;
                delivery = queue.next() => {
                    assert_eq!(delivery.attempts, 1);
                    work.insert(delivery.event.object.name.clone());
                    delivery.ack().await;
                }
                step = next(&mut feed) => fed.push(step),
                () = tokio::time::sleep(patience) => {}
            }
        }
    };
    within("everything", async { tokio::join!(publisher, reader) }).await;
    assert_eq!(work.len(), 50);
    let expected: Vec<_> = (0..50).map(|number| format!("{} {number:02}@1", number + 1)).collect();
    assert_eq!(fed[1..], expected);
}

async fn tombstones_are_pruned_when_nobody_needs_them(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let (a, b) = (secret("a"), secret("b"));
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    let mut idle = bus.work("renderer", &installations()).await.unwrap();
    for record in [applied(&a, 1), applied(&b, 2), deleted(&a, 3)] {
        publish(&bus, &record).await;
    }
    let interest = |holder: &str, expires: &str| {
        Record::Interest(Interest {
            kind: secrets(),
            namespace: None,
            holder: holder.into(),
            expires: expires.parse().unwrap(),
        })
    };
    publish(&bus, &interest("gone", "2020-01-01T00:00:00Z")).await;
    publish(&bus, &interest("here", "2099-01-01T00:00:00Z")).await;
    assert_eq!(bus.prune(Duration::from_secs(3600)).await.unwrap(), 1, "the expired interest");
    assert_eq!(bus.prune(Duration::ZERO).await.unwrap(), 0, "the queue has not seen it");

    let mut deliveries = within("work", queue.pull(9)).await;
    while deliveries.len() < 2 {
        deliveries.extend(within("work", queue.pull(9)).await);
    }
    let (of_a, of_b): (Vec<_>, Vec<_>) =
        deliveries.into_iter().partition(|delivery| delivery.event.object.name == "a");
    assert_eq!(bus.prune(Duration::ZERO).await.unwrap(), 0, "it is in flight");
    for delivery in of_a.into_iter().chain(of_b) {
        delivery.ack().await;
    }
    until("acknowledged", async || state(&queue).await.unacknowledged == 0).await;
    assert_eq!(bus.prune(Duration::from_secs(3600)).await.unwrap(), 0, "it is young");
    assert_eq!(bus.prune(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(bus.last(&a).await.unwrap(), None);
    assert_eq!(bus.load(Filter::Interests).await.unwrap().len(), 1);
    // After the removal the subject accepts a fence of 0, as if it were new.
    bus.publish(&replayed(applied(&a, 4), "new"), Some(0)).await.unwrap();
    never("nothing of another kind", idle.next()).await;
}

async fn a_rebuilt_stream_is_read_anew(bus: Bus) {
    let first = bus.ensure_stream().await.unwrap();
    let (a, b) = (secret("a"), secret("b"));
    for version in 1..=20 {
        publish(&bus, &applied(&a, version)).await;
    }
    publish(&bus, &marker(&secrets(), 1)).await;
    let index = Index::new();
    let part = index.part(vec![secrets()]);
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    for _ in 0..3 {
        part.apply(&within("the feed", feed.next()).await);
    }
    assert!(index.synced(&[secrets()]));
    let old = within("work", queue.next()).await;
    assert_eq!(old.position, 20);

    let second = bus.rebuild().await.unwrap();
    assert!(second.created && second.messages == 0 && second.created_at != first.created_at);
    publish(&bus, &applied(&b, 30)).await;
    let (reset, new) = tokio::join!(within("a reset", feed.next()), within("new work", queue.next()));
    part.apply(&reset);
    assert!(index.is_empty() && !index.synced(&[secrets()]));
    assert_eq!((new.event.object.clone(), new.attempts), (b.clone(), 1));
    // Sequences start anew and positions do not, so waiters neither hang nor return too early.
    assert!(new.position > 20);
    assert!(part.position() < new.position);
    part.apply(&within("the feed", feed.next()).await);
    assert_eq!(part.position(), new.position);
    within("what came before is past", part.passed(old.position)).await;
    assert!(index.get(&b).is_some() && index.get(&a).is_none());
    // An answer to a message of the lost stream must not acknowledge a new one.
    old.ack().await;
    assert_eq!(state(&queue).await.unacknowledged, 1);
    new.ack().await;
    until("nothing is left", async || state(&queue).await == idle()).await;
}

async fn publications_side_by_side(bus: Bus) {
    bus.ensure_stream().await.unwrap();
    let records: Vec<_> = (0..500).map(|number| applied(&secret(&format!("s{number}")), 1)).collect();
    let published =
        futures::future::join_all(records.iter().map(|record| bus.publish(record, Some(0)))).await;
    let sequences: BTreeSet<_> = published.into_iter().map(|published| published.unwrap().sequence).collect();
    assert_eq!(sequences, (1..=500).collect());
}

trait Version {
    fn version(&self) -> &str;
}

impl Version for Record {
    fn version(&self) -> &str {
        match self {
            Record::Object(event) => event.change.resource_version(),
            other => panic!("{other:?}"),
        }
    }
}
