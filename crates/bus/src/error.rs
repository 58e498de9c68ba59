//! What can go wrong.

use std::time::Duration;

use crate::subject::SubjectError;

/// Why the bus cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// There is no connection.
    #[error("the NATS server at {server} cannot be reached: {reason}; it is tried again")]
    Unavailable {
        /// Its address, without user and password.
        server: String,
        /// The last that was heard.
        reason: String,
    },
    /// The server was reached and did not answer in time.
    #[error("the NATS server at {server} did not answer to {request} within {} s", limit.as_secs())]
    Silent {
        /// Its address, without user and password.
        server: String,
        /// What was asked.
        request: String,
        /// How long it had.
        limit: Duration,
    },
    /// The options for the connection are wrong.
    #[error("the options for NATS are wrong: {0}")]
    Options(String),
    /// User, password, key or credentials are refused.
    #[error(
        "the NATS server at {server} refuses the login: check user and password, key or credentials file"
    )]
    Login {
        /// Its address, without user and password.
        server: String,
    },
    /// The user may not do this.
    #[error(
        "the NATS user may not use the subject {subject} at {server}: add it to the permissions of the user in \
         the configuration of the server"
    )]
    Denied {
        /// Its address, without user and password.
        server: String,
        subject: String,
    },
    /// The server is too old: it swallows options that it does not know.
    #[error("the NATS server at {server} has version {version}; Groundwork needs 2.10.23 or later")]
    OldServer {
        /// Its address, without user and password.
        server: String,
        /// As the server says it, such as `2.9.25`.
        version: String,
    },
    /// There is no JetStream.
    #[error("JetStream is not enabled on the NATS server at {server}, or not for the account of this user")]
    NoJetStream {
        /// Its address, without user and password.
        server: String,
    },
    /// The stream is missing.
    #[error("the stream {} is missing: the watcher creates it when it runs", crate::STREAM)]
    StreamNotFound,
    /// The journal is missing.
    #[error("the stream {} of the journal is missing: the watcher creates it when it runs", crate::JOURNAL)]
    JournalNotFound,
    /// The stream has lost its end: it is about to be filled again.
    #[error(
        "the stream {} went back: {consumer} has acknowledged message {acknowledged}, and the last is {last}; the watcher fills it again",
        crate::STREAM
    )]
    WentBack {
        /// Name of the consumer.
        consumer: String,
        acknowledged: u64,
        last: u64,
    },
    /// The server took a setting and did not keep it.
    #[error("the NATS server did not keep the settings of {of}: {fields}")]
    NotKept {
        /// Stream or consumer.
        of: String,
        /// Each field with what was wanted and what is there.
        fields: String,
    },
    /// All consumers that the user may have exist.
    #[error(
        "all {places} places that the NATS user {user} has on the stream {stream} are taken; a place is free two minutes after its \
         reader has gone, that of a queue half an hour after"
    )]
    NoPlace {
        /// The user of NATS.
        user: &'static str,
        stream: &'static str,
        /// How many it has for what was asked.
        places: usize,
    },
    /// The server says no.
    #[error("the NATS server refuses {request}: {reason} (code {code})")]
    Refused {
        /// What was asked.
        request: String,
        /// What the server says to that.
        reason: String,
        /// The `err_code` of JetStream, by which clients tell errors apart.
        code: u64,
    },
    /// The server's answer cannot be understood.
    #[error("the NATS server answered {request} with something else than expected: {reason}")]
    Answer {
        /// What was asked.
        request: String,
        /// Why it cannot be understood.
        reason: String,
    },
    /// A kind or an object cannot be named on the bus.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A message of ours cannot be read.
    #[error("the message {sequence} on {subject} cannot be read: {reason}")]
    Message {
        sequence: u64,
        subject: String,
        /// Why it cannot be read.
        reason: String,
    },
}

impl BusError {
    /// True if another has the name of a consumer that was to be made.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Refused { code: 10013 | 10105 | 10148, .. })
    }

    pub(crate) fn is_missing_consumer(&self) -> bool {
        matches!(self, Self::Refused { code: 10014, .. })
    }

    /// Whether it may be different in a moment, without anybody changing the set-up. A missing stream is
    /// such a thing: the watcher creates it.
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

/// Why a record was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The subject holds something else than the fence says: somebody else published.
    #[error("{subject} was published by somebody else since it was read; read it again")]
    Superseded { subject: String },
    /// The stream is missing.
    #[error("the stream {} is missing: the watcher has to create it again", crate::STREAM)]
    StreamNotFound,
    /// The record is larger than an event may be.
    #[error(
        "the event of {object} has {size} bytes, more than the {} that an event may have",
        crate::MAX_EVENT_BYTES
    )]
    TooLarge {
        /// The object that the record is about.
        object: String,
        /// Size of the body in bytes.
        size: usize,
    },
    /// The server is away or does not answer. The record may be stored or not: publish it again with the same fence. If it
    /// was stored, the answer is a duplicate or, depending on the server's version, [`PublishError::Superseded`].
    #[error(transparent)]
    Unavailable(BusError),
    /// Anything else, which does not go away by itself.
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
