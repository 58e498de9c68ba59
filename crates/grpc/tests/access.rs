//! Tests calls that name cluster objects, with decisions of a real API server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::time::{Duration, Instant};

use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_proto::status;
use groundwork_testkit::{Audit, ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

const AUDIENCE: &str = "groundwork-test";
const GROUP: &str = "landscaper.gardener.cloud";

fn attributes<'a>(namespace: &'a str, name: Option<&'a str>) -> ResourceAttributes<'a> {
    ResourceAttributes { group: GROUP, resource: "installations", namespace: Some(namespace), name }
}

fn call(token: &str) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
    metadata
}

fn told(status: &Status) -> (Code, String, String) {
    (status.code(), status::reason(status).unwrap_or_default(), status.message().to_owned())
}

async fn create<K>(client: &Client, value: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + serde::de::DeserializeOwned
        + serde::Serialize
        + Clone
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(value).unwrap();
    let api = Api::<K>::namespaced(client.clone(), object.meta().namespace.as_deref().unwrap());
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Creates a service account with the permission to get these objects, and returns a token.
async fn account(client: &Client, name: &str, resource_names: &[&str]) -> String {
    let metadata = json!({"namespace": "a", "name": name});
    create::<ServiceAccount>(client, json!({"metadata": metadata})).await;
    let rule = json!({"apiGroups": [GROUP], "resources": ["installations"], "verbs": ["get"], "resourceNames": resource_names});
    create::<Role>(client, json!({"metadata": metadata, "rules": [rule]})).await;
    create::<RoleBinding>(
        client,
        json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "a"}],
        }),
    )
    .await;
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "a");
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

/// Returns the number of reviews that the API server has answered so far.
fn reviews(plane: &ControlPlane, resource: &str) -> usize {
    let log = std::fs::read_to_string(plane.audit_log().unwrap()).unwrap();
    let is_review = |line: &&str| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["stage"] == "ResponseComplete"
            && event["objectRef"]["resource"] == resource
            && event["verb"] == "create"
    };
    log.lines().filter(is_review).count()
}

#[tokio::test]
async fn calls_are_decided_by_the_api_server() {
    if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
        return;
    }
    let options = ControlPlaneOptions { audit: Audit::Requests, ..ControlPlaneOptions::default() };
    let plane = ControlPlane::start(options).await.unwrap();
    plane.create_namespace("a").await.unwrap();
    let client = plane.client().await.unwrap();
    let all = account(&client, "all", &[]).await;
    let one = account(&client, "one", &["only-this"]).await;
    let access = Access::new(client, AUDIENCE);

    callers_without_a_valid_token(&access, &all).await;
    a_namespace_is_asked_for_once(&plane, &access, &all).await;
    a_single_name_is_enough(&access, &one).await;
    other_namespaces_are_denied(&access, &all).await;
    the_process_itself_passes(&plane, &access).await;
    tokens_for_one_service_open_no_other(&plane, &access).await;
    let without_rights = Access::new(plane.service_account_client("a", "all").await.unwrap(), AUDIENCE);
    a_service_without_rights_says_which(&without_rights, &all).await;
    invented_tokens_cost_few_reviews(&plane, &all).await;
    drop(plane);
    nothing_is_allowed_while_the_server_is_away(&access).await;
}

async fn callers_without_a_valid_token(access: &Access, token: &str) {
    let mut basic = MetadataMap::new();
    basic.insert("authorization", "Basic dTpw".parse().unwrap());
    let forged = format!("{}x", &token[..token.len() - 5]);
    for (metadata, text) in [
        (
            MetadataMap::new(),
            "the call needs a bearer token in \"authorization\"; a call that names no object of the cluster needs none \
             if the service runs with --anonymous-inline-calls",
        ),
        (basic, "\"authorization\" must read \"Bearer <token>\""),
        (call(" "), "\"authorization\" must read \"Bearer <token>\""),
        (call("nonsense"), "the API server does not accept the bearer token of the call"),
        (call(&forged), "the API server does not accept the bearer token of the call"),
    ] {
        let refused = access.authorise(&metadata, &[attributes("a", Some("x"))]).await.unwrap_err();
        assert_eq!(told(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned(), text.to_owned()));
    }
}

