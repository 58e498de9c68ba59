//! Waiting for many objects: a list again and again would keep the API server busy with the measuring.

use std::collections::HashSet;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::api::{Api, WatchParams};
use kube::core::WatchEvent;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Watches until as many objects are as they should be; one that was so counts, whatever becomes of it.
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
    let mut version = "0".to_owned();
    while done.len() < count {
        let mut events = objects.watch(&WatchParams::default(), &version).await?.boxed();
        loop {
            let Ok(event) = tokio::time::timeout_at(end, events.next()).await else {
                bail!("after {} s, {} of {count} are as they should be", patience.as_secs(), done.len())
            };
            let Some(Ok(event)) = event else { break };
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                version = object.resource_version().unwrap_or_default();
                if is_so(&object) {
                    done.insert(object.name_any());
                }
            }
            if done.len() == count {
                break;
            }
        }
    }
    Ok(())
}
