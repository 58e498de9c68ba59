//! A delivery that several keys share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use groundwork_bus::Delivery;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

/// Is acknowledged when every key is done with it, or given back if one of them failed.
#[derive(Debug)]
pub(crate) struct Ticket {
    delivery: Mutex<Option<(Delivery, Option<OwnedSemaphorePermit>)>>,
    keys: AtomicUsize,
    /// Longest delay that a key asked for, in milliseconds.
    delay: AtomicU64,
}

impl Ticket {
    pub(crate) fn new(delivery: Delivery, keys: usize, slot: OwnedSemaphorePermit) -> Self {
        Self {
            delivery: Mutex::new(Some((delivery, Some(slot)))),
            keys: AtomicUsize::new(keys),
            delay: AtomicU64::new(0),
        }
    }

    pub(crate) async fn done(&self) {
        if self.keys.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some((delivery, _slot)) = self.delivery.lock().await.take() else { return };
        match self.delay.load(Ordering::Acquire) {
            0 => delivery.ack().await,
            delay => delivery.retry_after(Duration::from_millis(delay)).await,
        }
    }

    pub(crate) async fn later(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1);
        self.delay.fetch_max(delay, Ordering::AcqRel);
        self.done().await;
    }

    /// Lets another event be taken although this one is not answered yet.
    pub(crate) async fn free_slot(&self) {
        if let Some((_, slot)) = self.delivery.lock().await.as_mut() {
            *slot = None;
        }
    }

    /// Tells the bus that it is being worked on.
    pub(crate) async fn progress(&self) {
        if let Some((delivery, _)) = self.delivery.lock().await.as_ref() {
            delivery.progress().await;
        }
    }
}
