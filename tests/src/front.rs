//! Proxy in front of an API server that records requests. It passes watches through without
//! buffering, and can answer that it is busy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use kube::Client;
use tokio::net::TcpListener;

use crate::proxy::refusal;

/// Maximum size of a request body in bytes. Requests to the API server are small.
const LIMIT: usize = 64 * 1024 * 1024;

/// Recorded request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// Path with its query.
    pub path: String,
    pub at: Instant,
    /// Status of the answer.
    pub status: u16,
}

impl Asked {
    /// Reports whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
    }
}

/// Proxy that passes requests on under one account.
#[derive(Clone, Debug)]
pub struct Front {
    url: String,
    notes: Arc<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    asked: Mutex<Vec<Asked>>,
    /// Status of the next answer, and the seconds of its `Retry-After`.
    busy: Mutex<Option<(u16, u64)>>,
    watches: AtomicUsize,
}

/// An open watch, counted until it is dropped.
struct Open(Arc<Notes>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Front {
    /// Starts a proxy that lives as long as the runtime.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub async fn start(client: Client) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let front = Self { url: format!("http://{}", listener.local_addr()?), notes: Arc::default() };
        let router = Router::new().fallback(pass_on).with_state((client, Arc::clone(&front.notes)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(front)
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns all requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.notes.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of open watches.
    pub fn watches(&self) -> usize {
        self.notes.watches.load(Ordering::SeqCst)
    }

    /// Answers the next request with this status, and a `Retry-After` of so many seconds.
    pub fn refuse_next(&self, status: u16, seconds: u64) {
        *self.notes.busy.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, seconds));
    }
}

async fn pass_on(State((client, notes)): State<(Client, Arc<Notes>)>, request: Request) -> Response {
    let (method, uri) = (request.method().to_string(), request.uri().clone());
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let busy = notes.busy.lock().unwrap_or_else(PoisonError::into_inner).take();
    let at = Instant::now();
    let response = match busy {
        Some((status, seconds)) => {
            let mut response = refusal(status, "TooManyRequests");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        None => forward(&client, request, &path).await,
    };
    let asked = Asked { method, path, at, status: response.status().as_u16() };
    let is_watch = asked.is_watch() && response.status() == StatusCode::OK;
    notes.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    if !is_watch {
        return response;
    }
    notes.watches.fetch_add(1, Ordering::SeqCst);
    let open = Open(Arc::clone(&notes));
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |frame| {
            let _ = &open;
            frame
        }))
    })
}

async fn forward(client: &Client, request: Request, path: &str) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let mut builder =
        http::Request::builder().method(parts.method).uri(path).header(ACCEPT_ENCODING, "identity");
    if let Some(value) = parts.headers.get(CONTENT_TYPE) {
        builder = builder.header(CONTENT_TYPE, value);
    }
    let Ok(request) = builder.body(kube::client::Body::from(body)) else { return refusal(400, "BadRequest") };
    match client.send(request).await {
        Ok(answer) => {
            let (parts, body) = answer.into_parts();
            let mut response = Response::new(Body::new(body));
            *response.status_mut() = parts.status;
            if let Some(value) = parts.headers.get(CONTENT_TYPE) {
                response.headers_mut().insert(CONTENT_TYPE, value.clone());
            }
            response
        }
        Err(_) => refusal(503, "ServiceUnavailable"),
    }
}
