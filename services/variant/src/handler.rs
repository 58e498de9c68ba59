//! Mapping of events to the keys that they concern, and dispatch of keys to their reconcilers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::{
    PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository, view,
};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_controller::{Handler, Key, ReconcileError, ReconcileRequest, Reconciled};
use groundwork_fleet::FINALIZER;
use jiff::Timestamp;

use crate::packages::{self, PackageStore};
use crate::shared::Shared;
use crate::{package_variant, set};

/// Shortest pause between two expansions of a set that other objects cause (`packagevariants.md`
/// 4.10).
const DEBOUNCE: Duration = Duration::from_secs(5);

/// Controller of sets and variants and, with a package store, of repositories and package
/// revisions.
pub(crate) struct VariantHandler(pub(crate) Arc<Shared>);

impl VariantHandler {
    /// Returns the keys to reconcile after a change of a package revision: sets with this upstream
    /// and, if this service drafts, its variants. A revision itself is reconciled if annotations
    /// may approve it.
    fn revision_keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = upstream_of(object, index);
        if self.0.packages.is_some() {
            let number = self.0.store.as_ref().and_then(|store| store.number(object));
            keys.extend(self.0.relations().of_revision(object, number));
            let approves = self.0.store.as_ref().is_some_and(PackageStore::approves);
            keys.extend((approves && matches!(change, Change::Applied(_))).then(|| object.clone()));
        }
        keys
    }

    /// Returns the keys to reconcile after a change of a Repository. All sets of the namespace are
    /// included: their targets and expressions may depend on the Repository in ways that the index
    /// does not record.
    fn repository_keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys: Vec<Key> = sets_in(object, index).into_iter().map(|(key, _)| key).collect();
        if self.0.packages.is_some() {
            if let Some(store) = &self.0.store {
                store.observe(object, change);
                keys.push(object.clone());
            }
            keys.extend(self.0.relations().told_of_repository(object));
        }
        keys
    }

    /// Reconciles one key.
    async fn dispatch(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let ReconcileRequest { key, .. } = request;
        if key.kind == Kind::of::<PackageVariantSet>() {
            return self.handle_set(request).await;
        }
        if key.kind == Kind::of::<PackageVariant>() {
            return package_variant::handle(&self.0, &request).await;
        }
        let Some(packages) = &self.0.store else {
            return Ok(Reconciled::default());
        };
        if key.kind == Kind::of::<Repository>() {
            return packages::repository::handle(packages, &request).await;
        }
        packages::revision::handle(packages, &self.0.expanders, &request).await
    }

    /// Expands a set, unless its last expansion was less than `DEBOUNCE` ago and the set itself has
    /// not changed.
    async fn handle_set(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let is_own = request.changed.iter().any(|(object, _)| object == request.key);
        let age = self.0.since_expansion(request.key);
        if let Some(age) = age.filter(|age| !is_own && *age < DEBOUNCE) {
            return Ok(Reconciled::requeue_after(DEBOUNCE.saturating_sub(age)));
        }
        let Some(settled) = set::handle(&self.0, &request).await? else {
            self.0.watches.set_selected(request.key, Vec::new());
            self.0.forget_expansion(request.key);
            return Ok(Reconciled::default());
        };
        self.0.note_expansion(request.key);
        Ok(settled)
    }
}

