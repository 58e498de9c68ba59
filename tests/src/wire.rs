//! Relay on the loopback device in front of a server. It can be cut, stall, or be slow.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Number of bytes that the relay passes on at a time.
const CHUNK: usize = 16 * 1024;

/// State of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Open,
    /// Connections are closed, and new ones are closed as soon as they are accepted.
    Cut,
    /// Connections stay open, but no data passes. Each end believes that the other is alive.
    Stalled,
    /// Data of the client passes, but no answer does.
    Deaf,
    /// Data passes after this delay.
    Slow(Duration),
}

/// Relay to one server. It lives as long as the runtime.
#[derive(Debug, Clone)]
pub struct Wire {
    port: u16,
    flow: watch::Sender<Flow>,
}

impl Wire {
    /// Starts a relay to a port of this machine.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub async fn start(server: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (flow, state) = watch::channel(Flow::Open);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                if *state.borrow() != Flow::Cut {
                    tokio::spawn(relay(connection, server, state.clone()));
                }
            }
        });
        Ok(Self { port, flow })
    }

    /// Returns the port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the state of the relay.
    pub fn set(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }
}

async fn relay(connection: TcpStream, server: u16, flow: watch::Receiver<Flow>) {
    let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let ((from_client, to_client), (from_server, to_server)) =
        (connection.into_split(), upstream.into_split());
    // If one direction ends, the other direction ends as well.
    tokio::select! {
        () = pump(from_client, to_server, Direction::ToServer, flow.clone()) => {}
        () = pump(from_server, to_client, Direction::ToClient, flow) => {}
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Flow {
    fn holds_back(self, direction: Direction) -> bool {
        match self {
            Self::Stalled => true,
            Self::Deaf => direction == Direction::ToClient,
            Self::Open | Self::Cut | Self::Slow(_) => false,
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    mut flow: watch::Receiver<Flow>,
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = tokio::select! {
            length = from.read(&mut chunk) => length.unwrap_or_default(),
            cut = flow.wait_for(|flow| *flow == Flow::Cut) => { drop(cut); return }
        };
        let Some(bytes) = chunk.get(..length).filter(|bytes| !bytes.is_empty()) else { return };
        let passes = flow.wait_for(|flow| !flow.holds_back(direction)).await.map(|flow| *flow);
        match passes {
            Err(_) | Ok(Flow::Cut) => return,
            Ok(Flow::Slow(pause)) => tokio::time::sleep(pause).await,
            Ok(Flow::Open | Flow::Stalled | Flow::Deaf) => {}
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server that sends all data back.
    async fn echo() -> Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = connection.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        Ok(port)
    }

    #[tokio::test]
    async fn wires_pass_on_stall_and_are_cut() -> Result<()> {
        let wire = Wire::start(echo().await?).await?;
        let mut connection = TcpStream::connect(("127.0.0.1", wire.port())).await?;
        let mut answer = [0; 2];
        connection.write_all(b"ab").await?;
        connection.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"ab");
        wire.set(Flow::Stalled);
        connection.write_all(b"cd").await?;
        let nothing =
            tokio::time::timeout(Duration::from_millis(200), connection.read_exact(&mut answer)).await;
        assert!(nothing.is_err(), "nothing comes through");
        wire.set(Flow::Open);
        connection.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"cd");
        wire.set(Flow::Deaf);
        connection.write_all(b"ef").await?;
        let nothing =
            tokio::time::timeout(Duration::from_millis(200), connection.read_exact(&mut answer)).await;
        assert!(nothing.is_err(), "no answer comes through");
        wire.set(Flow::Open);
        connection.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"ef");
        wire.set(Flow::Cut);
        assert_eq!(connection.read(&mut answer).await.unwrap_or_default(), 0, "the connection has ended");
        let mut next = TcpStream::connect(("127.0.0.1", wire.port())).await?;
        assert_eq!(next.read(&mut answer).await.unwrap_or_default(), 0, "a new one ends at once");
        Ok(())
    }
}
