//! An event that was handed out, and the answer to it.

use std::time::Duration;

use crate::local::handle::LocalHandle;
use crate::nats::handle::NatsHandle;
use crate::record::Event;

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
