//! Pulls events from the work queue of one kind and passes them to the worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use groundwork_bus::{Bus, Delivery, Index, IndexPart, Kind, WorkQueue};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::controller::{Arrival, BUS_PAUSE, Message};
use crate::known_versions::Sight;
use crate::readiness::Readiness;
use crate::reconcile::Handler;
use crate::shared_delivery::SharedDelivery;

/// Pulls events of one kind from the bus.
pub(crate) struct Puller {
    pub(crate) bus: Bus,
    pub(crate) index: Index,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) service: &'static str,
    /// Index part of the kind, which shows how far the feed is.
    pub(crate) part: Arc<IndexPart>,
    /// Kinds that must be synced before the handler can name the keys that an event concerns.
    pub(crate) needed: Vec<Kind>,
    pub(crate) kind: Kind,
    /// True if the kind is known only from objects, so that permissions cannot name its queue; see
    /// [`Bus::selected_work`].
    pub(crate) is_selected: bool,
    pub(crate) readiness: Readiness,
    /// Maximum events in one pull; a small number, so that replicas share the work.
    pub(crate) batch: usize,
    pub(crate) sender: mpsc::Sender<Message>,
}

impl Puller {
    /// Pulls until `end` is cancelled. Then hands the events that were not passed on back to the
    /// bus.
    pub(crate) async fn run(self, end: CancellationToken) {
        let Some(mut queue) = end.run_until_cancelled(self.open()).await else { return };
        let mut pulled = VecDeque::new();
        let telling = self.follow_readiness(queue.problem());
        let pulling = async { tokio::join!(self.pull(&mut queue, &mut pulled), telling) };
        end.run_until_cancelled(pulling).await;
        queue.close().await;
        for delivery in pulled {
            delivery.retry_after(Duration::ZERO).await;
        }
    }

    async fn open(&self) -> WorkQueue {
        self.part.until_synced().await;
        self.index.until_synced(&self.needed).await;
        let mut logged = None;
        loop {
            let queue = match self.is_selected {
                true => self.bus.selected_work(self.service, &self.kind).await,
                false => self.bus.work(self.service, &self.kind).await,
            };
            match queue {
                Ok(queue) => {
                    self.readiness.queue(&self.kind, None);
                    return queue;
                }
                Err(error) => {
                    let text = error.to_string();
                    if logged.as_ref() != Some(&text) {
                        tracing::warn!(kind = %self.kind, %error, "cannot take work from the bus; trying again");
                        self.readiness.queue(&self.kind, Some(&error));
                        logged = Some(text);
                    }
                    tokio::time::sleep(BUS_PAUSE).await;
                }
            }
        }
    }

    /// Reports problems of the queue to the readiness: otherwise a service with a broken queue
    /// would seem healthy and do nothing.
    async fn follow_readiness(&self, mut problem: watch::Receiver<Option<String>>) {
        while problem.changed().await.is_ok() {
            let text = problem.borrow_and_update().clone();
            self.readiness.queue(&self.kind, text.as_ref().map(|text| text as &dyn std::fmt::Display));
        }
    }

    async fn pull(&self, queue: &mut WorkQueue, pulled: &mut VecDeque<Delivery>) {
        loop {
            pulled.extend(queue.pull(self.batch).await);
            while let Some(delivery) = pulled.front() {
                self.part.passed(delivery.position).await;
                let Some(delivery) = pulled.pop_front() else { break };
                if !self.pass_on(delivery).await {
                    return;
                }
            }
        }
    }

    /// Sends an event to the worker for each key that it concerns, or acknowledges it if there are
    /// none. Returns false if the worker has ended.
    async fn pass_on(&self, delivery: Delivery) -> bool {
        let (event, receipt) = delivery.split();
        let mut keys = self.handler.keys(&event.object, &event.change, &self.index);
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            receipt.ack().await;
            return true;
        }
        let sight = Sight::of(&event.change);
        let delivery = Arc::new(SharedDelivery::new(receipt, keys.len()));
        for key in keys {
            let arrival =
                Arrival { delivery: Arc::clone(&delivery), trace: event.trace.clone(), time: event.time };
            let message = Message::Event { key, object: event.object.clone(), sight: sight.clone(), arrival };
            if self.sender.send(message).await.is_err() {
                return false;
            }
        }
        true
    }
}
