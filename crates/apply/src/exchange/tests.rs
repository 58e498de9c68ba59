use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::stream::{self, StreamExt as _};
use kube::Client;
use serde_json::json;

use super::*;
use crate::cluster::ResourceKind;
use crate::object::Reference;
use crate::watch::{Scope, Selector, WatchEvent};

/// Requested paths with their queries, and the times of the requests.
type Requests = Arc<Mutex<Vec<(String, Instant)>>>;

/// An answer: status, `Retry-After`, and the chunks of the body.
type ResponseHead = (u16, Option<&'static str>, Vec<String>);

/// Starts a server that gives these answers one after the other, and then none.
fn server(answers: Vec<ResponseHead>) -> (Cluster, Requests) {
    let requests = Requests::default();
    let got = Arc::clone(&requests);
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        got.lock().unwrap().push((path, Instant::now()));
        let next = answers.lock().unwrap().pop_front();
        async move {
            let Some((status, retry_after, pieces)) = next else {
                return Err(std::io::Error::other("connection refused"));
            };
            let mut builder = http::Response::builder().status(status);
            if let Some(text) = retry_after {
                builder = builder.header(http::header::RETRY_AFTER, text);
            }
            let frames = pieces
                .into_iter()
                .map(|piece| Ok::<_, std::io::Error>(http_body::Frame::data(piece.into_bytes().into())));
            let body = http_body_util::StreamBody::new(stream::iter(frames));
            builder.body(body).map_err(std::io::Error::other)
        }
    });
    let client = Client::new(service, "default");
    let server = crate::identity::Server { address: "https://test".to_owned(), authority: None };
    (Cluster::new(client, server, "test", &crate::bounds::Answers::default()), requests)
}

fn ok(body: &Value) -> ResponseHead {
    (200, None, vec![body.to_string()])
}

fn reference() -> Reference {
    Reference {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        namespace: Some("a".to_owned()),
        name: "b".to_owned(),
    }
}

fn kind() -> ResourceKind {
    ResourceKind {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
        is_namespaced: true,
        has_status: false,
    }
}

fn scope(selector: Selector) -> Scope {
    Scope { kind: kind(), namespace: Some("a".to_owned()), selector }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Lines may be split into any chunks. Bookmarks produce no event, and an error ends the watch.
#[tokio::test]
async fn events_of_a_watch() {
    let line = |change: &str, name: &str| {
        json!({"type": change, "object": {"metadata": {"name": name}}}).to_string() + "\n"
    };
    let all = line("ADDED", "a") + &line("BOOKMARK", "") + &line("MODIFIED", "b") + &line("DELETED", "c");
    let whole = all.clone() + &line("ERROR", "d") + &line("ADDED", "e");
    let (first, second) = whole.split_at(25);
    let (cluster, requests) = server(vec![
        (200, None, vec![first.to_owned(), String::new(), second.to_owned()]),
        (200, None, vec![all, "{\"type\": \"ADD".to_owned()]),
    ]);
    for selector in [Selector::Name("b".to_owned()), Selector::Labels("k=v,l=w".to_owned())] {
        let events = cluster.watch(&scope(selector), Some("7"), MINUTE).await.unwrap();
        let names: Vec<_> = events
            .map(|event| match event {
                WatchEvent::Applied(object) => format!("+{}", object["metadata"]["name"]),
                WatchEvent::Deleted(object) => format!("-{}", object["metadata"]["name"]),
            })
            .collect()
            .await;
        assert_eq!(names, ["+\"a\"", "+\"b\"", "-\"c\""]);
    }
    let paths: Vec<String> = requests.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(
        paths,
        [
            "/api/v1/namespaces/a/things?watch=true&fieldSelector=metadata.name%3Db&timeoutSeconds=60&resourceVersion=7",
            "/api/v1/namespaces/a/things?watch=true&labelSelector=k%3Dv%2Cl%3Dw&timeoutSeconds=60&resourceVersion=7",
        ]
    );
}

fn unasked(verb: &'static str, why: Unasked) -> ApiError {
    ApiError::Unasked { verb, object: reference().to_string(), why }
}

/// A busy server's refusal must not mark a watch as impossible: the watch works as soon as the
/// server takes requests again.
#[tokio::test]
async fn a_watch_that_was_not_asked_for_is_tried_again() {
    let (cluster, requests) = server(vec![(429, Some("0"), Vec::new()); 3]);
    let scope = scope(Selector::Name("a".to_owned()));
    let error = cluster.watch(&scope, None, MINUTE).await.err().unwrap();
    assert!(matches!(error, ApiError::Unasked { why: Unasked::Busy, .. }), "{error:?}");
    assert!(cluster.watch(&scope, None, MINUTE).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 4);
}

/// Later requests to a hanging server are not sent, and fail as unasked.
#[tokio::test]
async fn a_silent_server_is_not_asked() {
    let (cluster, requests) = server(Vec::new());
    cluster.gate.note(false);
    assert_eq!(cluster.get_of(&kind(), &reference()).await, Err(unasked("get", Unasked::Silent)));
    assert!(requests.lock().unwrap().is_empty());
    // An answered error with the same text is not an unasked request: its text comes from the
    // server.
    let said = json!({"kind": "Status", "code": 500, "reason": "the server is busy", "message": "the server is busy"});
    let (cluster, _) = server(vec![(500, None, vec![said.to_string()])]);
    let error = cluster.get_of(&kind(), &reference()).await.unwrap_err();
    assert!(matches!(error, ApiError::Transient { .. }), "{error:?}");
}

/// A watch that is forbidden is not requested again soon; other watches are.
#[tokio::test]
async fn a_watch_that_is_refused_is_not_tried_again() {
    let refused =
        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "user cannot watch things"});
    let (cluster, requests) = server(vec![
        (403, None, vec![refused.to_string()]),
        (200, None, Vec::new()),
        (200, None, Vec::new()),
    ]);
    let named = |name: &str| scope(Selector::Name(name.to_owned()));
    let error = cluster.watch(&named("a"), None, MINUTE).await.err().unwrap();
    assert!(matches!(error, ApiError::Forbidden { verb: "watch", .. }), "{error}");
    for _ in 0..3 {
        assert!(cluster.watch(&named("a"), None, MINUTE).await.is_err());
    }
    assert_eq!(requests.lock().unwrap().len(), 1);
    assert!(cluster.watch(&named("b"), None, MINUTE).await.is_ok());
}

