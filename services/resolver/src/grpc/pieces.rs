//! Stream of content in messages, read at the speed of the receiver.

use std::io::Read;
use std::time::Duration;

use futures::{Stream, stream};
use groundwork_component::{Blob, RepositoryError};
use groundwork_proto::resolver::v1::FetchResourceResponse;
use groundwork_turns::Turns;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::Status;

use super::errors;

/// Bytes of content per message.
const CHUNK: usize = 256 * 1024;
/// Messages that are buffered for the receiver.
const WAITING: usize = 2;
/// Time after which a caller that reads no message is dropped, since it occupies a slot of its
/// namespace.
const STALLED: Duration = Duration::from_secs(60);

/// Streams the content from an offset on; the first message contains the total size. The part
/// before the offset is read too, since the digest covers the whole content.
pub(super) fn stream(
    content: Blob,
    offset: u64,
    senders: Turns,
    tenant: String,
) -> impl Stream<Item = Result<FetchResourceResponse, Status>> + Send {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let turn = tokio::select! {
            turn = senders.take(&tenant) => turn,
            // The caller has gone, so the slot is not needed.
            () = sender.closed() => return,
        };
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            span.in_scope(|| send(content, offset, &sender));
        });
        // A panic of the task drops the sender, which ends the stream and the call.
        drop(task.await);
    });
    stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|piece| (piece, receiver)))
}

fn send(mut content: Blob, offset: u64, sender: &mpsc::Sender<Result<FetchResourceResponse, Status>>) {
    let mut size = content.size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1);
    let mut media_type = std::mem::take(&mut content.media_type);
    let mut skipped = (&mut content.body).take(offset);
    let mut result = std::io::copy(&mut skipped, &mut std::io::sink()).map(drop);
    let mut is_first = true;
    while result.is_ok() {
        let mut chunk = Vec::new();
        result = (&mut content.body).take(CHUNK as u64).read_to_end(&mut chunk).map(drop);
        if result.is_err() || (chunk.is_empty() && !is_first) {
            break;
        }
        is_first = false;
        let piece = FetchResourceResponse { media_type: std::mem::take(&mut media_type), size, chunk };
        size = 0;
        // The caller has gone, or has stalled.
        let sent = Handle::current().block_on(sender.send_timeout(Ok(piece), STALLED));
        if sent.is_err() {
            return;
        }
    }
    if let Err(error) = result {
        let error = errors::repository(&RepositoryError::of_read(&error, "the content"));
        drop(sender.blocking_send(Err(error)));
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
    }

    async fn collected(length: usize, offset: usize) -> Vec<FetchResourceResponse> {
        let content = content(length);
        let blob = Blob::from_bytes("text/plain", content.clone());
        let pieces = stream(blob, offset as u64, Turns::new(1, 1), "team".to_owned());
        let pieces: Vec<_> = pieces.map(Result::unwrap).collect().await;
        let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.chunk.clone()).collect();
        assert_eq!(joined, content[offset.min(length)..]);
        assert_eq!(pieces[0].media_type, "text/plain");
        pieces
    }

    #[tokio::test]
    async fn content_comes_in_pieces() {
        for (length, offset, count) in [
            (0, 0, 1),
            (1, 0, 1),
            (CHUNK, 0, 1),
            (CHUNK + 1, 0, 2),
            (3 * CHUNK, 0, 3),
            (3 * CHUNK, CHUNK + 1, 2),
            (5, 5, 1),
            (5, 9, 1),
        ] {
            let pieces = collected(length, offset).await;
            assert_eq!(pieces.len(), count, "{length}");
            let sizes: Vec<_> = pieces.iter().map(|piece| piece.size).collect();
            assert_eq!(sizes[0], i64::try_from(length).unwrap());
            assert!(sizes[1..].iter().all(|size| *size == 0));
        }
    }

    /// An error after the first messages ends the call with an error status; the messages before it
    /// are still delivered.
    #[tokio::test]
    async fn a_body_that_fails_ends_the_call() {
        let wrong = RepositoryError::Digest { address: "a".into(), expected: "b".into(), actual: "c".into() };
        let body = std::io::Cursor::new(content(10)).chain(Failing(wrong));
        let blob = Blob { media_type: String::new(), size: None, body: Box::new(body) };
        let pieces: Vec<_> = stream(blob, 0, Turns::new(1, 1), "team".to_owned()).collect().await;
        let error = pieces.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.code(), tonic::Code::DataLoss);
    }

    struct Failing(RepositoryError);

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(self.0.clone().into())
        }
    }
}
