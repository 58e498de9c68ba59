//! Admits a call before its service sees it: counts the call, authenticates its caller, and counts
//! the bytes of its request as they arrive.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use groundwork_proto::status::{self, reasons};
use groundwork_telemetry::ports::Guest;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::body::Body;
use tonic::codegen::http::{Extensions, HeaderMap, Request, Response};
use tonic::codegen::{Bytes, Service};
use tonic::transport::server::TlsConnectInfo;
use tonic::{Code, Status};
use tower::Layer;

use crate::MAX_MESSAGE;
use crate::access::Access;
use crate::limits::{Exceeded, Good, Ledger, Share};

/// Maximum bytes of a request to health or reflection, which need no token.
const LARGEST_OPEN: usize = 64 * 1024;
const HEALTH: &str = "/grpc.health.";
const REFLECTION: &str = "/grpc.reflection.";
/// Bytes in front of every message: flag and length.
const HEAD: usize = 5;

/// Callers that a server admits.
#[derive(Debug, Clone)]
pub(crate) struct Callers {
    pub(crate) access: Access,
    /// True to admit calls without a token; the service refuses them if they name an object.
    pub(crate) may_be_anonymous: bool,
}

/// Layer that creates [`Admission`]s.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionLayer {
    pub(crate) ledger: Ledger,
    pub(crate) callers: Option<Callers>,
}

/// Wraps all services of a server.
#[derive(Debug, Clone)]
pub(crate) struct Admission<S> {
    inner: S,
    layer: AdmissionLayer,
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = Admission<S>;

    fn layer(&self, inner: S) -> Admission<S> {
        Admission { inner, layer: self.clone() }
    }
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S> Service<Request<Body>> for Admission<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Answer<S::Error> {
        // `poll_ready` was called on this instance, so keep it for the call and leave the clone
        // behind.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let layer = self.layer.clone();
        Box::pin(async move {
            let (call, request) = match layer.admit(request).await {
                Ok(admitted) => admitted,
                Err(status) => return Ok(status.into_http()),
            };
            let response = inner.call(request).await?;
            Ok(response.map(|body| Body::new(Held { inner: body, _call: call })))
        })
    }
}

impl AdmissionLayer {
    /// Counts and authenticates a call. The caller is known before a byte of the request is read.
    async fn admit(&self, request: Request<Body>) -> Result<(Arc<Call>, Request<Body>), Status> {
        guest(request.extensions()).inspect(|guest| guest.has_asked());
        let peer = peer(&request);
        let path = request.uri().path();
        let (is_health, is_reflection) = (path.starts_with(HEALTH), path.starts_with(REFLECTION));
        let is_open = is_health || is_reflection;
        let limits = self.ledger.limits();
        // A watch of health lasts long and costs little, so it does not count as a call.
        let share = match is_health {
            true => None,
            false => Some(self.ledger.take(peer, Good::Calls, 1).map_err(too_many)?),
        };
        if let Some(callers) = self.callers.as_ref().filter(|_| !is_open) {
            callers.pass(request.headers(), peer).await?;
        }
        let call = Arc::new(Call {
            ledger: self.ledger.clone(),
            peer,
            largest: if is_open { LARGEST_OPEN } else { MAX_MESSAGE },
            shares: Mutex::new(share.into_iter().collect()),
        });
        // A client of reflection asks several questions in one stream, so the stream may last
        // longer.
        let time = if is_reflection { limits.call_time } else { limits.request_time };
        let metered = |body| {
            Body::new(Metered {
                inner: body,
                call: Arc::clone(&call),
                message: Message::default(),
                time,
                end: Box::pin(tokio::time::sleep_until(Instant::now() + time)),
            })
        };
        let request = request.map(metered);
        Ok((call, request))
    }
}

impl Callers {
    async fn pass(&self, headers: &HeaderMap, peer: IpAddr) -> Result<(), Status> {
        if self.may_be_anonymous && !headers.contains_key("authorization") {
            return Ok(());
        }
        self.access.authenticate_from(headers, Some(peer)).await.map(drop)
    }
}

fn guest(extensions: &Extensions) -> Option<&Guest> {
    let plain = extensions.get::<Guest>();
    plain.or_else(|| extensions.get::<TlsConnectInfo<Guest>>().map(TlsConnectInfo::get_ref))
}

