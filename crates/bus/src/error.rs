//! Errors of the bus.

use std::time::Duration;

use crate::subject::SubjectError;

/// Reason why the bus cannot do what the caller asked for.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// There is no connection.
    #[error("the NATS server at {server} cannot be reached: {reason}; trying again")]
    Unavailable {
        /// Address of the server, without user and password.
        server: String,
        /// Last reason that the client library reported.
        reason: String,
    },
    /// The server was reached and did not answer in time.
    #[error("the NATS server at {server} did not answer {request} within {} s", limit.as_secs())]
    Silent {
        /// Address of the server, without user and password.
        server: String,
        request: String,
        /// Time that the server had to answer.
        limit: Duration,
    },
    /// The options for the connection are wrong.
    #[error("the options for NATS are wrong: {0}")]
    Options(String),
    /// The server refuses the user, password, key or credentials.
    #[error(
        "the NATS server at {server} refuses the login: check user and password, key or credentials file"
    )]
    Login {
        /// Address of the server, without user and password.
        server: String,
    },
    /// The permissions of the user do not allow the subject.
    #[error(
        "the NATS user may not use the subject {subject} at {server}: add it to the permissions of the user in \
         the configuration of the server"
    )]
    Denied {
        /// Address of the server, without user and password.
        server: String,
        subject: String,
    },
    /// The server is too old: it silently ignores options that it does not know.
    #[error("the NATS server at {server} has version {version}; Groundwork needs 2.10.23 or later")]
    OldServer {
        /// Address of the server, without user and password.
        server: String,
        /// Version as the server reports it, such as `2.9.25`.
        version: String,
    },
    /// JetStream is not enabled.
    #[error("JetStream is not enabled on the NATS server at {server}, or not for the account of this user")]
    NoJetStream {
        /// Address of the server, without user and password.
        server: String,
    },
    /// The stream is missing.
    #[error("the stream {} is missing: start the watcher, which creates it", crate::STREAM)]
    StreamNotFound,
    /// The journal is missing.
    #[error("the stream {} of the journal is missing: start the watcher, which creates it", crate::JOURNAL)]
    JournalNotFound,
    /// The stream has lost its last messages. The watcher fills it again.
    #[error(
        "the stream {} lost messages: {consumer} has acknowledged message {acknowledged}, but the last message is \
         {last}; the watcher fills the stream again",
        crate::STREAM
    )]
    WentBack {
        /// Name of the consumer that has acknowledged a lost message.
        consumer: String,
        acknowledged: u64,
        last: u64,
    },
    /// The server accepted a setting and did not keep it.
    #[error("the NATS server did not keep the settings of {of}: {fields}")]
    NotKept {
        /// Stream or consumer with the setting.
        of: String,
        /// Each field with the wanted and the stored value.
        fields: String,
    },
    /// The user has reached its limit of consumers.
    #[error(
        "all {places} consumers that the NATS user {user} may have on the stream {stream} are in use; one becomes free \
         two minutes after its reader ends, or half an hour after its queue ends"
    )]
    NoPlace {
        /// Name of the NATS user.
        user: &'static str,
        stream: &'static str,
        /// Number of consumers that the user may have for this purpose.
        places: usize,
    },
    /// The server refuses the request.
    #[error("the NATS server refuses {request}: {reason} (code {code})")]
    Refused {
        request: String,
        /// Reason as the server gives it.
        reason: String,
        /// The `err_code` of JetStream, by which clients distinguish errors.
        code: u64,
    },
    /// The answer of the server cannot be understood.
    #[error("the answer of the NATS server to {request} cannot be used: {reason}")]
    Answer {
        request: String,
        /// Reason why the answer cannot be understood.
        reason: String,
    },
    /// A kind or an object cannot be named on the bus.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A message of Groundwork cannot be read.
    #[error("the message {sequence} on {subject} cannot be read: {reason}")]
    Message {
        sequence: u64,
        subject: String,
        /// Reason why the message cannot be read.
        reason: String,
    },
}

impl BusError {
    /// Reports whether the name for a new consumer is taken by another one.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Refused { code: 10013 | 10105 | 10148, .. })
    }

    pub(crate) fn is_missing_consumer(&self) -> bool {
        matches!(self, Self::Refused { code: 10014, .. })
    }

    /// Reports whether the error may go away without a change of the set-up. A missing stream is
    /// transient: the watcher creates it.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Silent { .. }
            | Self::StreamNotFound
            | Self::JournalNotFound
            | Self::WentBack { .. }
            | Self::NoPlace { .. }
            | Self::Answer { .. } => true,
            Self::Options(_)
            | Self::Login { .. }
            | Self::Denied { .. }
            | Self::OldServer { .. }
            | Self::NoJetStream { .. }
            | Self::NotKept { .. }
            | Self::Refused { .. }
            | Self::Subject(_)
            | Self::Message { .. } => false,
        }
    }
}

/// Reason why a record was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The last message of the subject has another sequence than the fence: another publisher was
    /// first.
    #[error("another publisher wrote {subject} since it was read; read it again")]
    Superseded { subject: String },
    /// The stream is missing.
    #[error("the stream {} is missing: start the watcher, which creates it", crate::STREAM)]
    StreamNotFound,
    /// The record is larger than [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
    #[error("the event of {object} has {size} bytes; an event may have at most {}", crate::MAX_EVENT_BYTES)]
    TooLarge {
        /// Object that the record describes.
        object: String,
        /// Size of the body in bytes.
        size: usize,
    },
    /// The server is away or does not answer. The record may be stored or not, so publish it again
    /// with the same fence. If it was stored, the answer is a duplicate or, depending on the
    /// server's version, [`PublishError::Superseded`].
    #[error(transparent)]
    Unavailable(BusError),
    /// Any other error. It does not go away by itself.
    #[error(transparent)]
    Failed(BusError),
}

impl From<BusError> for PublishError {
    fn from(error: BusError) -> Self {
        match error {
            BusError::StreamNotFound => Self::StreamNotFound,
            error if error.is_transient() => Self::Unavailable(error),
            error => Self::Failed(error),
        }
    }
}

impl From<SubjectError> for PublishError {
    fn from(error: SubjectError) -> Self {
        Self::Failed(error.into())
    }
}
