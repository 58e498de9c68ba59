//! Tests the limits of a server for one caller, over the loopback device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use groundwork_grpc::{
    Access, Amount, Channel, GrpcArguments, Limits, MAX_MESSAGE, Server, TokenSource, connect, with_limits,
};
use groundwork_proto::component::v1::Json;
use groundwork_proto::status;
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::variants_server::{Variants, VariantsServer};
use groundwork_proto::variant::v1::{
    ExpandInput, ExpandRequest, ExpandResponse, PreviewRequest, PreviewResponse,
};
use groundwork_telemetry::Telemetry;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const SOON: Duration = Duration::from_secs(20);
const EXPAND: &str = "/groundwork.variant.v1.Variants/Expand";

/// Service that answers when the test lets it, and counts its waiting calls.
#[derive(Clone)]
struct Slow {
    gate: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl Variants for Slow {
    async fn expand(&self, _: Request<ExpandRequest>) -> Result<Response<ExpandResponse>, Status> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        let _permit = self.gate.acquire().await.unwrap();
        Ok(Response::new(ExpandResponse::default()))
    }

    async fn preview(&self, _: Request<PreviewRequest>) -> Result<Response<PreviewResponse>, Status> {
        Ok(Response::new(PreviewResponse::default()))
    }
}

struct World {
    url: String,
    service: Slow,
    end: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl World {
    /// Starts a server; with `open` it answers at once.
    async fn new(limits: Limits, open: bool, access: Option<(Access, bool)>) -> Self {
        let telemetry = Telemetry::silent("test");
        telemetry.health.condition("index").ready();
        let gate = Arc::new(Semaphore::new(if open { 1_000 } else { 0 }));
        let service = Slow { gate, running: Arc::default() };
        let anonymous_inline_calls = access.as_ref().is_some_and(|(_, anonymous)| *anonymous);
        let arguments = GrpcArguments { anonymous_inline_calls, ..GrpcArguments::default() };
        let mut server = Server::bind(&arguments, &telemetry).await.unwrap().within(limits);
        if let Some((access, _)) = access {
            server = server.for_callers_of(access);
        }
        let server = server.with(with_limits!(VariantsServer::new(service.clone())));
        let (url, end) = (server.url(), CancellationToken::new());
        tokio::spawn(server.serve(end.clone()));
        Self { url, service, end }
    }

    fn channel(&self, token: TokenSource) -> Channel {
        connect(&self.url, None, token).unwrap()
    }

    fn client(&self) -> VariantsClient<Channel> {
        with_limits!(VariantsClient::new(self.channel(TokenSource::none())))
    }

    fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }

