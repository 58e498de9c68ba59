//! From the work queue of one kind to the worker.

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
    /// What the kind is a part of: it tells how far the feed is.
    pub(crate) part: Arc<IndexPart>,
    /// Kinds that have to be known before anybody can say what an event concerns.
    pub(crate) needed: Vec<Kind>,
    pub(crate) kind: Kind,
    /// True if the kind follows from objects, so that no permission can name its queue; see [`Bus::selected_work`].
    pub(crate) is_selected: bool,
    pub(crate) readiness: Readiness,
    /// The most events that are pulled at once: few, so that replicas share the work.
    pub(crate) batch: usize,
    pub(crate) sender: mpsc::Sender<Message>,
}

impl Puller {
    /// Pulls until `end` is cancelled; what was not passed on by then is handed back to the bus.
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

    /// Keeps readiness up to date with the queue: a service whose queue is broken would look well and do nothing.
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

    /// Tells the worker which keys an event concerns; acknowledges it if there are none. False if the worker has ended.
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
