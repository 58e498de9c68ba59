//! Connections of browsers: as many as there may be, and none that takes part without reading.

mod stalled;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::Body;
use stalled::StalledWrites;

/// Connections at a time; further ones wait until one ends.
const MOST_CONNECTIONS: usize = 2_000;
/// How long a head may take to arrive, and a connection may be idle.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long a browser may take to read anything of what is on its way.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer that wait for a browser; the rest waits where it is made.
const BUFFER: usize = 16 << 10;
/// How long connections may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted: there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

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
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// # Errors
    ///
    /// The port is taken, or may not be used.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next browser. What a live page is told is written at once, and not when the browser has acknowledged what it was told before.
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.listener.accept().await?;
        // A browser that has gone meanwhile is noticed when it is read from.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }

    /// Serves until `end`; then connections get a moment to end.
    pub(crate) async fn serve<H: Handler>(self, handler: Arc<H>, end: CancellationToken) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let connections = TaskTracker::new();
        while let Some(Ok(place)) = end.run_until_cancelled(Arc::clone(&places).acquire_owned()).await {
            let (stream, peer) = match end.run_until_cancelled(self.accept()).await {
                None => break,
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (handler, end) = (Arc::clone(&handler), end.clone());
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    let handler = Arc::clone(&handler);
                    async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(BUFFER);
                let stream = TokioIo::new(StalledWrites::new(stream, WRITE_LIMIT));
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
                drop(place);
            });
        }
        connections.close();
        let _ = tokio::time::timeout(END_LIMIT, connections.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn pages_are_told_at_once() {
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let (browser, accepted) = tokio::join!(TcpStream::connect(server.address()), server.accept());
        browser.unwrap();
        assert!(accepted.unwrap().0.nodelay().unwrap());
    }
}
