//! The listening side.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::places::{IsProxy, Limits, Places};
use super::visit::Visit;

/// Pause after a connection could not be accepted: there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A port that is open.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    places: Places,
}

impl Port {
    /// Takes the port (0: a free one).
    ///
    /// # Errors
    ///
    /// The port is taken, or may not be used.
    pub async fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, places: Places::new(limits) })
    }

    /// With proxies in front of it.
    #[must_use]
    pub fn behind(self, is_proxy: Arc<IsProxy>) -> Self {
        Self { places: self.places.behind(is_proxy), ..self }
    }

    /// With other limits.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { places: self.places.within(limits), ..self }
    }

    /// Where it listens, the chosen port included.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection that has a place. Others are closed, which costs a peer its own time only.
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
                    // Answers are written at once, and not when the peer has acknowledged what came before. A peer that has gone
                    // meanwhile is noticed when it is read from.
                    let _ = stream.set_nodelay(true);
                    return Visit::new(stream, peer, place);
                }
                Err(full) => tracing::debug!(%peer, ?full, "a connection was closed: there are too many"),
            }
        }
    }
}
