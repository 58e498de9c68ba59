//! HTTP server of the Porch stand-in, over TLS as aggregation requires.

use std::sync::Arc;
use std::sync::mpsc;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use axum::serve::Listener;
use futures::{StreamExt as _, stream};
use http::{Method, StatusCode};
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::server::TlsStream;

use super::rules::{Refusal, internal, not_found};
use super::{GROUP, Place, State, VERSION};

/// Maximum size of a request body in bytes. Packages are small.
const LIMIT: usize = 16 << 20;

/// Starts the server and returns its port.
pub(super) fn start(state: Arc<State>) -> Result<u16> {
    let (bound, port) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let listener = Tls { listener: TcpListener::bind("127.0.0.1:0").await?, acceptor: acceptor()? };
            bound.send(listener.listener.local_addr()?.port())?;
            let router = Router::new().fallback(answer).with_state(state);
            axum::serve(listener, router).await?;
            Ok(())
        })
    });
    port.recv().context("the stand-in for Porch did not start")
}

fn acceptor() -> Result<TlsAcceptor> {
    let certified = generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = certified.signing_key.serialize_der().try_into().map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            // A client that disconnects during the handshake is ignored.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn answer(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let path = head.uri.path().to_owned();
    match route(&state, &head.method, (&path, &query), &body) {
        Ok(Answer::Object(status, object)) => json_response(status, &object),
        Ok(Answer::Watch(response)) => response,
        Err(Refusal { status, reason, text }) => {
            let object = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status,
                "reason": reason, "message": text});
            json_response(status, &object)
        }
    }
}

enum Answer {
    Object(u16, Value),
    Watch(Response),
}

fn json_response(status: u16, object: &Value) -> Response {
    let mut response = Response::new(Body::from(object.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

fn route(
    state: &State,
    method: &Method,
    (path, query): (&str, &str),
    body: &Value,
) -> Result<Answer, Refusal> {
    let Some(below) = path.strip_prefix(&format!("/apis/{GROUP}/{VERSION}")) else {
        return Err(not_found(path));
    };
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    let (namespace, parts) = match parts.as_slice() {
        [] => return Ok(Answer::Object(200, discovery())),
        ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let mut inner = state.inner();
    if *method != Method::GET {
        inner.writes.push((method.to_string(), path.to_owned(), body.clone()));
    }
    let fault = inner.fault(method.as_str(), path);
    drop(inner);
    match fault {
        Some((refusal, false)) => Err(refusal),
        Some((refusal, true)) => serve(state, method, (namespace, parts, query), body).and(Err(refusal)),
        None => serve(state, method, (namespace, parts, query), body),
    }
}

fn serve(
    state: &State,
    method: &Method,
    (namespace, parts, query): (Option<&str>, &[&str], &str),
    body: &Value,
) -> Result<Answer, Refusal> {
    let mut inner = state.inner();
    let place = |name: &str| -> Place { (namespace.unwrap_or_default().to_owned(), name.to_owned()) };
    let found = |answer: Option<Value>, name: &str| {
        answer.map(|object| Answer::Object(200, object)).ok_or_else(|| not_found(name))
    };
    match (method.as_str(), parts) {
        ("GET", ["packagerevisions"]) if query.contains("watch=") => {
            drop(inner);
            Ok(Answer::Watch(watch(state, namespace)))
        }
        ("GET", ["packagerevisions"]) => {
            let objects = inner.revisions.values().map(|stored| stored.object.clone());
            let items: Vec<Value> = objects.filter(|object| is_selected(object, namespace, query)).collect();
            // Porch's lists have no resourceVersion, and their items have no kinds.
            Ok(Answer::Object(
                200,
                json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "PackageRevisionList", "metadata": {}, "items": items}),
            ))
        }
        ("GET", ["packagerevisions", name]) => {
            found(inner.revisions.get(&place(name)).map(|stored| stored.object.clone()), name)
        }
        ("GET", ["packagerevisionresources", name]) => {
            found(inner.revisions.get(&place(name)).map(super::rules::Stored::resources), name)
        }
        ("POST", ["packagerevisions"]) => {
            let stored = inner.create(namespace.unwrap_or_default(), body)?;
            let object = stored.object.clone();
            state.put(&mut inner, stored, "ADDED");
            Ok(Answer::Object(201, object))
        }
        ("PUT", ["packagerevisions", name, rest @ ..]) => {
            let changed = inner.update(&place(name), body, *rest == ["approval"])?;
            let mut object = Value::Null;
            for stored in changed {
                object = stored.object.clone();
                state.put(&mut inner, stored, "MODIFIED");
            }
            Ok(Answer::Object(200, object))
        }
        ("PUT", ["packagerevisionresources", name]) => {
            let (stored, answer) = inner.save(&place(name), body)?;
            state.put(&mut inner, stored, "MODIFIED");
            Ok(Answer::Object(200, answer))
        }
        ("DELETE", ["packagerevisions", name]) => {
            let stored = inner.delete(&place(name))?;
            drop(state.changes.send(("DELETED", stored.object)));
            Ok(Answer::Object(200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})))
        }
        _ => Err(internal(format!("{method} of {parts:?} is not served"))),
    }
}

/// Reports whether an object matches the namespace and the two supported field selectors.
fn is_selected(object: &Value, namespace: Option<&str>, query: &str) -> bool {
    let query = query.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
    let selector = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector="));
    let is_field = |pair: &str| match pair.split_once('=') {
        Some((field, value)) => {
            let path = format!("/{}", field.replace('.', "/"));
            object.pointer(&path).and_then(Value::as_str) == Some(value)
        }
        None => true,
    };
    is_of(object, namespace) && selector.unwrap_or_default().split(',').all(is_field)
}

fn is_of(object: &Value, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
}

/// Serves a watch. Like Porch, the server ignores the requested start: it always sends all objects
/// first, then a bookmark.
fn watch(state: &State, namespace: Option<&str>) -> Response {
    // Subscribe under the lock, so that no change falls between the list and the watch.
    let inner = state.inner();
    let changes = state.changes.subscribe();
    let all = inner.revisions.values().map(|stored| stored.object.clone());
    let mut replay: Vec<(&'static str, Value)> =
        all.filter(|object| is_of(object, namespace)).map(|object| ("ADDED", object)).collect();
    drop(inner);
    let end = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "PackageRevision",
        "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "creationTimestamp": null}});
    replay.push(("BOOKMARK", end));
    let namespace = namespace.map(str::to_owned);
    let changes = stream::unfold(changes, async |mut changes| {
        // A subscriber that falls too far behind gets an error, which ends the watch. The client
        // starts a new one.
        let change = changes.recv().await.ok()?;
        Some((change, changes))
    });
    let changes = changes.filter(move |(_, object)| std::future::ready(is_of(object, namespace.as_deref())));
    let lines = stream::iter(replay).chain(changes).map(|(type_, object)| {
        let line = format!("{}\n", json!({"type": type_, "object": object}));
        Ok::<_, std::convert::Infallible>(Bytes::from(line))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

fn discovery() -> Value {
    let resource = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": format!("{GROUP}/{VERSION}"), "resources": [
        resource("packagerevisions", "PackageRevision", &["create", "delete", "get", "list", "update", "watch"]),
        resource("packagerevisions/approval", "PackageRevision", &["get", "update"]),
        resource("packagerevisionresources", "PackageRevisionResources", &["get", "update"]),
    ]})
}
