//! Limits on the answers of an API server: the server is trusted, but it may still be broken.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use hyper::body::Bytes;
use hyper::{Request, Response};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

/// Bytes of one answer, except for streams. Lists without pages are the largest answers.
const LARGEST: usize = 256 << 20;
/// Time for one answer, including all attempts. Most callers have less.
const TIME: Duration = Duration::from_secs(120);

/// Reason that an answer is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BoundError {
    #[error("the API server {server} answers with more than {} MiB, the limit for an answer", .most >> 20)]
    TooLong { server: String, most: usize },
    #[error("the API server {server} did not complete its answer within {} s", .time.as_secs_f32())]
    TooSlow { server: String, time: Duration },
}

/// Layer that adds the limits to a client.
#[derive(Debug, Clone)]
pub(crate) struct BoundsLayer {
    server: String,
    most: usize,
    time: Duration,
}

impl BoundsLayer {
    /// Creates a layer; `server` is the name of the server in messages.
    pub(crate) fn new(server: String) -> Self {
        Self { server, most: LARGEST, time: TIME }
    }
}

impl<S> Layer<S> for BoundsLayer {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { inner, bounds: self.clone() }
    }
}

/// Service with limits on its answers.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<S> {
    inner: S,
    bounds: BoundsLayer,
}

/// Reports whether the answer to a request is a stream without end: a watch, or a log that is
/// followed.
fn is_stream<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        ["watch", "follow"].contains(&name) && ["true", "1"].contains(&value)
    })
}

impl<S, Q, B> Service<Request<Q>> for Bounded<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = Response<BoundedBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let bounds = (!is_stream(&request)).then(|| self.bounds.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Some(bounds) = bounds else {
                return Ok(answer
                    .await
                    .map_err(Into::into)?
                    .map(|inner| BoundedBody { inner, bounds: None }));
            };
            // Head and body share one deadline.
            let until = Instant::now() + bounds.time;
            let Ok(answer) = tokio::time::timeout_at(until, answer).await else {
                return Err(bounds.too_slow().into());
            };
            let sleep = Box::pin(tokio::time::sleep_until(until));
            Ok(answer
                .map_err(Into::into)?
                .map(|inner| BoundedBody { inner, bounds: Some(Rest { left: bounds.most, bounds, sleep }) }))
        })
    }
}

impl BoundsLayer {
    fn too_long(&self) -> BoundError {
        BoundError::TooLong { server: self.server.clone(), most: self.most }
    }

    fn too_slow(&self) -> BoundError {
        BoundError::TooSlow { server: self.server.clone(), time: self.time }
    }
}

/// Body with limits.
#[derive(Debug)]
pub(crate) struct BoundedBody<B> {
    inner: B,
    /// Remaining limits; `None` for a stream.
    bounds: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    bounds: BoundsLayer,
    left: usize,
    sleep: Pin<Box<Sleep>>,
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { inner, bounds } = &mut *self;
        let Some(rest) = bounds else {
            return Pin::new(inner).poll_frame(context).map_err(Into::into);
        };
        // Check the time first: a server that always has more data ready must run into the time
        // limit, too.
        if rest.sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(rest.bounds.too_slow().into())));
        }
        // With a known length, fail before the first byte.
        if inner.size_hint().lower() > rest.left as u64 {
            return Poll::Ready(Some(Err(rest.bounds.too_long().into())));
        }
        let frame = ready!(Pin::new(inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(left) = rest.left.checked_sub(bytes) else {
                return Poll::Ready(Some(Err(rest.bounds.too_long().into())));
            };
            rest.left = left;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt as _, Full, StreamBody};
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    fn layer() -> BoundsLayer {
        BoundsLayer { server: "https://home".to_owned(), most: 1 << 20, time: Duration::from_secs(5) }
    }

    #[expect(clippy::disallowed_methods, reason = "it is what is tested that has an end")]
    async fn read<B>(path: &str, body: impl Fn() -> B + Clone) -> Result<usize, String>
    where
        B: Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
    {
        let service = service_fn(move |_: Request<()>| {
            let body = body();
            async move { Ok::<_, BoxError>(Response::new(body)) }
        });
        let request = Request::builder().uri(path).body(()).unwrap();
        let answer = layer().layer(service).oneshot(request).await.map_err(|error| error.to_string())?;
        let read = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(read.to_bytes().len())
    }

    #[tokio::test]
    async fn an_answer_may_have_so_much() {
        let body = |bytes: usize| move || Full::new(Bytes::from(vec![b'x'; bytes]));
        assert_eq!(read("/api", body(1 << 20)).await, Ok(1 << 20));
        let error = "the API server https://home answers with more than 1 MiB, the limit for an answer";
        assert_eq!(read("/api", body((1 << 20) + 1)).await, Err(error.to_owned()));
        assert_eq!(read("/api?limit=5&watch=true", body(2 << 20)).await, Ok(2 << 20));
        assert!(read("/api?rewatch=true&watch=false", body(2 << 20)).await.is_err());
    }

    /// A server that sends a byte now and then runs into the time limit; a watch does not.
    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_so_long() {
        let dripping = || {
            let frames = futures::stream::unfold(0, |number| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                (number < 20).then(|| (Ok::<_, Infallible>(Frame::data(Bytes::from("x"))), number + 1))
            });
            StreamBody::new(Box::pin(frames))
        };
        let error = "the API server https://home did not complete its answer within 5 s";
        assert_eq!(read("/api", dripping).await, Err(error.to_owned()));
        assert_eq!(read("/api?watch=1", dripping).await, Ok(20));
        let silent =
            service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>());
        let answer = layer().layer(silent).oneshot(Request::new(())).await;
        assert_eq!(answer.err().map(|error| error.to_string()), Some(error.to_owned()));
    }
}
