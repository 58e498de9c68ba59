//! Objects of a server with their changes, in the order of their versions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::watch;

use crate::selector::{Fields, Selector};

/// Changes that are kept for watches that continue from an older version. A watch that is further
/// behind has to begin anew.
const MAX_EVENTS: usize = 10_000;

/// Longest wait for a version that another replica has answered.
pub const LAG: Duration = Duration::from_secs(3);

/// Object as it is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    pub namespace: String,
    pub name: String,
    pub version: u64,
    pub labels: BTreeMap<String, String>,
    pub fields: Fields,
    /// The object as JSON.
    pub json: Bytes,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// Change of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Version of the change. The last state of a deleted object has an older one.
    pub version: u64,
    pub change: Change,
    pub object: Arc<Served>,
    /// State before the change.
    pub before: Option<Arc<Served>>,
}

impl Event {
    /// Returns the change as a watch with this condition sees it: an object that begins or ceases
    /// to fulfil the condition is added or deleted.
    pub fn seen_by(&self, namespace: &str, selector: &Selector) -> Option<Change> {
        let is_selected = |object: &Served| {
            (namespace.is_empty() || object.namespace == namespace)
                && selector.matches(&object.labels, &object.fields)
        };
        let was = self.before.as_deref().is_some_and(is_selected);
        let is = self.change != Change::Deleted && is_selected(&self.object);
        match (was, is) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }
}

/// Version that is older than all kept changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    pub oldest: u64,
}

/// Objects by namespace and name, and their last changes.
#[derive(Debug)]
pub struct Log {
    inner: RwLock<Inner>,
    /// Newest version, for those that wait for the next change.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<(String, String), Arc<Served>>,
    events: VecDeque<Arc<Event>>,
    /// Version after which all changes are kept.
    floor: u64,
    version: u64,
    /// True once the objects have been read.
    is_filled: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { inner: RwLock::default(), newest: watch::Sender::new(0) }
    }
}

impl Log {
    /// Replaces all objects by those of a list with this version. Differences become changes, so
    /// that watches go on.
    pub fn replace(&self, objects: Vec<Served>, version: u64) {
        let mut inner = self.write();
        let mut gone = std::mem::take(&mut inner.objects);
        for object in objects {
            let key = (object.namespace.clone(), object.name.clone());
            let object = Arc::new(object);
            let before = gone.remove(&key);
            if before.as_ref() != Some(&object) && inner.is_filled {
                let change = if before.is_some() { Change::Modified } else { Change::Added };
                inner.keep(Event { version, change, object: Arc::clone(&object), before });
            }
            inner.objects.insert(key, object);
        }
        for (_, object) in gone {
            inner.keep(Event {
                version,
                change: Change::Deleted,
                object: Arc::clone(&object),
                before: Some(object),
            });
        }
        if !inner.is_filled {
            inner.floor = version;
            inner.is_filled = true;
        }
        inner.version = inner.version.max(version);
        let newest = inner.version;
        drop(inner);
        self.newest.send_replace(newest);
    }

    /// Records the new state of an object. An older state than the present one is ignored.
    pub fn put(&self, object: Served) {
        let mut inner = self.write();
        let key = (object.namespace.clone(), object.name.clone());
        let before = inner.objects.get(&key).cloned();
        if before.as_ref().is_some_and(|before| before.version >= object.version) {
            return;
        }
        let (version, object) = (object.version, Arc::new(object));
        let change = if before.is_some() { Change::Modified } else { Change::Added };
        inner.objects.insert(key, Arc::clone(&object));
        inner.keep(Event { version, change, object, before });
        self.advance(inner, version);
    }

    /// Records the deletion of an object at a version.
    pub fn delete(&self, namespace: &str, name: &str, version: u64) {
        let mut inner = self.write();
        if let Some(before) = inner.objects.remove(&(namespace.to_owned(), name.to_owned())) {
            let event =
                Event { version, change: Change::Deleted, object: Arc::clone(&before), before: Some(before) };
            inner.keep(event);
        }
        self.advance(inner, version);
    }

    /// Records that nothing else has changed up to a version.
    pub fn reach(&self, version: u64) {
        self.advance(self.write(), version);
    }

    fn advance(&self, mut inner: RwLockWriteGuard<'_, Inner>, version: u64) {
        inner.version = inner.version.max(version);
        let newest = inner.version;
        drop(inner);
        self.newest.send_replace(newest);
    }

    /// Reports whether the objects have been read.
    pub fn is_filled(&self) -> bool {
        self.read().is_filled
    }

    /// Returns the selected objects of a namespace, or of all if it is empty, and their version.
    pub fn list(&self, namespace: &str, selector: &Selector) -> (Vec<Arc<Served>>, u64) {
        let inner = self.read();
        let selected = |object: &&Arc<Served>| selector.matches(&object.labels, &object.fields);
        let objects = match namespace {
            "" => inner.objects.values().filter(selected).cloned().collect(),
            namespace => {
                let from = (namespace.to_owned(), String::new());
                let of_namespace =
                    inner.objects.range(from..).take_while(|((found, _), _)| found == namespace);
                of_namespace.map(|(_, object)| object).filter(selected).cloned().collect()
            }
        };
        (objects, inner.version)
    }

