//! Permissions of the users in `k8s/nats/users.conf`, checked against a real server.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use common::*;
use futures::StreamExt;
use groundwork_bus::{Bus, JournalPart, Kind, Login, NatsOptions, ObjectId};
use groundwork_testkit::{Nats, Server, servers_or_skip};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const FILE: &str = include_str!("../../../k8s/nats/users.conf");
const USERS: [&str; 7] = ["watcher", "resolver", "renderer", "deployer", "variant", "console", "reader"];
const SERVICES: [&str; 4] = ["resolver", "renderer", "deployer", "variant"];

/// Service, plural and group of every queue with a name that is known in advance. A deployer has
/// one for each type of item that needs a cluster, and one for TargetSyncs.
const QUEUES: [(&str, &str, &str); 15] = [
    ("resolver", "contexts", "landscaper.gardener.cloud"),
    ("resolver", "componentversionoverwrites", "landscaper.gardener.cloud"),
    ("resolver", "installations", "landscaper.gardener.cloud"),
    ("resolver", "namespaces", ""),
    ("renderer", "installations", "landscaper.gardener.cloud"),
    ("renderer", "executions", "landscaper.gardener.cloud"),
    ("renderer", "deployitems", "landscaper.gardener.cloud"),
    ("deployer", "deployitems", "landscaper.gardener.cloud"),
    ("deployer_manifest", "deployitems", "landscaper.gardener.cloud"),
    ("deployer_helm", "deployitems", "landscaper.gardener.cloud"),
    ("deployer_targetsync", "targetsyncs", "landscaper.gardener.cloud"),
    ("variant", "packagevariantsets", "config.porch.kpt.dev"),
    ("variant", "packagerevisionsets", "config.porch.kpt.dev"),
    ("variant", "packagevariants", "config.porch.kpt.dev"),
    ("variant", "repositories", "config.porch.kpt.dev"),
];

fn configuration() -> String {
    let passwords = USERS.map(|user| format!("{}_PASSWORD: \"{user}\"\n", user.to_uppercase())).concat();
    passwords + &FILE.replace("include \"passwords.conf\"", "")
}

async fn server() -> Option<Nats> {
    if !servers_or_skip(&[Server::NatsServer]) {
        return None;
    }
    Some(Nats::start_with(&configuration()).await.unwrap())
}

/// A connected user, and the errors that the server reports to it.
struct User {
    name: &'static str,
    client: Client,
    refusals: Mutex<UnboundedReceiver<String>>,
    asked: AtomicUsize,
}

impl User {
    async fn new(nats: &Nats, name: &'static str) -> Self {
        let (sender, refusals) = unbounded_channel();
        let sender = Arc::new(sender);
        let options = ConnectOptions::with_user_and_password(name.to_owned(), name.to_owned())
            .custom_inbox_prefix(format!("_INBOX_{name}"))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    let _ = sender.send(error.to_string().to_lowercase());
                }
                std::future::ready(())
            });
        let client = options.connect(nats.url()).await.unwrap();
        Self { name, client, refusals: Mutex::new(refusals), asked: AtomicUsize::new(0) }
    }

    /// Reports whether the server has refused a subject. A second publication, to a subject that is
    /// always refused, marks the end of the server's answers.
    async fn is_refused(&self, subject: &str) -> bool {
        let mark = format!("mark.{}", self.asked.fetch_add(1, Ordering::SeqCst));
        self.client.publish(mark.clone(), "".into()).await.unwrap();
        self.client.flush().await.unwrap();
        let (mut refusals, subject) = (self.refusals.lock().await, format!("\"{}\"", subject.to_lowercase()));
        let mut is_refused = false;
        loop {
            let refusal =
                tokio::time::timeout(Duration::from_secs(20), refusals.recv()).await.unwrap().unwrap();
            if refusal.contains(&format!("\"{mark}\"")) {
                return is_refused;
            }
            is_refused |= refusal.contains(&subject);
        }
    }

    async fn may_publish(&self, subject: &str) -> bool {
        self.client.publish(subject.to_owned(), "x".into()).await.unwrap();
        !self.is_refused(subject).await
    }

    async fn may_subscribe(&self, subject: &str) -> bool {
        let _subscription = self.client.subscribe(subject.to_owned()).await.unwrap();
        !self.is_refused(subject).await
    }
}

