//! The bus on a NATS server with JetStream.

mod backlog;
pub(crate) mod consumer;
pub(crate) mod feed;
pub(crate) mod handle;
mod journal;
mod prune;
mod pull;
mod reader;
mod settings;
pub(crate) mod stream;
pub(crate) mod work;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, response::Response};
use async_nats::{Client, ConnectOptions, Event, RequestErrorKind, ServerAddr, ServerError};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, watch};

use crate::epochs::Epochs;
use crate::error::BusError;
use crate::journal::JournalLimits;
use crate::retry::CurrentProblems;
use crate::rights::User;

/// How long one request may take, and how long an operation waits for the connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long [`NatsBus::connect`] waits for the outcome of its first attempt.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to connect.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// A connection is given up after two of these without an answer: one whose other end is gone without a word would otherwise be
/// kept for minutes after the server is back.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long a plain TCP connection may take that finds out why a server cannot be reached.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Prefix of the JetStream API.
const API: &str = "$JS.API";

/// How to log in.
#[derive(Clone, Default)]
pub enum Login {
    /// As nobody, or with what the URL holds.
    #[default]
    None,
    /// With user and password.
    Password { user: String, password: String },
    /// With a credentials file (JWT and seed).
    Credentials(PathBuf),
    /// With the seed of an nkey.
    Nkey(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Password { .. } => "Password",
            Self::Credentials(_) => "Credentials",
            Self::Nkey(_) => "Nkey",
        })
    }
}

/// Where the server is, and how it is used.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://host:port` or `tls://host:port`; several, separated by commas, for a cluster.
    pub url: String,
    /// How to log in.
    pub login: Login,
    /// PEM file with certificates to trust besides those of the system; TLS is demanded then.
    pub ca: Option<PathBuf>,
    /// On how many servers of a cluster the stream is kept. Only the watcher's counts.
    pub replicas: usize,
    /// Bytes that the stream may have. Only the watcher's count. Beyond, publishing fails and says so: nothing is dropped.
    pub max_bytes: u64,
    /// What the journal may have. Only the watcher's count.
    pub journal: JournalLimits,
    /// When a delivery that is neither acknowledged nor in progress is delivered again. All replicas of a service must
    /// agree.
    pub ack_wait: Duration,
    /// Name of the connection, which the server shows to its operator.
    pub name: String,
}

impl NatsOptions {
    /// Options for a server without a login.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            login: Login::None,
            ca: None,
            replicas: 1,
            max_bytes: crate::MAX_BYTES,
            journal: JournalLimits::default(),
            ack_wait: crate::ACK_WAIT,
            name: "groundwork".to_owned(),
        }
    }
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("NatsOptions")
            .field("login", &self.login)
            .field("ca", &self.ca)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// What the events of the connection have told.
#[derive(Debug)]
struct ConnectionState {
    /// Counts connections: whoever waits for messages must ask again after each.
    connections: watch::Sender<u64>,
    /// Refusals by permissions, in lower case.
    denials: broadcast::Sender<String>,
    /// What the library says of the last failed attempt to connect: its kind, and not its cause. `None` while there is a connection.
    connect_error: Mutex<Option<String>>,
    /// Wakes whoever waits for the first attempt.
    attempts: watch::Sender<u64>,
}

impl ConnectionState {
    fn handle_event(&self, event: &Event) {
        match event {
            Event::Connected => {
                *self.connect_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.connections.send_modify(|count| *count += 1);
            }
            Event::ServerError(ServerError::AuthorizationViolation) => {
                self.set_connect_error("authorization violation");
            }
            Event::ServerError(ServerError::Other(text)) if text.to_lowercase().contains("permissions") => {
                tracing::warn!(text, "NATS: denied");
                // Nobody may be waiting for it.
                let _ = self.denials.send(text.to_lowercase());
            }
            Event::ClientError(error) => self.set_connect_error(&error.to_string()),
            Event::ServerError(_)
            | Event::Disconnected
            | Event::LameDuckMode
            | Event::Draining
            | Event::Closed
            | Event::SlowConsumer(_) => {}
        }
        self.attempts.send_modify(|count| *count += 1);
    }

    fn set_connect_error(&self, error: &str) {
        *self.connect_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    fn connect_error(&self) -> Option<String> {
        self.connect_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_login_refused(&self) -> bool {
        self.connect_error()
            .is_some_and(|text| text.contains("authorization") || text.contains("authentication"))
    }
}

/// The connection and what all users of it share.
pub(crate) struct NatsBus {
    client: Client,
    context: jetstream::Context,
    server: String,
    addresses: Vec<(String, u16)>,
    replicas: usize,
    max_bytes: u64,
    journal: JournalLimits,
    ack_wait: Duration,
    /// The server shows its operator this process under it.
    name: String,
    /// The user of the table that it logs in as. Another's rights are not known, so its consumers have names that were never used.
    user: Option<&'static User>,
    /// False once the server has not let it delete what it reads with.
    deletes_consumers: AtomicBool,
    connection: Arc<ConnectionState>,
    problems: CurrentProblems,
    epochs: tokio::sync::Mutex<Epochs>,
}

impl fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBus").field("server", &self.server).finish_non_exhaustive()
    }
}

