//! Faults that only a real server can cause: it dies, loses data, refuses requests.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use common::*;
use groundwork_bus::{
    Bus, BusError, ClusterIdentity, Filter, Index, IndexPart, JOURNAL, JournalLimits, JournalPart, Login,
    NatsOptions, ObjectId, PublishError, Record, STREAM, WorkState,
};
use groundwork_testkit::{Nats, Server, servers_or_skip};

async fn server(configuration: &str) -> Option<Nats> {
    if !servers_or_skip(&[Server::NatsServer]) {
        return None;
    }
    Some(Nats::start_with(configuration).await.unwrap())
}

async fn connected(nats: &Nats) -> Bus {
    Bus::connect(options(nats)).await.unwrap()
}

async fn operator(nats: &Nats) -> jetstream::Context {
    jetstream::new(async_nats::connect(nats.url()).await.unwrap())
}

/// Feeds an index until the test ends.
fn feed_index(mut feed: groundwork_bus::IndexFeed) -> (Index, Arc<IndexPart>) {
    let index = Index::new();
    let part = Arc::new(index.part(vec![secrets()]));
    let fed = Arc::clone(&part);
    tokio::spawn(async move {
        loop {
            fed.apply(&feed.next().await);
        }
    });
    (index, part)
}

#[tokio::test]
async fn a_killed_server_comes_back_and_everything_goes_on() {
    let Some(mut nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    publish(&bus, &applied(&secret("before"), 1)).await;
    publish(&bus, &marker(&secrets(), 1)).await;
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    assert_eq!(steps(&mut feed, 3).await, ["reset", "1 before@1", "2 synced secrets"]);
    let in_flight = within("work", queue.next()).await;

    nats.kill().await.unwrap();
    until("it is noticed", async || !bus.is_connected()).await;
    let lost = bus.publish(&applied(&secret("lost"), 1), None).await;
    assert!(matches!(lost, Err(PublishError::Unavailable(_))), "{lost:?}");
    // Answers without a connection are dropped, so `ack` returns at once.
    within("an answer to nobody", in_flight.ack()).await;
    nats.start_again().await.unwrap();
    until("it is back", async || bus.is_connected()).await;

    assert_eq!(bus.load(Filter::Everything).await.unwrap().len(), 2);
    publish(&bus, &applied(&secret("after"), 2)).await;
    // No reset: the feed continues where it was, without a gap and without a repetition.
    assert_eq!(next(&mut feed).await, "3 after@2");
    let mut names = BTreeSet::new();
    while names.len() < 2 {
        let delivery = within("work goes on", queue.next()).await;
        names.insert(delivery.event.object.name.clone());
        delivery.ack().await;
    }
    assert_eq!(names, BTreeSet::from(["before".to_owned(), "after".to_owned()]));
    let idle = WorkState { pending: 0, unacknowledged: 0 };
    until("nothing is left", async || queue.state().await.is_ok_and(|state| state == idle)).await;
}

#[tokio::test]
async fn a_feed_that_is_cut_off_in_its_backlog_goes_on_there() {
    let Some(mut nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    let kinds = [secrets(), installations()];
    let mut expected = Vec::new();
    for number in 0..1200 {
        let object = ObjectId::new(kinds[number % 2].clone(), Some("n"), number.to_string());
        expected.push(publish(&bus, &applied(&object, 1)).await);
    }
    let mut feed = bus.index(&kinds).await.unwrap();
    let mut told = steps(&mut feed, 100).await;
    nats.kill().await.unwrap();
    until("it is noticed", async || !bus.is_connected()).await;
    nats.start_again().await.unwrap();
    until("it is back", async || bus.is_connected()).await;
    expected.push(publish(&bus, &applied(&secret("late"), 1)).await);
    told.extend(steps(&mut feed, 1 + expected.len() - told.len()).await);
    let positions = told.iter().filter_map(|step| step.split_once(' ')?.0.parse().ok());
    assert_eq!(positions.collect::<Vec<u64>>(), expected);
}

/// The cause must be named even before the library has tried to reconnect.
#[tokio::test]
async fn the_cause_of_a_lost_connection_is_named_each_time() {
    let Some(mut nats) = server("").await else { return };
    let bus = connected(&nats).await;
    for _ in 0..3 {
        until("it is there", async || bus.check().await.is_ok()).await;
        nats.kill().await.unwrap();
        until("it is noticed", async || !bus.is_connected()).await;
        for _ in 0..3 {
            let away = bus.check().await.unwrap_err().to_string();
            assert!(away.contains(" cannot be reached: Connection refused"), "{away}");
        }
        nats.start_again().await.unwrap();
    }
}

#[tokio::test]
async fn readers_wait_through_a_restart_and_miss_nothing() {
    let Some(mut nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    let (index, part) = feed_index(bus.index(&[secrets()]).await.unwrap());
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    for round in 0..3 {
        let names: BTreeSet<_> = (0..50).map(|number| format!("{round}-{number}")).collect();
        // Both readers are waiting when the server dies.
        never("nothing to do", queue.next()).await;
        nats.kill().await.unwrap();
        nats.start_again().await.unwrap();
        within("published", async {
            for name in &names {
                while bus.publish(&applied(&secret(name), 1), None).await.is_err() {}
            }
        })
        .await;
        let mut seen = BTreeSet::new();
        while seen.len() < names.len() {
            let delivery = within("work goes on", queue.next()).await;
            within("the index follows", part.passed(delivery.position)).await;
            assert!(index.get(&delivery.event.object).is_some());
            seen.insert(delivery.event.object.name.clone());
            delivery.ack().await;
        }
        assert_eq!(seen, names);
    }
    assert_eq!(index.len(), 150);
}

#[tokio::test]
async fn a_deleted_stream_is_waited_for_and_read_anew() {
    let Some(nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    for name in ["a", "b", "c"] {
        publish(&bus, &applied(&secret(name), 1)).await;
    }
    publish(&bus, &marker(&secrets(), 3)).await;
    let (index, part) = feed_index(bus.index(&[secrets()]).await.unwrap());
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    within("synced", index.until_synced(&[secrets()])).await;
    let mut old = Vec::new();
    while old.len() < 3 {
        old.extend(within("work", queue.pull(3)).await);
    }
    let highest = old.iter().map(|delivery| delivery.position).max().unwrap();

    operator(&nats).await.delete_stream(STREAM).await.unwrap();
    assert!(matches!(bus.publish(&applied(&secret("a"), 2), None).await, Err(PublishError::StreamNotFound)));
    never("there is nothing to do", queue.next()).await;

    // Another process, the watcher, recreates the stream.
    let watcher = connected(&nats).await;
    assert!(watcher.ensure_stream().await.unwrap().created);
    publish(&watcher, &applied(&secret("d"), 9)).await;
    publish(&watcher, &marker(&secrets(), 1)).await;
    let delivery = within("the consumer is made again", queue.next()).await;
    assert_eq!((delivery.event.object.name.as_str(), delivery.attempts), ("d", 1));
    assert!(delivery.position > highest);
    within("the index follows", part.passed(delivery.position)).await;
    within("synced again", index.until_synced(&[secrets()])).await;
    assert_eq!(index.len(), 1);
    delivery.ack().await;
}

#[tokio::test]
async fn a_deleted_consumer_is_made_again() {
    let Some(nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    assert_eq!(steps(&mut feed, 2).await, ["reset", "1 a@1"]);
    within("work", queue.next()).await.ack().await;

    let stream = operator(&nats).await.get_stream(STREAM).await.unwrap();
    let names: Vec<String> = futures::TryStreamExt::try_collect(stream.consumer_names()).await.unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        stream.delete_consumer(&name).await.unwrap();
    }
    publish(&bus, &applied(&secret("b"), 2)).await;
    assert_eq!(next(&mut feed).await, "2 b@2");
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        let delivery = within("all work again", queue.next()).await;
        seen.insert(delivery.event.object.name.clone());
        delivery.ack().await;
    }
}

#[tokio::test]
async fn a_stream_with_other_settings_is_corrected_and_keeps_what_is_not_ours() {
    let Some(nats) = server("").await else { return };
    let context = operator(&nats).await;
    context
        .create_stream(jetstream::stream::Config {
            name: STREAM.to_owned(),
            subjects: vec!["groundwork.v1.>".to_owned()],
            max_messages: 5,
            description: Some("of the operator".to_owned()),
            ..Default::default()
        })
        .await
        .unwrap();
    let bus = connected(&nats).await;
    let state = bus.ensure_stream().await.unwrap();
    assert!(!state.created);
    let config = context.get_stream(STREAM).await.unwrap().get_info().await.unwrap().config;
    assert_eq!((config.max_messages, config.max_messages_per_subject), (-1, 1));
    assert!(config.allow_direct);
    assert_eq!(config.duplicate_window, Duration::from_secs(120));
    assert_eq!(config.description.as_deref(), Some("of the operator"));
    publish(&bus, &Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() })).await;

    // An impossible setting is reported in the words of the server.
    let wishes = NatsOptions { replicas: 3, ..options(&nats) };
    let refused = Bus::connect(wishes).await.unwrap().ensure_stream().await.unwrap_err();
    let BusError::Refused { reason, .. } = &refused else { panic!("{refused}") };
    assert!(reason.contains("replicas > 1 not supported"), "{refused}");
    assert!(!refused.is_transient());
}

/// Without a journal, entries are lost and the writer gets an error. A full journal discards the
/// oldest entries. Changed settings are corrected.
#[tokio::test]
async fn the_journal_is_bounded() {
    let Some(nats) = server("").await else { return };
    let limits = JournalLimits { max_bytes: 20_000, max_age: Duration::from_secs(60) };
    let bus = Bus::connect(NatsOptions { journal: limits, ..options(&nats) }).await.unwrap();
    let (a, all) = (secret("a"), JournalPart::Key(secret("a")));
    assert!(matches!(bus.write_journal(&[entry(&a, "j", "0")]).await, Err(BusError::JournalNotFound)));
    assert!(matches!(bus.read_journal(&all, 10).await, Err(BusError::JournalNotFound)));
    assert!(bus.ensure_journal().await.unwrap());
    for batch in 0..20 {
        let entries: Vec<_> = (0..10).map(|number| entry(&a, "j", &format!("{batch}-{number}"))).collect();
        bus.write_journal(&entries).await.unwrap();
    }
    let entries = bus.read_journal(&all, 1_000).await.unwrap();
    assert!((10..200).contains(&entries.len()), "{}", entries.len());
    assert_eq!(entries.last().map(|entry| entry.text.as_str()), Some("19-9"));
    let context = operator(&nats).await;
    let config = context.get_stream(JOURNAL).await.unwrap().get_info().await.unwrap().config;
    assert_eq!((config.max_bytes, config.max_age), (20_000, Duration::from_secs(60)));
    assert_eq!(config.discard, jetstream::stream::DiscardPolicy::Old);
    let wider = JournalLimits { max_bytes: 30_000, ..limits };
    let other = Bus::connect(NatsOptions { journal: wider, ..options(&nats) }).await.unwrap();
    assert!(!other.ensure_journal().await.unwrap());
    let config = context.get_stream(JOURNAL).await.unwrap().get_info().await.unwrap().config;
    assert_eq!(config.max_bytes, 30_000);
}

/// A full stream refuses new records with an error, and keeps the stored ones.
#[tokio::test]
async fn a_full_stream_loses_nothing() {
    let Some(nats) = server("").await else { return };
    let bus = Bus::connect(NatsOptions { max_bytes: 20_000, ..options(&nats) }).await.unwrap();
    bus.ensure_stream().await.unwrap();
    let mut stored = 0;
    let refused = loop {
        match bus.publish(&applied(&secret(&format!("s-{stored}")), 1), None).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "it takes everything");
    };
    assert!(refused.to_string().contains("maximum bytes exceeded"), "{refused}");
    assert!(bus.last(&secret("s-0")).await.unwrap().is_some());
    let status = bus.status().await.unwrap();
    assert_eq!((status.messages, status.bytes <= 20_000), (stored, true));
}

