//! The way from a gRPC call to the leader, which alone publishes.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_bus::{Interest, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::interests::Admission;
use crate::publication::Replay;

/// Commands that wait while the leader is busy. Calls beyond it wait for room.
const CAPACITY: usize = 16;

/// What a leader can be asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Store an interest on the stream. The answer is sent when that is done; it is never sent if the leader ends before.
    StoreInterest {
        interest: Interest,
        /// The API version in which the objects are to be read.
        api_version: String,
        answer: oneshot::Sender<Admission>,
    },
    /// Publish once more what the stream holds: of all objects, or of one kind, namespace or name.
    Replay { kind: Option<Kind>, namespace: Option<String>, name: Option<String>, replay: Replay },
}

/// The channel to the leader of this process, and nothing while this replica does not lead. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaderCommands(Arc<Mutex<Option<mpsc::Sender<Command>>>>);

impl LeaderCommands {
    /// Makes the channel of a new leader, who reads from its end.
    pub(crate) fn open(&self) -> mpsc::Receiver<Command> {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        self.set(Some(sender));
        receiver
    }

    /// From now on there is no leader in this process.
    pub(crate) fn close(&self) {
        self.set(None);
    }

    /// Where to send commands; `None` if this replica does not lead.
    pub(crate) fn sender(&self) -> Option<mpsc::Sender<Command>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, sender: Option<mpsc::Sender<Command>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }
}
