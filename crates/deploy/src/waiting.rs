//! Pauses between the rounds of an item.

use std::time::Duration;

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::Waiting;
use groundwork_controller::{ApiError, Reconciled};
use groundwork_lifecycle::waits::WORK_LOOK;
use jiff::{SignedDuration, Timestamp};

use crate::deploy_loop::{Context, DeployLoop, now, started};
use crate::watches::{Pauses, Watch};

/// Longest pause before the next round (`installations.md` 7.7, item 7).
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Shortest pause before the next round: an item that has just begun is often done soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// Age at which `lastReconcileTime` is renewed while the item is being worked on.
const RENEWED: SignedDuration = SignedDuration::from_secs(15);

impl DeployLoop {
    /// Returns the pause before the next round. If possible, the awaited objects are watched, and
    /// the item is woken when they have changed.
    pub(crate) async fn wait(
        &self,
        item: &DeployItem,
        waiting: Option<Waiting>,
        context: &Context<'_>,
    ) -> Duration {
        let until = self.deadline(item).0;
        let Some(waiting) = waiting else {
            // The round failed: the cluster may have asked for a longer pause.
            let rest = self.rest(context).await.unwrap_or_default();
            return no_later_than(until, pause(item).max(rest));
        };
        let until = waiting.until.into_iter().chain(until).min();
        let pause = no_later_than(until, pause(item));
        let Some(target) = context.target.filter(|_| !waiting.awaited.is_empty()) else { return pause };
        let objects = context.request.objects;
        let Ok(cluster) = self.targets.cluster(target, objects).await else { return pause };
        let waker = context.request.waker.clone();
        let wake = async move { waker.wake().await };
        // A pause as long as the round itself limits rounds to half of the time.
        let pauses = Pauses { shortest: context.begun.elapsed().min(pause), unwatched: pause };
        let opened = self.watches.open((*cluster).clone(), &waiting.awaited, wake, pauses).await;
        let Some(mut watch) = opened else { return pause };
        watch.version = item.resource_version();
        watch.until = until;
        self.watches.keep(context.request.key, watch);
        no_later_than(until, WORK_LOOK)
    }

    /// Continues the wait of an item with open watches, if no event has come and the item is
    /// unchanged. Returns `None` if a new round is needed.
    pub(crate) async fn go_on_waiting(
        &self,
        item: &DeployItem,
        mut watch: Watch,
        context: &Context<'_>,
    ) -> Result<Option<Reconciled>, ApiError> {
        let (objects, Some(target)) = (context.request.objects, context.target) else { return Ok(None) };
        if !watch.is_on() || watch.version != item.resource_version() {
            return Ok(None);
        }
        let cluster = self.targets.cluster(target, objects).await;
        if !cluster.is_ok_and(|cluster| cluster.is_same(&watch.cluster)) {
            return Ok(None);
        }
        let mut renewed = item.clone();
        renew(&mut renewed);
        if renewed != *item {
            watch.version = objects.replace_status(&renewed).await?.resource_version();
        }
        let pause = no_later_than(watch.until, WORK_LOOK);
        self.watches.keep(context.request.key, watch);
        Ok(Some(Reconciled::requeue_after(pause)))
    }

    /// Returns the pause that the Target's cluster has asked for.
    async fn rest(&self, context: &Context<'_>) -> Option<Duration> {
        let cluster = self.targets.cluster(context.target?, context.request.objects).await.ok()?;
        cluster.rest()
    }
}

/// Cuts a pause at the deadline, so that a time-out is reported promptly.
fn no_later_than(until: Option<Timestamp>, pause: Duration) -> Duration {
    let left =
        until.map(|until| Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default());
    left.map_or(pause, |left| pause.min(left.max(SHORTEST_PAUSE)))
}

/// Renews the claim on the item now and then.
pub(crate) fn renew(item: &mut DeployItem) {
    let status = item.status.get_or_insert_default();
    let said = status.last_reconcile_time.as_ref().map(|time| time.0);
    if said.is_none_or(|said| Timestamp::now().duration_since(said) > RENEWED) {
        status.last_reconcile_time = Some(now());
    }
}

/// Returns a quarter of the job's age as the pause: short jobs are polled quickly, long ones
/// rarely.
fn pause(item: &DeployItem) -> Duration {
    let elapsed =
        started(item).and_then(|start| Duration::try_from(Timestamp::now().duration_since(start)).ok());
    (elapsed.unwrap_or_default() / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy_loop::tests::item;

    /// Short jobs are seen early, and the pause never exceeds the contract's limit.
    #[test]
    fn pauses_grow() {
        assert_eq!(pause(&item(0)), SHORTEST_PAUSE);
        let later = pause(&item(8));
        assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&later), "{later:?}");
        assert_eq!(pause(&item(1000)), LONGEST_PAUSE);
    }

    /// The last pause ends exactly at the deadline, without an extra round just before it.
    #[test]
    fn pauses_end_with_the_time() {
        let pause = Duration::from_secs(5);
        let within =
            |millis: i64| no_later_than(Some(Timestamp::now() + SignedDuration::from_millis(millis)), pause);
        assert_eq!((no_later_than(None, pause), within(60_000)), (pause, pause));
        assert!((Duration::from_secs(1)..=Duration::from_secs(3)).contains(&within(3_000)));
        assert_eq!((within(10), within(-1_000)), (SHORTEST_PAUSE, SHORTEST_PAUSE));
    }
}