/// Returns the address of the caller, from the extensions of its request.
pub fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    guest(extensions).map(|guest| guest.peer().ip())
}

fn peer(request: &Request<Body>) -> IpAddr {
    // Callers of unknown address share one limit.
    peer_of(request.extensions()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn too_many(exceeded: Exceeded) -> Status {
    match exceeded {
        Exceeded::Peer(limit) => {
            let text = format!("more than {limit} calls from this address are running: wait for some to end");
            status::exhausted(reasons::TOO_MANY_CALLS, text)
        }
        Exceeded::All(limit) => {
            let text = format!("more than {limit} calls are running: try again later");
            status::unavailable(reasons::TOO_MANY_CALLS, text)
        }
    }
}

/// Resources that a call uses until it is answered.
#[derive(Debug)]
struct Call {
    ledger: Ledger,
    peer: IpAddr,
    largest: usize,
    shares: Mutex<Vec<Share>>,
}

impl Call {
    /// Reserves the bytes of a message before they arrive, since a decoder allocates them as soon
    /// as it knows the length.
    fn take(&self, length: usize) -> Result<(), Status> {
        let largest = self.largest;
        if length > largest {
            let text = format!("the request has {length} bytes; at most {largest} are allowed");
            return Err(status::exhausted(reasons::REQUEST_TOO_LARGE, text));
        }
        let share = self.ledger.take(self.peer, Good::Bytes, length).map_err(|exceeded| match exceeded {
            Exceeded::Peer(limit) => {
                let text = format!(
                    "the unanswered requests from this address have more than {limit} bytes: wait for some answers"
                );
                status::exhausted(reasons::TOO_MANY_CALLS, text)
            }
            Exceeded::All(limit) => {
                let text =
                    format!("the unanswered requests have more than {limit} bytes: try again later");
                status::unavailable(reasons::TOO_MANY_CALLS, text)
            }
        })?;
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).push(share);
        Ok(())
    }
}

/// Position of a stream in its messages.
#[derive(Debug, Default)]
struct Message {
    head: [u8; HEAD],
    known: usize,
    /// Bytes of the message that have not arrived yet.
    rest: usize,
}

impl Message {
    /// Follows the next bytes, and calls back with the length of each message that begins.
    fn follow(
        &mut self,
        mut data: &[u8],
        begins: impl Fn(usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        while !data.is_empty() {
            if self.rest > 0 {
                let here = self.rest.min(data.len());
                self.rest -= here;
                data = &data[here..];
                continue;
            }
            let here = (HEAD - self.known).min(data.len());
            self.head[self.known..self.known + here].copy_from_slice(&data[..here]);
            self.known += here;
            data = &data[here..];
            if self.known == HEAD {
                let [_, length @ ..] = self.head;
                self.known = 0;
                self.rest = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                begins(self.rest)?;
            }
        }
        Ok(())
    }
}

/// Request whose messages are counted, and which has to arrive in time.
struct Metered {
    inner: Body,
    call: Arc<Call>,
    message: Message,
    time: Duration,
    end: Pin<Box<Sleep>>,
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let call = &this.call;
                let followed =
                    frame.data_ref().map(|data| this.message.follow(data, |length| call.take(length)));
                Poll::Ready(Some(followed.unwrap_or(Ok(())).map(|()| frame)))
            }
            Poll::Pending if this.end.as_mut().poll(context).is_ready() => {
                let text = format!("the request was not complete within {} s", this.time.as_secs_f32());
                Poll::Ready(Some(Err(status::status(
                    Code::DeadlineExceeded,
                    reasons::REQUEST_TOO_SLOW,
                    text,
                ))))
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Answer whose end gives back the resources of the call.
struct Held {
    inner: Body,
    _call: Arc<Call>,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
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
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lengths_are_known_however_the_bytes_come() {
        let mut bytes = vec![0, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        bytes.extend([7; 256]);
        for size in 1..bytes.len() {
            let (mut message, seen) = (Message::default(), RefCell::new(Vec::new()));
            for piece in bytes.chunks(size) {
                let begins = |length| {
                    seen.borrow_mut().push(length);
                    Ok(())
                };
                message.follow(piece, begins).unwrap();
            }
            assert_eq!(seen.into_inner(), [3, 0, 256], "{size}");
            assert_eq!((message.rest, message.known), (0, 0));
        }
    }
}
