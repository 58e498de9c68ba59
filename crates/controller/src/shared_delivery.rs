//! A bus delivery whose event concerns several keys, and its single acknowledgement.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use groundwork_bus::Receipt;
use tokio::sync::Mutex;

use crate::queue::Concerns;

/// A delivery that is acknowledged when every key is done with it, or handed back to the bus if one
/// of them failed.
#[derive(Debug)]
pub(crate) struct SharedDelivery {
    /// Handle to answer the bus; `None` once the delivery is answered.
    receipt: Mutex<Option<Receipt>>,
    concerns: Concerns,
    /// Number of keys that are not done yet.
    keys: AtomicUsize,
    /// Longest delay that a key asked for, in milliseconds; 0 if all succeeded.
    delay: AtomicU64,
}

impl SharedDelivery {
    pub(crate) fn new(receipt: Receipt, keys: usize) -> Self {
        Self {
            receipt: Mutex::new(Some(receipt)),
            concerns: if keys == 1 { Concerns::OneKey } else { Concerns::Several },
            keys: AtomicUsize::new(keys),
            delay: AtomicU64::new(0),
        }
    }

    pub(crate) fn concerns(&self) -> Concerns {
        self.concerns
    }

    /// Notes that one of the keys is done with the event.
    pub(crate) async fn key_done(&self) {
        if self.keys.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(receipt) = self.receipt.lock().await.take() else { return };
        match self.delay.load(Ordering::Acquire) {
            0 => receipt.ack().await,
            delay => receipt.retry_after(Duration::from_millis(delay)).await,
        }
    }

    /// Notes that one of the keys must see the event again, after this delay or later.
    pub(crate) async fn key_failed(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1);
        self.delay.fetch_max(delay, Ordering::AcqRel);
        self.key_done().await;
    }

    /// Reports to the bus that the event is being worked on.
    pub(crate) async fn progress(&self) {
        if let Some(receipt) = self.receipt.lock().await.as_ref() {
            receipt.progress().await;
        }
    }
}