impl NatsBus {
    /// Connects, and goes on trying in the background if the server is away.
    pub(crate) async fn connect(options: NatsOptions) -> Result<Self, BusError> {
        let servers = servers(&options.url)?;
        let addresses: Vec<_> =
            servers.iter().map(|server| (server.host().to_owned(), server.port())).collect();
        let server: Vec<_> = addresses.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let connection = Arc::new(ConnectionState {
            connections: watch::Sender::new(0),
            denials: broadcast::Sender::new(16),
            connect_error: Mutex::new(None),
            attempts: watch::Sender::new(0),
        });
        let mut attempts = connection.attempts.subscribe();
        let listener = Arc::clone(&connection);
        let client = connect_options(&options)
            .await?
            .event_callback(move |event| {
                listener.handle_event(&event);
                std::future::ready(())
            })
            .connect(servers)
            .await
            .map_err(|error| BusError::Options(error.to_string()))?;
        let _ = tokio::time::timeout(FIRST_CONNECT_TIMEOUT, attempts.changed()).await;
        let context = jetstream::ContextBuilder::new().timeout(REQUEST_TIMEOUT).build(client.clone());
        let user = match &options.login {
            Login::Password { user, .. } => User::named(user),
            Login::None | Login::Credentials(_) | Login::Nkey(_) => None,
        };
        let NatsOptions { replicas, max_bytes, journal, ack_wait, name, .. } = options;
        Ok(Self {
            client,
            context,
            server: server.join(", "),
            addresses,
            replicas,
            max_bytes,
            journal,
            ack_wait,
            name,
            user,
            deletes_consumers: AtomicBool::new(true),
            connection,
            problems: CurrentProblems::default(),
            epochs: Default::default(),
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connection.connections.subscribe()
    }

    /// Whether it answers.
    pub(crate) async fn check(&self) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(self.away().await);
        }
        match self.stream_info().await {
            Ok(_) | Err(BusError::StreamNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A name that nobody else uses.
    fn unique(&self) -> String {
        let inbox = self.client.new_inbox();
        inbox.rsplit('.').next().unwrap_or_default().to_owned()
    }

    /// Waits for what was sent to be on its way.
    pub(crate) async fn flush(&self) {
        if self.is_connected() {
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, self.client.flush()).await;
        }
    }

    /// Waits for the connection, and looks at the version of the server.
    pub(crate) async fn ready(&self) -> Result<(), BusError> {
        if !self.is_connected() {
            let mut connections = self.connection.connections.subscribe();
            let connected = async {
                // A refused login is not worth the wait: it needs a person.
                while !self.is_connected() && !self.connection.is_login_refused() {
                    // An event can be lost when there are many; the state cannot.
                    let _ = tokio::time::timeout(Duration::from_millis(100), connections.changed()).await;
                }
            };
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, connected).await;
            if !self.is_connected() {
                return Err(self.away().await);
            }
        }
        if !self.client.is_server_compatible(2, 10, 23) {
            let version = self.client.server_info().version;
            return Err(BusError::OldServer { server: self.server.clone(), version });
        }
        Ok(())
    }

    /// Why there is no connection. The cause is found by an attempt of its own: right after the loss nobody has tried yet, and the
    /// library tells no more than that it was an error of input or output.
    async fn away(&self) -> BusError {
        let server = self.server.clone();
        if self.connection.is_login_refused() {
            return BusError::Login { server };
        }
        let was_there = *self.connection.connections.borrow() > 0;
        let unknown =
            if was_there { "the connection was lost" } else { "it takes connections and says nothing" };
        let reason = match unreachable(&self.addresses).await {
            Some(cause) => cause,
            None => self.connection.connect_error().unwrap_or_else(|| unknown.to_owned()),
        };
        BusError::Unavailable { server, reason }
    }

    /// One request to the JetStream API.
    async fn api<T: DeserializeOwned>(&self, request: &str, body: &impl Serialize) -> Result<T, BusError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| BusError::Answer { request: request.to_owned(), reason: error.to_string() })?;
        let subject = format!("{API}.{request}");
        let answer = self.request(subject, async_nats::Request::new().payload(body.into())).await;
        let answer = answer.map_err(|error| match error {
            // The API has no listener: it is switched off for the server or the account.
            RequestError::NoResponders => BusError::NoJetStream { server: self.server.clone() },
            RequestError::Failed(error) => error,
        })?;
        self.read(request, &answer.payload)
    }

    fn read<T: DeserializeOwned>(&self, request: &str, payload: &[u8]) -> Result<T, BusError> {
        match serde_json::from_slice(payload) {
            Ok(Response::Ok(value)) => Ok(value),
            Ok(Response::Err { error }) => Err(self.refused(request, &error)),
            Err(error) => Err(BusError::Answer { request: request.to_owned(), reason: error.to_string() }),
        }
    }

    /// A request whose answer may be that nobody listens, or that the user may not send it.
    async fn request(
        &self,
        subject: String,
        request: async_nats::Request,
    ) -> Result<async_nats::Message, RequestError> {
        self.ready().await?;
        // The server answers a forbidden request with an error on the connection, not on the request.
        let denials = self.connection.denials.subscribe();
        let send = self.client.send_request(subject.clone(), request.timeout(Some(REQUEST_TIMEOUT)));
        let outcome = tokio::select! {
            outcome = send => outcome,
            subject = denied(denials, &subject) => {
                return Err(BusError::Denied { server: self.server.clone(), subject }.into());
            }
        };
        let error = match outcome {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        Err(match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders,
            RequestErrorKind::TimedOut if self.is_connected() => {
                BusError::Silent { server: self.server.clone(), request: subject, limit: REQUEST_TIMEOUT }
                    .into()
            }
            RequestErrorKind::TimedOut | RequestErrorKind::Other => self.away().await.into(),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                BusError::Answer { request: subject, reason: error.to_string() }.into()
            }
        })
    }

    fn refused(&self, request: &str, error: &jetstream::Error) -> BusError {
        use jetstream::ErrorCode as Code;
        match error.error_code() {
            Code::STREAM_NOT_FOUND => BusError::StreamNotFound,
            Code::JETSTREAM_NOT_ENABLED | Code::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                BusError::NoJetStream { server: self.server.clone() }
            }
            Code::CLUSTER_NOT_AVAILABLE | Code::CLUSTER_NOT_LEADER | Code::CLUSTER_INCOMPLETE => {
                BusError::Unavailable { server: self.server.clone(), reason: error.to_string() }
            }
            code => {
                BusError::Refused { request: request.to_owned(), reason: error.to_string(), code: code.0 }
            }
        }
    }
}

