//! Which keys events concern, and who works on them.

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

/// A set is expanded at most this often because of other objects (`packagevariants.md` 4.10).
const DEBOUNCE: Duration = Duration::from_secs(5);

/// Locks that are kept before those that nobody holds go.
const MAX_LOCKS: usize = 4096;

/// The kind of a type, for the bus.
pub(crate) fn kind<K: Typed>() -> Kind {
    Kind::new(K::GROUP, K::PLURAL)
}

/// What the controllers of the service have in common.
pub(crate) struct Shared {
    pub(crate) watches: Watches,
    /// For sets; calls have others.
    pub(crate) workers: Workers,
    /// The same, as processes of their own.
    pub(crate) expanders: Expanders,
    /// Where package revisions are drafted; none if this service does not.
    pub(crate) packages: Option<Backend>,
    /// Whether specs follow tags.
    pub(crate) follows_tags: bool,
    memory: Mutex<Memory>,
}

/// What a restart may lose, since all sets are reconciled then.
#[derive(Default)]
struct Memory {
    /// When a set was expanded last.
    expanded: HashMap<Key, Instant>,
    /// Packages that several variants make are worked on for one of them at a time.
    locks: HashMap<Key, Arc<tokio::sync::Mutex<()>>>,
    relations: Relations,
    /// How often a variant has failed in a row.
    failures: HashMap<Key, u32>,
}

/// Threads for what sets have written. Readiness tells when much runs on beyond the limit, since nothing new is begun beside more of it.
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

    /// The same, whether or not specs follow tags.
    pub(crate) fn following_tags(self, follows_tags: bool) -> Self {
        Self { follows_tags, ..self }
    }

    /// What has to be worked on by one task at a time.
    pub(crate) fn lock(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut memory = self.memory();
        if memory.locks.len() >= MAX_LOCKS {
            memory.locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(memory.locks.entry(key.clone()).or_default())
    }

    /// How long a variant waits that has failed; the more often in a row, the longer.
    pub(crate) fn delay(&self, key: &Key, retry: Retry) -> Option<Duration> {
        let mut memory = self.memory();
        let failures = memory.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        retry.delay(*failures)
    }

    /// A variant is in order.
    pub(crate) fn succeeded(&self, key: &Key) {
        self.memory().failures.remove(key);
    }

    /// Follows the objects that a variant injects: all kinds of its points, and the names of its selectors (3.4.8).
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

    /// Takes note of whether a variant follows a tag: it is told of every revision of its upstream then.
    pub(crate) fn set_following(&self, variant: &Key, follows: bool) {
        self.memory().relations.set_following(variant, follows);
    }

    /// Names of the package revisions that a variant may control.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<String> {
        self.memory().relations.owned_by(uid)
    }

    /// What a package revision concerns: sets by their upstream, and where revisions are drafted, itself and variants.
    fn revision_keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = upstream_of(object, index);
        if let Some(packages) = &self.packages {
            let number = packages.git().and_then(|store| store.number(object));
            keys.extend(self.memory().relations.of_revision(object, number));
            // What people ask for by an edit is done by whoever keeps the packages.
            let is_ours = packages.git().is_some() && matches!(change, Change::Applied(_));
            keys.extend(is_ours.then(|| object.clone()));
        }
        keys
    }

    /// What a repository concerns. Membership of sets and their expressions depend on it in ways that no projection shows.
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

    /// Works on a key.
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

    /// Expands a set, unless that was done a moment ago and it is not the set that changed.
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

/// Works on sets and variants, and with a package store on repositories and package revisions.
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

    /// Sets are searched for what they select and derive from. Everything else is there by the thousand, and is read when it is needed.
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
            // Before its turn comes: whoever is at work on it has the turn.
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
                // Without a store none is ever ready.
                let drafts = self.0.packages.is_some();
                needs_work(snapshot) || drafts && !is_ready(&view::PackageVariant(snapshot).conditions())
            }
            own if *own == kind::<PackageVariantSet>() => {
                !snapshot.is_deleting() && !is_ready(&view::PackageVariantSet(snapshot).conditions())
            }
            // One that stays is read with its repository.
            own if *own == kind::<PackageRevision>() => {
                keeps && snapshot.is_deleting() && snapshot.has_finalizer(packages::FINALIZER)
            }
            _ => false,
        };
        waits.then(|| object.clone())
    }

    /// At the start everything that watches or asks a remote, and whatever follows from memory.
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

/// True if nothing has changed at an object since it was set aside; each of its messages comes with the generation that it is about.
pub(crate) fn stays_aside<'a>(
    metadata: &ObjectMeta,
    messages: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    set_aside: SetAside<'_>,
) -> bool {
    let mut messages = messages.into_iter();
    messages.any(|(message, observed)| observed == metadata.generation && set_aside.is_told_by(message))
}

/// Itself, if there is something to do, and the set whose child it is, or was.
fn variant_keys(variant: &ObjectId, change: &Change) -> Vec<Key> {
    let is_own = matches!(change, Change::Applied(snapshot) if needs_work(snapshot));
    let set = change.snapshot().controller().filter(|owner| owner.is_a::<PackageVariantSet>());
    let set = set
        .map(|owner| ObjectId::new(kind::<PackageVariantSet>(), variant.namespace.as_deref(), &owner.name));
    is_own.then(|| variant.clone()).into_iter().chain(set).collect()
}

/// True if the status of a variant or a set says that nothing is in its way.
fn is_ready(conditions: &[view::Condition<'_>]) -> bool {
    conditions.iter().any(|condition| condition.type_() == "Ready" && condition.status() == "True")
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

/// The sets that derive from the package of a revision. Its name begins with repository and package (`packagevariants.md` 1.5).
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

/// The sets that derive from the packages of a PackageRevisionSet.
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