#[async_trait]
impl Handler for VariantHandler {
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let mut keys = match &object.kind {
            own if *own == Kind::of::<PackageVariantSet>() => vec![object.clone()],
            own if *own == Kind::of::<PackageVariant>() => {
                let mut keys = variant_keys(object, change);
                keys.extend(self.0.relations().take_steered(object).then(|| object.clone()));
                keys
            }
            own if *own == Kind::of::<Repository>() => self.repository_keys(object, change, index),
            own if *own == Kind::of::<PackageRevision>() => self.revision_keys(object, change, index),
            own if *own == Kind::of::<PackageRevisionSet>() => {
                let mut keys = referring(object, index);
                keys.extend(self.0.relations().injecting(object));
                keys
            }
            _ => self.0.relations().injecting(object),
        };
        keys.extend(selecting(object, index));
        keys
    }

    /// Keeps only sets in the index, by the kinds that they select and the upstreams that they
    /// name. Objects of all other kinds come by the thousand, and are read when needed.
    fn looks_up(&self, object: &ObjectId, _: &Snapshot) -> bool {
        object.kind == Kind::of::<PackageVariantSet>() || object.kind == Kind::of::<PackageRevisionSet>()
    }

    fn observe(&self, object: &ObjectId, change: &Change) {
        if object.kind == Kind::of::<PackageVariant>() {
            self.0.relations().observe(object, change);
        } else if self.0.packages.is_some() && object.kind == Kind::of::<PackageRevision>() {
            self.0.relations().observe_revision(object, change);
        } else if object.kind == Kind::of::<Repository>() {
            self.0.relations().observe_repository(object, change);
            // Observe the change at once, not when the key is reconciled: a reconcile of the same
            // key may be running, and the new key waits for it.
            if let Some(store) = &self.0.store {
                store.observe(object, change);
            }
        }
    }

    fn forget_observed(&self, kinds: &[Kind]) {
        let mut relations = self.0.relations();
        if kinds.contains(&Kind::of::<PackageVariant>()) {
            relations.forget_variants();
        }
        if kinds.contains(&Kind::of::<PackageRevision>()) {
            relations.forget_revisions();
        }
        if kinds.contains(&Kind::of::<Repository>()) {
            relations.forget_repositories();
        }
    }

    fn sees_to(&self, object: &ObjectId, snapshot: &Snapshot) -> Option<Key> {
        let waits = match &object.kind {
            own if *own == Kind::of::<PackageVariant>() => {
                // Without a store, no variant ever becomes ready.
                let drafts = self.0.packages.is_some();
                needs_work(snapshot) || drafts && !is_ready(&view::PackageVariant(snapshot).conditions())
            }
            own if *own == Kind::of::<PackageVariantSet>() => {
                !snapshot.is_deleting() && !is_ready(&view::PackageVariantSet(snapshot).conditions())
            }
            _ => false,
        };
        waits.then(|| object.clone())
    }

    /// Schedules at the start every object that watches or polls a remote, and every object whose
    /// state was only in memory.
    fn schedule(&self, object: &ObjectId, _: &Snapshot, is_initial_sync: bool) -> Option<(Key, Timestamp)> {
        let is_variant = object.kind == Kind::of::<PackageVariant>();
        let drafts = self.0.packages.is_some();
        let keeps = self.0.store.is_some();
        let waits = is_initial_sync
            && match () {
                () if is_variant => drafts,
                () if object.kind == Kind::of::<Repository>() => keeps,
                () => object.kind == Kind::of::<PackageVariantSet>(),
            };
        waits.then(|| (object.clone(), Timestamp::now()))
    }

    fn reset(&self) {
        self.0.forget_expansions();
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        self.dispatch(request).await
    }
}

/// Returns the variant itself, if it needs a reconcile, and the set whose child it is or was.
fn variant_keys(variant: &ObjectId, change: &Change) -> Vec<Key> {
    let is_own = matches!(change, Change::Applied(snapshot) if needs_work(snapshot));
    let set = change.snapshot().controller().filter(|owner| owner.is_a::<PackageVariantSet>());
    let set = set.map(|owner| {
        ObjectId::new(Kind::of::<PackageVariantSet>(), variant.namespace.as_deref(), &owner.name)
    });
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
    index.of_kind(&Kind::of::<PackageVariantSet>(), object.namespace.as_deref())
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
    let revision_sets = index.of_kind(&Kind::of::<PackageRevisionSet>(), revision.namespace.as_deref());
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
