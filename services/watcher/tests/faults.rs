//! Faults around the watcher, on a real NATS server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{
    Gate, Running, arrives, config, configmap, contents, create, delete, disappears, last, merge, plane,
    until, within,
};
use groundwork_bus::{Bus, Change, Feed, Filter, NatsOptions, Record, STREAM};
use groundwork_testkit::{ControlPlane, Nats, Server, servers_or_skip};
use groundwork_watcher::{Arguments, LeaseArguments};
use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const SERVERS: [Server; 3] = [Server::Etcd, Server::KubeApiserver, Server::NatsServer];
const CANARY: &str = "canary-7f3a";

async fn connect(nats: &Nats) -> Bus {
    Bus::connect(NatsOptions::new(nats.url())).await.unwrap()
}

#[tokio::test]
async fn losses_are_made_good() {
    if !servers_or_skip(&SERVERS) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    let mut nats = Nats::start().await.unwrap();
    let bus = connect(&nats).await;
    let config = config(&plane).await;
    let gate = Gate::to(&config).await;

    // Neither server is reachable at first.
    gate.set(false);
    nats.kill().await.unwrap();
    let watcher = Running::start(Arguments::default(), bus.clone(), gate.client(config)).await;
    watcher.troubled("NATS").await;
    nats.start_again().await.unwrap();
    watcher.troubled("cannot get namespaces").await;
    gate.set(true);
    watcher.ready().await;

    objects_with_values(&client, &bus).await;
    changes_wait_for_nats(&client, &bus, &mut nats, &watcher).await;
    changes_wait_for_the_api_server(&client, &bus, &gate, &watcher).await;
    a_lost_stream_is_built_again(&client, &bus, &nats, &watcher).await;
    watcher.stop().await;
    a_restart_publishes_nothing(&client, &bus).await;
    no_canary_in(nats.folder());
}

async fn objects_with_values(client: &Client, bus: &Bus) {
    let metadata = |name: &str| {
        json!({"namespace": "default", "name": name, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": CANARY,
            "landscaper.gardener.cloud/note": "harmless",
        }})
    };
    let ours = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind, "metadata": metadata(name),
        });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata("s"), "stringData": {"a": CANARY, CANARY: "a"},
    });
    let configmap =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("c"), "data": {"a": CANARY}});
    for (plural, object) in [
        ("secrets", secret),
        ("configmaps", configmap),
        ("dataobjects", ours("DataObject", "d", json!({"data": {"a": CANARY}}))),
        ("targets", ours("Target", "t", json!({"spec": {"type": "x", "config": {"a": CANARY}}}))),
        (
            "installations",
            ours(
                "Installation",
                "i",
                json!({"spec": {
                    "context": "shown",
                    "blueprint": {"inline": {"filesystem": {"blueprint.yaml": CANARY}}},
                    "importDataMappings": {"a": CANARY},
                }}),
            ),
        ),
    ] {
        arrives(bus, plural, &create(client, object).await).await;
    }
    let Some(stored) = last(bus, "installations", Some("default"), "i").await else { panic!() };
    assert!(format!("{stored:?}").contains("shown"), "{stored:?}");
}

/// Searches the server's files for canaries. Harmless texts must be found, to prove that the search
/// works.
fn no_canary_in(folder: &Path) {
    let (mut folders, mut is_shown) = (vec![folder.to_owned()], false);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            let encoded = data_encoding::BASE64.encode(CANARY.as_bytes());
            let encoded = encoded.trim_end_matches('=');
            assert!(!holds(CANARY) && !holds(encoded), "{}", path.display());
            is_shown |= holds("harmless");
        }
    }
    assert!(is_shown);
}

async fn changes_wait_for_nats(client: &Client, bus: &Bus, nats: &mut Nats, watcher: &Running) {
    let gone = create(client, configmap("gone-meanwhile")).await;
    arrives(bus, "configmaps", &gone).await;
    nats.kill().await.unwrap();
    watcher.troubled("NATS").await;
    let mut created = Vec::new();
    for number in 0..20 {
        created.push(create(client, configmap(&format!("meanwhile-{number}"))).await);
    }
    delete(client, configmap("gone-meanwhile")).await;
    nats.start_again().await.unwrap();
    for object in &created {
        arrives(bus, "configmaps", object).await;
    }
    disappears(bus, "configmaps", "gone-meanwhile").await;
    watcher.ready().await;
}

async fn changes_wait_for_the_api_server(client: &Client, bus: &Bus, gate: &Gate, watcher: &Running) {
    gate.set(false);
    watcher.troubled("the API server does not answer").await;
    let missed = create(client, configmap("missed")).await;
    delete(client, configmap("meanwhile-0")).await;
    gate.set(true);
    arrives(bus, "configmaps", &missed).await;
    disappears(bus, "configmaps", "meanwhile-0").await;
    watcher.ready().await;
}

async fn a_lost_stream_is_built_again(client: &Client, bus: &Bus, nats: &Nats, watcher: &Running) {
    let jetstream = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    for is_busy in [true, false] {
        let old = bus.status().await.unwrap().created_at;
        jetstream.delete_stream(STREAM).await.unwrap();
        if is_busy {
            create(client, configmap("while-there-is-no-stream")).await;
        }
        until("there is a stream again", async || {
            bus.status().await.is_ok_and(|state| state.created_at != old)
        })
        .await;
        watcher.ready().await;
        for name in ["missed", "while-there-is-no-stream"] {
            let stored = last(bus, "configmaps", Some("default"), name).await;
            assert!(stored.is_some(), "{name}");
        }
    }
}

