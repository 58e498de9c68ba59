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

/// Time limit of one request, and of the wait for a connection before an operation.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that [`NatsBus::connect`] waits for the outcome of its first attempt.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to connect.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Interval of pings. The client gives a connection up after two pings without an answer. Without
/// pings it would keep a connection whose other end vanished silently for minutes after the server
/// is back.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit of the plain TCP connection that finds out why a server cannot be reached.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Prefix of the JetStream API.
const API: &str = "$JS.API";

/// Way to log in to the server.
#[derive(Clone, Default)]
pub enum Login {
    /// Without a login, or with the one in the URL.
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

/// Address of the server, and options for its use.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://host:port` or `tls://host:port`; several addresses, separated by commas, for a
    /// cluster.
    pub url: String,
    pub login: Login,
    /// PEM file with certificates to trust besides those of the system. If set, TLS is required.
    pub ca: Option<PathBuf>,
    /// Number of servers of a NATS cluster that store the stream. Only the watcher's setting
    /// counts.
    pub replicas: usize,
    /// Size limit of the stream in bytes. Only the watcher's setting counts. A publication beyond
    /// the limit fails with an error; the stream drops no message.
    pub max_bytes: u64,
    /// Limits of the journal. Only the watcher's setting counts.
    pub journal: JournalLimits,
    /// Time after which the server delivers an event again that is neither acknowledged nor in
    /// progress. All replicas of a service must use the same value.
    pub ack_wait: Duration,
    /// Name of the connection, which the server shows to its operator.
    pub name: String,
}

impl NatsOptions {
    /// Returns options for a server without a login.
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
        // Leave the URL out: it may contain a password.
        f.debug_struct("NatsOptions")
            .field("login", &self.login)
            .field("ca", &self.ca)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// State of the connection, as its events report it.
#[derive(Debug)]
struct ConnectionState {
    /// Counts connections. Readers must send their pull requests again after each reconnect.
    connections: watch::Sender<u64>,
    /// Errors about missing permissions, in lower case.
    denials: broadcast::Sender<String>,
    /// Last error of a failed attempt to connect: the client library reports its kind, not its
    /// cause. `None` while there is a connection.
    connect_error: Mutex<Option<String>>,
    /// Wakes the caller that waits for the outcome of the first attempt to connect.
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
                tracing::warn!(text, "the NATS server denied a request: check the permissions of the user");
                // Sending fails when no request is waiting, which is fine.
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

/// The connection and the state that all its users share.
pub(crate) struct NatsBus {
    client: Client,
    context: jetstream::Context,
    server: String,
    addresses: Vec<(String, u16)>,
    replicas: usize,
    max_bytes: u64,
    journal: JournalLimits,
    ack_wait: Duration,
    /// Name of the connection, which the server shows to its operator.
    name: String,
    /// User of the rights table that this connection logs in as. The rights of other users are
    /// unknown, so their consumers get unique names.
    user: Option<&'static User>,
    /// False once the server has denied this process the deletion of its own consumers.
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
    /// Connects, and keeps trying in the background if the server is away.
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

    /// Checks that the server answers.
    pub(crate) async fn check(&self) -> Result<(), BusError> {
        if !self.is_connected() {
            return Err(self.away().await);
        }
        match self.stream_info().await {
            Ok(_) | Err(BusError::StreamNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns a globally unique name.
    fn unique(&self) -> String {
        let inbox = self.client.new_inbox();
        inbox.rsplit('.').next().unwrap_or_default().to_owned()
    }

    /// Waits until all buffered messages are sent.
    pub(crate) async fn flush(&self) {
        if self.is_connected() {
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, self.client.flush()).await;
        }
    }

    /// Waits for the connection, and checks the version of the server.
    pub(crate) async fn ready(&self) -> Result<(), BusError> {
        if !self.is_connected() {
            let mut connections = self.connection.connections.subscribe();
            let connected = async {
                // Do not wait after a refused login: an operator has to fix it.
                while !self.is_connected() && !self.connection.is_login_refused() {
                    // Connection events can be dropped when there are many, so poll the state as
                    // well.
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

    /// Returns the reason why there is no connection. It makes a connection attempt of its own:
    /// right after the loss the client has not tried yet, and the library reports only an I/O
    /// error.
    async fn away(&self) -> BusError {
        let server = self.server.clone();
        if self.connection.is_login_refused() {
            return BusError::Login { server };
        }
        let was_there = *self.connection.connections.borrow() > 0;
        let unknown = if was_there {
            "the connection was lost"
        } else {
            "the server accepts connections but does not answer"
        };
        let reason = match unreachable(&self.addresses).await {
            Some(cause) => cause,
            None => self.connection.connect_error().unwrap_or_else(|| unknown.to_owned()),
        };
        BusError::Unavailable { server, reason }
    }

    /// Sends one request to the JetStream API and decodes the answer.
    async fn api<T: DeserializeOwned>(&self, request: &str, body: &impl Serialize) -> Result<T, BusError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| BusError::Answer { request: request.to_owned(), reason: error.to_string() })?;
        let subject = format!("{API}.{request}");
        let answer = self.request(subject, async_nats::Request::new().payload(body.into())).await;
        let answer = answer.map_err(|error| match error {
            // No listener for the API: JetStream is disabled for the server or the account.
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

    /// Sends a request. Distinguishes a subject without listeners and a missing permission from
    /// other errors.
    async fn request(
        &self,
        subject: String,
        request: async_nats::Request,
    ) -> Result<async_nats::Message, RequestError> {
        self.ready().await?;
        // The server reports a forbidden request as an error of the connection, not as an answer to
        // the request.
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

/// Returns the reason why no server accepts connections; `None` if one does.
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

/// Reason why a request has no answer.
enum RequestError {
    /// The subject has no subscriber: there is no JetStream or no such stream, depending on the
    /// request.
    NoResponders,
    Failed(BusError),
}

impl From<BusError> for RequestError {
    fn from(error: BusError) -> Self {
        Self::Failed(error)
    }
}

/// Waits for a permission error about this subject or about the inbox of its answer, and returns
/// the refused subject.
async fn denied(mut denials: broadcast::Receiver<String>, subject: &str) -> String {
    let request = format!("\"{}\"", subject.to_lowercase());
    loop {
        match denials.recv().await {
            Ok(text) if text.contains(&request) => return subject.to_owned(),
            // The error text is in lower case; only the user name in the inbox varies.
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
                // Leave the address out of the message: it may contain a password.
                BusError::Options(format!("an address of the server is not valid: {error}"))
            })
        })
        .collect()
}

/// Returns the inbox prefix for a user's answers, which other users may not subscribe to. Returns
/// `None`, for the usual inbox, if the name cannot be a token of a subject.
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

/// Converts a time of NATS.
fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
