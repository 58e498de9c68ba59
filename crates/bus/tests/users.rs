//! The users of `k8s/nats/users.conf`, each with what they may and may not, asked of a real server.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use common::*;
use groundwork_bus::{Bus, JournalPart, Kind, Login, NatsOptions, ObjectId};
use groundwork_testkit::{Nats, Server, servers_or_skip};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const FILE: &str = include_str!("../../../k8s/nats/users.conf");
const USERS: [&str; 7] = ["watcher", "resolver", "renderer", "deployer", "variant", "console", "reader"];
const SERVICES: [&str; 4] = ["resolver", "renderer", "deployer", "variant"];

/// Service, plural and group of every queue whose name is known. A deployer has one for each type of items that needs a cluster, and one for TargetSyncs.
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

/// A user at the server, and what the server refuses.
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

    /// Whether the server has refused something about a subject. One that it refuses for certain marks the end of its answers.
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

/// The user of a service.
fn owner(service: &str) -> &str {
    service.split('_').next().unwrap_or(service)
}

fn group(name: &str) -> String {
    if name.is_empty() { "core".to_owned() } else { name.replace('.', "_") }
}

/// The tables above have every user of the file, and every queue that the file keeps for one of them.
#[test]
fn the_tables_are_those_of_the_file() {
    let after = |mark: &str| -> BTreeSet<String> {
        let rest = FILE.split(mark).skip(1);
        let words = rest.filter_map(|rest| rest.split(|end: char| ",\"".contains(end)).next());
        words.map(str::to_owned).collect()
    };
    assert_eq!(after("\n      user: "), USERS.map(str::to_owned).into());
    let queue = |(service, plural, of): (&str, &str, &str)| format!("{service}-{plural}-{}", group(of));
    let mut named = after("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.");
    // What everybody reads with, and the queues of selected kinds, whose names nobody else can know.
    named.retain(|name| !name.contains('*'));
    assert_eq!(named, QUEUES.map(queue).into());
}

/// Each user, each subject.
#[tokio::test]
async fn every_user_may_what_it_needs_and_nothing_else() {
    let Some(nats) = server().await else { return };
    for name in USERS {
        let user = User::new(&nats, name).await;
        for (service, plural, of) in QUEUES {
            let (queue, is_own) = (format!("{service}-{plural}-{}", group(of)), owner(service) == name);
            let create = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{queue}");
            let filtered = format!("{create}.groundwork.v1.{plural}.{}.>", group(of));
            for (subject, expected) in [
                (filtered, is_own),
                (create.clone(), is_own),
                (format!("{create}.groundwork.v1.secrets.core.>"), is_own && name == "variant"),
                (format!("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.{queue}"), is_own),
                (format!("$JS.ACK.GROUNDWORK.{queue}.1.2.3.4.5"), is_own),
                (format!("$JS.API.CONSUMER.DELETE.GROUNDWORK.{queue}"), false),
                (format!("$JS.API.CONSUMER.PAUSE.GROUNDWORK.{queue}"), false),
                (format!("$JS.API.CONSUMER.DURABLE.CREATE.GROUNDWORK.{queue}"), false),
            ] {
                assert_eq!(user.may_publish(&subject).await, expected, "{name} publishes to {subject}");
            }
        }
        let (is_watcher, is_variant) = (name == "watcher", name == "variant");
        let writes_journal = ["watcher", "resolver", "renderer", "deployer"].contains(&name);
        let reads_journal = name == "renderer";
        for (subject, expected) in [
            ("$JS.API.STREAM.INFO.GROUNDWORK", true),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK.reader-x", true),
            ("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.reader-x", true),
            ("$JS.API.CONSUMER.DELETE.GROUNDWORK.reader-x", is_watcher),
            ("$JS.API.CONSUMER.LIST.GROUNDWORK", is_watcher),
            ("$JS.API.CONSUMER.NAMES.GROUNDWORK", false),
            ("$JS.API.CONSUMER.INFO.GROUNDWORK.variant-things-x", false),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK", false),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK.variant-things-x.groundwork.v1.things.x.>", is_variant),
            ("$JS.ACK.GROUNDWORK.variant-things-x.1.2.3.4.5", is_variant),
            ("$JS.API.STREAM.CREATE.GROUNDWORK", is_watcher),
            ("$JS.API.STREAM.UPDATE.GROUNDWORK", is_watcher),
            ("$JS.API.STREAM.DELETE.GROUNDWORK", is_watcher),
            ("$JS.API.STREAM.MSG.DELETE.GROUNDWORK", is_watcher),
            ("$JS.API.STREAM.PURGE.GROUNDWORK", false),
            ("$JS.API.STREAM.CREATE.OTHER", false),
            ("$JS.API.STREAM.LIST", false),
            ("$JS.API.DIRECT.GET.GROUNDWORK", is_watcher),
            ("$JS.API.STREAM.MSG.GET.GROUNDWORK", false),
            ("groundwork.v1.secrets.core.n.a", is_watcher),
            ("groundwork.interest.v1.pods.core.n.h", is_watcher),
            ("groundwork.journal.v1.losses.core._._.x", writes_journal),
            ("groundwork.journal.v1.installations.x.n.j.a", writes_journal),
            ("$JS.API.STREAM.CREATE.GROUNDWORK_JOURNAL", is_watcher),
            ("$JS.API.STREAM.UPDATE.GROUNDWORK_JOURNAL", is_watcher),
            ("$JS.API.STREAM.INFO.GROUNDWORK_JOURNAL", is_watcher),
            ("$JS.API.STREAM.DELETE.GROUNDWORK_JOURNAL", false),
            ("$JS.API.STREAM.PURGE.GROUNDWORK_JOURNAL", false),
            ("$JS.API.STREAM.MSG.DELETE.GROUNDWORK_JOURNAL", false),
            ("$JS.API.STREAM.MSG.GET.GROUNDWORK_JOURNAL", false),
            ("$JS.API.DIRECT.GET.GROUNDWORK_JOURNAL", false),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK_JOURNAL.reader-x", reads_journal),
            ("$JS.API.CONSUMER.CREATE.GROUNDWORK_JOURNAL.reader-x.groundwork.journal.v1.>", false),
            ("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK_JOURNAL.reader-x", reads_journal),
            ("$JS.API.CONSUMER.DELETE.GROUNDWORK_JOURNAL.reader-x", reads_journal),
            ("_INBOX_resolver.x", false),
            ("$SYS.REQ.SERVER.PING", false),
            ("elsewhere", false),
        ] {
            assert_eq!(user.may_publish(subject).await, expected, "{name} publishes to {subject}");
        }
        for other in USERS {
            let inbox = format!("_INBOX_{other}.x.*");
            assert_eq!(user.may_subscribe(&inbox).await, other == name, "{name} listens to {inbox}");
        }
        for subject in ["_INBOX.>", "_INBOX_*.>", "groundwork.>", "$JS.API.>", ">"] {
            assert!(!user.may_subscribe(subject).await, "{} listens to {subject}", user.name);
        }
    }
}

