//! The tasks that feed a worker: one for each part of the index, which follows its feed, and one
//! for each work queue.

use std::collections::HashMap;
use std::sync::Arc;

use groundwork_bus::{Bus, Index, IndexPart, Kind};
use groundwork_telemetry::Health;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::controller::{Message, Options};
use crate::index_follower::{Resets, follow};
use crate::puller::Puller;
use crate::readiness::Readiness;
use crate::reconcile::Handler;
use crate::sources::{SourceChange, SourceChanges};

/// State that all feeding tasks share.
#[derive(Clone)]
pub(crate) struct Feeders {
    pub(crate) bus: Bus,
    pub(crate) index: Index,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) options: Options,
    pub(crate) sender: mpsc::Sender<Message>,
}

impl Feeders {
    /// Feeds the kinds that a controller starts with, until `end` is cancelled.
    pub(crate) fn own(
        &self,
        readiness: &Readiness,
        end: &CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let part = Arc::new(self.index.part(self.options.kinds()));
        let mut tasks = JoinSet::new();
        let following = self.follow(&part, readiness, Resets::Tell, end.clone());
        tasks.spawn(following.in_current_span());
        for kind in self.options.work.clone() {
            let pulling = self.puller(&part, kind, false, readiness).run(end.clone());
            tasks.spawn(pulling.in_current_span());
        }
        async move { while tasks.join_next().await.is_some() {} }
    }

    /// Feeds kinds as they are added and removed, until `end` is cancelled.
    pub(crate) fn others(
        &self,
        changes: SourceChanges,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let feeders = self.clone();
        async move {
            let SourceChanges(mut changes) = changes;
            let mut running: HashMap<Kind, CancellationToken> = HashMap::new();
            let mut tasks = JoinSet::new();
            while let Some(Some(change)) = end.run_until_cancelled(changes.recv()).await {
                while tasks.try_join_next().is_some() {}
                match change {
                    SourceChange::Add(kind) => {
                        running.entry(kind).or_insert_with_key(|kind| {
                            let until = end.child_token();
                            tasks.spawn(feeders.source(kind.clone(), until.clone()).in_current_span());
                            until
                        });
                    }
                    SourceChange::Remove(kind) => {
                        if let Some(until) = running.remove(&kind) {
                            until.cancel();
                        }
                    }
                }
            }
            while tasks.join_next().await.is_some() {}
        }
    }

    /// Feeds one kind that was added later.
    fn source(&self, kind: Kind, end: CancellationToken) -> impl Future<Output = ()> + use<> {
        let part = Arc::new(self.index.part(vec![kind.clone()]));
        // The readiness of the service must not depend on this kind, so its condition is not
        // registered.
        let readiness = Readiness::new(Health::default().condition("index"));
        let following = self.follow(&part, &readiness, Resets::Keep, end.clone());
        let pulling = self.puller(&part, kind, true, &readiness).run(end);
        async move {
            // Dropping the part forgets the objects of the kind, so keep it until both tasks have
            // ended.
            let _part = part;
            tokio::join!(following, pulling);
        }
    }

    fn follow(
        &self,
        part: &Arc<IndexPart>,
        readiness: &Readiness,
        resets: Resets,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let following = follow(
            self.bus.clone(),
            Arc::clone(part),
            Arc::clone(&self.handler),
            readiness.clone(),
            self.sender.clone(),
            resets,
        );
        async move {
            end.run_until_cancelled(following).await;
        }
    }

    fn puller(&self, part: &Arc<IndexPart>, kind: Kind, is_selected: bool, readiness: &Readiness) -> Puller {
        Puller {
            bus: self.bus.clone(),
            index: self.index.clone(),
            handler: Arc::clone(&self.handler),
            service: self.options.service,
            part: Arc::clone(part),
            needed: self.options.kinds(),
            kind,
            is_selected,
            readiness: readiness.clone(),
            batch: self.options.concurrency.max(1),
            sender: self.sender.clone(),
        }
    }
}
