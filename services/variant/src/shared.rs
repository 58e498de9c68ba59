//! State that the controllers of sets, variants and packages share.
//!
//! The handler fills this state from events, and the reconcilers read it. This module calls neither
//! of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{Key, Workers};
use groundwork_fleet::Retry;
use groundwork_telemetry::Health;

use crate::inputs::Selected;
use crate::packages::{PackageStore, PorchStore, Relations};
use crate::watches::Watches;
use crate::work::Expanders;

/// Number of locks above which unused locks are dropped.
const MAX_LOCKS: usize = 4096;

/// State that the controllers of the service share.
pub(crate) struct Shared {
    pub(crate) watches: Watches,
    /// Threads for sets; calls have their own.
    pub(crate) workers: Workers,
    /// Worker processes for sets; calls have their own.
    pub(crate) expanders: Expanders,
    /// API of the server that keeps packages; `None` if this service does not draft.
    pub(crate) packages: Option<PorchStore>,
    /// Package store that this process serves by that API.
    pub(crate) store: Option<PackageStore>,
    /// True if the specs of annotated objects follow tags.
    pub(crate) follows_tags: bool,
    relations: Mutex<Relations>,
    memory: Mutex<Memory>,
}

/// State that a restart may lose, since the service reconciles all sets after a restart.
#[derive(Default)]
struct Memory {
    /// Time of the last expansion of each set.
    expanded: HashMap<Key, Instant>,
    /// Locks of packages: if several variants make the same package, one of them is reconciled at a
    /// time.
    locks: HashMap<Key, Arc<tokio::sync::Mutex<()>>>,
    /// Number of failures in a row of each variant, for its back-off.
    failures: HashMap<Key, u32>,
}

/// Returns the threads that evaluate the expressions of sets. Readiness fails while many expansions
/// run beyond their limit, because no new ones start beside them.
pub(crate) fn expansion_workers(health: &Health) -> Workers {
    Workers::default().with_condition(health.condition("expanding"))
}

impl Shared {
    pub(crate) fn new(
        watches: Watches,
        expanders: Expanders,
        (packages, store): (Option<PorchStore>, Option<PackageStore>),
        health: &Health,
    ) -> Self {
        Self {
            watches,
            workers: expansion_workers(health),
            expanders,
            packages,
            store,
            follows_tags: false,
            relations: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// Returns the same state with tag following on or off.
    pub(crate) fn following_tags(self, follows_tags: bool) -> Self {
        Self { follows_tags, ..self }
    }

    /// Returns the lock of a key, for work that must not run twice at the same time.
    pub(crate) fn lock(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut memory = self.memory();
        if memory.locks.len() >= MAX_LOCKS {
            memory.locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(memory.locks.entry(key.clone()).or_default())
    }

    /// Returns the back-off of a failed variant, which grows with each failure in a row.
    pub(crate) fn delay(&self, key: &Key, retry: Retry) -> Option<Duration> {
        let mut memory = self.memory();
        let failures = memory.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        retry.delay(*failures)
    }

    /// Resets the failures of a variant after a success.
    pub(crate) fn succeeded(&self, key: &Key) {
        self.memory().failures.remove(key);
    }

    /// Watches the objects that a variant injects: all kinds of its injection points, and the names
    /// of its selectors (`packagevariants.md` 3.4.8).
    pub(crate) fn follow_injected(&self, key: &Key, kinds: Vec<Selected>, names: &[String]) {
        let of_kind = |kind: &Selected| {
            let kind = Kind::new(kind.group.as_str(), kind.plural.as_str());
            names
                .iter()
                .map(move |name| ObjectId::new(kind.clone(), key.namespace.as_deref(), name))
                .collect::<Vec<_>>()
        };
        let objects = kinds.iter().flat_map(of_kind).collect();
        self.relations().set_injected(key, objects);
        self.watches.set_selected(key, kinds);
    }

    /// Records whether a variant follows a tag. Such a variant is reconciled on every revision of
    /// its upstream.
    pub(crate) fn set_following(&self, variant: &Key, follows: bool) {
        self.relations().set_following(variant, follows);
    }

    /// Returns the names of the package revisions that a variant may control.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<String> {
        self.relations().owned_by(uid)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Relations between objects, as events have shown them.
    pub(crate) fn relations(&self) -> MutexGuard<'_, Relations> {
        self.relations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the last expansion of a set.
    pub(crate) fn since_expansion(&self, set: &Key) -> Option<Duration> {
        self.memory().expanded.get(set).map(Instant::elapsed)
    }

    pub(crate) fn note_expansion(&self, set: &Key) {
        self.memory().expanded.insert(set.clone(), Instant::now());
    }

    pub(crate) fn forget_expansion(&self, set: &Key) {
        self.memory().expanded.remove(set);
    }

    pub(crate) fn forget_expansions(&self) {
        self.memory().expanded.clear();
    }
}
