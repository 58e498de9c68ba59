//! HTTP server for browsers, with limits on connections and on stalled reads and writes. The server
//! of axum has no limits for the head of a request and for the buffer of a response.

mod write_timeout;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use groundwork_telemetry::ports::{IsProxy, Limits, Port};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use write_timeout::StalledWrites;

/// Connections at a time, in total and from one address. Each open page with live updates keeps
/// one.
const CONNECTIONS: Limits = Limits { all: 2_000, address: 500 };
/// Time limit for the head of a request, and for an idle connection.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a browser to read anything of a response.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a response buffered for a browser. A stream pauses when the buffer is full.
const BUFFER: usize = 16 << 10;
/// Time limit for connections to end at shutdown.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Errors that keep the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} (--console-address): {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
}

/// A bound port.
#[derive(Debug)]
pub(crate) struct Server {
    port: Port,
}

impl Server {
    /// Binds the port. `is_proxy` reports whether an address belongs to a trusted proxy.
    ///
    /// # Errors
    ///
    /// The port is taken, or may not be used.
    pub(crate) async fn bind(address: SocketAddr, is_proxy: Arc<IsProxy>) -> Result<Self, ServerError> {
        let bound = Port::bind(address, CONNECTIONS).await;
        let port = bound.map_err(|source| ServerError::Bind { address, source })?;
        Ok(Self { port: port.behind(is_proxy) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Serves requests until `end` is cancelled. Open connections then get `END_LIMIT` to finish.
    pub(crate) async fn serve(self, router: Router, end: CancellationToken) {
        let connections = TaskTracker::new();
        while let Some(visit) = end.run_until_cancelled(self.port.accept()).await {
            let guest = visit.guest().clone();
            let peer = guest.peer();
            let (router, end) = (router.clone(), end.clone());
            connections.spawn(async move {
                let service = service_fn(move |mut request: http::Request<Incoming>| {
                    guest.has_asked();
                    request.extensions_mut().insert(ConnectInfo(peer));
                    router.clone().call(request)
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(BUFFER);
                let stream = TokioIo::new(StalledWrites::new(visit, WRITE_LIMIT));
                let mut connection = std::pin::pin!(builder.serve_connection(stream, service));
                let ended = tokio::select! {
                    ended = &mut connection => ended,
                    () = end.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection ended");
                }
            });
        }
        connections.close();
        let _ = tokio::time::timeout(END_LIMIT, connections.wait()).await;
    }
}
