//! A PackageVariant by itself: its rules, its finalizer, its status (`packagevariants.md` 2.3, 2.9).
//!
//! Revisions of packages are not drafted yet; the condition says so.

use std::time::Duration;

use groundwork_api::{PackageVariant, ResourceExt as _, Time};
use groundwork_controller::{ApiError, Key, Metadata, Objects, ReconcileError, Reconciled};
use groundwork_variant::{FINALIZER, Observed, conditions, validate_variant};
use jiff::Timestamp;

use crate::inputs::package_revisions;

/// Package revisions that hold a variant back are looked at again after this time.
const BLOCKED: Duration = Duration::from_secs(60);

/// Brings a variant to where nothing is left to do.
pub(crate) async fn handle(key: &Key, objects: &Objects) -> Result<Reconciled, ReconcileError> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let Some(variant) = objects.get::<PackageVariant>(namespace, &key.name).await? else {
        return Ok(Reconciled::default());
    };
    let has_finalizer = variant.finalizers().iter().any(|name| name == FINALIZER);
    if variant.metadata.deletion_timestamp.is_some() {
        return if has_finalizer { remove(&variant, objects).await } else { Ok(Reconciled::default()) };
    }
    let variant = if has_finalizer {
        variant
    } else {
        let finalizers = variant.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
        set_finalizers(&variant, finalizers, objects).await?
    };
    let errors = validate_variant(&variant.spec).join("; ");
    let observed = if errors.is_empty() {
        Observed::NotReady {
            reason: "StoreUnavailable",
            message: "package revisions are not drafted: there is no package store yet",
        }
    } else {
        let ready = Some(("Error", "invalid packagevariant object"));
        Observed::Stalled { reason: "ValidationError", message: &errors, ready }
    };
    report(&variant, &observed, objects).await?;
    Ok(Reconciled::default())
}

/// Lets a variant go when no package revision is its own any more. What becomes of those that are is for the package store to say.
async fn remove(variant: &PackageVariant, objects: &Objects) -> Result<Reconciled, ReconcileError> {
    let namespace = variant.namespace().unwrap_or_default();
    let downstream = variant.spec.downstream.clone().unwrap_or_default();
    let (repo, package) = (downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default());
    let revisions =
        package_revisions(&repo, &package, &namespace, objects.client()).await?.unwrap_or_default();
    let uid = variant.uid().unwrap_or_default();
    let own =
        revisions.iter().filter(|revision| revision.owner_references().iter().any(|owner| owner.uid == uid));
    let own: Vec<String> = own.map(groundwork_api::ResourceExt::name_any).collect();
    if own.is_empty() {
        let others = variant.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
        return match set_finalizers(variant, others, objects).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
            Err(error) => Err(error.into()),
        };
    }
    let message = format!(
        "package revisions belong to this package variant, and there is no package store yet to apply its deletion policy: \
         delete them, or remove their owner references: {}",
        own.join(", ")
    );
    report(variant, &Observed::NotReady { reason: "DeletionBlocked", message: &message }, objects).await?;
    Ok(Reconciled::requeue_after(BLOCKED))
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

/// Writes the status, if it says anything new.
async fn report(
    variant: &PackageVariant,
    observed: &Observed<'_>,
    objects: &Objects,
) -> Result<(), ReconcileError> {
    let before = variant.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let now = Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
    let generation = variant.metadata.generation;
    after.conditions = conditions(&before.conditions, observed, generation, &now).into();
    after.observed_generation = generation;
    if after == before {
        return Ok(());
    }
    let wanted = PackageVariant { status: Some(after), ..variant.clone() };
    match objects.replace_status(&wanted).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
