use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use groundwork_api::Lifecycle;

use super::*;

/// Requests that a server has received: method, path, body.
type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// Starts a server that gives these answers in order, and then no more.
fn server(answers: Vec<(u16, Option<&'static str>, Value)>) -> (Porch, Requests) {
    let requests = Requests::default();
    let got = Arc::clone(&requests);
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (got, answers) = (Arc::clone(&got), Arc::clone(&answers));
        async move {
            let (head, body) = request.into_parts();
            #[expect(clippy::disallowed_methods, reason = "the request is one of the test")]
            let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            got.lock().unwrap().push((head.method.to_string(), path, body));
            let Some((status, retry_after, answer)) = answers.lock().unwrap().pop_front() else {
                return Err(std::io::Error::other("connection reset"));
            };
            let mut builder = http::Response::builder().status(status);
            if let Some(seconds) = retry_after {
                builder = builder.header(RETRY_AFTER, seconds);
            }
            builder.body(Body::from(answer.to_string().into_bytes())).map_err(std::io::Error::other)
        }
    });
    (Porch::new(Client::new(service, "default")), requests)
}

fn read() -> Value {
    json!({"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision",
        "metadata": {"name": "edge.dns.w", "namespace": "fleet", "resourceVersion": "6f1c"},
        "spec": {"novel": 1, "lifecycle": "Draft"}})
}

/// The table of operations, each with its HTTP call and body.
#[tokio::test]
async fn operations_are_these_calls() {
    let ok = |answer: Value| (200, None, answer);
    let list = json!({"metadata": {}, "items": [{"metadata": {"name": "edge.dns.w"}, "spec": {}}]});
    let files = json!({"metadata": {"name": "edge.dns.w", "namespace": "fleet", "resourceVersion": "6f1c"},
        "spec": {"resources": {"a": "b"}}});
    let (porch, requests) = server(vec![
        ok(list),
        ok(read()),
        ok(files.clone()),
        ok(files.clone()),
        ok(read()),
        ok(read()),
        ok(json!({"kind": "Status", "status": "Success"})),
        (201, None, read()),
    ]);
    let counted = Arc::new(Mutex::new(Vec::new()));
    let count = Arc::clone(&counted);
    let porch =
        porch.counting(move |verb, resource, outcome| count.lock().unwrap().push((verb, resource, outcome)));
    let listed = porch.list("fleet", "edge", Some("net/dns")).await.unwrap();
    assert_eq!(listed[0].raw["kind"], "PackageRevision", "what a list leaves out is needed for a PUT");
    assert_eq!(listed[0].raw["metadata"]["namespace"], "fleet");
    let found = porch.get("fleet", "edge.dns.w").await.unwrap().unwrap();
    let resources = porch.resources("fleet", "edge.dns.w").await.unwrap();
    porch.save(&resources.with_files(&[("c".to_owned(), "d".to_owned())].into())).await.unwrap();
    porch.replace(&found.clone().with_lifecycle(Lifecycle::Proposed)).await.unwrap();
    porch.decide(&found.with_lifecycle(Lifecycle::Published)).await.unwrap();
    porch.delete("fleet", "edge.dns.w").await.unwrap();
    let draft = NewDraft { namespace: "fleet".to_owned(), ..NewDraft::default() };
    porch.create(&draft).await.unwrap();
    let base = "/apis/porch.kpt.dev/v1alpha1/namespaces/fleet";
    let (revision, resources) = (
        format!("{base}/packagerevisions/edge.dns.w"),
        format!("{base}/packagerevisionresources/edge.dns.w"),
    );
    let with = |lifecycle: &str| {
        let mut body = read();
        body["spec"]["lifecycle"] = json!(lifecycle);
        body
    };
    let mut saved = files;
    saved["spec"]["resources"] = json!({"c": "d"});
    let selector = "fieldSelector=spec.repository%3Dedge%2Cspec.packageName%3Dnet%2Fdns";
    let expected = [
        ("GET", format!("{base}/packagerevisions?{selector}"), Value::Null),
        ("GET", revision.clone(), Value::Null),
        ("GET", resources.clone(), Value::Null),
        ("PUT", resources, saved),
        ("PUT", revision.clone(), with("Proposed")),
        ("PUT", format!("{revision}/approval"), with("Published")),
        ("DELETE", revision, Value::Null),
        ("POST", format!("{base}/packagerevisions"), draft.body().unwrap()),
    ];
    let expected = expected.map(|(method, path, body)| (method.to_owned(), path, body));
    assert_eq!(*requests.lock().unwrap(), expected);
    let expected = [
        ("list", "packagerevisions", "ok"),
        ("get", "packagerevisions", "ok"),
        ("get", "packagerevisionresources", "ok"),
        ("update", "packagerevisionresources", "ok"),
        ("update", "packagerevisions", "ok"),
        ("update", "packagerevisions/approval", "ok"),
        ("delete", "packagerevisions", "ok"),
        ("create", "packagerevisions", "ok"),
    ];
    assert_eq!(*counted.lock().unwrap(), expected);
}

/// A missing revision counts as deleted, and reads as `None`.
#[tokio::test]
async fn what_is_gone_is_no_error() {
    let gone = || (404, None, json!({"reason": "NotFound", "message": "not found"}));
    let (porch, _) = server(vec![gone(), gone(), gone()]);
    assert_eq!(porch.get("fleet", "edge.dns.w").await, Ok(None));
    assert_eq!(porch.delete("fleet", "edge.dns.w").await, Ok(()));
    assert_eq!(porch.resources("fleet", "edge.dns.w").await.unwrap_err().meaning, Meaning::NotFound);
}

