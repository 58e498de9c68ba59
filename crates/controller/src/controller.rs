//! A controller: its parts and their messages. One task owns the queue; the other tasks send it
//! messages.

use std::sync::Arc;
use std::time::Duration;

use groundwork_bus::{Backoff, Bus, Index, Kind, ObjectId};
use groundwork_telemetry::Condition;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::casualties::Casualties;
use crate::feeders::Feeders;
use crate::known_versions::Sight;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::readiness::Readiness;
use crate::reconcile::{Handler, Key};
use crate::shared_delivery::SharedDelivery;
use crate::sources::{SourceChanges, sources};
use crate::worker::Worker;

/// Pause after an error of the bus.
pub(crate) const BUS_PAUSE: Duration = Duration::from_secs(1);

/// Scope and limits of a controller.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the service, and of its consumers on the bus.
    pub service: &'static str,
    /// Kinds whose events are work, each through a queue that all replicas share. [`Sources`] adds
    /// further kinds at run time.
    pub work: Vec<Kind>,
    /// Further kinds that the index contains.
    pub indexed: Vec<Kind>,
    /// Namespaces that the watcher watches; empty for the whole cluster.
    pub namespaces: Vec<String>,
    /// Maximum number of keys of one namespace that are handled at the same time. The total is
    /// eight times as high.
    pub concurrency: usize,
    /// Back-off of a failing key.
    pub backoff: Backoff,
}

impl Options {
    /// Returns all kinds that the index contains from the start.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.work.iter().chain(&self.indexed).cloned().collect()
    }
}

/// A controller that runs a handler.
pub struct Controller {
    pub bus: Bus,
    pub objects: Objects,
    pub handler: Arc<dyn Handler>,
    pub options: Options,
    pub metrics: Metrics,
    /// Keys that were being handled when earlier processes died.
    pub casualties: Casualties,
    /// Readiness condition that is true once the index is complete.
    pub ready: Condition,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Messages that other tasks send to the worker.
#[derive(Debug)]
pub(crate) enum Message {
    /// An event concerns a key.
    Event { key: Key, object: ObjectId, sight: Sight, arrival: Arrival },
    /// A key is to be handled at this time.
    Schedule { key: Key, at: Timestamp },
    /// The key's wait is over.
    Wake { key: Key },
    /// A key has not come to rest for a while, and needs a recheck: an attempt without an event.
    Recheck { key: Key },
    /// The stream was rebuilt: resourceVersions that were read before can no longer be compared.
    Reset,
}

/// An event on its way from the bus to the attempt that answers it.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) delivery: Arc<SharedDelivery>,
    /// The `traceparent` of the event.
    pub(crate) trace: Option<String>,
    /// Time at which the watcher learned of the change.
    pub(crate) time: Timestamp,
}

impl Controller {
    /// Works until `end` is cancelled. Then it finishes the running attempts and gives the other
    /// events back to the bus.
    pub async fn run(self, end: CancellationToken) {
        let (_, none) = sources();
        self.run_with(none, end).await;
    }

    /// Works like [`Controller::run`], with kinds that are added and removed meanwhile.
    pub async fn run_with(self, changes: SourceChanges, end: CancellationToken) {
        let index = Index::in_namespaces(self.options.namespaces.clone());
        // Sent by the feeders (`index_follower.rs`, `puller.rs`) and by `Waker` (`reconcile.rs`);
        // received by `Worker::run` (`worker.rs`).
        let (sender, mut receiver) = mpsc::channel(1024);
        let feeders = Feeders {
            bus: self.bus.clone(),
            index: index.clone(),
            handler: Arc::clone(&self.handler),
            options: self.options.clone(),
            sender: sender.clone(),
        };
        let own = feeders.own(&Readiness::new(self.ready.clone()), &end);
        let others = feeders.others(changes, end.clone());
        let mut feeding = JoinSet::new();
        feeding.spawn(async { tokio::join!(own, others) }.in_current_span());
        let mut worker = Worker::new(self, index, sender);
        worker.run(&mut receiver, &end).await;
        // The other tasks also stop at `end`, and hand their unhandled events back to the bus.
        while feeding.join_next().await.is_some() {}
        worker.drain(receiver).await;
    }
}
