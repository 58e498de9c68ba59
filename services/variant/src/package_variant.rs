//! Reconcile of a PackageVariant: validation, finalizer, status and, with a package store, its
//! drafts (`packagevariants.md` 2.3, 2.9).

use std::sync::Arc;
use std::time::Duration;

use groundwork_api::{PackageVariant, ResourceExt as _, Time};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{ApiError, Metadata, Objects, ReconcileError, ReconcileRequest, Reconciled};
use groundwork_fleet::{FINALIZER, VariantError, retry, validate_variant, variant_conditions};
use jiff::Timestamp;

use crate::follow;
use crate::inputs::package_revisions;
use crate::packages::downstream::{ensure, finish};
use crate::packages::progress::{Failure, Progress};
use crate::packages::repository::recover_records;
use crate::packages::{PorchStore, is_ending, porch};
use crate::shared::Shared;

/// Pause before the next look at package revisions that block a variant.
const BLOCKED: Duration = Duration::from_secs(60);
/// Pause between reconciles without an event, in case an event was missed (`packagevariants.md`
/// 2.2).
const RESYNC: Duration = Duration::from_secs(600);
/// Shortest back-off after an error.
const SHORTEST: Duration = Duration::from_millis(200);

/// Reconciles a variant until it needs no further change.
pub(crate) async fn handle(
    shared: &Arc<Shared>,
    request: &ReconcileRequest<'_>,
) -> Result<Reconciled, ReconcileError> {
    let ReconcileRequest { key, objects, set_aside, .. } = *request;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(variant) = objects.get::<PackageVariant>(namespace, &key.name).await? else {
        shared.follow_injected(key, Vec::new(), &[]);
        shared.set_following(key, false);
        shared.succeeded(key);
        return Ok(Reconciled::default());
    };
    if let Some(words) = set_aside.due() {
        let errors = vec![VariantError::SetAside(words.to_owned())];
        report(&variant, &Progress { errors, ..Progress::default() }, objects).await?;
        return Ok(Reconciled::default());
    }
    let conditions = variant.status.iter().flat_map(|status| status.conditions.iter());
    if set_aside
        .covers(variant.metadata.generation, conditions.map(|one| (&*one.message, one.observed_generation)))
    {
        return Ok(Reconciled::default());
    }
    // The lock is on the package, not on the variant: two variants with different names may make
    // the same package.
    let lock = shared.lock(&package_key(&variant));
    let _alone = lock.lock().await;
    let has_finalizer = variant.finalizers().iter().any(|name| name == FINALIZER);
    if variant.metadata.deletion_timestamp.is_some() {
        return if has_finalizer {
            remove(shared, &variant, request).await
        } else {
            Ok(Reconciled::default())
        };
    }
    // The finalizer comes before the first draft, so that no draft can outlive its variant without
    // its deletion policy.
    let variant = if has_finalizer {
        variant
    } else {
        let finalizers = variant.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
        set_finalizers(&variant, finalizers, objects).await?
    };
    shared.set_following(key, shared.follows_tags && follow::tag(&variant).is_some());
    let variant = followed(shared, variant, objects).await?;
    let mut progress = Progress::default();
    let errors = validate_variant(&variant.spec);
    match &shared.packages {
        _ if !errors.is_empty() => progress.errors.push(VariantError::Invalid(errors)),
        None => progress.errors.push(VariantError::NoStore),
        Some(packages) => draft(shared, packages, &variant, request, &mut progress).await?,
    }
    // An attempt that failed before it read the packages does not know their injection points, so
    // the watches of the last attempt stay.
    if progress.errors.is_empty() || !progress.kinds.is_empty() {
        let selectors = variant.spec.injectors().unwrap_or_default();
        let names: Vec<String> = selectors.into_iter().map(|selector| selector.name).collect();
        shared.follow_injected(key, progress.kinds.clone(), &names);
    }
    report(&variant, &progress, objects).await?;
    if shared.packages.is_none() {
        return Ok(Reconciled::default());
    }
    if progress.errors.is_empty() {
        shared.succeeded(key);
    }
    let delay = retry(&progress.errors).and_then(|retry| shared.delay(key, retry));
    // `Retry::Immediate` has no pause of its own; the minimum keeps it from a busy loop.
    Ok(Reconciled::requeue_after(delay.unwrap_or(RESYNC).max(SHORTEST)))
}

/// Updates the revision of a variant that follows a tag.
async fn followed(
    shared: &Arc<Shared>,
    variant: PackageVariant,
    objects: &Objects,
) -> Result<PackageVariant, ReconcileError> {
    if follow::tag(&variant).is_none() {
        return Ok(variant);
    }
    if !shared.follows_tags {
        return follow::followed(shared, variant, &[], objects).await;
    }
    let upstream = variant.spec.upstream.clone().unwrap_or_default();
    let (repo, package) = (upstream.repo.unwrap_or_default(), upstream.package.unwrap_or_default());
    let namespace = variant.namespace().unwrap_or_default();
    let revisions = package_revisions(&repo, &package, &namespace, objects).await?;
    follow::followed(shared, variant, &revisions.unwrap_or_default(), objects).await
}

