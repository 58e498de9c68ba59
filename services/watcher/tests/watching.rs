//! From the API server to the stream.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;

use common::{Running, arrives, change, configmap, contents, create, delete, disappears, merge, plane};
use groundwork_bus::{Bus, Change};
use groundwork_testkit::{Server, servers_or_skip};
use groundwork_watcher::Arguments;
use serde_json::json;

const API_SERVER: [Server; 2] = [Server::Etcd, Server::KubeApiserver];

#[tokio::test]
async fn changes_arrive_and_a_restart_publishes_what_was_missed() {
    if !servers_or_skip(&API_SERVER) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    let bus = Bus::in_process();
    let before = create(&client, configmap("before")).await;

    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    arrives(&bus, "configmaps", &before).await;

    // Live.
    let live = create(&client, configmap("live")).await;
    arrives(&bus, "configmaps", &live).await;
    let mut labelled = configmap("live");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    arrives(&bus, "configmaps", &merge(&client, labelled).await).await;
    delete(&client, configmap("live")).await;
    disappears(&bus, "configmaps", "live").await;
    watcher.stop().await;

    // Nothing changed.
    let stored = contents(&bus).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    assert_eq!(contents(&bus).await, stored);
    watcher.kill().await;

    // Changed while nobody looked: deleted, created again under the same name, created.
    create(&client, configmap("gone")).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    watcher.stop().await;
    delete(&client, configmap("gone")).await;
    delete(&client, configmap("before")).await;
    let again = create(&client, configmap("before")).await;
    let new = create(&client, configmap("new")).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    assert!(matches!(change(&bus, "configmaps", "gone").await, Some(Change::Deleted { .. })));
    arrives(&bus, "configmaps", &again).await;
    arrives(&bus, "configmaps", &new).await;
    // The tombstone of "gone"; the tombstone of the former and the state of the new "before"; "new".
    assert_eq!(watcher.published("stored"), 4);
    watcher.stop().await;
}
