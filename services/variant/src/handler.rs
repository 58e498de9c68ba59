//! Mapping of events to the keys that they concern, and dispatch of keys to their reconcilers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use groundwork_api::{
    Kind as Typed, PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository, view,
};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{Handler, Key, ReconcileError, ReconcileRequest, Reconciled, SetAside, Workers};
use groundwork_fleet::{FINALIZER, Retry};
use groundwork_telemetry::Health;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::inputs::Selected;
use crate::packages::{self, Backend, Relations};
use crate::watches::Watches;
use crate::work::Expanders;
use crate::{package_variant, set};

/// Shortest pause between two expansions of a set that other objects cause (`packagevariants.md`
/// 4.10).
const DEBOUNCE: Duration = Duration::from_secs(5);

/// Number of locks above which unused locks are dropped.
const MAX_LOCKS: usize = 4096;

/// Returns the kind of a type in the form that events use.
pub(crate) fn kind<K: Typed>() -> Kind {
    Kind::new(K::GROUP, K::PLURAL)
}

/// State that the controllers of the service share.
pub(crate) struct Shared {
    pub(crate) watches: Watches,
    /// Threads for sets; calls have their own.
    pub(crate) workers: Workers,
    /// Worker processes for sets; calls have their own.
    pub(crate) expanders: Expanders,
    /// Store in which package revisions are drafted; `None` if this service does not draft.
    pub(crate) packages: Option<Backend>,
    /// True if the specs of annotated objects follow tags.
    pub(crate) follows_tags: bool,
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
    relations: Relations,
    /// Number of failures in a row of each variant, for its back-off.
    failures: HashMap<Key, u32>,
}

/// Returns the threads that evaluate the expressions of sets. Readiness fails while many expansions
/// run beyond their limit, because no new ones start beside them.
fn expansion_workers(health: &Health) -> Workers {
    Workers::default().with_condition(health.condition("expanding"))
}

impl Shared {
    pub(crate) fn new(
        watches: Watches,
        expanders: Expanders,
        packages: Option<Backend>,
        health: &Health,
    ) -> Self {
        Self {
            watches,
            workers: expansion_workers(health),
            expanders,
            packages,
            follows_tags: false,
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
        self.memory().relations.set_injected(key, objects);
        self.watches.set_selected(key, kinds);
    }

    /// Records whether a variant follows a tag. Such a variant is reconciled on every revision of
    /// its upstream.
    pub(crate) fn set_following(&self, variant: &Key, follows: bool) {
        self.memory().relations.set_following(variant, follows);
    }

    /// Returns the names of the package revisions that a variant may control.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<String> {
        self.memory().relations.owned_by(uid)
    }

    /// Returns the keys to reconcile after a change of a package revision: sets with this upstream
    /// and, if this service drafts, the revision itself and its variants.
    fn revision_keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = upstream_of(object, index);
        if let Some(packages) = &self.packages {
            let number = packages.git().and_then(|store| store.number(object));
            keys.extend(self.memory().relations.of_revision(object, number));
            // With a git store, this service carries out edits of package revisions. With Porch,
            // the Porch server does.
            let is_ours = packages.git().is_some() && matches!(change, Change::Applied(_));
            keys.extend(is_ours.then(|| object.clone()));
        }
        keys
    }

    /// Returns the keys to reconcile after a change of a Repository. All sets of the namespace are
    /// included: their targets and expressions may depend on the Repository in ways that the index
    /// does not record.
    fn repository_keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys: Vec<Key> = sets_in(object, index).into_iter().map(|(key, _)| key).collect();
        if let Some(packages) = &self.packages {
            if let Some(store) = packages.git() {
                store.observe(object, change);
                keys.push(object.clone());
            }
            keys.extend(self.memory().relations.told_of_repository(object));
        }
        keys
    }

    /// Reconciles one key.
    pub(crate) async fn reconcile(
        self: &Arc<Self>,
        request: ReconcileRequest<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let ReconcileRequest { key, .. } = request;
        if key.kind == kind::<PackageVariantSet>() {
            return self.handle_set(request).await;
        }
        if key.kind == kind::<PackageVariant>() {
            return package_variant::handle(self, &request).await;
        }
        let Some(packages) = self.packages.as_ref().and_then(Backend::git) else {
            return Ok(Reconciled::default());
        };
        if key.kind == kind::<Repository>() {
            return packages::repository::handle(packages, &request).await;
        }
        packages::revision::handle(packages, &request).await
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expands a set, unless its last expansion was less than `DEBOUNCE` ago and the set itself has
    /// not changed.
    pub(crate) async fn handle_set(
        self: &Arc<Self>,
        request: ReconcileRequest<'_>,
    ) -> Result<Reconciled, ReconcileError> {
        let is_own = request.changed.iter().any(|(object, _)| object == request.key);
        let age = self.memory().expanded.get(request.key).map(Instant::elapsed);
        if let Some(age) = age.filter(|age| !is_own && *age < DEBOUNCE) {
            return Ok(Reconciled::requeue_after(DEBOUNCE.saturating_sub(age)));
        }
        let Some(settled) = set::handle(self, &request).await? else {
            self.watches.set_selected(request.key, Vec::new());
            self.memory().expanded.remove(request.key);
            return Ok(Reconciled::default());
        };
        self.memory().expanded.insert(request.key.clone(), Instant::now());
        Ok(settled)
    }
}