/// Returns the NATS user of a service.
fn owner(service: &str) -> &str {
    service.split('_').next().unwrap_or(service)
}

fn group(name: &str) -> String {
    if name.is_empty() { "core".to_owned() } else { name.replace('.', "_") }
}

/// Returns the name of a user's first place for readers.
fn place(user: &str) -> String {
    format!("{user}-r000")
}

/// The file must equal the generated configuration and contain every user and every queue of the
/// table above.
#[test]
fn the_tables_are_those_of_the_file() {
    assert_eq!(FILE, groundwork_bus::users_conf().unwrap(), "run `cargo xtask crds`");
    let after = |mark: &str| -> BTreeSet<String> {
        let rest = FILE.split(mark).skip(1);
        let words = rest.filter_map(|rest| rest.split(|end: char| ",\"".contains(end)).next());
        words.map(str::to_owned).collect()
    };
    assert_eq!(after("\n      user: "), USERS.map(str::to_owned).into());
    let queue = |(service, plural, of): (&str, &str, &str)| format!("{service}-{plural}-{}", group(of));
    let mut named = after("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.");
    let is_place = |name: &str| {
        let (_, place) = name.rsplit_once('-').unwrap();
        place.strip_prefix(['r', 'k']).is_some_and(|number| number.parse::<u16>().is_ok())
    };
    named.retain(|name| !is_place(name));
    assert_eq!(named, QUEUES.map(queue).into());
}

/// Every user is checked against every subject.
#[tokio::test]
async fn every_user_may_what_it_needs_and_nothing_else() {
    let Some(nats) = server().await else { return };
    for name in USERS {
        let user = User::new(&nats, name).await;
        let (is_watcher, is_variant) = (name == "watcher", name == "variant");
        for (service, plural, of) in QUEUES {
            let (queue, is_own) = (format!("{service}-{plural}-{}", group(of)), owner(service) == name);
            let create = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{queue}");
            let filtered = format!("{create}.groundwork.v1.{plural}.{}.>", group(of));
            for (subject, expected) in [
                (filtered, is_own),
                (create.clone(), false),
                (format!("{create}.groundwork.v1.secrets.core.>"), false),
                (format!("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.{queue}"), is_own),
                (format!("$JS.ACK.GROUNDWORK.{queue}.1.2.3.4.5"), is_own),
                (format!("$JS.API.CONSUMER.DELETE.GROUNDWORK.{queue}"), is_watcher),
            ] {
                assert_eq!(user.may_publish(&subject).await, expected, "{name} publishes to {subject}");
            }
        }
        for other in USERS {
            let (reader, is_own) = (place(other), other == name);
            for (subject, expected) in [
                (format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{reader}"), is_own),
                (format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{reader}.groundwork.v1.>"), false),
                (format!("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.{reader}"), is_own),
                (format!("$JS.API.CONSUMER.DELETE.GROUNDWORK.{reader}"), is_own || is_watcher),
                (format!("$JS.ACK.GROUNDWORK.{reader}.1.2.3.4.5"), false),
            ] {
                assert_eq!(user.may_publish(&subject).await, expected, "{name} publishes to {subject}");
            }
        }
        let writes_journal = ["watcher", "resolver", "renderer", "deployer"].contains(&name);
        for (subject, expected) in [
            // Places beyond the user's number, and names that are not in the table.
            (format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}-r999"), false),
            (format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}-x"), false),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK.reader-x".to_owned(), false),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK".to_owned(), false),
            (
                "$JS.API.CONSUMER.CREATE.GROUNDWORK.variant-k000.groundwork.v1.things.x.>".to_owned(),
                is_variant,
            ),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK.variant-k100.groundwork.v1.things.x.>".to_owned(), false),
            ("$JS.API.CONSUMER.INFO.GROUNDWORK.variant-k000".to_owned(), is_variant),
            ("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.variant-k000".to_owned(), is_variant),
            ("$JS.ACK.GROUNDWORK.variant-k000.1.2.3.4.5".to_owned(), is_variant),
            ("groundwork.v1.secrets.core.n.a".to_owned(), is_watcher),
            ("groundwork.interest.v1.pods.core.n.h".to_owned(), is_watcher),
            ("groundwork.journal.v1.losses.core._._.x".to_owned(), writes_journal),
            ("groundwork.journal.v1.installations.x.n.j.a".to_owned(), writes_journal),
            ("_INBOX_other.x".to_owned(), false),
            ("$SYS.REQ.SERVER.PING".to_owned(), false),
            ("elsewhere".to_owned(), false),
        ] {
            assert_eq!(user.may_publish(&subject).await, expected, "{name} publishes to {subject}");
        }
        for other in USERS {
            let inbox = format!("_INBOX_{other}.x.*");
            assert_eq!(user.may_subscribe(&inbox).await, other == name, "{name} listens to {inbox}");
        }
        for subject in ["_INBOX.>", "_INBOX_*.>", "groundwork.>", "$JS.API.>", "$JS.EVENT.>", ">"] {
            assert!(!user.may_subscribe(subject).await, "{} listens to {subject}", user.name);
        }
    }
}

/// Users that may use an operation, on the stream and on the journal. The consumer in the subject
/// is a reader's place of the user.
struct Rights {
    stream: &'static [&'static str],
    journal: &'static [&'static str],
}

