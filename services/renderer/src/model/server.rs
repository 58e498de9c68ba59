//! API server of the model: requests take time, and requests or their answers get lost.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tower::BoxError;

use super::chance::Chance;
use super::cluster::{Cluster, Logged, NAMESPACE, Next, Refusal};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// One in this many requests of a process gets no answer; it fails before or after its execution.
const LOSSES: u64 = 150;

/// The API server, as one process sees it.
#[derive(Debug, Clone)]
struct Server {
    cluster: Cluster,
    chance: Arc<Chance>,
    /// Process that sends the request.
    caller: Arc<str>,
}

/// Returns the client of a process.
pub(super) fn client(cluster: &Cluster, chance: &Arc<Chance>, caller: &str) -> Client {
    let server = Server { cluster: cluster.clone(), chance: Arc::clone(chance), caller: caller.into() };
    let answer = move |request: Request<Body>| {
        let server = server.clone();
        async move { server.answer(request).await }
    };
    Client::new(tower::service_fn(answer), NAMESPACE)
}

/// Object, or all objects of a kind, in the path of a request.
#[derive(Debug)]
struct Target<'a> {
    plural: &'a str,
    name: Option<&'a str>,
    is_status: bool,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let groups = if parts.next() == Some("api") { 1 } else { 2 };
        let rest: Vec<&str> = parts.skip(groups).collect();
        let rest = match rest.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let plural = rest.first().copied().unwrap_or_default();
        Self { plural, name: rest.get(1).copied(), is_status: rest.get(2) == Some(&"status") }
    }
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the request is one of the test")]
    async fn answer(self, request: Request<Body>) -> Result<Answer, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default());
        let why = format!("{} {} {path}", self.caller, parts.method);
        self.chance.pause(&format!("{why} goes")).await;
        if self.chance.one_in(LOSSES, &format!("{why} is lost")) {
            return Err("the connection is closed".into());
        }
        let target = Target::of(&path);
        let parameter = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
        };
        let answer = if parameter("watch").is_some() {
            let version = parameter("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
            self.watch(target.plural, version)
        } else {
            let body = serde_json::from_slice(&body).unwrap_or_default();
            match self.object(&parts.method, &target, body, parameter("labelSelector").as_deref()) {
                Ok(object) => json_answer(200, &object),
                Err(Refusal(code, reason)) => json_answer(code, &failure(code, reason)),
            }
        };
        self.chance.pause(&format!("{why} comes")).await;
        if self.chance.one_in(LOSSES, &format!("{why} is lost on the way back")) {
            return Err("the connection is closed".into());
        }
        Ok(answer?)
    }

    /// Returns the answer to a request for objects.
    fn object(
        &self,
        method: &Method,
        target: &Target<'_>,
        body: Value,
        labels: Option<&str>,
    ) -> Result<Value, Refusal> {
        let (cluster, by) = (&self.cluster, &*self.caller);
        let not_found = Refusal(404, "NotFound");
        let value = |object: Arc<Value>| Value::clone(&object);
        match (method.as_str(), target.name) {
            ("GET", _) if target.plural.is_empty() => Ok(json!({
                "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            })),
            ("GET", Some("kube-system")) => Ok(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "cluster", "resourceVersion": "1"},
            })),
            ("GET", Some(name)) => cluster.get(target.plural, name).map(value).ok_or(not_found),
            ("GET", None) => {
                let label = labels.and_then(|labels| labels.split_once('='));
                let (items, version) = cluster.list(target.plural, label);
                let version = version.to_string();
                let items: Vec<Value> = items.into_iter().map(value).collect();
                Ok(
                    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": items}),
                )
            }
            // Kubernetes Events are accepted and dropped.
            ("POST", _) if target.plural == "events" => Ok(body),
            ("POST", _) => cluster.create(target.plural, body, by).map(value),
            ("PUT", Some(_)) => cluster.replace(target.plural, body, target.is_status, by).map(value),
            ("PATCH", Some(name)) => cluster.patch(target.plural, name, &body, by).map(value),
            ("DELETE", Some(name)) => {
                let left = cluster.delete(target.plural, name, &body["preconditions"], by)?;
                Ok(left.map_or_else(
                    || json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}),
                    value,
                ))
            }
            _ => Err(Refusal(405, "MethodNotAllowed")),
        }
    }

    fn watch(&self, plural: &str, version: u64) -> http::Result<Answer> {
        let body = StreamBody::new(
            self.events(plural.to_owned(), version).map(|line| Ok(http_body::Frame::data(line))),
        );
        Response::builder().status(200).body(UnsyncBoxBody::new(body))
    }

    /// Returns the lines of a watch, each with its own latency.
    fn events(&self, plural: String, version: u64) -> impl Stream<Item = Bytes> + use<> {
        let server = self.clone();
        let (endings, changes) = (server.cluster.endings(), server.cluster.changes());
        stream::unfold((Some(version), changes), move |(after, mut changes)| {
            let (server, plural) = (server.clone(), plural.clone());
            async move {
                let after = after?;
                loop {
                    match server.cluster.next(&plural, after, endings) {
                        Next::Event(logged) => {
                            let Logged { version, type_, object, .. } = *logged;
                            let name = object["metadata"]["name"].as_str().unwrap_or_default();
                            server.chance.pause(&format!("{} sees {plural} {name}", server.caller)).await;
                            return Some((line(type_, &object), (Some(version), changes)));
                        }
                        Next::Wait => changes.changed().await.ok()?,
                        Next::Expired => {
                            return Some((line("ERROR", &failure(410, "Expired")), (None, changes)));
                        }
                        Next::End => return None,
                    }
                }
            }
        })
    }
}

fn line(type_: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": type_, "object": object}).to_string();
    line.push('\n');
    line.into()
}

fn json_answer(code: u16, object: &Value) -> http::Result<Answer> {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {});
    Response::builder().status(code).header("content-type", "application/json").body(UnsyncBoxBody::new(body))
}

fn failure(code: u16, reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": reason, "reason": reason, "code": code,
    })
}
