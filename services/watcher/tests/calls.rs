//! gRPC calls to the watcher.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

mod common;

use common::{Running, account, arrives, configmap, create, grant, kind, last, plane, until};
use groundwork_bus::{Bus, Record};
use groundwork_grpc::{Channel, TokenSource, connect};
use groundwork_proto::status;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_proto::watcher::v1::{
    EnsureWatchRequest, EnsureWatchResponse, GetStreamStatusRequest, Kind, ReplayRequest, WatchStatus,
};
use groundwork_testkit::{ControlPlane, Server, servers_or_skip};
use groundwork_watcher::{Arguments, LeaseArguments};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tonic::{Code, Status};

type Calls = WatcherClient<Channel>;

fn calls(watcher: &Running, token: &str) -> Calls {
    let token = if token.is_empty() { TokenSource::none() } else { TokenSource::fixed(token) };
    WatcherClient::new(connect(&format!("http://{}", watcher.address), None, token).unwrap())
}

fn told(status: &Status) -> (Code, String) {
    (status.code(), status::reason(status).unwrap_or_default())
}

fn interest(group: &str, plural: &str, seconds: i64) -> EnsureWatchRequest {
    EnsureWatchRequest {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        namespace: String::new(),
        holder: "test".into(),
        ttl: Some(prost_types::Duration { seconds, nanos: 0 }),
    }
}

async fn ensure(calls: &mut Calls, request: EnsureWatchRequest) -> EnsureWatchResponse {
    calls.ensure_watch(request).await.unwrap().into_inner()
}

async fn watch(calls: &mut Calls, plural: &str) -> Option<WatchStatus> {
    let status = calls.get_stream_status(GetStreamStatusRequest {}).await.unwrap().into_inner();
    status.watches.into_iter().find(|watch| watch.kind.as_ref().is_some_and(|kind| kind.plural == plural))
}

#[tokio::test]
async fn the_watcher_does_what_it_is_asked_for() {
    if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
        return;
    }
    let plane = plane().await;
    let client = plane.client().await.unwrap();
    let bus = Bus::in_process();
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    let mut admin = calls(&watcher, "admin");
    watcher.ready().await;

    strangers_learn_nothing(&plane, &client, &watcher).await;
    an_interest_is_for_those_who_may_watch_and_belongs_to_them(&plane, &client, &watcher).await;
    a_kind_is_watched(&client, &bus, &mut admin).await;
    a_kind_is_watched_when_it_appears(&client, &bus, &mut admin).await;
    events_are_published_again(&client, &bus, &mut admin).await;

    // Interests survive a restart, until they expire.
    watcher.stop().await;
    let missed = create(&client, service_account("missed")).await;
    let watcher = Running::start(Arguments::default(), bus.clone(), client.clone()).await;
    let mut admin = calls(&watcher, "admin");
    watcher.ready().await;
    arrives(&bus, "serviceaccounts", &missed).await;
    let ended = ensure(&mut admin, interest("", "serviceaccounts", 0)).await;
    assert_eq!((ended.expires, ended.synced), (None, false));
    assert_eq!(watch(&mut admin, "serviceaccounts").await, None);
    watcher.stop().await;

    // With two replicas, only the leader answers.
    let lease = LeaseArguments { leader_election: true, ..LeaseArguments::default() };
    let elected = Arguments { lease, ..Arguments::default() };
    let leader = Running::start(elected.clone(), bus.clone(), client.clone()).await;
    let mut calls_of_leader = calls(&leader, "admin");
    until("it leads", async || {
        calls_of_leader.clone().get_stream_status(GetStreamStatusRequest {}).await.is_ok()
    })
    .await;
    leader.ready().await;
    let standby = Running::start(elected, bus.clone(), client.clone()).await;
    standby.ready().await;
    let refused = calls(&standby, "admin").get_stream_status(GetStreamStatusRequest {}).await.unwrap_err();
    assert_eq!(told(&refused), (Code::Unavailable, "NOT_LEADER".to_owned()));
    assert!(watch(&mut calls_of_leader, "secrets").await.is_some());
}

fn service_account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": name}})
}