/// Why no server takes connections; `None` if one does.
async fn unreachable(addresses: &[(String, u16)]) -> Option<String> {
    let mut causes: Vec<String> = Vec::new();
    for (host, port) in addresses {
        let cause =
            match tokio::time::timeout(PROBE_TIMEOUT, TcpStream::connect((host.as_str(), *port))).await {
                Ok(Ok(_)) => return None,
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", PROBE_TIMEOUT.as_secs()),
            };
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    Some(causes.join(", "))
}

/// Why a request has no answer.
enum RequestError {
    /// Nothing subscribes to the subject: there is no JetStream, or no such stream, depending on the request.
    NoResponders,
    Failed(BusError),
}

impl From<BusError> for RequestError {
    fn from(error: BusError) -> Self {
        Self::Failed(error)
    }
}

/// Waits for a refusal of a request on this subject, or of its answer, and says which subject is refused.
async fn denied(mut denials: broadcast::Receiver<String>, subject: &str) -> String {
    let request = format!("\"{}\"", subject.to_lowercase());
    loop {
        match denials.recv().await {
            Ok(text) if text.contains(&request) => return subject.to_owned(),
            // In lower case; the name of a user is all that can differ.
            Ok(text) if text.contains("\"_inbox") => {
                let inbox = text.split("\"_inbox").nth(1).and_then(|rest| rest.split('.').next());
                return format!("_INBOX{}.>", inbox.unwrap_or_default());
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn servers(url: &str) -> Result<Vec<ServerAddr>, BusError> {
    url.split(',')
        .map(|one| {
            one.trim().parse().map_err(|error| {
                // The address itself stays out of the message: it may hold a password.
                BusError::Options(format!("an address of the server cannot be read: {error}"))
            })
        })
        .collect()
}

/// Where the answers to a user come: nobody else may listen there. A name that is no token of a subject gets the usual place.
fn inbox_of(user: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!user.is_empty() && user.bytes().all(is_token)).then(|| format!("_INBOX_{user}"))
}

async fn connect_options(options: &NatsOptions) -> Result<ConnectOptions, BusError> {
    let mut connect = ConnectOptions::new()
        .name(&options.name)
        .retry_on_initial_connect()
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|attempts| match attempts {
            0 | 1 => Duration::ZERO,
            attempts => MAX_RECONNECT_DELAY
                .min(Duration::from_millis(20) * u32::try_from(attempts).unwrap_or(u32::MAX)),
        });
    connect = match &options.login {
        Login::None => connect,
        Login::Password { user, password } => {
            let connect = connect.user_and_password(user.clone(), password.clone());
            match inbox_of(user) {
                Some(inbox) => connect.custom_inbox_prefix(inbox),
                None => connect,
            }
        }
        Login::Credentials(file) => connect.credentials_file(file).await.map_err(|error| {
            BusError::Options(format!("the credentials file {} cannot be used: {error}", file.display()))
        })?,
        Login::Nkey(seed) => connect.nkey(seed.trim().to_owned()),
    };
    if let Some(ca) = &options.ca {
        connect = connect.add_root_certificates(ca.clone()).require_tls(true);
    }
    Ok(connect)
}

/// Time of NATS as ours.
fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
