//! Accepted connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::places::Place;

/// Time for everything before the first request of a connection: TLS, the preface of HTTP/2, the
/// head.
const FIRST_REQUEST: Duration = Duration::from_secs(5);

/// Connection with a place for as long as it is open.
pub struct Visit {
    stream: TcpStream,
    guest: Guest,
    /// Limits of a connection that has not sent a request; `None` once a request has arrived.
    silence: Option<Silence>,
}

/// Time limit and cancellation of a connection without a request.
struct Silence {
    time: Pin<Box<Sleep>>,
    place_is_needed: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Client at the other end of a connection. Clones refer to the same connection.
#[derive(Debug, Clone)]
pub struct Guest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    place: Place,
    has_asked: AtomicBool,
}

impl Guest {
    /// Returns the address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// Records that a request has arrived: from now on only the server decides how long the
    /// connection stays.
    pub fn has_asked(&self) {
        if !self.0.has_asked.swap(true, Ordering::Relaxed) {
            self.0.place.keep();
        }
    }
}

impl Visit {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, place: Place) -> Self {
        let silence = Silence {
            time: Box::pin(tokio::time::sleep(FIRST_REQUEST)),
            place_is_needed: Box::pin(place.end.clone().cancelled_owned()),
        };
        let guest = Guest(Arc::new(Inner { peer, place, has_asked: AtomicBool::new(false) }));
        Self { stream, guest, silence: Some(silence) }
    }

    /// Returns the client at the other end.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    fn check_silence(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(silence) = &mut self.silence else { return Ok(()) };
        if self.guest.0.has_asked.load(Ordering::Relaxed) {
            // The connection may have lost its place at the very moment of its first request.
            let has_place = !self.guest.0.place.end.is_cancelled();
            self.silence = None;
            return if has_place { Ok(()) } else { Err(needed()) };
        }
        if silence.place_is_needed.as_mut().poll(context).is_ready() {
            return Err(needed());
        }
        if silence.time.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no request arrived in time"));
        }
        Ok(())
    }
}

fn needed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "its place was needed, and no request had arrived")
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("peer", &self.guest.peer()).finish_non_exhaustive()
    }
}

impl AsyncRead for Visit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_silence(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Visit {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::{Limits, Port};
    use super::*;

    async fn port(all: usize) -> Port {
        let limits = Limits { all, address: all };
        Port::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), limits).await.unwrap()
    }

    async fn visit(port: &Port) -> (TcpStream, Visit) {
        let (stream, visit) = tokio::join!(TcpStream::connect(port.address()), port.accept());
        (stream.unwrap(), visit)
    }

    #[tokio::test]
    async fn pages_are_told_at_once() {
        let (_stream, visit) = visit(&port(1).await).await;
        assert!(visit.stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn the_place_of_a_silent_connection_is_for_the_next() {
        let port = port(1).await;
        let (mut first, mut served) = visit(&port).await;
        first.write_all(b"PRI * HTTP/2").await.unwrap();
        let mut buffer = [0; 64];
        assert_eq!(served.read(&mut buffer).await.unwrap(), 12);
        let (_second, kept) = visit(&port).await;
        assert_eq!(served.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        kept.guest().has_asked();
        let mut third = TcpStream::connect(port.address()).await.unwrap();
        let refused = tokio::join!(third.read(&mut buffer), async {
            tokio::select! {
                visit = port.accept() => drop(visit),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        });
        assert!(matches!(refused.0, Ok(0) | Err(_)), "the one that has asked stays");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends() {
        let port = port(2).await;
        let (_stream, mut silent) = visit(&port).await;
        let (mut other, mut asking) = visit(&port).await;
        asking.guest().has_asked();
        let mut buffer = [0; 64];
        assert_eq!(silent.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        other.write_all(b"more").await.unwrap();
        assert_eq!(asking.read(&mut buffer).await.unwrap(), 4);
    }
}