async fn strangers_learn_nothing(plane: &ControlPlane, client: &Client, watcher: &Running) {
    let refused = calls(watcher, "").ensure_watch(interest("", "serviceaccounts", 60)).await.unwrap_err();
    assert_eq!(told(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned()));
    account(client, "stranger").await;
    let request: k8s_openapi::api::authentication::v1::TokenRequest = Default::default();
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(
        plane.client().await.unwrap(),
        "default",
    );
    let answer = accounts.create_token_request("stranger", &PostParams::default(), &request).await.unwrap();
    let mut stranger = calls(watcher, &answer.status.unwrap().token.unwrap());
    let refused = stranger.ensure_watch(interest("", "serviceaccounts", 60)).await.unwrap_err();
    assert_eq!(told(&refused), (Code::PermissionDenied, "ACCESS_DENIED".to_owned()));
    let refused = stranger.replay(ReplayRequest::default()).await.unwrap_err();
    assert_eq!(told(&refused), (Code::PermissionDenied, "ACCESS_DENIED".to_owned()));
    let status = stranger.get_stream_status(GetStreamStatusRequest {}).await.unwrap().into_inner();
    assert!(status.watches.is_empty() && status.messages > 0, "{status:?}");
}

/// Returns a token of an account with these verbs on all service accounts.
async fn caller(
    plane: &ControlPlane,
    client: &Client,
    watcher: &Running,
    name: &str,
    verbs: &[&str],
) -> Calls {
    account(client, name).await;
    let rules = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs}]);
    grant(client, name, name, None, rules).await;
    calls(watcher, &plane.service_account_token("default", name).await.unwrap())
}

/// Both calls write, so read permission is not enough. A user can neither change the interests of
/// another user nor fill the stream.
async fn an_interest_is_for_those_who_may_watch_and_belongs_to_them(
    plane: &ControlPlane,
    client: &Client,
    watcher: &Running,
) {
    let mut viewer = caller(plane, client, watcher, "viewer", &["get", "list"]).await;
    let mut one = caller(plane, client, watcher, "one", &["get", "watch"]).await;
    let mut other = caller(plane, client, watcher, "other", &["get", "watch"]).await;
    let accounts = || interest("", "serviceaccounts", 600);
    let replay = || {
        let kind = Kind { group: String::new(), plural: "serviceaccounts".into() };
        ReplayRequest { kind: Some(kind), ..ReplayRequest::default() }
    };
    let refusals =
        [viewer.ensure_watch(accounts()).await.unwrap_err(), viewer.replay(replay()).await.unwrap_err()];
    for refused in refusals {
        assert_eq!(told(&refused), (Code::PermissionDenied, "ACCESS_DENIED".to_owned()));
        assert!(refused.message().contains("may not watch serviceaccounts"), "{refused}");
    }
    ensure(&mut one, accounts()).await;
    one.replay(replay()).await.unwrap();
    // The holder of another user has the same name only.
    ensure(&mut other, accounts()).await;
    ensure(&mut other, interest("", "serviceaccounts", 0)).await;
    let holders = watch(&mut one, "serviceaccounts").await.unwrap().holders;
    assert_eq!(holders, ["test@system:serviceaccount:default:one"]);

    let named = |number: usize, seconds| EnsureWatchRequest {
        holder: format!("h-{number}"),
        ..interest("", "serviceaccounts", seconds)
    };
    let before = one.get_stream_status(GetStreamStatusRequest {}).await.unwrap().into_inner().messages;
    // Ending interests that do not exist must not store messages.
    for number in 0..20 {
        ensure(&mut one, named(number, 0)).await;
    }
    let after = one.get_stream_status(GetStreamStatusRequest {}).await.unwrap().into_inner().messages;
    assert_eq!(after, before);
    for number in 1..100 {
        ensure(&mut one, named(number, 600)).await;
    }
    let refused = one.ensure_watch(named(100, 600)).await.unwrap_err();
    assert_eq!(told(&refused), (Code::ResourceExhausted, "TOO_MANY_INTERESTS".to_owned()));
    let words = "too many interests: the user \"system:serviceaccount:default:one\" has 100, which is the maximum for \
                 one holder";
    assert!(refused.message().starts_with(words), "{refused}");
    // Another account of the same namespace is the same tenant.
    let refused = other.ensure_watch(accounts()).await.unwrap_err();
    assert!(refused.message().contains("the accounts of the namespace \"default\" have 100"), "{refused}");
    // Existing interests can be renewed and ended at the limit.
    ensure(&mut one, named(7, 600)).await;
    for number in 1..100 {
        ensure(&mut one, named(number, 0)).await;
    }
    ensure(&mut other, accounts()).await;
    ensure(&mut other, interest("", "serviceaccounts", 0)).await;
    ensure(&mut one, interest("", "serviceaccounts", 0)).await;
    assert_eq!(watch(&mut one, "serviceaccounts").await, None);
}