/// Makes the drafts of a variant; errors are recorded in the progress.
async fn draft(
    shared: &Arc<Shared>,
    packages: &PorchStore,
    variant: &PackageVariant,
    request: &ReconcileRequest<'_>,
    progress: &mut Progress,
) -> Result<(), ReconcileError> {
    let objects = request.objects;
    let attempt = async {
        let world = porch::World::read(shared, packages, variant, objects).await?;
        ensure(&world, &now(), progress).await
    };
    match attempt.await {
        Ok(()) => Ok(()),
        Err(Failure::Told(error, _)) => {
            progress.errors.push(error);
            Ok(())
        }
        Err(Failure::Retry(error)) => Err(error),
    }
}

fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

/// Returns the key of the lock that a reconcile of the variant takes.
fn package_key(variant: &PackageVariant) -> ObjectId {
    let downstream = variant.spec.downstream.clone().unwrap_or_default();
    let name = format!("{}.{}", downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default());
    ObjectId::new(Kind::new("", "packages"), variant.namespace().as_deref(), &name)
}

/// Removes the finalizer of a variant once its deletion policy has been applied to all of its
/// package revisions.
async fn remove(
    shared: &Arc<Shared>,
    variant: &PackageVariant,
    request: &ReconcileRequest<'_>,
) -> Result<Reconciled, ReconcileError> {
    let objects = request.objects;
    let blocked = match &shared.packages {
        Some(packages) => apply_policy(shared, packages, variant, request).await?,
        None => without_store(variant, objects).await?,
    };
    let Some(error) = blocked else {
        let others = variant.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
        return match set_finalizers(variant, others, objects).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
            Err(error) => Err(error.into()),
        };
    };
    report(variant, &Progress { errors: vec![error], ..Progress::default() }, objects).await?;
    Ok(Reconciled::requeue_after(BLOCKED))
}

/// Applies the deletion policy, and returns the problems that block it.
async fn apply_policy(
    shared: &Arc<Shared>,
    packages: &PorchStore,
    variant: &PackageVariant,
    request: &ReconcileRequest<'_>,
) -> Result<Option<VariantError>, ReconcileError> {
    let objects = request.objects;
    // If the Repository is gone, its package revisions cannot be changed any more, so they do not
    // block the deletion. The deletion of a whole namespace leaves packages in git.
    let namespace = variant.namespace().unwrap_or_default();
    if !porch::World::has_downstream(variant, objects).await? || is_ending(&namespace, objects).await? {
        return Ok(None);
    }
    if let Some(store) = shared.store.as_ref().filter(|_| goes_unsettled(variant)) {
        for (name, version) in recover_records(store, variant, objects).await? {
            packages.wrote(&namespace, &name, &version);
        }
    }
    let applied = async { finish(&porch::World::read_own(shared, packages, variant, objects).await?).await };
    match applied.await {
        Ok(()) => Ok(None),
        Err(Failure::Told(error, _)) => Ok(Some(error)),
        Err(Failure::Retry(error)) => Err(error),
    }
}

/// Reports whether a variant is being deleted before its last generation was reconciled. The
/// deletion itself counts as one generation.
fn goes_unsettled(variant: &PackageVariant) -> bool {
    let status = variant.status.clone().unwrap_or_default();
    let is_ready = status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
    let seen = status.observed_generation.map(|generation| generation + 1);
    !(is_ready && seen >= variant.metadata.generation)
}

/// Without a store, package revisions that belong to the variant block its deletion: a user has to
/// decide about them.
async fn without_store(
    variant: &PackageVariant,
    objects: &Objects,
) -> Result<Option<VariantError>, ReconcileError> {
    let namespace = variant.namespace().unwrap_or_default();
    let downstream = variant.spec.downstream.clone().unwrap_or_default();
    let (repo, package) = (downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default());
    let revisions = package_revisions(&repo, &package, &namespace, objects).await?.unwrap_or_default();
    let uid = variant.uid().unwrap_or_default();
    let own =
        revisions.iter().filter(|revision| revision.owner_references().iter().any(|owner| owner.uid == uid));
    let cause = "it belongs to this package variant, and no package store can apply the deletion policy: delete it, or \
                 remove its owner reference";
    let own: Vec<_> = own.map(|revision| (revision.name_any(), cause.to_owned())).collect();
    Ok((!own.is_empty()).then_some(VariantError::DeletionBlocked(own)))
}

async fn set_finalizers(
    variant: &PackageVariant,
    finalizers: Vec<String>,
    objects: &Objects,
) -> Result<PackageVariant, ApiError> {
    let change = Metadata {
        resource_version: variant.resource_version(),
        finalizers: Some(finalizers),
        ..Metadata::default()
    };
    objects.patch_metadata(&variant.namespace().unwrap_or_default(), &variant.name_any(), &change).await
}

/// Writes the status if it has changed.
async fn report(
    variant: &PackageVariant,
    progress: &Progress,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let before = variant.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = variant.metadata.generation;
    let Progress { errors, notes, .. } = progress;
    after.conditions = variant_conditions(&before.conditions, errors, notes, generation, &now()).into();
    after.observed_generation = generation;
    if let Some(targets) = &progress.targets {
        after.downstream_targets = targets.clone().into();
        after.injection_sources = progress.sources.clone().into();
    }
    if let Some(upstream) = &progress.upstream {
        after.upstream = Some(upstream.clone());
    }
    if after == before {
        return Ok(());
    }
    let wanted = PackageVariant { status: Some(after), ..variant.clone() };
    match objects.replace_status(&wanted).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