const NOBODY: Rights = Rights { stream: &[], journal: &[] };

/// All JetStream operations of a server, as the server names them: the first `*` is the stream, a
/// second one the consumer.
const OPERATIONS: [(&str, Rights); 48] = [
    ("$JS.API.INFO", NOBODY),
    ("$JS.API.STREAM.CREATE.*", Rights { stream: &["watcher"], journal: &["watcher"] }),
    ("$JS.API.STREAM.UPDATE.*", Rights { stream: &["watcher"], journal: &["watcher"] }),
    ("$JS.API.STREAM.NAMES", NOBODY),
    ("$JS.API.STREAM.LIST", NOBODY),
    ("$JS.API.STREAM.INFO.*", Rights { stream: &USERS, journal: &["watcher"] }),
    ("$JS.API.STREAM.DELETE.*", Rights { stream: &["watcher"], journal: &[] }),
    ("$JS.API.STREAM.PURGE.*", NOBODY),
    ("$JS.API.STREAM.SNAPSHOT.*", NOBODY),
    ("$JS.API.STREAM.RESTORE.*", NOBODY),
    ("$JS.API.STREAM.MSG.DELETE.*", Rights { stream: &["watcher"], journal: &[] }),
    ("$JS.API.STREAM.MSG.GET.*", NOBODY),
    ("$JS.API.STREAM.PEER.REMOVE.*", NOBODY),
    ("$JS.API.STREAM.PEER.EVACUATE.*", NOBODY),
    ("$JS.API.STREAM.CANCEL_MOVE.*", NOBODY),
    ("$JS.API.STREAM.LEADER.STEPDOWN.*", NOBODY),
    ("$JS.API.STREAM.TEMPLATE.CREATE.*", NOBODY),
    ("$JS.API.STREAM.TEMPLATE.NAMES", NOBODY),
    ("$JS.API.STREAM.TEMPLATE.INFO.*", NOBODY),
    ("$JS.API.STREAM.TEMPLATE.DELETE.*", NOBODY),
    ("$JS.API.DIRECT.GET", NOBODY),
    ("$JS.API.DIRECT.GET.*", Rights { stream: &["watcher"], journal: &[] }),
    ("$JS.API.DIRECT.GET.*.>", NOBODY),
    ("$JS.API.CONSUMER.CREATE.*", NOBODY),
    ("$JS.API.CONSUMER.CREATE.*.*", Rights { stream: &USERS, journal: &["renderer"] }),
    ("$JS.API.CONSUMER.CREATE.*.>", NOBODY),
    ("$JS.API.CONSUMER.DURABLE.CREATE.*.*", NOBODY),
    ("$JS.API.CONSUMER.NAMES.*", NOBODY),
    ("$JS.API.CONSUMER.LIST.*", Rights { stream: &["watcher"], journal: &[] }),
    ("$JS.API.CONSUMER.INFO.*.*", NOBODY),
    ("$JS.API.CONSUMER.DELETE.*.*", Rights { stream: &USERS, journal: &["renderer"] }),
    ("$JS.API.CONSUMER.PAUSE.*.*", NOBODY),
    ("$JS.API.CONSUMER.RESET.*.*", NOBODY),
    ("$JS.API.CONSUMER.UNPIN.*.*", NOBODY),
    ("$JS.API.CONSUMER.MSG.NEXT.*.*", Rights { stream: &USERS, journal: &["renderer"] }),
    ("$JS.API.CONSUMER.LEADER.STEPDOWN.*.*", NOBODY),
    ("$JS.API.CONSUMER.PEER.REMOVE.*.*", NOBODY),
    ("$JS.API.CONSUMER.PEER.EVACUATE.*.*", NOBODY),
    ("$JS.API.META.LEADER.STEPDOWN", NOBODY),
    ("$JS.API.META.RESCUE", NOBODY),
    ("$JS.API.SERVER.REMOVE", NOBODY),
    ("$JS.API.SERVER.EVACUATE", NOBODY),
    ("$JS.API.ACCOUNT.PURGE.*", NOBODY),
    ("$JS.API.ACCOUNT.STREAM.MOVE.*.*", NOBODY),
    ("$JS.API.ACCOUNT.STREAM.CANCEL_MOVE.*.*", NOBODY),
    ("$JS.FC.*.*", NOBODY),
    ("$JS.SNAPSHOT.ACK.*.*", NOBODY),
    ("$JS.SNAPSHOT.RESTORE.*.*", NOBODY),
];