/// A hundred calls about different objects, many at a time, cost two requests.
async fn a_namespace_is_asked_for_once(plane: &ControlPlane, access: &Access, token: &str) {
    let before = (reviews(plane, "tokenreviews"), reviews(plane, "subjectaccessreviews"));
    let calls = (0..100).map(|number| {
        let (access, metadata) = (access.clone(), call(token));
        tokio::spawn(async move {
            access
                .authorise(&metadata, &[attributes("a", Some(&format!("i-{number}")))])
                .await
                .unwrap()
                .name
                .clone()
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), "system:serviceaccount:a:all");
    }
    let start = Instant::now();
    let after = || (reviews(plane, "tokenreviews"), reviews(plane, "subjectaccessreviews"));
    while after() != (before.0 + 1, before.1 + 1) {
        assert!(start.elapsed() < Duration::from_secs(20), "{before:?} {:?}", after());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_single_name_is_enough(access: &Access, token: &str) {
    access.authorise(&call(token), &[attributes("a", Some("only-this"))]).await.unwrap();
    let denied = access.authorise(&call(token), &[attributes("a", Some("other"))]).await.unwrap_err();
    let text = "user \"system:serviceaccount:a:one\" may not get installations.landscaper.gardener.cloud \"other\" in \
                namespace \"a\"";
    assert_eq!(told(&denied), (Code::PermissionDenied, "ACCESS_DENIED".to_owned(), text.to_owned()));
    let denied = access.authorise(&call(token), &[attributes("a", None)]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
}

async fn other_namespaces_are_denied(access: &Access, token: &str) {
    let secrets = ResourceAttributes { group: "", resource: "secrets", namespace: Some("a"), name: None };
    for (also, text) in [
        (
            attributes("b", Some("x")),
            "may not get installations.landscaper.gardener.cloud \"x\" in namespace \"b\"",
        ),
        (secrets, "may not get secrets in namespace \"a\""),
        (ResourceAttributes { namespace: None, ..secrets }, "may not get secrets in all namespaces"),
    ] {
        let denied = access.authorise(&call(token), &[attributes("a", Some("x")), also]).await.unwrap_err();
        let expected = format!("user \"system:serviceaccount:a:all\" {text}");
        assert_eq!(told(&denied), (Code::PermissionDenied, "ACCESS_DENIED".to_owned(), expected));
    }
}

async fn the_process_itself_passes(plane: &ControlPlane, access: &Access) {
    let own = access.token_of_this_process().token().unwrap().unwrap();
    access.authorise(&call(own.expose_secret()), &[attributes("b", Some("x"))]).await.unwrap();
    // The token is not valid in another process.
    let other = Access::new(plane.client().await.unwrap(), AUDIENCE);
    let refused = other.authenticate(&call(own.expose_secret())).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

/// A service cannot use the token of its caller for another service.
async fn tokens_for_one_service_open_no_other(plane: &ControlPlane, access: &Access) {
    let ours = plane.service_account_token_for("a", "all", Some(AUDIENCE)).await.unwrap();
    let theirs = plane.service_account_token_for("a", "all", Some("groundwork-other")).await.unwrap();
    access.authorise(&call(&ours), &[attributes("a", Some("x"))]).await.unwrap();
    let other = Access::new(plane.client().await.unwrap(), "groundwork-other");
    for (access, token) in [(access, &theirs), (&other, &ours)] {
        let refused = access.authenticate(&call(token)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
    // The API server rejects the token, too, although the account has permissions there.
    let kubeconfig = kube::config::Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let mut of_plane = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    of_plane.auth_info = kube::config::AuthInfo { token: Some(ours.into()), ..Default::default() };
    let accounts = Api::<ServiceAccount>::namespaced(Client::try_from(of_plane).unwrap(), "a");
    let refused = accounts.list(&Default::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
}

async fn a_service_without_rights_says_which(access: &Access, token: &str) {
    let status = access.authenticate(&call(token)).await.unwrap_err();
    let text =
        "may not create tokenreviews.authentication.k8s.io: grant it to the service account of this service";
    assert_eq!(told(&status), (Code::Unavailable, "API_SERVER_UNAVAILABLE".to_owned(), text.to_owned()));
}

/// Two thousand invented tokens, and one of them again and again, cost few reviews.
async fn invented_tokens_cost_few_reviews(plane: &ControlPlane, token: &str) {
    let access = Access::new(plane.client().await.unwrap(), AUDIENCE);
    let before = reviews(plane, "tokenreviews");
    access.authenticate(&call(token)).await.unwrap();
    let start = Instant::now();
    let mut told = std::collections::BTreeMap::<String, usize>::new();
    for number in 0..2_000 {
        for text in [format!("invented-{number}"), "invented-0".to_owned()] {
            let refused = access.authenticate(&call(&text)).await.unwrap_err();
            let reason = status::reason(&refused).unwrap_or_default();
            if text == "invented-0" {
                // The answer is cached for some seconds.
                assert!(reason == "TOKEN_INVALID" || start.elapsed() > Duration::from_secs(5), "{refused}");
            } else {
                *told.entry(reason).or_default() += 1;
            }
        }
        access.authenticate(&call(token)).await.unwrap();
    }
    // The limit is a burst of a hundred, and fifty per second.
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap() + 1;
    let made = reviews(plane, "tokenreviews") - before;
    assert!(made <= 101 + 50 * seconds, "{made} reviews in {seconds} s: {told:?}");
    assert!(told["TOO_MANY_TOKENS"] > 0, "{told:?}");
}

async fn nothing_is_allowed_while_the_server_is_away(access: &Access) {
    let status = access.authenticate(&call("a token that was never seen")).await.unwrap_err();
    let (code, reason, text) = told(&status);
    assert_eq!((code, reason.as_str()), (Code::Unavailable, "API_SERVER_UNAVAILABLE"));
    let known = "cannot create tokenreviews.authentication.k8s.io: the API server does not answer: ";
    assert!(text.starts_with(known), "{text}");
}
