//! Routes of HTTP requests behind a port.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};

use super::port::Port;
use super::visit::{Guest, Visit};

/// Serves requests until the future is dropped.
///
/// # Errors
///
/// The port is lost.
pub async fn serve(port: Port, router: Router) -> io::Result<()> {
    let router = router.layer(from_fn(note_request)).into_make_service_with_connect_info::<Asking>();
    axum::serve(Door(port), router).await
}

/// Port in the form that axum listens on.
struct Door(Port);

impl Listener for Door {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        let visit = self.0.accept().await;
        let peer = visit.guest().peer();
        (visit, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address())
    }
}

/// Client of a request.
#[derive(Debug, Clone)]
struct Asking(Guest);

impl Connected<IncomingStream<'_, Door>> for Asking {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.io().guest().clone())
    }
}

async fn note_request(
    ConnectInfo(Asking(guest)): ConnectInfo<Asking>,
    request: Request,
    next: Next,
) -> Response {
    guest.has_asked();
    next.run(request).await
}
