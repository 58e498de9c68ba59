//! Pulling messages: one request at a time, its answers on a subscription of our own.
//!
//! The library's streams keep requests open beyond what their reader wants, and hide which status ended them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, consumer::pull::BatchConfig};
use async_nats::{StatusCode, Subject, Subscriber};
use futures::StreamExt;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{NatsBus, timestamp};
use crate::error::BusError;

/// The server says this often that it is there while a request waits.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// After this time without a message or a heartbeat the request is taken for lost.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(12);
/// How long a request waits for messages.
const EXPIRY: Duration = Duration::from_secs(30);

/// After this time without a word of the consumer it is not asked again, and this long after it was asked nothing is taken for its answer:
/// a process that was stopped for minutes finds others under the name. Both together are less than the time after which a
/// consumer goes that nobody asks.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
const LONGEST_ANSWER: Duration = Duration::from_secs(45);

/// Whether a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Only what is there.
    No,
    /// Until it is filled, or half a minute is over.
    Yes,
}

/// A message with what JetStream says about it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: async_nats::Message,
    pub(super) sequence: u64,
    pub(super) consumer_sequence: u64,
    pub(super) attempts: u64,
    pub(super) pending: u64,
    pub(super) time: Timestamp,
}

/// What a pull request brings.
#[derive(Debug)]
pub(super) enum Pulled {
    Message(Box<Received>),
    /// The request has ended without a further message.
    Empty,
    /// The request, the consumer or the connection is lost; this puller is of no more use.
    Lost(String),
}

/// Pulls from one consumer.
#[derive(Debug)]
pub(super) struct Puller {
    bus: Arc<NatsBus>,
    /// Stream and consumer, as subjects name them.
    consumer: String,
    inbox: String,
    answers: Subscriber,
    connections: watch::Receiver<u64>,
    /// Number of the current request.
    request: u64,
    /// How many messages it may still bring.
    credit: usize,
    heard: Instant,
    asked: Instant,
    /// The consumer may be gone, and its name another's.
    is_stale: bool,
}

impl Puller {
    pub(super) async fn new(bus: &Arc<NatsBus>, stream: &str, consumer: &str) -> Result<Self, BusError> {
        let connections = bus.connection.connections.subscribe();
        let inbox = bus.client.new_inbox();
        let answers = bus
            .client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| BusError::Options(error.to_string()))?;
        Ok(Self {
            bus: Arc::clone(bus),
            consumer: format!("{stream}.{consumer}"),
            inbox,
            answers,
            connections,
            request: 0,
            credit: 0,
            heard: Instant::now(),
            asked: Instant::now(),
            is_stale: false,
        })
    }

    /// Whether a request is open.
    pub(super) fn is_open(&self) -> bool {
        self.credit > 0
    }

    /// Asks for up to `batch` messages.
    pub(super) async fn request(&mut self, batch: usize, wait: Wait) -> Result<(), BusError> {
        // Before the look at the silence: whatever happens between that and the request counts as time of the answer.
        self.asked = Instant::now();
        self.is_stale = self.heard.elapsed() > LONGEST_SILENCE;
        self.credit = batch;
        if self.is_stale {
            return Ok(());
        }
        let mut config = BatchConfig { batch, no_wait: wait == Wait::No, ..BatchConfig::default() };
        if wait == Wait::Yes {
            config.expires = Some(EXPIRY);
            config.idle_heartbeat = HEARTBEAT;
        }
        let request = format!("CONSUMER.MSG.NEXT.{}", self.consumer);
        let body = serde_json::to_vec(&config)
            .map_err(|error| BusError::Answer { request: request.clone(), reason: error.to_string() })?;
        self.request += 1;
        let reply = format!("{}.{}", self.inbox, self.request);
        let subject = format!("{}.{request}", super::API);
        let sent = self.bus.client.publish_with_reply(subject, reply, body.into()).await;
        sent.map_err(|error| BusError::Answer { request, reason: error.to_string() })?;
        self.heard = Instant::now();
        Ok(())
    }

    /// What comes next. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Pulled {
        loop {
            if self.credit == 0 {
                return Pulled::Empty;
            }
            if self.is_stale {
                return Pulled::Lost("it was not asked for a while".to_owned());
            }
            let answer = tokio::select! {
                biased;
                answer = self.answers.next() => answer,
                _ = self.connections.changed() => return Pulled::Lost("the connection was made again".to_owned()),
                () = tokio::time::sleep_until(self.heard + HEARTBEAT_TIMEOUT) => {
                    return Pulled::Lost("the server is silent".to_owned());
                }
            };
            let Some(answer) = answer else { return Pulled::Lost("the subscription ended".to_owned()) };
            self.heard = Instant::now();
            if self.asked.elapsed() > LONGEST_ANSWER {
                return Pulled::Lost("the answer came too late".to_owned());
            }
            if let Some(outcome) = self.take(answer) {
                return outcome;
            }
        }
    }

    fn take(&mut self, answer: async_nats::Message) -> Option<Pulled> {
        let Some(status) = answer.status else {
            self.credit = self.credit.saturating_sub(1);
            return Some(match self.received(answer) {
                Ok(received) => Pulled::Message(Box::new(received)),
                Err(reason) => Pulled::Lost(reason),
            });
        };
        let is_current = answer.subject.rsplit('.').next() == Some(self.request.to_string().as_str());
        match status {
            StatusCode::IDLE_HEARTBEAT => None,
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT if is_current => {
                self.credit = 0;
                Some(Pulled::Empty)
            }
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT => None,
            StatusCode::NO_RESPONDERS => Some(Pulled::Lost("the consumer is missing".to_owned())),
            status => Some(Pulled::Lost(match answer.description {
                Some(text) => text,
                None => format!("status {status}"),
            })),
        }
    }

    fn received(&self, message: async_nats::Message) -> Result<Received, String> {
        let message = jetstream::Message { message, context: self.bus.context.clone() };
        let info = message
            .info()
            .map_err(|error| format!("a message without an address for its answer: {error}"))?;
        let (sequence, consumer_sequence) = (info.stream_sequence, info.consumer_sequence);
        let attempts = u64::try_from(info.delivered).unwrap_or(1);
        let (pending, time) = (info.pending, timestamp(info.published.unix_timestamp_nanos()));
        let message = message.message;
        Ok(Received { message, sequence, consumer_sequence, attempts, pending, time })
    }
}

impl Received {
    /// Where the answer to the message goes.
    pub(super) fn reply(&self) -> Option<Subject> {
        self.message.reply.clone()
    }
}
