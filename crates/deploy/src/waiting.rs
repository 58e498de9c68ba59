//! When an item is looked at again that is not at its end.

use std::time::Duration;

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::Waiting;
use groundwork_controller::{ApiError, Reconciled};
use groundwork_lifecycle::waits::WORK_LOOK;
use jiff::{SignedDuration, Timestamp};

use crate::deploy_loop::{Context, DeployLoop, now, started};
use crate::watches::{Pauses, Watch};

/// An item that is not at its end is looked at again after this time at the latest (7.7, 7).
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// And not before this: an item that has just begun is often done soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// How old that may become while it works.
const RENEWED: SignedDuration = SignedDuration::from_secs(15);

impl DeployLoop {
    /// How long an item is left alone. What it waits for is watched if that is possible; then it is woken when that has come.
    pub(crate) async fn wait(
        &self,
        item: &DeployItem,
        waiting: Option<Waiting>,
        context: &Context<'_>,
    ) -> Duration {
        let until = self.deadline(item).0;
        let Some(waiting) = waiting else {
            // Something is wrong: the cluster may have said how long it is to be left alone.
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
        // Half of the time at most goes into rounds.
        let pauses = Pauses { shortest: context.begun.elapsed().min(pause), unwatched: pause };
        let opened = self.watches.open((*cluster).clone(), &waiting.awaited, wake, pauses).await;
        let Some(mut watch) = opened else { return pause };
        watch.version = item.resource_version();
        watch.until = until;
        self.watches.keep(context.request.key, watch);
        no_later_than(until, WORK_LOOK)
    }

    /// Leaves an item alone whose cluster is watched, if nothing has come and nothing else has changed. `None` if it is to be looked at.
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

    /// How long the cluster of the Target wants to be left alone.
    async fn rest(&self, context: &Context<'_>) -> Option<Duration> {
        let cluster = self.targets.cluster(context.target?, context.request.objects).await.ok()?;
        cluster.rest()
    }
}

/// A pause, or what is left of the time; that it is over is told soon.
fn no_later_than(until: Option<Timestamp>, pause: Duration) -> Duration {
    let left =
        until.map(|until| Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default());
    left.map_or(pause, |left| pause.min(left.max(SHORTEST_PAUSE)))
}

/// Says now and then that the item is still worked on.
pub(crate) fn renew(item: &mut DeployItem) {
    let status = item.status.get_or_insert_default();
    let said = status.last_reconcile_time.as_ref().map(|time| time.0);
    if said.is_none_or(|said| Timestamp::now().duration_since(said) > RENEWED) {
        status.last_reconcile_time = Some(now());
    }
}

/// A quarter of the time that has passed: what is done soon is seen soon, and what takes long is asked for seldom.
fn pause(item: &DeployItem) -> Duration {
    let elapsed =
        started(item).and_then(|start| Duration::try_from(Timestamp::now().duration_since(start)).ok());
    (elapsed.unwrap_or_default() / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy_loop::tests::item;

    /// What is done soon is seen soon; nobody waits longer than the contract says.
    #[test]
    fn pauses_grow() {
        assert_eq!(pause(&item(0)), SHORTEST_PAUSE);
        let later = pause(&item(8));
        assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&later), "{later:?}");
        assert_eq!(pause(&item(1000)), LONGEST_PAUSE);
    }

    /// That the time is over is seen when it is, and not once more a moment before.
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
