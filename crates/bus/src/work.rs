//! Work: events that one of a service's replicas has to handle.

use tokio::sync::watch;

use crate::delivery::Delivery;
use crate::error::BusError;
use crate::local::work::LocalWork;
use crate::nats::work::NatsWork;
use crate::record::WorkState;

/// The work of a service for one kind, shared with its other replicas.
///
/// Delivery is at least once. What was not acknowledged, and not said to be in progress, within
/// [`ACK_WAIT`](crate::ACK_WAIT) is delivered again, here or elsewhere. An event that is superseded while it is in
/// flight or delayed is not delivered again; its successor is.
///
/// It recreates a missing consumer by itself and never ends. It waits while the server is away or the stream is missing.
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

    /// The next event. Asks the server for one, and only while it is called; safe to drop and to call again, as in
    /// `select!`. A dropped call may leave one event that the server takes for delivered until the next call.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.pull(1).await.pop() {
                return delivery;
            }
        }
    }

    /// Up to `limit` events, at least one: those that are there, or the first that comes. Ask for as many as can be
    /// started at once. Safe to drop and to call again.
    pub async fn pull(&mut self, limit: usize) -> Vec<Delivery> {
        match &mut self.source {
            Source::Nats(work) => work.pull(limit).await,
            Source::Local(work) => work.pull(limit).await,
        }
    }

    /// Why nothing can be taken now, as it changes; `None` while all is well.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        match &self.source {
            Source::Nats(work) => work.problem(),
            Source::Local(_) => watch::Sender::new(None).subscribe(),
        }
    }

    /// Ends it. What came and was not asked for again, see [`WorkQueue::pull`], is free for others at once.
    pub async fn close(self) {
        match self.source {
            Source::Nats(work) => work.close().await,
            Source::Local(_) => {}
        }
    }

    /// How much waits, and how much is delivered and not acknowledged, over all replicas.
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