async fn a_kind_is_watched(client: &Client, bus: &Bus, admin: &mut Calls) {
    let before = create(client, service_account("before")).await;
    let answer = ensure(admin, interest("", "serviceaccounts", 60)).await;
    assert!(answer.synced && answer.problem.is_empty() && answer.expires.is_some(), "{answer:?}");
    arrives(bus, "serviceaccounts", &before).await;
    arrives(bus, "serviceaccounts", &create(client, service_account("live")).await).await;
    let status = watch(admin, "serviceaccounts").await.unwrap();
    assert_eq!((status.synced, status.holders), (true, vec!["test@admin".to_owned()]));
    // Secrets are always watched, so the watch is already synced.
    assert!(ensure(admin, interest("", "secrets", 60)).await.synced);
    let cluster = admin.get_stream_status(GetStreamStatusRequest {}).await.unwrap().into_inner();
    assert!(!cluster.cluster_uid.is_empty() && cluster.last_sequence >= cluster.messages);
}

async fn a_kind_is_watched_when_it_appears(client: &Client, bus: &Bus, admin: &mut Calls) {
    let answer = ensure(admin, interest("example.org", "widgets", 60)).await;
    assert!(!answer.synced && answer.problem.contains("has no widgets.example.org"), "{answer:?}");
    let definition = json!({
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
    until("the kind is synced", async || {
        let status = watch(&mut admin.clone(), "widgets").await;
        status.is_some_and(|status| status.synced)
    })
    .await;
    let widget = json!({
        "apiVersion": "example.org/v2", "kind": "Widget", "spec": {"a": "hidden"},
        "metadata": {"namespace": "default", "name": "w"},
    });
    let widget = create(client, widget).await;
    let id = groundwork_bus::ObjectId::new(
        groundwork_bus::Kind::new("example.org", "widgets"),
        Some("default"),
        "w",
    );
    until("the widget arrives", async || bus.last(&id).await.unwrap().is_some()).await;
    let stored = format!("{:?}", bus.last(&id).await.unwrap());
    assert!(
        stored.contains(widget.metadata.uid.as_deref().unwrap()) && !stored.contains("hidden"),
        "{stored}"
    );
}

async fn events_are_published_again(client: &Client, bus: &Bus, admin: &mut Calls) {
    for name in ["one", "two"] {
        arrives(bus, "configmaps", &create(client, configmap(name)).await).await;
    }
    let sequence = async |name: &str| {
        let stored = last(bus, "configmaps", Some("default"), name).await.unwrap();
        let Record::Object(event) = stored.record else { panic!() };
        (stored.sequence, event.replay)
    };
    let (one, two) = (sequence("one").await, sequence("two").await);
    let configmaps = Kind { group: String::new(), plural: kind("configmaps").plural().to_owned() };
    let request =
        ReplayRequest { kind: Some(configmaps.clone()), namespace: "default".into(), name: "one".into() };
    let answer = admin.replay(request.clone()).await.unwrap().into_inner();
    let again = sequence("one").await;
    assert!(again.0 > one.0);
    assert_eq!((answer.published, again.1), (1, Some(answer.replay_id)));
    assert_eq!(sequence("two").await, two);
    // Later changes are published as usual.
    let mut labelled = configmap("one");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    arrives(bus, "configmaps", &common::merge(client, labelled).await).await;

    let answer = admin.replay(ReplayRequest { kind: None, name: String::new(), ..request.clone() }).await;
    assert!(answer.unwrap().into_inner().published >= 4);
    let refused = admin.replay(ReplayRequest { kind: None, ..request.clone() }).await.unwrap_err();
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let pods = Kind { plural: "pods".into(), ..configmaps };
    let refused = admin.replay(ReplayRequest { kind: Some(pods), ..request }).await.unwrap_err();
    assert_eq!(told(&refused), (Code::FailedPrecondition, "KIND_NOT_WATCHED".to_owned()));
}
