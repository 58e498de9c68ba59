//! Proxy in front of an API server that answers some writes with errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;

/// Maximum size of a request in bytes.
const LIMIT: usize = 64 * 1024 * 1024;
/// One of so many writes is disturbed.
const EVERY: usize = 7;

/// Proxy that passes requests on under one account.
#[derive(Clone, Debug)]
pub struct Proxy {
    is_faulty: Arc<AtomicBool>,
    disturbed: Arc<AtomicUsize>,
    slowness: Arc<AtomicU64>,
    cut: Arc<Cut>,
    url: String,
}

/// Position of the write that is done but never answered, and the count of writes so far.
#[derive(Debug)]
struct Cut {
    writes: AtomicUsize,
    after: AtomicUsize,
    is_reached: AtomicBool,
}

/// Value of [`Cut::after`] that no count reaches.
const NEVER: usize = usize::MAX;

#[derive(Clone)]
struct Server {
    client: Client,
    is_faulty: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
    disturbed: Arc<AtomicUsize>,
    /// Delay of each request in milliseconds.
    slowness: Arc<AtomicU64>,
    cut: Arc<Cut>,
}

impl Proxy {
    /// Starts a proxy that lives as long as the runtime.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub async fn start(client: Client) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let cut = Arc::new(Cut {
            writes: AtomicUsize::new(0),
            after: AtomicUsize::new(NEVER),
            is_reached: AtomicBool::new(false),
        });
        let proxy =
            Self { is_faulty: Arc::default(), disturbed: Arc::default(), slowness: Arc::default(), cut, url };
        let server = Server {
            client,
            is_faulty: Arc::clone(&proxy.is_faulty),
            writes: Arc::default(),
            disturbed: Arc::clone(&proxy.disturbed),
            slowness: Arc::clone(&proxy.slowness),
            cut: Arc::clone(&proxy.cut),
        };
        let router = Router::new().fallback(pass_on).with_state(server);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(proxy)
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Turns the disturbance of writes on or off.
    pub fn set_faulty(&self, is_faulty: bool) {
        self.is_faulty.store(is_faulty, Ordering::Relaxed);
    }

    /// Sets the delay of each request.
    pub fn set_slow(&self, pause: Duration) {
        self.slowness.store(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Resets the count of writes. The write after `writes` further ones is done, but never
    /// answered.
    pub fn cut_after(&self, writes: Option<usize>) {
        self.cut.writes.store(0, Ordering::SeqCst);
        self.cut.is_reached.store(false, Ordering::SeqCst);
        self.cut.after.store(writes.unwrap_or(NEVER), Ordering::SeqCst);
    }

    /// Reports whether that write has been done. A second call returns false.
    pub fn take_cut(&self) -> bool {
        self.cut.is_reached.swap(false, Ordering::SeqCst)
    }

    /// Returns the number of writes since the last reset of the count.
    pub fn writes(&self) -> usize {
        self.cut.writes.load(Ordering::SeqCst)
    }

    /// Returns the number of disturbed writes.
    pub fn disturbed(&self) -> usize {
        self.disturbed.load(Ordering::Relaxed)
    }
}

/// Passes a request on. Disturbed writes get 409, 429 and 500 in turn, and then the worst case:
/// done, but answered with 500.
async fn pass_on(State(server): State<Server>, request: Request) -> Response {
    tokio::time::sleep(Duration::from_millis(server.slowness.load(Ordering::Relaxed))).await;
    let is_write = request.method() != Method::GET && !is_review(request.uri().path());
    if is_write && server.cut.writes.fetch_add(1, Ordering::SeqCst) == server.cut.after.load(Ordering::SeqCst)
    {
        forward(&server.client, request).await;
        server.cut.is_reached.store(true, Ordering::SeqCst);
        return std::future::pending().await;
    }
    let turn = if is_write && server.is_faulty.load(Ordering::Relaxed) {
        server.writes.fetch_add(1, Ordering::Relaxed)
    } else {
        1
    };
    if !turn.is_multiple_of(EVERY) {
        return forward(&server.client, request).await;
    }
    server.disturbed.fetch_add(1, Ordering::Relaxed);
    match turn / EVERY % 4 {
        0 => refusal(409, "Conflict"),
        1 => refusal(429, "TooManyRequests"),
        2 => refusal(500, "InternalError"),
        _ => {
            forward(&server.client, request).await;
            refusal(500, "InternalError")
        }
    }
}

/// Reports whether a POST is a review of a token or of rights, which changes nothing.
fn is_review(path: &str) -> bool {
    path.ends_with("reviews")
}

/// Returns the error answer of an API server.
pub fn refusal(code: u16, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "disturbed on purpose", "reason": reason, "code": code,
    });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

/// Passes a request on with the rights of a client.
pub async fn forward(client: &Client, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut builder = http::Request::builder().method(parts.method).uri(target);
    for name in ["content-type", "accept"] {
        if let Some(value) = parts.headers.get(name) {
            builder = builder.header(name, value);
        }
    }
    let Ok(request) = builder.body(kube::client::Body::from(body)) else { return refusal(400, "BadRequest") };
    match client.send(request).await {
        Ok(answer) => {
            let (parts, body) = answer.into_parts();
            // The body of a watch has no end, so it is passed on as it comes.
            let mut response = Response::new(Body::new(body));
            *response.status_mut() = parts.status;
            if let Some(value) = parts.headers.get("content-type") {
                response.headers_mut().insert("content-type", value.clone());
            }
            response
        }
        Err(_) => refusal(503, "ServiceUnavailable"),
    }
}