/// Controller of sets and variants and, with a package store, of repositories and package
/// revisions.
pub(crate) struct VariantHandler(pub(crate) Arc<Shared>);

#[async_trait]
impl Handler for VariantHandler {
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = match &object.kind {
            own if *own == kind::<PackageVariantSet>() => vec![object.clone()],
            own if *own == kind::<PackageVariant>() => variant_keys(object, change),
            own if *own == kind::<Repository>() => self.0.repository_keys(object, change, index),
            own if *own == kind::<PackageRevision>() => self.0.revision_keys(object, change, index),
            own if *own == kind::<PackageRevisionSet>() => {
                let mut keys = referring(object, index);
                keys.extend(self.0.memory().relations.injecting(object));
                keys
            }
            _ => self.0.memory().relations.injecting(object),
        };
        keys.extend(selecting(object, index));
        keys
    }

    /// Keeps only sets in the index, by the kinds that they select and the upstreams that they
    /// name. Objects of all other kinds come by the thousand, and are read when needed.
    fn looks_up(&self, object: &ObjectId, _: &Snapshot) -> bool {
        object.kind == kind::<PackageVariantSet>() || object.kind == kind::<PackageRevisionSet>()
    }

    fn observe(&self, object: &ObjectId, change: &Change) {
        if object.kind == kind::<PackageVariant>() {
            self.0.memory().relations.observe(object, change);
        } else if self.0.packages.is_some() && object.kind == kind::<PackageRevision>() {
            self.0.memory().relations.observe_revision(object, change);
        } else if object.kind == kind::<Repository>() {
            self.0.memory().relations.observe_repository(object, change);
            // Observe the change at once, not when the key is reconciled: a reconcile of the same
            // key may be running, and the new key waits for it.
            if let Some(store) = self.0.packages.as_ref().and_then(Backend::git) {
                store.observe(object, change);
            }
        }
    }

    fn forget_observed(&self, kinds: &[Kind]) {
        let mut memory = self.0.memory();
        if kinds.contains(&kind::<PackageVariant>()) {
            memory.relations.forget_variants();
        }
        if kinds.contains(&kind::<PackageRevision>()) {
            memory.relations.forget_revisions();
        }
        if kinds.contains(&kind::<Repository>()) {
            memory.relations.forget_repositories();
        }
    }

    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let keeps = self.0.packages.as_ref().is_some_and(|packages| packages.git().is_some());
        let waits = match &object.kind {
            own if *own == kind::<PackageVariant>() => {
                // Without a store, no variant ever becomes ready.
                let drafts = self.0.packages.is_some();
                needs_work(snapshot) || drafts && !is_ready(&view::PackageVariant(snapshot).conditions())
            }
            own if *own == kind::<PackageVariantSet>() => {
                !snapshot.is_deleting() && !is_ready(&view::PackageVariantSet(snapshot).conditions())
            }
            // Revisions that are not being deleted are read together with their repository.
            own if *own == kind::<PackageRevision>() => {
                keeps && snapshot.is_deleting() && snapshot.has_finalizer(packages::FINALIZER)
            }
            _ => false,
        };
        waits.then(|| object.clone())
    }

    /// Schedules at the start every object that watches or polls a remote, and every object whose
    /// state was only in memory.
    fn schedule(&self, object: &ObjectId, _: &Snapshot, is_initial_sync: bool) -> Option<(Key, Timestamp)> {
        let is_variant = object.kind == kind::<PackageVariant>();
        let drafts = self.0.packages.is_some();
        let keeps = self.0.packages.as_ref().is_some_and(|packages| packages.git().is_some());
        let waits = is_initial_sync
            && match () {
                () if is_variant => drafts,
                () if object.kind == kind::<Repository>() => keeps,
                () => object.kind == kind::<PackageVariantSet>(),
            };
        waits.then(|| (object.clone(), Timestamp::now()))
    }

    fn reset(&self) {
        self.0.memory().expanded.clear();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        self.0.reconcile(request).await
    }
}

