//! Answers to a delivery of the bus in this process.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::LocalBus;
use super::store::Store;

/// Handle to answer one delivery, with the incarnation of the stream that the delivery came from.
#[derive(Debug)]
pub(crate) struct LocalHandle {
    bus: Arc<LocalBus>,
    consumer: String,
    created: Timestamp,
    sequence: u64,
}

impl LocalHandle {
    pub(crate) fn new(bus: Arc<LocalBus>, consumer: String, created: Timestamp, sequence: u64) -> Self {
        Self { bus, consumer, created, sequence }
    }

    pub(crate) fn ack(&self) {
        self.answer(|store| store.ack(&self.consumer, self.sequence));
    }

    pub(crate) fn retry_after(&self, delay: Duration) {
        self.answer(|store| store.put_off(&self.consumer, self.sequence, Instant::now() + delay));
    }

    pub(crate) fn progress(&self) {
        let due = Instant::now() + self.bus.ack_wait;
        self.answer(|store| store.put_off(&self.consumer, self.sequence, due));
    }

    /// Runs the answer, unless the stream was recreated since the delivery: the delivery's sequence
    /// then belongs to another message.
    fn answer(&self, act: impl FnOnce(&mut Store)) {
        let answered = self.bus.with(|store| {
            if store.state().created_at == self.created {
                act(store);
            }
        });
        if answered.is_ok() {
            self.bus.changed.notify_waiters();
        }
    }
}
