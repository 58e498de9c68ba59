//! Work queue on JetStream: a consumer that the replicas of a service share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use tokio::sync::watch;

use super::NatsBus;
use super::consumer::{Action, shared};
use super::handle::NatsHandle;
use super::pull::{Pulled, Puller, Received, Wait};
use crate::STREAM;
use crate::delivery::{Delivery, Handle};
use crate::error::BusError;
use crate::record::{Record, WorkState};
use crate::retry::Retry;
use crate::wire::{self, Wire};

/// Type of a queue, by the kind that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Queue of a kind that the rights table names.
    OfKnownKind,
    /// Queue of a kind that a user's object names, such as the selector of a PackageVariantSet. The
    /// consumer of the queue takes one of the places, which are consumer names that the service's
    /// account reserves for such queues.
    OfSelectedKind,
}

/// Pulls from a durable consumer. Survives lost connections, consumers and streams.
#[derive(Debug)]
pub(crate) struct NatsWork {
    bus: Arc<NatsBus>,
    name: String,
    filter: String,
    queue: Queue,
    consumer: String,
    open: Option<Open>,
    /// Deliveries that were pulled and not handed out yet.
    pulled: VecDeque<Delivery>,
    /// True if the next request may bring messages without waiting.
    may_have_more: bool,
    retry: Retry,
    /// Reason why the queue cannot be pulled now.
    problem: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct Open {
    puller: Puller,
    base: u64,
}

impl NatsWork {
    pub(crate) fn new(bus: Arc<NatsBus>, name: String, filter: String, queue: Queue) -> Self {
        let retry = Retry::new(&name, &bus.problems);
        let consumer = name.clone();
        let problem = watch::Sender::new(None);
        Self {
            bus,
            name,
            filter,
            queue,
            consumer,
            open: None,
            pulled: VecDeque::new(),
            may_have_more: true,
            retry,
            problem,
        }
    }

    pub(crate) fn problem(&self) -> watch::Receiver<Option<String>> {
        self.problem.subscribe()
    }

    /// Returns up to `limit` deliveries and at least one. May be dropped and called again without
    /// losing a delivery.
    pub(crate) async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        let limit = limit.max(1);
        loop {
            if !self.pulled.is_empty() && (self.pulled.len() >= limit || !self.may_have_more) {
                let count = limit.min(self.pulled.len());
                return self.pulled.drain(..count).collect();
            }
            let Some(open) = &mut self.open else {
                match self.open().await {
                    // Logs the recovery only. `problem` is cleared when the first request is
                    // answered.
                    Ok(()) => self.retry.succeeded(),
                    Err(error) => {
                        set_problem(&self.problem, Some(error.to_string()));
                        self.retry.back_off(&error).await;
                    }
                }
                continue;
            };
            if !open.puller.is_open() {
                // Pending messages come at once, as many as the caller wants. For later messages
                // request only one, so that not more than one can wait here for a caller that does
                // not come back.
                let request = match self.may_have_more {
                    true => open.puller.request(limit - self.pulled.len(), Wait::No).await,
                    false => open.puller.request(1, Wait::Yes).await,
                };
                if let Err(error) = request {
                    self.open = None;
                    set_problem(&self.problem, Some(error.to_string()));
                    self.retry.back_off(&error).await;
                    continue;
                }
            }
            match open.puller.next().await {
                Pulled::Message(message) => {
                    set_problem(&self.problem, None);
                    let was_waited_for = !self.may_have_more;
                    // More messages may have come with this one; return it now and fetch those with
                    // the next call.
                    self.may_have_more |= !open.puller.is_open() && self.pulled.is_empty();
                    self.take(*message).await;
                    if was_waited_for && !self.pulled.is_empty() {
                        return self.pulled.drain(..limit.min(self.pulled.len())).collect();
                    }
                }
                Pulled::Empty => {
                    set_problem(&self.problem, None);
                    self.may_have_more = false;
                }
                Pulled::Lost(reason) => {
                    tracing::debug!(reason, consumer = self.consumer, "reopening the work queue");
                    set_problem(&self.problem, Some(reason));
                    self.open = None;
                    self.may_have_more = self.pulled.is_empty();
                }
            }
        }
    }

    /// Gives back the deliveries that were pulled and not handed out.
    pub(crate) async fn close(self) {
        for delivery in self.pulled {
            delivery.retry_after(Duration::ZERO).await;
        }
    }

    async fn take(&mut self, message: Received) {
        let Some(reply) = message.reply() else { return };
        let base = self.open.as_ref().map_or(0, |open| open.base);
        let (sequence, attempts) = (message.sequence, message.attempts);
        let subject = message.message.subject.clone();
        let record = Wire::received(&subject, message.message.headers.as_ref(), message.message.payload)
            .and_then(|wire| wire::decode(&wire));
        // Copy the subject: the received one is a slice of the connection's read buffer and would
        // keep all of it in memory.
        let reply = Subject::from(reply.as_str().to_owned());
        let handle = NatsHandle::new(Arc::clone(&self.bus), reply);
        match record {
            Ok(Record::Object(event)) => {
                self.pulled.push_back(Delivery::new(event, base + sequence, attempts, Handle::Nats(handle)));
            }
            // The message will never become readable. Terminate it and log an error.
            Ok(_) => handle.terminate().await,
            Err(reason) => {
                let error = BusError::Message { sequence, subject: subject.to_string(), reason };
                tracing::error!(%error, "an event cannot be read and is dropped from the work queue");
                handle.terminate().await;
            }
        }
    }

    /// Creates the consumer if it is missing.
    pub(crate) async fn open(&mut self) -> Result<(), BusError> {
        let mut action = Action::Ensure;
        if let (Queue::OfSelectedKind, Some(user)) = (self.queue, self.bus.user) {
            (self.consumer, action) = self.bus.place_of_kind(user, &self.name, &self.filter).await?;
        }
        let settings = shared(&self.consumer, &self.filter, self.bus.ack_wait);
        let consumer = self.bus.make_consumer(STREAM, &settings, action).await?;
        let (info, base) = self.bus.incarnation().await?;
        let (acknowledged, last) = (consumer.ack_floor.stream_seq, info.state.last_seq);
        if acknowledged > last {
            return Err(BusError::WentBack { consumer: self.consumer.clone(), acknowledged, last });
        }
        // If the stream was recreated between these two calls, the consumer is missing and the
        // first request reports it.
        let puller = Puller::new(&self.bus, STREAM, &self.consumer).await?;
        self.open = Some(Open { puller, base });
        self.may_have_more = true;
        Ok(())
    }

    pub(crate) async fn state(&self) -> Result<WorkState, BusError> {
        let info = self.bus.consumer_info(&self.consumer).await?;
        Ok(WorkState { pending: info.num_pending, unacknowledged: info.num_ack_pending })
    }
}

/// Publishes the problem, unless it has not changed.
fn set_problem(problem: &watch::Sender<Option<String>>, now: Option<String>) {
    problem.send_if_modified(|before| {
        let is_new = *before != now;
        *before = now;
        is_new
    });
}
