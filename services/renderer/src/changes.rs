//! Objects that change, told to whoever follows an Installation.

use groundwork_bus::ObjectId;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Changes that a follower may be behind. One that is further behind reads everything again.
const CAPACITY: usize = 4096;

/// What has changed or is gone.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// An object, with the parent of a nested Installation, or the Execution of an item.
    Object { object: ObjectId, owner: Option<String> },
    /// Perhaps everything: the feed of events begins anew.
    All,
}

/// Where changes are told. Clones tell the same receivers.
#[derive(Debug, Clone)]
pub(crate) struct Changes(Sender<Changed>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Changes {
    /// What changes from now on.
    pub(crate) fn subscribe(&self) -> Receiver<Changed> {
        self.0.subscribe()
    }

    /// Tells of a change; `owner` is asked for only if somebody listens.
    pub(crate) fn tell(&self, object: &ObjectId, owner: impl FnOnce() -> Option<String>) {
        if self.0.receiver_count() > 0 {
            // Nobody may be left by now.
            let _ = self.0.send(Changed::Object { object: object.clone(), owner: owner() });
        }
    }

    /// Tells that nothing is certain any more.
    pub(crate) fn tell_of_all(&self) {
        let _ = self.0.send(Changed::All);
    }
}
