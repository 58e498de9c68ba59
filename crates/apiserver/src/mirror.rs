//! Mirror of the records of a cluster in a [`Log`]: one list, and a watch from there.

use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use groundwork_telemetry::{Condition, innermost_cause};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::log::{Log, Served};

/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Pause before the next attempt after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which the API server ends a watch, in seconds. The next one continues.
const WATCH_SECONDS: u32 = 290;
/// Longest silence of a watch. The API server sends a bookmark about once a minute, so a longer
/// silence means that the connection is dead.
const SILENCE: Duration = Duration::from_secs(150);

/// A kind whose objects are mirrored.
pub trait Recorded:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + 'static
{
}

impl<K> Recorded for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + 'static
{
}

/// Keeps a log equal to the records of a namespace, or of all if it is empty, until `end` is
/// cancelled. `serve` returns the object of a record; a record without one is not served.
pub async fn mirror<K: Recorded>(
    client: Client,
    namespace: String,
    log: &Log,
    serve: impl Fn(&K) -> Option<Served>,
    ready: &Condition,
    end: CancellationToken,
) {
    let api: Api<K> = match namespace.as_str() {
        "" => Api::all(client),
        namespace => Api::namespaced(client, namespace),
    };
    let following = async {
        let mut from = None;
        loop {
            let followed = match from.take() {
                None => list(&api, log, &serve).await,
                Some(version) => watch(&api, version, log, &serve).await,
            };
            match followed {
                Ok(version) => {
                    ready.ready();
                    from = Some(version);
                }
                Err(Interrupted { problem, continues_at }) => {
                    if !log.is_filled() {
                        ready.not_ready(format!("cannot read {}: {problem}", K::plural(&())));
                    }
                    tracing::debug!(kind = %K::plural(&()), problem, "the mirror of records begins anew");
                    from = continues_at;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    end.run_until_cancelled(following).await;
}

/// Failure of a list or a watch.
struct Interrupted {
    problem: String,
    /// Version from which the next watch continues; `None` if a new list is needed.
    continues_at: Option<String>,
}

/// Reads all records, and returns the version of the list.
async fn list<K: Recorded>(
    api: &Api<K>,
    log: &Log,
    serve: &impl Fn(&K) -> Option<Served>,
) -> Result<String, Interrupted> {
    let failed = |problem: String| Interrupted { problem, continues_at: None };
    let mut parameters = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| failed(told::<K>(&error)))?;
        objects.extend(page.items.iter().filter_map(serve));
        let version = page.metadata.resource_version.unwrap_or_default();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => {
                let number = number(&version).map_err(failed)?;
                log.replace(objects, number);
                return Ok(version);
            }
        }
    }
}

/// Returns the reason why records cannot be read.
fn told<K: Recorded>(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            format!("the API server has no {}.{}: install its definition", K::plural(&()), K::group(&()))
        }
        error => innermost_cause(error),
    }
}

/// Follows the changes after a version, and returns the last version when the watch has ended.
async fn watch<K: Recorded>(
    api: &Api<K>,
    mut version: String,
    log: &Log,
    serve: &impl Fn(&K) -> Option<Served>,
) -> Result<String, Interrupted> {
    let parameters = WatchParams::default().timeout(WATCH_SECONDS);
    let failed =
        |problem: String, version: &str| Interrupted { problem, continues_at: Some(version.to_owned()) };
    let events = api.watch(&parameters, &version).await;
    let events = events.map_err(|error| failed(innermost_cause(&error), &version))?;
    futures::pin_mut!(events);
    loop {
        let event = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => return Err(failed(innermost_cause(&error), &version)),
            Ok(None) => return Ok(version),
            Err(_) => return Err(failed("the watch is silent".to_owned(), &version)),
        };
        let renewed = |problem: String| Interrupted { problem, continues_at: None };
        version = match event {
            WatchEvent::Added(record) | WatchEvent::Modified(record) => {
                if let Some(object) = serve(&record) {
                    log.put(object);
                }
                record.resource_version().unwrap_or_default()
            }
            WatchEvent::Deleted(record) => {
                let version = record.resource_version().unwrap_or_default();
                let at = number(&version).map_err(renewed)?;
                log.delete(&record.namespace().unwrap_or_default(), &record.name_any(), at);
                version
            }
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
            // The version is too old, which only a new list can mend.
            WatchEvent::Error(status) => return Err(renewed(status.message.clone())),
        };
        log.reach(number(&version).map_err(renewed)?);
    }
}

/// Returns a version as a number: Kubernetes' versions of one kind are comparable integers.
fn number(version: &str) -> Result<u64, String> {
    version.parse().map_err(|_| format!("the resourceVersion {version:?} is no number"))
}
