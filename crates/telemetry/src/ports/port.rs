//! Port that accepts connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::places::{IsProxy, Limits, Places};
use super::visit::Visit;

/// Pause after a failed accept, which usually means that the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Open port.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    places: Places,
}

impl Port {
    /// Binds the port (0: a free one).
    ///
    /// # Errors
    ///
    /// The port is in use, or not permitted.
    pub async fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, places: Places::new(limits) })
    }

    /// Sets the proxies in front of the port.
    #[must_use]
    pub fn behind(self, is_proxy: Arc<IsProxy>) -> Self {
        Self { places: self.places.behind(is_proxy), ..self }
    }

    /// Sets other limits.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { places: self.places.within(limits), ..self }
    }

    /// Returns the address of the port, including a chosen port number.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until one gets a place, and returns that one. Closes those that get
    /// none.
    pub async fn accept(&self) -> Visit {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match self.places.take(peer.ip()) {
                Ok(place) => {
                    // Without Nagle's algorithm, answers do not wait for an acknowledgement of
                    // earlier data. The call fails if the peer has gone; the next read reports
                    // that.
                    let _ = stream.set_nodelay(true);
                    return Visit::new(stream, peer, place);
                }
                Err(full) => {
                    tracing::debug!(%peer, ?full, "a connection was closed: too many connections are open");
                }
            }
        }
    }
}