#[tokio::test]
async fn consumers_have_the_settings_that_were_asked_for() {
    let Some(nats) = server("").await else { return };
    let bus = Bus::connect(NatsOptions::new(nats.url())).await.unwrap();
    bus.ensure_stream().await.unwrap();
    let queue = bus.work("renderer", &installations()).await.unwrap();
    let stream = operator(&nats).await.get_stream(STREAM).await.unwrap();
    let name = "renderer-installations-landscaper_gardener_cloud";
    let config = stream.consumer_info(name).await.unwrap().config;
    assert_eq!(config.filter_subject, "groundwork.v1.installations.landscaper_gardener_cloud.>");
    assert_eq!(config.ack_wait, Duration::from_secs(30));
    assert_eq!((config.max_deliver, config.max_ack_pending), (-1, 100_000));
    assert_eq!(config.deliver_policy, jetstream::consumer::DeliverPolicy::LastPerSubject);
    // Another replica with another redelivery time corrects the consumer.
    drop(queue);
    connected(&nats).await.work("renderer", &installations()).await.unwrap();
    assert_eq!(stream.consumer_info(name).await.unwrap().config.ack_wait, ACK_WAIT);
}

#[tokio::test]
async fn a_server_that_is_away_at_start_is_waited_for() {
    let Some(mut nats) = server("").await else { return };
    nats.kill().await.unwrap();
    let bus = within("at once", connected(&nats)).await;
    assert!(!bus.is_connected());
    let away = bus.status().await.unwrap_err();
    assert!(matches!(away, BusError::Unavailable { .. }) && away.is_transient(), "{away}");
    assert!(away.to_string().contains("127.0.0.1"), "{away}");
    let mut feed = bus.index(&[secrets()]).await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    nats.start_again().await.unwrap();
    within("the watcher comes up", async { while bus.ensure_stream().await.is_err() {} }).await;
    publish(&bus, &applied(&secret("a"), 1)).await;
    assert_eq!(steps(&mut feed, 2).await, ["reset", "1 a@1"]);
    within("work", queue.next()).await.ack().await;
}

