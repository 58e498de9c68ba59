//! Answers to a delivery of this process.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::LocalBus;
use super::store::Store;

/// The way to answer one delivery, and which incarnation of the stream it came from.
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

    /// An answer that comes after the stream was made again is about another message.
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
