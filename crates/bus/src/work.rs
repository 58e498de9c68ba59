//! Work: events that one of a service's replicas has to handle.

use std::time::Duration;

use tokio::sync::watch;

use crate::error::BusError;
use crate::local::{LocalHandle, LocalWork};
use crate::nats::work::{NatsHandle, NatsWork};
use crate::record::{Event, WorkState};

/// The work of a service for one kind, shared with its other replicas.
///
/// Delivery is at least once. What was not acknowledged, and not said to be in progress, within
/// [`ACK_WAIT`](crate::ACK_WAIT) is delivered again, here or elsewhere. An event that is superseded while it is in
/// flight or delayed is not delivered again; its successor is.
///
/// It recreates a missing consumer by itself and never ends. It waits while the server is away or the stream is missing.
#[derive(Debug)]
pub struct WorkQueue {
    source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    Nats(Box<NatsWork>),
    Local(LocalWork),
}

impl WorkQueue {
    pub(crate) fn new(source: Source) -> Self {
        Self { source }
    }

    /// The next event. Asks the server for one, and only while it is called; safe to drop and to call again, as in
    /// `select!`. A dropped call may leave one event that the server takes for delivered until the next call.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.pull(1).await.pop() {
                return delivery;
            }
        }
    }

    /// Up to `limit` events, at least one: those that are there, or the first that comes. Ask for as many as can be
    /// started at once. Safe to drop and to call again.
    pub async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        match &mut self.source {
            Source::Nats(work) => work.pull(limit).await,
            Source::Local(work) => work.pull(limit).await,
        }
    }

    /// Why nothing can be taken now, as it changes; `None` while all is well.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        match &self.source {
            Source::Nats(work) => work.problem(),
            Source::Local(_) => watch::Sender::new(None).subscribe(),
        }
    }

    /// Ends it. What came and was not asked for again, see [`WorkQueue::pull`], is free for others at once.
    pub async fn close(self) {
        match self.source {
            Source::Nats(work) => work.close().await,
            Source::Local(_) => {}
        }
    }

    /// How much waits, and how much is delivered and not acknowledged, over all replicas.
    ///
    /// # Errors
    /// When the server or the consumer is away.
    pub async fn state(&self) -> Result<WorkState, BusError> {
        match &self.source {
            Source::Nats(work) => work.state().await,
            Source::Local(work) => work.state(),
        }
    }
}

/// An event to handle. Dropped without an answer it is delivered again after [`ACK_WAIT`](crate::ACK_WAIT).
///
/// Answers are not confirmed. One that is lost has the same effect as none: the event comes again.
#[derive(Debug)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// Its position, to be compared with [`Index::passed`](crate::Index::passed); see [`Feed`](crate::Feed).
    pub position: u64,
    /// How often it was delivered, this time included.
    pub attempts: u64,
    receipt: Receipt,
}

/// What is left of a delivery when its event is kept no longer: the way to answer it.
#[derive(Debug)]
pub struct Receipt(Handle);

#[derive(Debug)]
pub(crate) enum Handle {
    Nats(NatsHandle),
    Local(LocalHandle),
}

impl Delivery {
    pub(crate) fn new(event: Event, position: u64, attempts: u64, handle: Handle) -> Self {
        Self { event, position, attempts, receipt: Receipt(handle) }
    }

    /// The event, and what answers it. Thousands of events may wait for their answer while a key is at work.
    pub fn split(self) -> (Event, Receipt) {
        (self.event, self.receipt)
    }

    /// See [`Receipt::ack`].
    pub async fn ack(self) {
        self.receipt.ack().await;
    }

    /// See [`Receipt::retry_after`].
    pub async fn retry_after(self, delay: Duration) {
        self.receipt.retry_after(delay).await;
    }

    /// See [`Receipt::progress`].
    pub async fn progress(&self) {
        self.receipt.progress().await;
    }
}

impl Receipt {
    /// Nothing is left to do.
    pub async fn ack(self) {
        match &self.0 {
            Handle::Nats(handle) => handle.ack().await,
            Handle::Local(handle) => handle.ack(),
        }
    }

    /// It shall come again after this time, unless it is superseded meanwhile.
    pub async fn retry_after(self, delay: Duration) {
        match &self.0 {
            Handle::Nats(handle) => handle.retry_after(delay).await,
            Handle::Local(handle) => handle.retry_after(delay),
        }
    }

    /// It is queued or handled: the time until it is delivered again starts anew. Say it every
    /// [`ACK_WAIT`](crate::ACK_WAIT) / 3.
    pub async fn progress(&self) {
        match &self.0 {
            Handle::Nats(handle) => handle.progress().await,
            Handle::Local(handle) => handle.progress(),
        }
    }
}