/// Users as a deployment defines them, and one without JetStream.
const USERS: &str = r#"
accounts {
  MAIN {
    jetstream: enabled
    users: [
      { user: watcher, password: w, permissions: { publish: ["groundwork.>", "$JS.API.>"], subscribe: ["_INBOX_watcher.>"] } }
      { user: renderer, password: r, permissions: {
          publish: ["$JS.API.STREAM.INFO.GROUNDWORK", "$JS.API.CONSUMER.CREATE.GROUNDWORK.>",
                    "$JS.API.CONSUMER.INFO.GROUNDWORK.>", "$JS.API.CONSUMER.DELETE.GROUNDWORK.>",
                    "$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.>", "$JS.API.DIRECT.GET.GROUNDWORK", "$JS.ACK.GROUNDWORK.>"]
          subscribe: ["_INBOX_renderer.>"] } }
      { user: blind, password: b, permissions: { publish: ["$JS.API.STREAM.INFO.GROUNDWORK"], subscribe: ["_INBOX_blind.>"] } }
      { user: deaf, password: d, permissions: { publish: [">"], subscribe: ["nothing"] } }
    ]
  }
  OTHER { users: [ { user: poor, password: p } ] }
}
"#;

async fn login(nats: &Nats, user: &str, password: &str) -> Bus {
    let login = Login::Password { user: user.to_owned(), password: password.to_owned() };
    Bus::connect(NatsOptions { login, ..options(nats) }).await.unwrap()
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let Some(nats) = server(USERS).await else { return };
    let watcher = login(&nats, "watcher", "w").await;
    let renderer = login(&nats, "renderer", "r").await;
    watcher.ensure_stream().await.unwrap();
    let mut feed = renderer.index(&[secrets()]).await.unwrap();
    let mut queue = renderer.work("renderer", &secrets()).await.unwrap();
    publish(&watcher, &applied(&secret("a"), 1)).await;
    assert_eq!(steps(&mut feed, 2).await, ["reset", "1 a@1"]);
    within("work", queue.next()).await.ack().await;
    until("acknowledged", async || queue.state().await.unwrap().unacknowledged == 0).await;
    assert!(renderer.last(&secret("a")).await.unwrap().is_some());
    assert_eq!(renderer.load(Filter::Everything).await.unwrap().len(), 1);
    publish(&watcher, &deleted(&secret("a"), 2)).await;
    within("work", queue.next()).await.ack().await;
    until("acknowledged", async || queue.state().await.unwrap().unacknowledged == 0).await;
    assert_eq!(next(&mut feed).await, "2 a deleted");
    assert_eq!(watcher.prune(Duration::ZERO).await.unwrap(), 1);
    // Only the watcher may publish.
    let refused = renderer.publish(&applied(&secret("a"), 9), None).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("the NATS user may not use the subject groundwork.v1.secrets.core.n.a at "),
        "{refused}"
    );
    renderer.drain().await;
}