    /// Returns an object as it was seen last.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Served>> {
        self.read().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns the changes after a version, and the version up to which they are complete.
    ///
    /// # Errors
    ///
    /// Some of them are no longer kept.
    pub fn since(&self, version: u64) -> Result<(Vec<Arc<Event>>, u64), Expired> {
        let inner = self.read();
        if version < inner.floor {
            return Err(Expired { oldest: inner.floor });
        }
        let begin = inner.events.partition_point(|event| event.version <= version);
        Ok((inner.events.range(begin..).cloned().collect(), inner.version))
    }

    /// Waits until a version is reached.
    ///
    /// # Errors
    ///
    /// The newest version, if it is not reached within this time.
    pub async fn until(&self, version: u64, limit: Duration) -> Result<(), u64> {
        let mut newest = self.newest.subscribe();
        let reached = tokio::time::timeout(limit, newest.wait_for(|newest| *newest >= version)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            _ => Err(*self.newest.borrow()),
        }
    }

    /// Returns a receiver of newer versions.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn keep(&mut self, event: Event) {
        // Versions must not decrease, or the search for a version would miss changes.
        let version = self.events.back().map_or(event.version, |last| last.version.max(event.version));
        self.events.push_back(Arc::new(Event { version, ..event }));
        if self.events.len() > MAX_EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            self.floor = self.floor.max(oldest.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(name: &str, version: u64, label: &str) -> Served {
        Served {
            namespace: "a".to_owned(),
            name: name.to_owned(),
            version,
            labels: [("k".to_owned(), label.to_owned())].into(),
            fields: Fields::new(),
            json: Bytes::from_static(b"{}"),
        }
    }

    fn seen(log: &Log, since: u64, labels: &str) -> Vec<(u64, &'static str, String)> {
        let selector = Selector::parse(labels, "", |_| true).unwrap();
        let (events, _) = log.since(since).unwrap();
        let told = |event: &Arc<Event>| {
            let change = match event.seen_by("a", &selector)? {
                Change::Added => "added",
                Change::Modified => "modified",
                Change::Deleted => "deleted",
            };
            Some((event.version, change, event.object.name.clone()))
        };
        events.iter().filter_map(told).collect()
    }

    #[test]
    fn changes_in_order() {
        let log = Log::default();
        log.replace(vec![served("x", 3, "1")], 5);
        assert_eq!(log.since(4), Err(Expired { oldest: 5 }));
        log.put(served("y", 6, "1"));
        log.put(served("x", 7, "2"));
        log.put(served("x", 6, "0"));
        log.delete("a", "y", 9);
        log.reach(11);
        let name = |name: &str| name.to_owned();
        assert_eq!(
            seen(&log, 5, ""),
            [(6, "added", name("y")), (7, "modified", name("x")), (9, "deleted", name("y"))]
        );
        assert_eq!(seen(&log, 6, ""), [(7, "modified", name("x")), (9, "deleted", name("y"))]);
        assert_eq!(
            seen(&log, 5, "k=1"),
            [(6, "added", name("y")), (7, "deleted", name("x")), (9, "deleted", name("y"))]
        );
        assert_eq!(seen(&log, 5, "k=2"), [(7, "added", name("x"))]);
        let (objects, version) = log.list("a", &Selector::default());
        assert_eq!((objects.len(), version), (1, 11));
        assert_eq!(log.list("b", &Selector::default()).0.len(), 0);
    }

    /// A relist after a gap reports what has changed in it.
    #[test]
    fn a_list_becomes_changes() {
        let log = Log::default();
        log.replace(vec![served("x", 3, "1"), served("y", 4, "1")], 5);
        log.replace(vec![served("x", 3, "1"), served("z", 8, "1")], 9);
        let name = |name: &str| name.to_owned();
        assert_eq!(seen(&log, 5, ""), [(9, "added", name("z")), (9, "deleted", name("y"))]);
    }

    #[test]
    fn old_changes_are_dropped() {
        let log = Log::default();
        log.replace(Vec::new(), 0);
        for version in 1..=MAX_EVENTS as u64 + 3 {
            log.put(served("x", version, "1"));
        }
        assert_eq!(log.since(2), Err(Expired { oldest: 3 }));
        assert_eq!(log.since(3).unwrap().0.len(), MAX_EVENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_is_waited_for() {
        let log = Log::default();
        let waiting = log.until(3, Duration::from_secs(1));
        futures::pin_mut!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        log.reach(3);
        assert_eq!(waiting.await, Ok(()));
        assert_eq!(log.until(4, Duration::from_secs(1)).await, Err(3));
    }
}
