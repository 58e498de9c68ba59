//! An event that was delivered from a work queue, and the answer to it.

use std::time::Duration;

use crate::local::handle::LocalHandle;
use crate::nats::handle::NatsHandle;
use crate::record::Event;

/// An event to handle. If a delivery is dropped without an answer, the bus delivers the event again
/// after [`ACK_WAIT`](crate::ACK_WAIT).
///
/// Answers are not confirmed. A lost answer has the same effect as a missing one: the event is
/// delivered again.
#[derive(Debug)]
pub struct Delivery {
    pub event: Event,
    /// Position of the event, to be compared with [`Index::passed`](crate::Index::passed); see
    /// [`Feed`](crate::Feed).
    pub position: u64,
    /// Number of deliveries of this event, including this one.
    pub attempts: u64,
    receipt: Receipt,
}

/// Handle to answer a delivery whose event is no longer kept.
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

    /// Splits the delivery into the event and the handle that answers it. Thousands of events may
    /// wait for their answer while a key is being handled.
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
    /// Acknowledges the event: all its work is done.
    pub async fn ack(self) {
        match &self.0 {
            Handle::Nats(handle) => handle.ack().await,
            Handle::Local(handle) => handle.ack(),
        }
    }

    /// Asks for the event again after this time, unless a newer event supersedes it meanwhile.
    pub async fn retry_after(self, delay: Duration) {
        match &self.0 {
            Handle::Nats(handle) => handle.retry_after(delay).await,
            Handle::Local(handle) => handle.retry_after(delay),
        }
    }

    /// Reports that the event is queued or being handled, which restarts the time until redelivery.
    /// Call this every [`ACK_WAIT`](crate::ACK_WAIT) / 3.
    pub async fn progress(&self) {
        match &self.0 {
            Handle::Nats(handle) => handle.progress().await,
            Handle::Local(handle) => handle.progress(),
        }
    }
}