#[tokio::test]
async fn what_is_forbidden_or_missing_is_named_at_once() {
    let Some(nats) = server(USERS).await else { return };
    login(&nats, "watcher", "w").await.ensure_stream().await.unwrap();
    let start = Instant::now();
    let error = login(&nats, "blind", "b").await.work("renderer", &secrets()).await.unwrap_err();
    let BusError::Denied { subject, .. } = &error else { panic!("{error}") };
    assert_eq!(
        subject,
        "$JS.API.CONSUMER.CREATE.GROUNDWORK.renderer-secrets-core.groundwork.v1.secrets.core.>"
    );
    let error = login(&nats, "blind", "b").await.index(&[secrets()]).await.unwrap_err();
    assert!(error.to_string().contains("$JS.API.CONSUMER.CREATE.GROUNDWORK.reader-"), "{error}");
    let error = login(&nats, "deaf", "d").await.status().await.unwrap_err();
    assert!(matches!(&error, BusError::Denied { subject, .. } if subject == "_INBOX_deaf.>"), "{error}");
    let error = login(&nats, "poor", "p").await.ensure_stream().await.unwrap_err();
    assert!(matches!(error, BusError::NoJetStream { .. }), "{error}");
    let error = login(&nats, "watcher", "wrong-password").await.status().await.unwrap_err();
    assert!(matches!(error, BusError::Login { .. }), "{error}");
    // Errors must come before a time limit expires.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(!format!("{error:?}").contains("wrong-password"), "{error:?}");
}

