//! A delivery that several keys share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use groundwork_bus::Receipt;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

/// Is acknowledged when every key is done with it, or given back if one of them failed.
#[derive(Debug)]
pub(crate) struct Ticket {
    receipt: Mutex<Option<(Receipt, Option<OwnedSemaphorePermit>)>>,
    keys: AtomicUsize,
    /// Longest delay that a key asked for, in milliseconds.
    delay: AtomicU64,
}

impl Ticket {
    pub(crate) fn new(receipt: Receipt, keys: usize, slot: OwnedSemaphorePermit) -> Self {
        Self {
            receipt: Mutex::new(Some((receipt, Some(slot)))),
            keys: AtomicUsize::new(keys),
            delay: AtomicU64::new(0),
        }
    }

    pub(crate) async fn done(&self) {
        if self.keys.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some((receipt, _slot)) = self.receipt.lock().await.take() else { return };
        match self.delay.load(Ordering::Acquire) {
            0 => receipt.ack().await,
            delay => receipt.retry_after(Duration::from_millis(delay)).await,
        }
    }

    pub(crate) async fn later(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1);
        self.delay.fetch_max(delay, Ordering::AcqRel);
        self.done().await;
    }

    /// Lets another event be taken although this one is not answered yet.
    pub(crate) async fn free_slot(&self) {
        if let Some((_, slot)) = self.receipt.lock().await.as_mut() {
            *slot = None;
        }
    }

    /// Tells the bus that it is being worked on.
    pub(crate) async fn progress(&self) {
        if let Some((receipt, _)) = self.receipt.lock().await.as_ref() {
            receipt.progress().await;
        }
    }
}