/// Returns true if an object has not changed since it was set aside. Each message about a set-aside
/// object contains the generation that it refers to.
pub(crate) fn stays_aside<'a>(
    metadata: &ObjectMeta,
    messages: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    set_aside: SetAside<'_>,
) -> bool {
    let mut messages = messages.into_iter();
    messages.any(|(message, observed)| observed == metadata.generation && set_aside.is_told_by(message))
}

/// Returns the variant itself, if it needs a reconcile, and the set whose child it is or was.
fn variant_keys(variant: &ObjectId, change: &Change) -> Vec<Key> {
    let is_own = matches!(change, Change::Applied(snapshot) if needs_work(snapshot));
    let set = change.snapshot().controller().filter(|owner| owner.is_a::<PackageVariantSet>());
    let set = set
        .map(|owner| ObjectId::new(kind::<PackageVariantSet>(), variant.namespace.as_deref(), &owner.name));
    is_own.then(|| variant.clone()).into_iter().chain(set).collect()
}

/// Returns true if the conditions of a variant or a set report no problem.
fn is_ready(conditions: &[view::Condition<'_>]) -> bool {
    conditions.iter().any(|condition| condition.type_() == "Ready" && condition.status() == "True")
}

/// Reports whether the state of a variant itself calls for a reconcile.
fn needs_work(variant: &Snapshot) -> bool {
    let has_finalizer = variant.has_finalizer(FINALIZER);
    if variant.is_deleting() {
        return has_finalizer;
    }
    !has_finalizer || view::PackageVariant(variant).observed_generation() != variant.generation
}

/// Returns the sets in the namespace of an object.
fn sets_in(object: &ObjectId, index: &Index) -> Vec<(ObjectId, Snapshot)> {
    index.of_kind(&kind::<PackageVariantSet>(), object.namespace.as_deref())
}

/// Returns the sets that select objects of this kind. The plural of a kind is known only after the
/// first expansion of a set; until then the group alone is compared.
fn selecting(object: &ObjectId, index: &Index) -> Vec<Key> {
    let selects = |set: &Snapshot| {
        let targets = view::PackageVariantSet(set).targets();
        targets.iter().any(|target| target.group() == Some(object.kind.group()))
    };
    let sets = sets_in(object, index).into_iter();
    sets.filter(|(_, set)| selects(set)).map(|(key, _)| key).collect()
}

/// Returns the sets that derive from the package of a revision. The name of a revision begins with
/// repository and package (`packagevariants.md` 1.5).
fn upstream_of(revision: &ObjectId, index: &Index) -> Vec<Key> {
    let is_of = |repository: &str, package: &str| {
        let package = package.replace('/', ".");
        revision.name.starts_with(&format!("{repository}.{package}."))
    };
    let lists = |upstreams: &[view::PackageUpstream<'_>]| {
        upstreams.iter().any(|entry| is_of(entry.repository(), entry.package()))
    };
    let revision_sets = index.of_kind(&kind::<PackageRevisionSet>(), revision.namespace.as_deref());
    let revision_sets =
        revision_sets.iter().filter(|(_, found)| lists(&view::PackageRevisionSet(found).upstreams()));
    let revision_sets: Vec<&str> = revision_sets.map(|(found, _)| found.name.as_str()).collect();
    let names = |set: &Snapshot| {
        let seen = view::PackageVariantSet(set);
        is_of(seen.upstream_repository(), seen.upstream_package())
            || lists(&seen.upstreams())
            || revision_sets.iter().any(|name| refers_to(set, name))
    };
    let sets = sets_in(revision, index).into_iter();
    sets.filter(|(_, set)| names(set)).map(|(key, _)| key).collect()
}

/// Returns the sets that derive from the packages of a PackageRevisionSet.
fn referring(revision_set: &ObjectId, index: &Index) -> Vec<Key> {
    let sets = sets_in(revision_set, index).into_iter();
    sets.filter(|(_, set)| refers_to(set, &revision_set.name)).map(|(key, _)| key).collect()
}

fn refers_to(set: &Snapshot, revision_set: &str) -> bool {
    let set = view::PackageVariantSet(set);
    let mut names = set.upstreams().into_iter().map(view::PackageUpstream::package_revision_set);
    set.upstream_set() == revision_set || names.any(|name| name == revision_set)
}

#[cfg(test)]
mod tests;
