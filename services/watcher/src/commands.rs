//! Commands from gRPC calls to the leader, which is the only publisher.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_bus::{Interest, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::interests::Admission;
use crate::publication::Replay;

/// Maximum commands that wait while the leader is busy. Further calls wait for room.
const CAPACITY: usize = 16;

/// Command for the leader.
#[derive(Debug)]
pub(crate) enum Command {
    /// Store an interest on the stream. The answer is sent when that is done; it never comes if the
    /// leader ends before.
    StoreInterest {
        interest: Interest,
        /// API version in which the objects are read.
        api_version: String,
        answer: oneshot::Sender<Admission>,
    },
    /// Publish the current records again: of all objects, or of one kind, namespace or name.
    Replay { kind: Option<Kind>, namespace: Option<String>, name: Option<String>, replay: Replay },
}

/// Channel to the leader of this process; empty while this replica does not lead. Clones share it.
/// `grpc.rs` sends, and the loop in `leader.rs` receives.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaderCommands(Arc<Mutex<Option<mpsc::Sender<Command>>>>);

impl LeaderCommands {
    /// Opens the channel for a new leader, and returns its receiving end.
    pub(crate) fn open(&self) -> mpsc::Receiver<Command> {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        self.set(Some(sender));
        receiver
    }

    /// Closes the channel, because this process has no leader any more.
    pub(crate) fn close(&self) {
        self.set(None);
    }

    /// Returns the sender for commands; `None` if this replica does not lead.
    pub(crate) fn sender(&self) -> Option<mpsc::Sender<Command>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, sender: Option<mpsc::Sender<Command>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }
}
