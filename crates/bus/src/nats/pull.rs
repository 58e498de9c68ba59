//! Pull requests to a consumer: one at a time, with answers on a subscription of our own.
//!
//! The library's message streams keep requests open beyond their reader's demand, and hide the
//! status that ended a request.

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

/// Interval at which the server sends a heartbeat while a request waits.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time without a message or a heartbeat after which a request counts as lost.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(12);
/// Time that a request waits for messages.
const EXPIRY: Duration = Duration::from_secs(30);

/// Longest silence after which a consumer is still asked for messages, and longest age of a request
/// whose answers are still accepted. A process that was stopped for minutes may find another
/// reader's consumer under the name. Twice this time is not more than the idle time after which the
/// server deletes a reader's consumer.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
const LONGEST_ANSWER: Duration = Duration::from_secs(45);

/// Behaviour of a request when the consumer has no messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Return only the messages that are there.
    No,
    /// Wait until the request is filled, or half a minute has passed.
    Yes,
}

/// A message with its JetStream metadata.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: async_nats::Message,
    pub(super) sequence: u64,
    pub(super) consumer_sequence: u64,
    pub(super) attempts: u64,
    pub(super) pending: u64,
    pub(super) time: Timestamp,
}

/// Outcome of waiting on a pull request.
#[derive(Debug)]
pub(super) enum Pulled {
    Message(Box<Received>),
    /// The request has ended without a further message.
    Empty,
    /// The request, the consumer or the connection is lost. This puller cannot be used any more.
    Lost(String),
}

/// Pulls messages from one consumer.
#[derive(Debug)]
pub(super) struct Puller {
    bus: Arc<NatsBus>,
    /// Stream and consumer, as they appear in subjects.
    consumer: String,
    inbox: String,
    answers: Subscriber,
    connections: watch::Receiver<u64>,
    /// Number of the current request.
    request: u64,
    /// Number of messages that the current request may still bring.
    credit: usize,
    heard: Instant,
    asked: Instant,
    /// True if the consumer may be deleted and its name taken by another reader.
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

    /// Reports whether a request is open.
    pub(super) fn is_open(&self) -> bool {
        self.credit > 0
    }

    /// Asks for up to `batch` messages.
    pub(super) async fn request(&mut self, batch: usize, wait: Wait) -> Result<(), BusError> {
        // Taken before the check of the silence, so that a pause between the check and the request
        // counts towards the age of the request.
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

    /// Returns the next message or the end of the request. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Pulled {
        loop {
            if self.credit == 0 {
                return Pulled::Empty;
            }
            if self.is_stale {
                return Pulled::Lost("the reader paused for too long".to_owned());
            }
            let answer = tokio::select! {
                biased;
                answer = self.answers.next() => answer,
                _ = self.connections.changed() => return Pulled::Lost("the connection was re-established".to_owned()),
                () = tokio::time::sleep_until(self.heard + HEARTBEAT_TIMEOUT) => {
                    return Pulled::Lost("the server stopped answering".to_owned());
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
        let info = message.info().map_err(|error| format!("a message has no reply subject: {error}"))?;
        let (sequence, consumer_sequence) = (info.stream_sequence, info.consumer_sequence);
        let attempts = u64::try_from(info.delivered).unwrap_or(1);
        let (pending, time) = (info.pending, timestamp(info.published.unix_timestamp_nanos()));
        let message = message.message;
        Ok(Received { message, sequence, consumer_sequence, attempts, pending, time })
    }
}

impl Received {
    /// Returns the subject for the answer to the message.
    pub(super) fn reply(&self) -> Option<Subject> {
        self.message.reply.clone()
    }
}
