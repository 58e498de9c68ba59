//! Watches on the objects that items wait for, so that a round follows the change at once and the
//! cluster is not polled meanwhile.
//!
//! ```text
//! round ──Waiting──> plans (pure) ──Cluster::watch──> a task an item ──all over, or a watch has ended──> Waker: the next round
//! ```
//!
//! A watch is never required: an item without one gets a round after a pause. So watches may be
//! limited in number or forbidden, and any failure of a watch just leads to a round.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use groundwork_api::kubernetes::ResourceVersion;
use groundwork_apply::{Awaited, Cluster, Scope, Selector, WatchEvent, WatchEvents};
use groundwork_controller::Key;
use groundwork_telemetry::Metrics as Registry;
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Maximum watches of one item. Other objects that it waits for are checked in the round after
/// these watches are over.
const MOST_OF_ITEM: usize = 8;
/// Time after which the server ends a watch. A round follows, because an event may have been
/// missed.
const LIFETIME: Duration = Duration::from_secs(120);
/// Time after its lifetime at which a watch that has not ended counts as a dead connection.
const OVERDUE: Duration = Duration::from_secs(10);

/// The watches of the items of one deployer.
#[derive(Debug)]
pub struct Watches {
    free: Arc<Semaphore>,
    open: Gauge,
    items: Mutex<HashMap<Key, Watch>>,
}

/// Shortest pauses before an item is woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    /// Shortest pause in any case. Otherwise an item with many unwatched waits would run one round
    /// after the other.
    pub(crate) shortest: Duration,
    /// Pause of an item without a watch. A watch that ends by itself does not wake the item
    /// earlier.
    pub(crate) unwatched: Duration,
}

/// The watches for an item, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// resourceVersion of the item when it began to wait.
    pub(crate) version: Option<String>,
    /// Cluster of the item's Target when the item began to wait.
    pub(crate) cluster: Cluster,
    /// Time at which the wait ends in any case.
    pub(crate) until: Option<Timestamp>,
    is_over: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    /// Reports whether no awaited change has come yet and there is time left.
    pub(crate) fn is_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst) && self.until.is_none_or(|until| Timestamp::now() < until)
    }
}

impl Watches {
    /// Creates watches with a limit on their number; zero disables watches. A metric shows the
    /// number of open watches.
    pub fn new(most: usize, registry: &Registry) -> Self {
        let open = registry.register(
            "target_watches",
            "Watches on what items wait for in the clusters of Targets",
            &[],
            Gauge::default(),
        );
        Self {
            free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            open,
            items: Mutex::default(),
        }
    }

    /// Returns the watches for another deployer of the process, with a shared limit. Each deployer
    /// sees every item, and closes only its own watches for items of other deployers.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self { free: Arc::clone(&self.free), open: self.open.clone(), items: Mutex::default() }
    }

    fn place(&self) -> Option<Place> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        self.open.inc();
        Some(Place { open: self.open.clone(), _permit: permit })
    }

    /// Removes the watches of an item, which end unless they are kept again.
    pub(crate) fn take(&self, key: &Key) -> Option<Watch> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    pub(crate) fn keep(&self, key: &Key, watch: Watch) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), watch);
    }

    /// Opens watches for the awaited objects as far as possible. Wakes the item when all waits are
    /// over, or when a watch has ended by itself. Returns `None` if nothing can be watched.
    pub(crate) async fn open(
        &self,
        cluster: Cluster,
        awaited: &[Awaited],
        wake: impl Future<Output = ()> + Send + 'static,
        pauses: Pauses,
    ) -> Option<Watch> {
        let mut reserved = Vec::new();
        for plan in plans(awaited) {
            let Some(place) = self.place() else { break };
            reserved.push((plan, place));
        }
        let opened = reserved.into_iter().map(|(plan, place)| plan.open(place));
        let opened = futures::future::join_all(opened).await;
        let opened: Vec<Opened> = opened.into_iter().flatten().collect();
        if opened.is_empty() {
            return None;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let task = tokio::spawn(async move {
            until_over(opened, pauses).await;
            told.store(true, Ordering::SeqCst);
            wake.await;
        });
        Some(Watch { version: None, cluster, until: None, is_over, task: task.abort_handle() })
    }
}

