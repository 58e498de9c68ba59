//! Path of changes from the API server to the stream.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;

use common::{
    Running, account, arrives, change, configmap, contents, create, delete, disappears, grant, install, kind,
    last, merge, plane, until,
};
use groundwork_bus::{Bus, Change, ClusterIdentity, Event, Filter, ObjectId, Record, Snapshot};
use groundwork_controller::ClusterArguments;
use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use groundwork_watcher::Arguments;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

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

    // Live changes.
    let live = create(&client, configmap("live")).await;
    arrives(&bus, "configmaps", &live).await;
    let mut labelled = configmap("live");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    arrives(&bus, "configmaps", &merge(&client, labelled).await).await;
    delete(&client, configmap("live")).await;
    disappears(&bus, "configmaps", "live").await;
    watcher.stop().await;

    // A restart without changes.
    let stored = contents(&bus).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    assert_eq!(contents(&bus).await, stored);
    watcher.kill().await;

    // Changes while no watcher ran: an object is deleted, one is replaced under the same name, one
    // is created.
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
    assert!(matches!(change(&bus, "configmaps", "gone").await, Some(Change::Deleted(_))));
    arrives(&bus, "configmaps", &again).await;
    arrives(&bus, "configmaps", &new).await;
    // Four records: the tombstone of "gone", the tombstone of the old and the state of the new
    // "before", and "new".
    assert_eq!(watcher.published("stored"), 4);
    watcher.stop().await;
}

/// Groundwork's CRDs are installed later, and the event of one object is too large. Neither delays
/// other kinds or objects.
#[tokio::test]
async fn what_is_not_there_or_does_not_fit_delays_nothing_else() {
    if !servers_or_skip(&API_SERVER) {
        return;
    }
    let plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
    let client = plane.client().await.unwrap();
    let bus = Bus::in_process();
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;

    let annotated = |name: &str, size: usize| {
        let mut object = configmap(name);
        object["metadata"]["annotations"] = json!({"landscaper.gardener.cloud/note": "x".repeat(size)});
        object
    };
    let notes = async |name: &str| match change(&bus, "configmaps", name).await {
        Some(Change::Applied(snapshot)) => snapshot.annotations.len(),
        other => panic!("{other:?}"),
    };
    // Without its long annotation the event fits, and the watcher stays ready.
    arrives(&bus, "configmaps", &create(&client, annotated("large", 70_000)).await).await;
    arrives(&bus, "configmaps", &create(&client, annotated("small", 60_000)).await).await;
    assert_eq!((notes("large").await, notes("small").await), (0, 1));
    assert!(watcher.published("too_large") > 0);
    // The owner of the object gets an Event, which `kubectl describe` shows.
    let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(client.clone(), "default");
    let fields = "involvedObject.name=large,involvedObject.kind=ConfigMap,reason=TooLarge";
    let told = async || events.list(&ListParams::default().fields(fields)).await.unwrap().items;
    until("an Event tells of its size", async || !told().await.is_empty()).await;
    let told = told().await;
    let message = told[0].message.clone().unwrap_or_default();
    assert!(message.contains("are allowed: published without labels"), "{message}");
    assert_eq!((told.len(), told[0].involved_object.uid.is_some()), (1, true));
    watcher.ready().await;
    arrives(&bus, "configmaps", &merge(&client, annotated("large", 60_000)).await).await;
    arrives(&bus, "configmaps", &merge(&client, annotated("small", 70_000)).await).await;
    assert_eq!((notes("large").await, notes("small").await), (1, 0));
    delete(&client, configmap("small")).await;
    watcher.ready().await;

    install(&client, |plural| plural == "executions").await;
    let execution = create(
        &client,
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "Execution",
            "metadata": {
                "namespace": "default",
                "name": "late",
                "annotations": {"landscaper.gardener.cloud/operation": "reconcile", "other": "hidden"},
            },
            "spec": {"context": "c", "deployItems": [{"name": "a", "type": "t", "config": {"v": "hidden"}}]},
        }),
    )
    .await;
    arrives(&bus, "executions", &execution).await;
    let Some(Change::Applied(snapshot)) = change(&bus, "executions", "late").await else { panic!() };
    assert_eq!(Value::Object(snapshot.fields.clone()), json!({"spec": {"context": "c"}}));
    assert!(!serde_json::to_string(&snapshot).unwrap().contains("hidden"), "{snapshot:?}");
    assert_eq!(snapshot.annotations.len(), 1);
    watcher.stop().await;
}

