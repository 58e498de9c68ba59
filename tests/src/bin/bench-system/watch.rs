//! Waits for many objects with a watch. Repeated lists would load the API server and distort the
//! measurement.

use std::collections::HashSet;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use futures::{Stream, StreamExt};
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Number of object names that an error lists.
const NAMES: usize = 5;
/// Timeout for events that usually take fractions of a second.
const EVENT_PATIENCE: Duration = Duration::from_secs(60);

/// Watches until `count` objects satisfy the condition. An object that satisfied it once keeps
/// counting, even if it changes later.
pub(crate) async fn until<K>(
    objects: &Api<K>,
    count: usize,
    patience: Duration,
    is_so: impl Fn(&K) -> bool,
) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut done = HashSet::new();
    let end = tokio::time::Instant::now() + patience;
    while done.len() < count {
        // List again after each watch: the server ends a watch that falls behind, and the initial
        // events of a watch have no order.
        let list = objects.list(&ListParams::default()).await?;
        done.extend(list.iter().filter(|object| is_so(object)).map(ResourceExt::name_any));
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut events = objects.watch(&WatchParams::default(), &version).await?.boxed();
        while done.len() < count {
            let Ok(event) = tokio::time::timeout_at(end, events.next()).await else {
                let told = format!(
                    "after {} s, {} of {count} are as they should be",
                    patience.as_secs(),
                    done.len()
                );
                return Err(missed(objects, &done, is_so).await.context(told));
            };
            let Some(Ok(event)) = event else { break };
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && is_so(&object)
            {
                done.insert(object.name_any());
            }
        }
    }
    Ok(())
}

/// Waits for an event of a watch.
pub(crate) async fn first<K>(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<K>>> + Unpin),
    is_it: impl Fn(&WatchEvent<K>) -> bool,
) -> Result<()> {
    let find = async {
        while let Some(event) = events.next().await {
            if is_it(&event?) {
                return Ok(());
            }
        }
        bail!("the watch has ended")
    };
    tokio::time::timeout(EVENT_PATIENCE, find)
        .await
        .map_err(|_| anyhow!("no such event in {} s", EVENT_PATIENCE.as_secs()))?
}

/// Error for objects whose expected state the watch did not report. A list shows whether the
/// objects are not in that state, or the watch missed the event.
async fn missed<K>(objects: &Api<K>, done: &HashSet<String>, is_so: impl Fn(&K) -> bool) -> Error
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let list = match objects.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => return anyhow!(error).context("and no list can be read"),
    };
    let untold = list.iter().filter(|object| !done.contains(&object.name_any()));
    let (so, otherwise): (Vec<_>, Vec<_>) = untold.partition(|object| is_so(object));
    let names = |objects: &[&K]| {
        let names: Vec<_> = objects.iter().take(NAMES).map(|object| object.name_any()).collect();
        format!("{} ({})", objects.len(), names.join(", "))
    };
    anyhow!("by a list, {} of the others are so too, {} are not", names(&so), names(&otherwise))
}