async fn a_restart_publishes_nothing(client: &Client, bus: &Bus) {
    let before = contents(bus).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    assert_eq!(contents(bus).await, before);
    assert_eq!(watcher.published("stored"), 0);
    watcher.kill().await;
}

fn elected() -> Arguments {
    let lease = LeaseArguments { leader_election: true, lease_seconds: 2, ..LeaseArguments::default() };
    Arguments { lease, ..Arguments::default() }
}

fn is_leading(watcher: &Running) -> bool {
    watcher.telemetry.metrics.encode().unwrap().contains("groundwork_watcher_leading 1\n")
}

/// A watcher in a process of its own, which can be frozen.
struct Frozen {
    child: Child,
    log: Lines<BufReader<ChildStdout>>,
}

impl Frozen {
    fn start(plane: &ControlPlane, nats: &Nats) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_groundwork-watcher"))
            .args([
                "--leader-election",
                "--lease-seconds=2",
                "--lease-namespace=default",
                "--log-format=json",
            ])
            .args(["--nats", &nats.url()])
            .env("KUBECONFIG", plane.kubeconfig())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, log }
    }

    /// Waits for a line with these words.
    async fn says(&mut self, words: &str) {
        let said = async { while !self.log.next_line().await.unwrap().unwrap().contains(words) {} };
        within(words, said).await;
    }

    async fn signal(&self, signal: &str) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }
}

/// One replica leads. When it is killed, the next one does. A replica that was frozen meanwhile
/// changes nothing.
#[tokio::test]
async fn one_of_several_leads() {
    if !servers_or_skip(&SERVERS) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    let nats = Nats::start().await.unwrap();
    let bus = connect(&nats).await;

    let mut frozen = Frozen::start(&plane, &nats);
    frozen.says("the stream is complete").await;
    let kinds: Vec<&str> = groundwork_api::WATCHED.iter().map(|watched| watched.plural).collect();
    until("all is there", async || {
        let all = bus.load(Filter::Everything).await.unwrap();
        let markers = all.iter().filter_map(|stored| match &stored.record {
            Record::Synced(marker) => Some(marker.kind.plural()),
            _ => None,
        });
        let synced: Vec<&str> = markers.collect();
        kinds.iter().all(|plural| synced.contains(plural))
    })
    .await;
    let first = Running::start(elected(), connect(&nats).await, client.clone()).await;
    let second = Running::start(elected(), connect(&nats).await, client.clone()).await;
    first.ready().await;
    second.ready().await;
    assert!(!is_leading(&first) && !is_leading(&second), "they stand by");
    let mut object = configmap("contested");
    arrives(&bus, "configmaps", &create(&client, object.clone()).await).await;

    frozen.signal("-STOP").await;
    for number in 0..3 {
        object["metadata"]["labels"] = json!({"number": number.to_string()});
        merge(&client, object.clone()).await;
    }
    until("one of the others leads", async || is_leading(&first) || is_leading(&second)).await;
    let (leader, follower) = if is_leading(&first) { (first, second) } else { (second, first) };
    leader.ready().await;
    object["metadata"]["labels"] = json!({"number": "last"});
    arrives(&bus, "configmaps", &merge(&client, object).await).await;
    delete(&client, configmap("contested")).await;
    disappears(&bus, "configmaps", "contested").await;
    let settled = contents(&bus).await;
    frozen.signal("-CONT").await;
    frozen.says("no longer leads").await;
    assert!(is_leading(&leader) && !is_leading(&follower));
    // A new object is published once, by the leader. The thawed replica publishes nothing any more.
    let stored = leader.published("stored");
    let after = create(&client, configmap("after")).await;
    arrives(&bus, "configmaps", &after).await;
    let mut now = contents(&bus).await;
    now.retain(|_, record| !record.contains("\"after\""));
    assert_eq!(now, settled);
    until("it is counted", async || leader.published("stored") == stored + 1).await;
    assert_eq!(leader.published("superseded") + leader.published("duplicate"), 0);
    drop(frozen);

    leader.kill().await;
    until("the last one leads", async || is_leading(&follower)).await;
    follower.ready().await;
    arrives(&bus, "configmaps", &create(&client, configmap("last")).await).await;
    follower.stop().await;

    // A released Lease is taken at once, and a replica that reads the stream finds it complete.
    let next = Running::start(elected(), connect(&nats).await, client.clone()).await;
    until("it leads at once", async || is_leading(&next)).await;
    next.ready().await;
    let mut feed = bus.index(&[common::kind("configmaps")]).await.unwrap();
    let marker = async {
        loop {
            if let Feed::Record { record: Record::Synced(marker), .. } = feed.next().await {
                return marker;
            }
        }
    };
    assert_eq!(within("the marker", marker).await.kind, common::kind("configmaps"));
    let last = common::change(&bus, "configmaps", "last").await;
    assert!(matches!(last, Some(Change::Applied(_))));
    tokio::time::timeout(Duration::from_secs(10), next.stop()).await.unwrap();
}