#[tokio::test]
async fn a_missing_permission_is_named_and_roles_suffice() {
    if !servers_or_skip(&API_SERVER) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    account(&client, "poor").await;
    let verbs = ["list", "watch"];
    let ours = json!({"apiGroups": ["landscaper.gardener.cloud", "config.porch.kpt.dev"], "resources": ["*"], "verbs": verbs});
    let core = |resources: &[&str]| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
    let namespaces = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]});
    let known = core(&["configmaps", "namespaces"]);
    grant(&client, "poor", "known", None, json!([ours, known, namespaces])).await;
    let poor = plane.service_account_client("default", "poor").await.unwrap();

    let bus = Bus::in_process();
    let watcher = Running::start(Arguments::default(), bus.clone(), poor.clone()).await;
    let problem = watcher.troubled("the watcher may not list secrets in all namespaces").await;
    assert!(problem.contains("grant this to its service account"), "{problem}");
    arrives(&bus, "configmaps", &create(&client, configmap("seen")).await).await;
    grant(&client, "poor", "more", None, json!([core(&["secrets"])])).await;
    watcher.ready().await;
    watcher.stop().await;

    account(&client, "local").await;
    for name in ["a", "b", "c"] {
        plane.create_namespace(name).await.unwrap();
    }
    for name in ["a", "b"] {
        let rules = json!([ours, core(&["configmaps", "secrets"]), namespaces]);
        grant(&client, "local", "local", Some(name), rules).await;
    }
    let local = plane.service_account_client("default", "local").await.unwrap();
    let bus = Bus::in_process();
    let namespaces = vec!["b".to_owned(), "a".to_owned()];
    let arguments = Arguments { cluster: ClusterArguments { namespaces }, ..Arguments::default() };
    let watcher = Running::start(arguments, bus.clone(), local).await;
    watcher.ready().await;
    let in_namespace = async |namespace: &str| {
        let mut object = configmap("local");
        object["metadata"]["namespace"] = namespace.into();
        create(&client, object).await
    };
    in_namespace("c").await;
    arrives(&bus, "configmaps", &in_namespace("a").await).await;
    arrives(&bus, "configmaps", &in_namespace("b").await).await;
    assert_eq!(last(&bus, "configmaps", Some("c"), "local").await, None);
    assert!(last(&bus, "namespaces", None, "a").await.is_some());
    assert_eq!(last(&bus, "namespaces", None, "c").await, None);
    watcher.stop().await;
}

/// Records of another cluster, or of a later state of this one, are removed.
#[tokio::test]
async fn a_foreign_stream_is_built_anew() {
    if !servers_or_skip(&API_SERVER) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    let bus = Bus::in_process();
    bus.ensure_stream().await.unwrap();
    let applied = |name: &str, uid: &str, version: &str| {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        Record::Object(Event {
            object: ObjectId::new(kind("configmaps"), Some("default"), name),
            change: Change::Applied(Snapshot { uid, resource_version, ..Snapshot::default() }),
            trace: None,
            replay: None,
            time: Timestamp::now(),
        })
    };
    let phantom = |version: &str| applied("phantom", "u", version);
    bus.publish(&phantom("1"), None).await.unwrap();
    bus.publish(
        &Record::Cluster(ClusterIdentity { uid: "another".into(), ..ClusterIdentity::default() }),
        None,
    )
    .await
    .unwrap();
    let foreign = bus.status().await.unwrap().created_at;

    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    watcher.ready().await;
    assert_ne!(bus.status().await.unwrap().created_at, foreign);
    assert_eq!(change(&bus, "configmaps", "phantom").await, None);
    let identity = async || {
        let all = bus.load(Filter::Kinds(&[])).await.unwrap();
        let identity = all.into_iter().find_map(|stored| match stored.record {
            Record::Cluster(identity) => Some(identity.uid),
            _ => None,
        });
        identity.unwrap()
    };
    let system: DynamicObject =
        common::dynamic(&client, "v1", "Namespace", "").get("kube-system").await.unwrap();
    assert_eq!(Some(identity().await), system.metadata.uid);
    watcher.stop().await;

    // The cluster was restored from an older backup: the stream is ahead of it, or of one of its
    // objects.
    let real = create(&client, configmap("real")).await;
    create(&client, configmap("later")).await;
    let (uid, version) =
        (real.metadata.uid.clone().unwrap(), real.metadata.resource_version.clone().unwrap());
    let ahead = (version.parse::<u64>().unwrap() + 1).to_string();
    for record in [phantom("999999999"), applied("real", &uid, &ahead)] {
        bus.publish(&record, None).await.unwrap();
        let old = bus.status().await.unwrap().created_at;
        let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
        until("the stream is built anew", async || {
            bus.status().await.is_ok_and(|state| state.created_at != old)
        })
        .await;
        watcher.ready().await;
        assert_eq!(change(&bus, "configmaps", "phantom").await, None);
        arrives(&bus, "configmaps", &real).await;
        watcher.stop().await;
    }
}