    async fn socket(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Returns a connection that has sent a request.
    async fn asking(&self) -> (SendRequest<Bytes>, ResponseFuture, SendStream<Bytes>) {
        let client = self.raw().await;
        let (mut answer, mut stream) = begin(&client, 10, 0).await;
        // The answer shows that the server has read the request, even though the message is broken.
        stream.send_data(Bytes::from_static(&[0xff; 10]), true).unwrap();
        drop(tokio::time::timeout(SOON, &mut answer).await.unwrap());
        (client, answer, stream)
    }

    async fn raw(&self) -> SendRequest<Bytes> {
        let builder = h2::client::Builder::new().initial_max_send_streams(0).handshake(self.socket().await);
        let (client, connection) = builder.await.unwrap();
        tokio::spawn(connection);
        client.ready().await.unwrap()
    }

    async fn until_running(&self, count: usize) {
        let start = Instant::now();
        while self.service.running.load(Ordering::SeqCst) != count {
            assert!(start.elapsed() < SOON, "{} run", self.service.running.load(Ordering::SeqCst));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Reports whether the server closes a connection after sending no more than the beginning of
/// HTTP/2.
async fn is_closed(socket: &mut TcpStream) -> bool {
    let mut said = Vec::new();
    // A reset is as good as a regular end.
    drop(tokio::time::timeout(SOON, socket.read_to_end(&mut said)).await.unwrap());
    said.len() < 64
}

fn request(length: usize) -> ExpandRequest {
    let objects = vec![Json { text: "x".repeat(length) }];
    ExpandRequest { input: Some(Input::Inline(ExpandInput { objects })) }
}

/// Announces a message of a length, and sends some bytes of it.
async fn begin(client: &SendRequest<Bytes>, length: u32, sent: usize) -> (ResponseFuture, SendStream<Bytes>) {
    let mut client = client.clone().ready().await.unwrap();
    let request = http::Request::post(format!("http://h{EXPAND}")).header("content-type", "application/grpc");
    let (answer, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let mut message = vec![0];
    message.extend(length.to_be_bytes());
    message.resize(message.len() + sent, b'x');
    stream.send_data(message.into(), false).unwrap();
    (answer, stream)
}

/// Returns the status of an answer, from its headers or trailers.
async fn told(answer: ResponseFuture) -> Result<String, String> {
    let answer = tokio::time::timeout(SOON, answer).await.map_err(|_| "no answer".to_owned())?;
    let answer = answer.map_err(|error| error.to_string())?;
    let (head, mut body): (_, RecvStream) = answer.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return Err(format!("{:?}: {}", status.code(), status.message()));
    }
    while body.data().await.is_some() {}
    let trailers = body.trailers().await.map_err(|error| error.to_string())?.unwrap_or_default();
    match Status::from_header_map(&trailers) {
        Some(status) if status.code() == Code::Ok => Ok(String::new()),
        Some(status) => Err(format!("{:?}: {}", status.code(), status.message())),
        None => Err("no status".to_owned()),
    }
}

fn limits() -> Limits {
    Limits::default()
}

/// A hundred unfinished messages of 16 MB took 1.58 GiB, because a decoder allocates the announced
/// length.
#[tokio::test]
async fn unfinished_messages_are_refused_when_they_are_too_many_bytes() {
    let bytes = Amount { peer: 8 * 1024 * 1024, all: 16 * 1024 * 1024 };
    let world = World::new(Limits { bytes, ..limits() }, true, None).await;
    let client = world.raw().await;
    let mib = 1024 * 1024;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(begin(&client, mib, 10).await);
    }
    for _ in 0..50 {
        let (answer, _stream) = begin(&client, mib, 10).await;
        let text = told(answer).await.unwrap_err();
        assert!(
            text.starts_with("ResourceExhausted: ") && text.contains("more than 8388608 bytes"),
            "{text}"
        );
    }
    // Health still answers.
    let check = HealthCheckRequest { service: String::new() };
    HealthClient::new(world.channel(TokenSource::none())).check(check).await.unwrap();
    // Calls that end give back their bytes.
    drop(held);
    let start = Instant::now();
    loop {
        match world.client().expand(request(4 * 1024 * 1024)).await {
            Ok(_) => break,
            Err(status) => assert!(start.elapsed() < SOON, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_request_that_does_not_come_is_waited_for_no_longer_than_its_time() {
    let request_time = Duration::from_millis(300);
    let world = World::new(Limits { request_time, ..limits() }, true, None).await;
    let client = world.raw().await;
    let (answer, _stream) = begin(&client, 100, 10).await;
    let text = told(answer).await.unwrap_err();
    assert_eq!(text, "DeadlineExceeded: the request was not complete within 0.3 s");
}

/// Without a limit, 20,000 streams were open on one connection.
#[tokio::test]
async fn a_connection_has_only_so_many_streams_and_a_peer_only_so_many_calls() {
    let calls = Amount { peer: 12, all: 100 };
    let world = World::new(Limits { streams: 10, calls, ..limits() }, false, None).await;
    let first = world.raw().await;
    let mut held = Vec::new();
    for _ in 0..10 {
        let (answer, mut stream) = begin(&first, 0, 0).await;
        stream.send_data(Bytes::new(), true).unwrap();
        held.push(answer);
    }
    world.until_running(10).await;
    assert_eq!(first.current_max_send_streams(), 10);
    // Open further connections until the peer is at its limit of calls.
    let answers: Vec<_> = (0..20)
        .map(|_| {
            let mut client = world.client();
            tokio::spawn(async move { client.expand(request(1)).await })
        })
        .collect();
    world.until_running(12).await;
    let mut refused = 0;
    let mut running = Vec::new();
    for answer in answers {
        if answer.is_finished() || running.len() == 2 {
            let status = answer.await.unwrap().unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(status::reason(&status).as_deref(), Some("TOO_MANY_CALLS"));
            assert_eq!(
                status.message(),
                "more than 12 calls from this address are running: wait for some to end"
            );
            refused += 1;
        } else {
            running.push(answer);
        }
    }
    assert!(refused >= 17, "{refused}");
    world.service.gate.add_permits(1_000);
}

#[tokio::test]
async fn one_connection_too_many_is_closed() {
    let connections = groundwork_telemetry::ports::Limits { address: 3, all: 16 };
    let world = World::new(Limits { connections, ..limits() }, true, None).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(world.asking().await);
    }
    assert!(is_closed(&mut world.socket().await).await);
    drop(open);
    let start = Instant::now();
    while world.client().expand(request(1)).await.is_err() {
        assert!(start.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Half a preface of HTTP/2 and then silence, from enough addresses to fill the port: others are
/// served, and the silent connections end.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let connections = groundwork_telemetry::ports::Limits { address: 4, all: 16 };
    let world = World::new(Limits { connections, ..limits() }, true, None).await;
    let mut silent = Vec::new();
    for address in 2..6 {
        for _ in 0..6 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, address], 0).into()).unwrap();
            let mut socket = socket.connect(world.address()).await.unwrap();
            socket.write_all(b"PRI * HTTP/2").await.unwrap();
            silent.push(socket);
        }
    }
    for _ in 0..3 {
        world.client().expand(request(1)).await.unwrap();
    }
    for socket in &mut silent {
        assert!(is_closed(socket).await);
    }
}

/// The work of a call ends when its caller goes away.
#[tokio::test]
async fn work_ends_with_the_caller() {
    let world = World::new(limits(), false, None).await;
    let mut client = world.client();
    let call = tokio::spawn(async move { client.expand(request(1)).await });
    world.until_running(1).await;
    call.abort();
    world.until_running(0).await;
}

#[tokio::test]
async fn a_request_over_the_limit_is_told_the_limit() {
    let world = World::new(limits(), true, None).await;
    world.client().expand(request(MAX_MESSAGE - 100)).await.unwrap();
    for length in [MAX_MESSAGE, 2 * MAX_MESSAGE] {
        // The error comes from the limit of the server, not from that of the client.
        let mut client = VariantsClient::new(world.channel(TokenSource::none()));
        let refused = client.expand(request(length)).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert_eq!(status::reason(&refused).as_deref(), Some("REQUEST_TOO_LARGE"));
        assert!(refused.message().contains("at most 16777216 are allowed"), "{refused}");
    }
}

/// All peers together have limits of their own. A caller at such a limit has made no mistake, so
/// its error asks for a retry.
#[tokio::test]
async fn all_peers_together_have_only_so_much() {
    let told_to_come_again = |refused: Status, words: &str| {
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert_eq!(status::reason(&refused).as_deref(), Some("TOO_MANY_CALLS"));
        assert_eq!(refused.message(), words);
    };
    let world = World::new(Limits { calls: Amount { peer: 100, all: 2 }, ..limits() }, false, None).await;
    let running: Vec<_> = (0..2)
        .map(|_| {
            let mut client = world.client();
            tokio::spawn(async move { client.expand(request(1)).await })
        })
        .collect();
    world.until_running(2).await;
    let refused = world.client().expand(request(1)).await.unwrap_err();
    told_to_come_again(refused, "more than 2 calls are running: try again later");
    world.service.gate.add_permits(1_000);
    for answer in running {
        answer.await.unwrap().unwrap();
    }
    world.client().expand(request(1)).await.unwrap();

    let bytes = Amount { peer: MAX_MESSAGE, all: 1_000 };
    let world = World::new(Limits { bytes, ..limits() }, true, None).await;
    let refused = world.client().expand(request(2_000)).await.unwrap_err();
    let words = "the unanswered requests have more than 1000 bytes: try again later";
    told_to_come_again(refused, words);

    let connections = groundwork_telemetry::ports::Limits { address: 100, all: 2 };
    let world = World::new(Limits { connections, ..limits() }, true, None).await;
    let _open = (world.asking().await, world.asking().await);
    assert!(is_closed(&mut world.socket().await).await);
}

/// The server rejects a call before it reads a byte of the request, and without asking the API
/// server, which this test does not have.
#[tokio::test]
async fn callers_are_asked_for_a_token_unless_the_service_says_otherwise() {
    let access = || {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        Access::new(kube::Client::try_from(config).unwrap(), "test")
    };
    let access_of_process = access();
    let world = World::new(limits(), true, Some((access_of_process.clone(), false))).await;
    let refused = world.client().expand(request(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("--anonymous-inline-calls"), "{refused}");
    let (answer, _stream) = begin(&world.raw().await, 1024 * 1024, 10).await;
    assert!(told(answer).await.unwrap_err().starts_with("Unauthenticated"));
    let known = world.channel(access_of_process.token_of_this_process());
    VariantsClient::new(known).expand(request(1)).await.unwrap();
    let check = HealthCheckRequest { service: String::new() };
    HealthClient::new(world.channel(TokenSource::none())).check(check).await.unwrap();

    let world = World::new(limits(), true, Some((access(), true))).await;
    world.client().expand(request(1)).await.unwrap();
    // A caller with a token still needs a valid one.
    let invented = world.channel(TokenSource::fixed("invented"));
    let refused = VariantsClient::new(invented).expand(request(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}
