//! Messages between a service and its workers: one byte for the kind, four for the length (most
//! significant first), then the content.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Maximum size in bytes of one message that a service accepts from a worker. The values decoded
/// from it use several times as much.
pub(crate) const MOST_BYTES: usize = 32 << 20;

const HEADER: usize = 5;

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From a worker: it is fenced in. The content names the mechanisms that the kernel lacks.
    Hello = 1,
    /// To a worker: a piece of work.
    Task = 2,
    /// From a worker: a question to its service.
    Question = 3,
    /// To a worker: the answer to its question.
    Answer = 4,
    /// From a worker: the result of its work.
    Done = 5,
    /// From a worker: the place of a panic.
    Panicked = 6,
}

impl Kind {
    fn of(byte: u8) -> io::Result<Self> {
        let kinds = [Self::Hello, Self::Task, Self::Question, Self::Answer, Self::Done, Self::Panicked];
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "a message of an unknown kind");
        kinds.into_iter().find(|kind| *kind as u8 == byte).ok_or_else(unknown)
    }
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) content: Vec<u8>,
}

fn header(kind: Kind, content: &[u8]) -> io::Result<[u8; HEADER]> {
    let too_long = |_| io::Error::new(io::ErrorKind::FileTooLarge, "a message of more than 4 GiB");
    let [a, b, c, d] = u32::try_from(content.len()).map_err(too_long)?.to_be_bytes();
    Ok([kind as u8, a, b, c, d])
}

fn read_header([kind, length @ ..]: [u8; HEADER]) -> io::Result<(Kind, usize)> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    Ok((Kind::of(kind)?, length))
}

/// Sends a message from a worker.
pub(crate) fn send(to: &mut impl Write, kind: Kind, content: &[u8]) -> io::Result<()> {
    to.write_all(&header(kind, content)?)?;
    to.write_all(content)
}

/// Receives a message in a worker, which trusts its service. Returns `None` at the end.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut bytes = [0; HEADER];
    match from.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (kind, length) = read_header(bytes)?;
    let mut content = vec![0; length];
    from.read_exact(&mut content)?;
    Ok(Some(Frame { kind, content }))
}

/// Sends a message to a worker.
pub(crate) async fn send_to(
    to: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    content: &[u8],
) -> io::Result<()> {
    to.write_all(&header(kind, content)?).await?;
    to.write_all(content).await
}

/// Receives a message from a worker, which is not trusted. Memory is allocated only as the bytes
/// arrive, and a message of more than [`MOST_BYTES`] is an error of the kind `FileTooLarge`.
pub(crate) async fn receive_from(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut bytes = [0; HEADER];
    from.read_exact(&mut bytes).await?;
    let (kind, length) = read_header(bytes)?;
    if length > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a message that is too long"));
    }
    let mut content = Vec::with_capacity(length.min(1 << 16));
    from.take(length as u64).read_to_end(&mut content).await?;
    if content.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Frame { kind, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_come_as_they_went() {
        for content in [Vec::new(), vec![7; 100_000]] {
            let mut bytes = Vec::new();
            send_to(&mut bytes, Kind::Task, &content).await.unwrap();
            let there = receive(&mut bytes.as_slice()).unwrap().unwrap();
            assert_eq!((there.kind, &there.content), (Kind::Task, &content));
            let mut bytes = Vec::new();
            send(&mut bytes, Kind::Done, &content).unwrap();
            let back = receive_from(&mut bytes.as_slice()).await.unwrap();
            assert_eq!((back.kind, &back.content), (Kind::Done, &content));
        }
        assert!(receive(&mut [].as_slice()).unwrap().is_none());
    }

    /// An announced length must not allocate memory before the bytes arrive.
    #[tokio::test]
    async fn what_no_worker_sends_is_an_error() {
        let kind = |result: io::Result<Frame>| result.unwrap_err().kind();
        let announced = [Kind::Done as u8, 255, 255, 255, 255];
        assert_eq!(kind(receive_from(&mut announced.as_slice()).await), io::ErrorKind::FileTooLarge);
        let cut = [Kind::Done as u8, 0, 0, 0, 9, 1];
        assert_eq!(kind(receive_from(&mut cut.as_slice()).await), io::ErrorKind::UnexpectedEof);
        let unknown = [99, 0, 0, 0, 0];
        assert_eq!(kind(receive_from(&mut unknown.as_slice()).await), io::ErrorKind::InvalidData);
    }
}