/// Extracts the subjects of API operations from a server binary, without their variable parts.
fn operations_of(program: &[u8]) -> BTreeSet<String> {
    let starts: [&[u8]; 3] = [b"$JS.API.", b"$JS.FC.", b"$JS.SNAPSHOT."];
    let mut found = BTreeSet::new();
    for start in starts {
        for index in memchr::memmem::find_iter(program, start) {
            let rest = program[index + 1..].iter().copied();
            let text = rest.take_while(|byte| byte.is_ascii_uppercase() || b"._".contains(byte));
            let text: String = std::iter::once('$').chain(text.map(char::from)).collect();
            // A text with few dots is only a prefix, and unrelated bytes of the binary may follow
            // it.
            if text.matches('.').count() > 2 {
                found.insert(text);
            }
        }
    }
    found
}

/// Every user is checked against every operation that the server binary contains. The test fails
/// for an operation that the table does not name.
#[tokio::test]
async fn every_operation_of_the_server_is_asked_for_every_user() {
    let Some(nats) = server().await else { return };
    let program = std::fs::read(groundwork_testkit::find(Server::NatsServer).unwrap().path).unwrap();
    for found in operations_of(&program) {
        let is_named = OPERATIONS.iter().any(|(operation, _)| {
            let fixed = operation.split(".*").next().unwrap();
            // Unrelated bytes may follow the text in the binary.
            found.starts_with(fixed) || fixed.starts_with(found.trim_end_matches('.'))
        });
        assert!(is_named, "{found} is an operation of the server, and the table does not name it");
    }
    for name in USERS {
        let user = User::new(&nats, name).await;
        for (operation, rights) in &OPERATIONS {
            for (stream, may) in
                [("GROUNDWORK", rights.stream), ("GROUNDWORK_JOURNAL", rights.journal), ("OTHER", &[])]
            {
                let subject =
                    operation.replacen('*', stream, 1).replacen('*', &place(name), 1).replace(".>", ".a.b");
                let expected = match *operation {
                    // The watcher may delete consumers of all users.
                    "$JS.API.CONSUMER.DELETE.*.*" if name == "watcher" => stream == "GROUNDWORK",
                    _ => may.contains(&name),
                };
                assert_eq!(user.may_publish(&subject).await, expected, "{name} publishes to {subject}");
            }
        }
    }
}