#[tokio::test]
async fn tls_is_spoken_when_a_ca_is_given() {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .signed_by(&key, &rcgen::Issuer::new(ca, ca_key))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca_file = file("ca.pem", ca_certificate.pem());
    let (cert, key) = (file("cert.pem", certificate.pem()), file("key.pem", key.serialize_pem()));
    let tls = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}",
        cert.display().to_string(),
        key.display().to_string()
    );
    let Some(nats) = server(&tls).await else { return };

    let bus = Bus::connect(NatsOptions { ca: Some(ca_file), ..options(&nats) }).await.unwrap();
    assert!(bus.ensure_stream().await.unwrap().created);
    let stranger = connected(&nats).await;
    assert!(!stranger.is_connected(), "an unknown authority is trusted");
}

#[tokio::test]
async fn addresses_and_files_that_cannot_be_used_are_refused_without_a_secret() {
    let error = Bus::connect(NatsOptions::new("nats://me:secret@:x:y")).await.unwrap_err();
    assert!(matches!(error, BusError::Options(_)), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let login = Login::Credentials("/nowhere/user.creds".into());
    let error =
        Bus::connect(NatsOptions { login, ..NatsOptions::new("nats://127.0.0.1:1") }).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/user.creds"), "{error}");
    let options = NatsOptions {
        login: Login::Password { user: "me".into(), password: "secret".into() },
        ..NatsOptions::new("nats://me:secret@localhost")
    };
    assert!(!format!("{options:?}").contains("secret"));
}

#[tokio::test]
async fn twenty_thousand_objects_are_loaded_quickly() {
    let Some(nats) = server("").await else { return };
    let bus = connected(&nats).await;
    bus.ensure_stream().await.unwrap();
    let records: Vec<_> = (0..20_000).map(|number| applied(&secret(&format!("s{number}")), 1)).collect();
    for part in records.chunks(500) {
        for published in
            futures::future::join_all(part.iter().map(|record| bus.publish(record, Some(0)))).await
        {
            published.unwrap();
        }
    }
    let start = Instant::now();
    let loaded = bus.load(Filter::Everything).await.unwrap();
    let load = start.elapsed();
    // Records that were published concurrently may be stored in another order.
    let name = |record: &Record| match record {
        Record::Object(event) => event.object.name.clone(),
        other => panic!("{other:?}"),
    };
    assert!(loaded.is_sorted_by_key(|stored| stored.sequence));
    let names: BTreeSet<_> = loaded.iter().map(|stored| name(&stored.record)).collect();
    assert_eq!(loaded.len(), 20_000);
    assert_eq!(names, records.iter().map(name).collect());
    let start = Instant::now();
    publish(&bus, &marker(&secrets(), 20_000)).await;
    let (index, _part) = feed_index(bus.index(&[secrets()]).await.unwrap());
    within("synced", index.until_synced(&[secrets()])).await;
    assert_eq!(index.len(), 20_000);
    println!("loaded in {load:?}, indexed in {:?}", start.elapsed());
    // Loading takes a second in a release build on an idle machine; tests run on neither, so the
    // limit is generous.
    assert!(load < Duration::from_secs(15), "{load:?}");
}
