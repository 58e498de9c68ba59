//! Which keys events concern, and who works on them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use groundwork_api::{Kind as Typed, PackageRevision, PackageVariant, PackageVariantSet, view};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{Handler, Key, ReconcileError, ReconcileRequest, Reconciled, Workers};
use groundwork_telemetry::Health;
use groundwork_variant::FINALIZER;
use jiff::Timestamp;

use crate::watches::Watches;
use crate::{package_variant, set};

/// A set is expanded at most this often because of other objects (`packagevariants.md` 4.10).
const DEBOUNCE: Duration = Duration::from_secs(5);

/// The kind of a type, for the bus.
pub(crate) fn kind<K: Typed>() -> Kind {
    Kind::new(K::GROUP, K::PLURAL)
}

/// What the controllers of the service have in common.
pub(crate) struct Shared {
    pub(crate) watches: Watches,
    /// For sets; calls have others.
    pub(crate) workers: Workers,
    memory: Mutex<Memory>,
}

/// What a restart may lose, since all sets are reconciled then.
#[derive(Default)]
struct Memory {
    /// The set of each variant; an event of its end does not name it.
    sets: HashMap<ObjectId, Key>,
    /// When a set was expanded last.
    expanded: HashMap<Key, Instant>,
    /// A set is worked on by one task, whichever controller woke it.
    locks: HashMap<Key, Arc<tokio::sync::Mutex<()>>>,
}

/// Workers for sets. Readiness tells when much runs on beyond the limit, since nothing new is begun beside more of it.
fn expansion_workers(health: &Health) -> Workers {
    Workers::default().with_condition(health.condition("expanding"))
}

impl Shared {
    pub(crate) fn new(watches: Watches, health: &Health) -> Self {
        Self { watches, workers: expansion_workers(health), memory: Mutex::default() }
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers whose child a variant is.
    fn remember_owner(&self, variant: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let owner = snapshot.controller()?;
        let set = owner
            .is_a::<PackageVariantSet>()
            .then(|| ObjectId::new(kind::<PackageVariantSet>(), variant.namespace.as_deref(), &owner.name))?;
        self.memory().sets.insert(variant.clone(), set.clone());
        Some(set)
    }

    fn variant_keys(&self, object: &ObjectId, change: &Change) -> Vec<Key> {
        match change {
            Change::Applied(snapshot) => {
                let own = needs_work(snapshot).then(|| object.clone());
                own.into_iter().chain(self.remember_owner(object, snapshot)).collect()
            }
            Change::Deleted { .. } => self.memory().sets.remove(object).into_iter().collect(),
        }
    }

    /// Expands a set, unless that was done a moment ago and it is not the set that changed.
    pub(crate) async fn handle_set(
        self: &Arc<Self>,
        request: ReconcileRequest<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let lock = Arc::clone(self.memory().locks.entry(request.key.clone()).or_default());
        let _guard = lock.lock().await;
        let is_own = request.changed.iter().any(|(object, _)| object == request.key);
        let age = self.memory().expanded.get(request.key).map(Instant::elapsed);
        if let Some(age) = age.filter(|age| !is_own && *age < DEBOUNCE) {
            return Ok(Reconciled::requeue_after(DEBOUNCE.saturating_sub(age)));
        }
        let Some(settled) = set::handle(self, request.key, request.objects).await? else {
            self.watches.set_selected(self, request.key, Vec::new());
            let mut memory = self.memory();
            memory.expanded.remove(request.key);
            memory.locks.remove(request.key);
            return Ok(Reconciled::default());
        };
        self.memory().expanded.insert(request.key.clone(), Instant::now());
        Ok(settled)
    }
}

/// Works on sets and variants.
pub(crate) struct VariantHandler(pub(crate) Arc<Shared>);

#[async_trait]
impl Handler for VariantHandler {
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = if object.kind == kind::<PackageVariantSet>() {
            vec![object.clone()]
        } else if object.kind == kind::<PackageVariant>() {
            self.0.variant_keys(object, change)
        } else {
            // Membership and expressions depend on Repositories in ways that no projection shows.
            sets_in(object, index).into_iter().map(|(key, _)| key).collect()
        };
        keys.extend(selecting(object, index));
        keys
    }

    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        let is_variant = object.kind == kind::<PackageVariant>();
        if is_variant {
            self.0.remember_owner(object, snapshot);
        }
        let is_set = object.kind == kind::<PackageVariantSet>();
        let waits = is_initial_sync && (is_set || is_variant && needs_work(snapshot));
        waits.then(|| (object.clone(), Timestamp::now()))
    }

    fn reset(&self) {
        let mut memory = self.0.memory();
        memory.sets.clear();
        memory.expanded.clear();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        if request.key.kind == kind::<PackageVariantSet>() {
            return self.0.handle_set(request).await;
        }
        package_variant::handle(request.key, request.objects).await
    }
}

/// The same for events of one kind that sets select.
pub(crate) struct SelectedHandler(pub(crate) Arc<Shared>);

#[async_trait]
impl Handler for SelectedHandler {
    fn keys(&self, object: &ObjectId, _: &Change, index: &Index) -> Vec<Key> {
        if object.kind == kind::<PackageRevision>() {
            return upstream_of(object, index);
        }
        selecting(object, index)
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        self.0.handle_set(request).await
    }
}

/// Whether a variant's own state asks for something.
fn needs_work(variant: &Snapshot) -> bool {
    let has_finalizer = variant.has_finalizer(FINALIZER);
    if variant.is_deleting() {
        return has_finalizer;
    }
    !has_finalizer || view::PackageVariant(variant).observed_generation() != variant.generation
}

/// The sets in the namespace of an object.
fn sets_in(object: &ObjectId, index: &Index) -> Vec<(ObjectId, Snapshot)> {
    index.of_kind(&kind::<PackageVariantSet>(), object.namespace.as_deref())
}

/// The sets that select objects of this kind. What the API server calls it in the plural is known once a set was expanded; until
/// then the group has to do.
fn selecting(object: &ObjectId, index: &Index) -> Vec<Key> {
    let selects = |set: &Snapshot| {
        let targets = view::PackageVariantSet(set).targets();
        targets.iter().any(|target| target.group() == Some(object.kind.group()))
    };
    let sets = sets_in(object, index).into_iter();
    sets.filter(|(_, set)| selects(set)).map(|(key, _)| key).collect()
}

/// The sets whose upstream a package revision is of. Its name begins with repository and package (`packagevariants.md` 1.5).
fn upstream_of(revision: &ObjectId, index: &Index) -> Vec<Key> {
    let names = |set: &Snapshot| {
        let set = view::PackageVariantSet(set);
        let package = set.upstream_package().replace('/', ".");
        revision.name.starts_with(&format!("{}.{package}.", set.upstream_repository()))
    };
    let sets = sets_in(revision, index).into_iter();
    sets.filter(|(_, set)| names(set)).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests;