/// A call that meets another one on the same package is retried, and fails after several attempts.
#[tokio::test(start_paused = true)]
async fn busy_packages_are_asked_again() {
    let busy = || (409, None, json!({"message": "another request is already in progress on package dns"}));
    let (porch, requests) = server(vec![busy(), busy(), (200, None, read())]);
    assert!(porch.get("fleet", "edge.dns.w").await.unwrap().is_some());
    assert_eq!(requests.lock().unwrap().len(), 3);
    let (porch, requests) = server((0..9).map(|_| busy()).collect());
    assert_eq!(porch.get("fleet", "edge.dns.w").await.unwrap_err().meaning, Meaning::Busy);
    assert_eq!(requests.lock().unwrap().len(), BUSY_ATTEMPTS);
}

/// The pause before a retry comes from a header, or from the Status object.
#[tokio::test]
async fn the_server_says_when_to_come_again() {
    let (porch, _) = server(vec![
        (429, Some("7"), json!({"reason": "TooManyRequests"})),
        (503, None, json!({"reason": "x", "details": {"retryAfterSeconds": 3}})),
        (503, None, json!("no endpoints")),
    ]);
    for seconds in [Some(7), Some(3), None] {
        let error = porch.list("fleet", "edge", None).await.unwrap_err();
        assert_eq!(
            (error.meaning, error.retry_after),
            (Meaning::Unavailable, seconds.map(Duration::from_secs))
        );
        assert!(!error.is_unanswered);
    }
}

/// A call without an answer may have succeeded, so its error says so.
#[tokio::test]
async fn no_answer_is_told_from_a_refusal() {
    let timeout =
        json!({"reason": "Timeout", "message": "Timeout: request did not complete within requested timeout"});
    let draft = NewDraft { namespace: "fleet".to_owned(), ..NewDraft::default() };
    for answers in [Vec::new(), vec![(504, None, timeout)]] {
        let (porch, _) = server(answers);
        let error = porch.create(&draft).await.unwrap_err();
        assert!(error.is_unanswered && error.meaning == Meaning::Unavailable, "{error:?}");
    }
}

/// No request is sent for a name that would change the path.
#[tokio::test]
async fn names_lead_to_no_other_place() {
    let (porch, requests) = server(Vec::new());
    assert_eq!(porch.get("fleet", "../x").await, Ok(None));
    for error in [
        porch.list("a/b", "edge", None).await.unwrap_err(),
        porch.resources("fleet", "x?y=z").await.unwrap_err(),
        porch.delete("fleet", "").await.unwrap_err(),
    ] {
        assert_eq!(error.meaning, Meaning::Invalid);
    }
    assert!(requests.lock().unwrap().is_empty());
}

/// Groundwork's own kind is in the same API group, so the resource of the files identifies a Porch
/// server. An unreachable server does not count as missing (`packagevariants.md` 6.1).
#[tokio::test]
async fn who_serves_package_revisions_is_told_by_their_files() {
    let resources = |names: &[&str]| {
        let resources: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        (200, None, json!({"kind": "APIResourceList", "resources": resources}))
    };
    let refusal = |status: u16| (status, None, json!({"kind": "Status", "message": "no"}));
    let (porch, requests) = server(vec![
        resources(&["packagerevisions", "packagerevisions/approval", "packagerevisionresources"]),
        resources(&["packagerevisions", "packagerevisions/status"]),
        refusal(404),
        refusal(503),
    ]);
    assert!(porch.is_served().await.unwrap());
    assert!(!porch.is_served().await.unwrap());
    assert!(!porch.is_served().await.unwrap());
    assert_eq!(porch.is_served().await.unwrap_err().meaning, Meaning::Unavailable);
    let error = porch.is_served().await.unwrap_err();
    assert_eq!(
        (error.text.as_str(), error.is_unanswered),
        ("the API server does not answer: connection reset", false)
    );
    let asked = requests.lock().unwrap().clone();
    assert!(asked.iter().all(|(method, path, _)| method == "GET" && path == "/apis/porch.kpt.dev/v1alpha1"));
}

/// An endless answer is read up to the limit, and the error names the request.
#[tokio::test]
async fn answers_have_a_length() {
    let spaces = |bytes: usize| (200, None, Value::String(" ".repeat(bytes)));
    let (porch, _) = server(vec![
        spaces(MAX_LIST),
        spaces(MAX_ANSWER),
        spaces(MAX_ANSWER),
        (500, None, spaces(MAX_REFUSAL).2),
    ]);
    let error = porch.list("fleet", "edge", None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the answer of the Porch server to list of packagerevisions has more than the allowed 33554432 bytes"
    );
    assert!(!error.is_unanswered, "nothing happens by reading");
    let error = porch.resources("fleet", "edge.dns.w").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the answer of the Porch server to get of packagerevisionresources has more than the allowed 16777216 bytes"
    );
    let draft = NewDraft { namespace: "fleet".to_owned(), ..NewDraft::default() };
    assert!(porch.create(&draft).await.unwrap_err().is_unanswered, "it may have been made");
    let error = porch.get("fleet", "edge.dns.w").await.unwrap_err();
    assert_eq!(error.to_string(), "the Porch server answers 500");
}

/// Memory for the values of an answer is reserved before they are parsed.
#[tokio::test]
async fn answers_have_their_memory() {
    let items: Vec<Value> = (0..2000).map(|_| json!({"": {"": {"": 0}}})).collect();
    let answer = (200, None, json!({"metadata": {}, "items": items}));
    let (mut porch, _) = server(vec![answer]);
    porch.memory = Memory::new(1 << 20, 1 << 20, Duration::from_millis(10));
    let error = porch.list("fleet", "edge", None).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the Porch server, asked for list of packagerevisions, answers with content that takes more than 1 MiB of \
         memory, the limit for one unit of work"
    );
    assert_eq!(porch.memory.in_use(), 0);
}