/// A read-only user takes all its places for as long as it can, and must not hinder other users.
#[tokio::test]
async fn places_of_a_user_are_all_that_it_can_take() {
    let Some(nats) = server().await else { return };
    let watcher = login(&nats, "watcher").await;
    watcher.ensure_stream().await.unwrap();
    let greedy = User::new(&nats, "reader").await;
    let make = async |name: &str, threshold: u64| -> Value {
        let config = json!({"name": name, "ack_policy": "none", "inactive_threshold": threshold});
        let body = json!({"stream_name": "GROUNDWORK", "config": config}).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}");
        let answer = greedy.client.request(subject, body.into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    const MINUTE: u64 = 60_000_000_000;
    let year = make("reader-r000", 365 * 24 * 60 * MINUTE).await;
    assert!(year["error"]["description"].as_str().unwrap().contains("inactive threshold"), "{year}");
    let places = groundwork_bus::USERS.iter().find(|user| user.name == "reader").unwrap().readers;
    for number in 0..places {
        let made = make(&format!("reader-r{number:03}"), 30 * MINUTE).await;
        assert!(made["error"].is_null(), "{made}");
    }
    let error = login(&nats, "reader").await.load(groundwork_bus::Filter::Everything).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "all 32 consumers that the NATS user reader may have on the stream GROUNDWORK are in use; one becomes free two \
         minutes after its reader ends, or half an hour after its queue ends"
    );
    assert!(error.is_transient());
    for name in SERVICES {
        login(&nats, name).await.load(groundwork_bus::Filter::Everything).await.unwrap();
    }
    // Readers of Groundwork disappear after two minutes idle, so these consumers with a longer time
    // are strays.
    assert_eq!(watcher.sweep().await.unwrap(), places);
    login(&nats, "reader").await.load(groundwork_bus::Filter::Everything).await.unwrap();
}