/// A short `Retry-After` is waited for and the request repeated. During a long one no request is
/// sent. A refusal has its reason.
#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    let busy = |status: u16, seconds: &'static str| (status, Some(seconds), Vec::new());
    let (cluster, requests) = server(vec![busy(429, "1"), ok(&json!({"a": 1})), busy(503, "60")]);
    assert_eq!(cluster.get_of(&kind(), &reference()).await, Ok(Some(json!({"a": 1}))));
    let times: Vec<Instant> = requests.lock().unwrap().iter().map(|(_, at)| *at).collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{times:?}");
    for _ in 0..3 {
        let error = cluster.get_of(&kind(), &reference()).await.unwrap_err();
        assert_eq!(error, unasked("get", Unasked::Resting { seconds: 60 }));
        assert!(error.to_string().contains("asked for a pause of 60 s (Retry-After)"), "{error}");
    }
    assert!(cluster.rest().is_some());
    // A cluster with another field manager shares the pause.
    assert!(cluster.with_manager("other").get_of(&kind(), &reference()).await.is_err());
    assert!(cluster.watch(&scope(Selector::Name("a".to_owned())), None, MINUTE).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 3);
}

/// A server that stays busy does not hold a request for ever, and a server that gives no
/// `Retry-After` is not waited for.
#[tokio::test]
async fn a_server_that_stays_busy() {
    let (cluster, requests) = server(vec![(429, Some("0"), Vec::new()); 5]);
    assert_eq!(cluster.get_of(&kind(), &reference()).await, Err(unasked("get", Unasked::Busy)));
    assert_eq!(requests.lock().unwrap().len(), 3);
    // After a 503 only a read can show whether a write was done; a 429 says that the server took no
    // request.
    let object = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "b", "namespace": "a"}});
    for (status, tries, is_unasked) in [(429, 3, true), (503, 1, false)] {
        let (cluster, requests) = server(vec![(status, Some("0"), Vec::new()); 5]);
        let error = cluster.create(&kind(), &object).await.unwrap_err();
        assert_eq!(error == unasked("create", Unasked::Busy), is_unasked, "{status}: {error:?}");
        assert!(is_unasked || matches!(error, ApiError::Transient { .. }), "{error:?}");
        assert!(error.to_string().ends_with(": the server is busy"), "{error}");
        assert_eq!(requests.lock().unwrap().len(), tries);
    }
    let (cluster, requests) = server(vec![(503, None, vec!["try later".to_owned()]); 5]);
    let error = cluster.get_of(&kind(), &reference()).await.unwrap_err();
    assert!(!error.to_string().contains("try later"), "{error}");
    assert_eq!((requests.lock().unwrap().len(), cluster.rest()), (1, None));
}

/// A busy server must not look like one that lacks kinds: charts would be rendered for the wrong
/// capabilities.
#[tokio::test]
async fn a_busy_server_does_not_lack_kinds() {
    let groups = json!({"groups": [{"versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "metrics.k8s.io/v1beta1"}]}]});
    let kinds = |name: &str| json!({"groupVersion": "", "resources": [{"name": name, "singularName": "", "namespaced": true, "kind": name, "verbs": []}]});
    let server_says = |last: ResponseHead| {
        vec![
            ok(&json!({"gitVersion": "v1"})),
            ok(&groups),
            ok(&kinds("pods")),
            ok(&kinds("deployments")),
            last,
        ]
    };
    for retry_after in ["0", "60"] {
        let mut answers = server_says((429, Some(retry_after), Vec::new()));
        answers.extend(vec![(429, Some(retry_after), Vec::new()); 2]);
        let (cluster, _) = server(answers);
        let error = cluster.versions().await.unwrap_err();
        assert!(
            matches!(error, ApiError::Unasked { .. }) && error.to_string().contains("the server is busy"),
            "{error}"
        );
    }
    // An aggregated API may be away without affecting the others.
    let (cluster, _) = server(server_says((503, None, Vec::new())));
    let found = cluster.versions().await.unwrap();
    assert_eq!((found.kinds.len(), &found.silent[..]), (2, &["metrics.k8s.io/v1beta1".to_owned()][..]));
}
