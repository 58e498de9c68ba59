//! Channel for changes of objects, from the event handler to the calls that follow an Installation.

use groundwork_bus::ObjectId;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Number of changes by which a receiver may lag behind. A receiver that lags further reads
/// everything again.
const CAPACITY: usize = 4096;

/// Change or deletion of objects.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// One object, with the parent of a nested Installation, or the Execution of an item.
    Object { object: ObjectId, owner: Option<String> },
    /// Any object may have changed, because the feed of events restarted.
    All,
}

/// Sender of changes. Clones send to the same receivers: `handler.rs` sends, and the open calls of
/// `grpc/watch.rs` receive.
#[derive(Debug, Clone)]
pub(crate) struct Changes(Sender<Changed>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Changes {
    /// Returns a receiver for all changes from now on.
    pub(crate) fn subscribe(&self) -> Receiver<Changed> {
        self.0.subscribe()
    }

    /// Sends a change; `owner` is only called if there is a receiver.
    pub(crate) fn tell(&self, object: &ObjectId, owner: impl FnOnce() -> Option<String>) {
        if self.0.receiver_count() > 0 {
            // The last receiver may have gone in between, so an error is expected.
            let _ = self.0.send(Changed::Object { object: object.clone(), owner: owner() });
        }
    }

    /// Makes all receivers read everything again.
    pub(crate) fn tell_of_all(&self) {
        let _ = self.0.send(Changed::All);
    }
}
