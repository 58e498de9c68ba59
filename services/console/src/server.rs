//! Connections of browsers: as many as there may be, and none that takes part without reading.

mod stalled;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use groundwork_telemetry::ports::{IsProxy, Limits, Port};
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::Body;
use stalled::StalledWrites;

/// Connections at a time, of which each open page holds one.
const CONNECTIONS: Limits = Limits { all: 2_000, address: 500 };
/// How long a head may take to arrive, and a connection may be idle.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long a browser may take to read anything of what is on its way.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer that wait for a browser; the rest waits where it is made.
const BUFFER: usize = 16 << 10;
/// How long connections may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Why the console cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} (--console-address): {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
}

/// Answers a request of somebody at an address.
pub(crate) trait Handler: Send + Sync + 'static {
    fn handle(
        self: Arc<Self>,
        request: http::Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A port that is open.
#[derive(Debug)]
pub(crate) struct Server {
    port: Port,
}

impl Server {
    /// Takes the port; `is_proxy` tells the addresses of trusted proxies.
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

    /// Serves until `end`; then connections get a moment to end.
    pub(crate) async fn serve<H: Handler>(self, handler: Arc<H>, end: CancellationToken) {
        let connections = TaskTracker::new();
        while let Some(visit) = end.run_until_cancelled(self.port.accept()).await {
            let guest = visit.guest().clone();
            let peer = guest.peer();
            let (handler, end) = (Arc::clone(&handler), end.clone());
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    guest.has_asked();
                    let handler = Arc::clone(&handler);
                    async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
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