/// Place of one watch within the limit of the process.
#[derive(Debug)]
struct Place {
    open: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// A watch to open, and the waits that it serves.
#[derive(Debug)]
struct Plan {
    cluster: Cluster,
    scope: Scope,
    version: Option<String>,
    awaited: Vec<Awaited>,
}

struct Opened {
    events: WatchEvents,
    awaited: Vec<Awaited>,
    place: Place,
}

impl Plan {
    async fn open(self, place: Place) -> Option<Opened> {
        match self.cluster.watch(&self.scope, self.version.as_deref(), LIFETIME).await {
            Ok(events) => Some(Opened { events, awaited: self.awaited, place }),
            Err(error) => {
                tracing::debug!(%error, "an awaited object cannot be watched, so the item is checked after pauses");
                None
            }
        }
    }
}

/// Plans a watch for each object, or one for all objects of a kind and namespace that share labels.
fn plans(awaited: &[Awaited]) -> Vec<Plan> {
    let mut groups: Vec<Vec<&Awaited>> = Vec::new();
    for one in awaited {
        let group = groups.iter_mut().find(|group| group.first().is_some_and(|first| are_alike(first, one)));
        match group {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.iter().take(MOST_OF_ITEM).filter_map(|group| plan(group)).collect()
}

/// Reports whether one watch, from the older of two versions on, can serve both. An object that did
/// not exist has no version, and a watch without a version would show existing objects as new.
fn are_alike(left: &Awaited, right: &Awaited) -> bool {
    let is_groupable = |one: &Awaited| one.name.is_some() && one.labels.is_some() && version(one).is_some();
    is_groupable(left)
        && is_groupable(right)
        && left.cluster.is_same(&right.cluster)
        && (&left.kind, &left.namespace, &left.labels) == (&right.kind, &right.namespace, &right.labels)
}

fn version(awaited: &Awaited) -> Option<ResourceVersion> {
    ResourceVersion::parse(awaited.version.as_deref()?)
}

fn plan(group: &[&Awaited]) -> Option<Plan> {
    let oldest = group.iter().min_by_key(|one| version(one))?;
    let selector = match (&oldest.name, &oldest.labels) {
        (Some(name), _) if group.len() == 1 => Selector::Name(name.clone()),
        (_, Some(labels)) => Selector::Labels(labels.clone()),
        (_, None) => return None,
    };
    let scope = Scope { kind: oldest.kind.clone(), namespace: oldest.namespace.clone(), selector };
    let (cluster, version) = (oldest.cluster.clone(), oldest.version.clone());
    Some(Plan { cluster, scope, version, awaited: group.iter().map(|one| (*one).clone()).collect() })
}

/// Completes when all waits are over, or when a watch has ended, but not before the respective
/// pause.
async fn until_over(opened: Vec<Opened>, pauses: Pauses) {
    let begun = Instant::now();
    let (mut awaited, mut places, mut watches) = (Vec::new(), Vec::new(), Vec::new());
    for (index, one) in opened.into_iter().enumerate() {
        awaited.push(one.awaited);
        places.push(one.place);
        let end = stream::once(std::future::ready(None));
        watches.push(one.events.map(Some).chain(end).map(move |event| (index, event)).boxed());
    }
    let mut events = stream::select_all(watches);
    let is_overdue = tokio::time::sleep(LIFETIME + OVERDUE);
    tokio::pin!(is_overdue);
    while awaited.iter().any(|of_one| !of_one.is_empty()) {
        let next = tokio::select! {
            next = events.next() => next,
            () = &mut is_overdue => None,
        };
        let Some((index, Some(event))) = next else {
            tokio::time::sleep_until(begun + pauses.unwatched).await;
            return;
        };
        let (object, is_deleted) = match &event {
            WatchEvent::Applied(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
        };
        if let Some(of_one) = awaited.get_mut(index) {
            of_one.retain(|one| !one.is_over(object, is_deleted));
        }
    }
    tokio::time::sleep_until(begun + pauses.shortest).await;
}

#[cfg(test)]
pub(crate) mod tests;