/// Consumers from before the limits existed, some of which would stay for a year, must not keep the
/// stream from getting the limits.
#[tokio::test]
async fn a_stream_of_before_is_swept_and_limited() {
    if !servers_or_skip(&[Server::NatsServer]) {
        return;
    }
    let nats = Nats::start_with("").await.unwrap();
    let operator = async_nats::connect(nats.url()).await.unwrap();
    let ask = async |subject: &str, body: Value| -> Value {
        let answer = operator.request(format!("$JS.API.{subject}"), body.to_string().into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let stream = json!({"name": "GROUNDWORK", "subjects": ["groundwork.v1.>"], "max_msgs_per_subject": 1, "discard": "new"});
    assert!(ask("STREAM.CREATE.GROUNDWORK", stream).await["error"].is_null());
    for (name, config) in [
        ("of-a-year", json!({"inactive_threshold": 365 * 24 * 3_600_000_000_000_u64})),
        ("of-an-operator", json!({"durable_name": "of-an-operator", "ack_policy": "explicit"})),
        (
            "renderer-secrets-core",
            json!({"durable_name": "renderer-secrets-core", "deliver_policy": "last_per_subject",
            "filter_subject": "groundwork.v1.secrets.core.>", "ack_policy": "explicit", "ack_wait": 30_000_000_000_u64, "max_deliver": -1,
            "max_ack_pending": -1}),
        ),
    ] {
        let mut config = config;
        config["name"] = name.into();
        let body = json!({"stream_name": "GROUNDWORK", "config": config});
        assert!(ask(&format!("CONSUMER.CREATE.GROUNDWORK.{name}"), body).await["error"].is_null());
    }
    let bus = Bus::connect(options(&nats)).await.unwrap();
    bus.ensure_stream().await.unwrap();
    let limits = ask("STREAM.INFO.GROUNDWORK", json!({})).await["config"]["consumer_limits"].clone();
    assert_eq!(limits["inactive_threshold"], 1_800_000_000_000_u64, "{limits}");
    let names = ask("CONSUMER.NAMES.GROUNDWORK", json!({})).await["consumers"].clone();
    assert_eq!(names, json!(["of-an-operator", "renderer-secrets-core"]));
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    within("work", queue.next()).await.ack().await;
}

/// A foreign server may deny the list of consumers; the stream can be created and read all the
/// same.
#[tokio::test]
async fn the_stream_needs_no_right_to_sweep() {
    if !servers_or_skip(&[Server::NatsServer]) {
        return;
    }
    let user = r#"{user: other, password: other, permissions: {publish: {allow: [">"], deny: ["$JS.API.CONSUMER.LIST.>"]}, subscribe: [">"]}}"#;
    let nats = Nats::start_with(&format!("authorization {{users: [{user}]}}")).await.unwrap();
    let bus = login(&nats, "other").await;
    assert!(matches!(
        bus.sweep().await,
        Err(groundwork_bus::BusError::StreamNotFound | groundwork_bus::BusError::Denied { .. })
    ));
    bus.ensure_stream().await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    assert_eq!(bus.load(groundwork_bus::Filter::Everything).await.unwrap().len(), 1);
}

/// For a push consumer the server itself publishes, regardless of the user's permissions. These
/// messages must reach neither the API nor a stream, and the watcher deletes the consumer.
#[tokio::test]
async fn what_a_consumer_pushes_does_nothing() {
    let Some(nats) = server().await else { return };
    let watcher = login(&nats, "watcher").await;
    watcher.ensure_stream().await.unwrap();
    watcher.ensure_journal().await.unwrap();
    publish(&watcher, &applied(&secret("a"), 1)).await;
    let renderer = login(&nats, "renderer").await;
    renderer.write_journal(&[entry(&secret("a"), "j", "renderer")]).await.unwrap();
    let user = User::new(&nats, "reader").await;
    let make = async |place: usize, to: &str, headers_only: bool| -> Value {
        let name = format!("reader-r{place:03}");
        // Without an explicit `max_ack_pending` the stream's limits apply, and the server refuses
        // them for a push consumer without acknowledgements.
        let config = json!({"name": name, "ack_policy": "none", "max_ack_pending": -1, "deliver_subject": to,
            "headers_only": headers_only});
        let body = json!({"stream_name": "GROUNDWORK", "config": config}).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}");
        let answer = user.client.request(subject, body.into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let refused = make(0, "groundwork.v1.secrets.core.n.b", false).await;
    assert!(refused["error"]["description"].as_str().unwrap().contains("cycle"), "{refused}");
    let aims = [
        "$JS.API.STREAM.DELETE.GROUNDWORK",
        "$JS.API.STREAM.PURGE.GROUNDWORK",
        "$JS.API.STREAM.DELETE.GROUNDWORK_JOURNAL",
        "$JS.API.STREAM.PURGE.GROUNDWORK_JOURNAL",
        "groundwork.journal.v1.losses.core._._.x",
    ];
    for (place, to) in aims.iter().enumerate() {
        // With `headers_only` the body is empty, as some operations require.
        for (place, headers_only) in [(2 * place, false), (2 * place + 1, true)] {
            let made = make(place, to, headers_only).await;
            assert!(made["error"].is_null(), "{made}");
        }
    }
    let list = User::new(&nats, "watcher").await;
    let messages = async |stream: &str| {
        let answer = list.client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).unwrap()["state"]["messages"].clone()
    };
    // A push to the user's own inbox arrives after all the pushes above, so those have been
    // handled.
    let mut inbox = user.client.subscribe("_INBOX_reader.own").await.unwrap();
    let made = make(2 * aims.len(), "_INBOX_reader.own", false).await;
    assert!(made["error"].is_null(), "{made}");
    within("a push to its own inbox", inbox.next()).await.unwrap();
    assert_eq!(messages("GROUNDWORK").await, 1);
    assert_eq!(messages("GROUNDWORK_JOURNAL").await, 1);
    assert_eq!(watcher.sweep().await.unwrap(), 2 * aims.len() + 1);
    assert_eq!(renderer.read_journal(&JournalPart::Key(secret("a")), 10).await.unwrap().len(), 1);
}

async fn login(nats: &Nats, user: &str) -> Bus {
    let login = Login::Password { user: user.to_owned(), password: user.to_owned() };
    Bus::connect(NatsOptions { login, ..options(nats) }).await.unwrap()
}

/// These rights are enough for every user to work, and an ephemeral consumer cannot take over the
/// queue of another user.
#[tokio::test]
async fn the_rights_suffice_and_queues_cannot_be_taken_over() {
    let Some(nats) = server().await else { return };
    let watcher = login(&nats, "watcher").await;
    watcher.ensure_stream().await.unwrap();
    publish(&watcher, &applied(&secret("a"), 1)).await;
    let mut queues = Vec::new();
    for (service, plural, group) in QUEUES {
        let bus = login(&nats, owner(service)).await;
        queues.push(bus.work(service, &Kind::new(group, plural)).await.unwrap());
    }
    assert!(watcher.ensure_journal().await.unwrap());
    let of_journal = JournalPart::Key(secret("a"));
    for user in USERS {
        let bus = login(&nats, user).await;
        let written = bus.write_journal(&[entry(&secret("a"), "j", user)]).await;
        let writes = ["watcher", "resolver", "renderer", "deployer"].contains(&user);
        assert_eq!(written.is_ok(), writes, "{user}: {written:?}");
        let read = bus.read_journal(&of_journal, 10).await;
        assert_eq!(read.is_ok(), user == "renderer", "{user}: {read:?}");
        let mut feed = bus.index(&[secrets()]).await.unwrap();
        assert_eq!(steps(&mut feed, 2).await, ["reset", "1 a@1"], "{user}");
    }
    let thief = User::new(&nats, "reader").await;
    let queue = "renderer-installations-landscaper_gardener_cloud";
    for (name, config) in [
        ("reader-r000", json!({"durable_name": queue, "filter_subject": "groundwork.v1.secrets.>"})),
        ("reader-r000", json!({"name": queue, "filter_subjects": ["groundwork.v1.secrets.>"]})),
        ("reader-r000", json!({"name": queue, "durable_name": queue, "deliver_subject": "_INBOX_reader.x"})),
    ] {
        let mut config = config;
        config["ack_policy"] = json!("explicit");
        let body = json!({"stream_name": "GROUNDWORK", "config": config}).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}");
        let answer = thief.client.request(subject, body.into()).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer["error"].is_object() || answer["name"] == name, "{answer}");
    }
    let list = User::new(&nats, "watcher").await;
    let answer = list.client.request("$JS.API.CONSUMER.LIST.GROUNDWORK", "".into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    let all = answer["consumers"].as_array().unwrap();
    let kept = all.iter().find(|consumer| consumer["name"] == queue).unwrap();
    let filter = "groundwork.v1.installations.landscaper_gardener_cloud.>";
    assert_eq!(kept["config"]["filter_subject"], filter, "{kept}");
    for service in SERVICES {
        assert!(all.iter().any(|one| one["name"].as_str().is_some_and(|name| name.starts_with(service))));
    }
}

/// Permissions cannot name the queue of a kind that is known only from objects, but they name its
/// places. Replicas find the same place, and another kind gets another place, also after one was
/// given back. When all places are taken, the caller gets an error.
#[tokio::test]
async fn queues_of_selected_kinds_have_places() {
    let Some(nats) = server().await else { return };
    let watcher = login(&nats, "watcher").await;
    watcher.ensure_stream().await.unwrap();
    let kind = |number: usize| Kind::new("example.org", format!("things{number}"));
    let (one, two) = (login(&nats, "variant").await, login(&nats, "variant").await);
    let places = groundwork_bus::USERS.iter().find(|user| user.name == "variant").unwrap().kinds;
    let mut queues = Vec::new();
    for number in 0..places {
        queues.push(one.selected_work("variant", &kind(number)).await.unwrap());
        drop(two.selected_work("variant", &kind(number)).await.unwrap());
    }
    // The pulling queue retries, because another queue may be gone in half an hour.
    let mut late = one.selected_work("variant", &kind(places)).await.unwrap();
    let mut problem = late.problem();
    let pulling = tokio::spawn(async move { late.next().await.event.object });
    let is_full =
        |problem: &Option<String>| problem.as_ref().is_some_and(|text| text.contains("all 100 consumers"));
    within("it is told", problem.wait_for(is_full)).await.unwrap();
    let list = User::new(&nats, "watcher").await;
    let answer = list.client.request("$JS.API.CONSUMER.LIST.GROUNDWORK", "".into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    let all = answer["consumers"].as_array().unwrap();
    assert_eq!(answer["total"], places, "replicas share queues");
    let of = |number: usize| {
        let filter = format!("groundwork.v1.things{number}.example_org.>");
        let own = all.iter().find(|one| one["config"]["filter_subject"] == filter.as_str());
        own.unwrap()["name"].as_str().unwrap().to_owned()
    };
    let delete = format!("$JS.API.CONSUMER.DELETE.GROUNDWORK.{}", of(7));
    list.client.request(delete, "".into()).await.unwrap();
    let thing = ObjectId::new(kind(places), Some("n"), "a");
    publish(&watcher, &applied(&thing, 1)).await;
    assert_eq!(within("the free place is taken", pulling).await.unwrap(), thing);
    let thing = ObjectId::new(kind(8), Some("n"), "b");
    publish(&watcher, &applied(&thing, 2)).await;
    let delivery = within("work", queues[8].next()).await;
    assert_eq!((delivery.event.object.clone(), delivery.attempts), (thing, 1));
    delivery.ack().await;
    for name in USERS.iter().filter(|name| **name != "variant") {
        let user = User::new(&nats, name).await;
        assert!(
            !user.may_publish(&format!("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.{}", of(8))).await,
            "{name}"
        );
    }
}

/// A queue whose consumer is deleted and may not be recreated reports a problem, and reports its
/// recovery.
#[tokio::test]
async fn a_broken_queue_is_told() {
    if !servers_or_skip(&[Server::NatsServer]) {
        return;
    }
    let nats = Nats::start_with("").await.unwrap();
    let bus = Bus::connect(options(&nats)).await.unwrap();
    bus.ensure_stream().await.unwrap();
    let mut queue = bus.work("renderer", &secrets()).await.unwrap();
    let mut problem = queue.problem();
    let pulling = tokio::spawn(async move { queue.next().await.event });
    let operator = async_nats::connect(nats.url()).await.unwrap();
    operator.request("$JS.API.STREAM.DELETE.GROUNDWORK", "".into()).await.unwrap();
    within("it is told", problem.wait_for(Option::is_some)).await.unwrap();
    bus.ensure_stream().await.unwrap();
    within("it is over", problem.wait_for(Option::is_none)).await.unwrap();
    publish(&bus, &applied(&secret("a"), 1)).await;
    within("work", pulling).await.unwrap();
}
