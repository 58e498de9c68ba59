//! Work queues: events that one of a service's replicas has to handle.

use tokio::sync::watch;

use crate::delivery::Delivery;
use crate::error::BusError;
use crate::local::work::LocalWork;
use crate::nats::work::NatsWork;
use crate::record::WorkState;

/// The work of a service for one kind, shared with its other replicas.
///
/// Delivery is at least once. An event that is neither acknowledged nor reported in progress within
/// [`ACK_WAIT`](crate::ACK_WAIT) is delivered again, here or to another replica. An event that is
/// superseded while it is in flight or delayed is not delivered again; its successor is.
///
/// The queue recreates a missing consumer by itself and never ends. It waits while the server is
/// away or the stream is missing.
#[derive(Debug)]
pub struct WorkQueue {
    source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    Nats(Box<NatsWork>),
    Local(LocalWork),
}

impl WorkQueue {
    pub(crate) fn new(source: Source) -> Self {
        Self { source }
    }

    /// Returns the next event. Requests an event from the server only while this call runs. Safe to
    /// drop and to call again, as in `select!`. A dropped call may leave one event that the server
    /// counts as delivered until the next call.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.pull(1).await.pop() {
                return delivery;
            }
        }
    }

    /// Returns up to `limit` events and at least one: those that are there, or the first that
    /// arrives. Ask for as many as can be started at once. Safe to drop and to call again.
    pub async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        match &mut self.source {
            Source::Nats(work) => work.pull(limit).await,
            Source::Local(work) => work.pull(limit).await,
        }
    }

    /// Returns the reason why the queue cannot be read now, as it changes; `None` while the queue
    /// works.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        match &self.source {
            Source::Nats(work) => work.problem(),
            Source::Local(_) => watch::Sender::new(None).subscribe(),
        }
    }

    /// Closes the queue. Events that arrived and were not returned by [`WorkQueue::pull`] are free
    /// for other replicas at once.
    pub async fn close(self) {
        match self.source {
            Source::Nats(work) => work.close().await,
            Source::Local(_) => {}
        }
    }

    /// Returns how many events wait, and how many are delivered and not acknowledged, over all
    /// replicas.
    ///
    /// # Errors
    /// When the server or the consumer is away.
    pub async fn state(&self) -> Result<WorkState, BusError> {
        match &self.source {
            Source::Nats(work) => work.state().await,
            Source::Local(work) => work.state(),
        }
    }
}