async fn login(nats: &Nats, user: &str) -> Bus {
    let login = Login::Password { user: user.to_owned(), password: user.to_owned() };
    Bus::connect(NatsOptions { login, ..options(nats) }).await.unwrap()
}

/// With these rights everybody can work; and an ephemeral consumer cannot be made to be the queue of another.
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
        ("evil", json!({"durable_name": queue, "filter_subject": "groundwork.v1.secrets.>"})),
        ("evil", json!({"name": queue, "filter_subjects": ["groundwork.v1.secrets.>"]})),
        ("evil", json!({"name": queue, "durable_name": queue, "deliver_subject": "_INBOX_reader.x"})),
    ] {
        let mut config = config;
        config["ack_policy"] = json!("explicit");
        let body = json!({"stream_name": "GROUNDWORK", "config": config}).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{name}");
        let answer = thief.client.request(subject, body.into()).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer["error"].is_object() || answer["name"] == "evil", "{answer}");
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

/// Permissions cannot name the queue of a kind that follows from objects: nothing leads to it but the password of its user, and no user
/// but the watcher, which removes what nobody needs, may list names.
#[tokio::test]
async fn a_private_queue_is_found_by_its_user_alone() {
    let Some(nats) = server().await else { return };
    let watcher = login(&nats, "watcher").await;
    watcher.ensure_stream().await.unwrap();
    let things = Kind::new("example.org", "things");
    let plain = "variant-things-example_org";
    let mut queue = login(&nats, "variant").await.private_work("variant", &things).await.unwrap();
    let replica = login(&nats, "variant").await.private_work("variant", &things).await.unwrap();
    let body = json!({"stream_name": "GROUNDWORK", "config": {"name": plain, "durable_name": plain,
        "ack_policy": "explicit", "filter_subject": "groundwork.v1.secrets.core.>"}});
    for name in USERS.iter().filter(|name| **name != "variant") {
        let user = User::new(&nats, name).await;
        let subject = format!("$JS.API.CONSUMER.CREATE.GROUNDWORK.{plain}");
        let answer = user.client.request(subject, body.to_string().into()).await.unwrap();
        assert!(String::from_utf8_lossy(&answer.payload).contains(plain), "it is a queue of nobody");
        let pull = format!("$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.{plain}");
        let inbox = format!("_INBOX_{name}.pull");
        user.client.publish_with_reply(pull, inbox, r#"{"batch": 10}"#.into()).await.unwrap();
        user.client.flush().await.unwrap();
    }
    let list = User::new(&nats, "watcher").await;
    let answer = list.client.request("$JS.API.CONSUMER.LIST.GROUNDWORK", "".into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    let names = answer["consumers"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str());
    let own: Vec<_> = names.filter(|name| name.starts_with(plain) && *name != plain).collect();
    assert_eq!(own.len(), 1, "replicas share one queue, under no name that others know: {answer}");
    let thing = ObjectId::new(things, Some("n"), "a");
    publish(&watcher, &applied(&thing, 1)).await;
    let delivery = within("work", queue.next()).await;
    assert_eq!((delivery.event.object.clone(), delivery.attempts), (thing, 1));
    delivery.ack().await;
    drop(replica);
}

/// A queue that is gone and may not be made again is told, and so is its return.
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
