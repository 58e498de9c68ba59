//! Reconcile of a variant's package: spec, upstream and existing revisions decide which drafts are
//! made or updated (`packagevariants.md` 2.3 to 2.9).
//!
//! ```text
//! World, as read ──> resolve, select ──> released, adopted ──> targets ──make_first, update──> drafts
//! ```

use groundwork_api::{
    DownstreamTarget, Lifecycle, ObjectMeta, PackageRevision, RenderStatus, ResourceExt as _, Time,
};
use groundwork_fleet::{Adoption, VariantError, Withdrawal, is_owned, orphaned, release, select};

use super::porch::World;
use super::progress::{Failure, Progress};

/// Makes and updates the packages of a variant until they match its spec.
pub(crate) async fn ensure(world: &World<'_>, now: &Time, progress: &mut Progress) -> Result<(), Failure> {
    let variant = world.variant();
    let resolved = world.resolve().map_err(VariantError::from)?;
    let before = variant.status.as_ref().and_then(|status| status.upstream.as_ref());
    progress.upstream = Some(resolved.status(before, now));
    progress.notes.extend(resolved.warnings);
    let selection = select(variant, world.revisions());
    for revision in &selection.released {
        let_go(world, revision, false).await?;
    }
    for adoption in &selection.adoptions {
        adopt(world, adoption).await?;
    }
    progress.errors.extend(selection.problems.iter().cloned());
    let upstream = resolved.revision;
    if selection.is_new() {
        progress.targets = Some(Vec::new());
        let made = match world.make_first(upstream, progress).await {
            Err(Failure::Told(error, status)) => {
                let begun = progress.begun.take();
                progress.targets = begun.map(|begun| vec![failed(begun, status)]).or(progress.targets.take());
                return Err(error.into());
            }
            made => made?,
        };
        progress.targets = Some(vec![made]);
        return Ok(());
    }
    let mut done = Vec::new();
    for target in selection.targets {
        match world.update(target, upstream, progress).await {
            Ok(target) => done.push(target),
            // A draft that fails must not delay the other drafts of the variant
            // (`packagevariants.md` 2.14).
            Err(Failure::Told(error, status)) => {
                let begun = progress.begun.take();
                done.push(failed(begun.unwrap_or_else(|| world.target(&target.name_any())), status));
                progress.errors.push(error);
            }
            Err(other) => return Err(other),
        }
    }
    progress.targets = Some(done);
    Ok(())
}

/// Returns the status entry of a revision whose update has failed.
fn failed(target: DownstreamTarget, status: Option<Box<RenderStatus>>) -> DownstreamTarget {
    let render_status = status.map(|status| *status).or(target.render_status.clone());
    DownstreamTarget { render_status, ..target }
}

async fn adopt(world: &World<'_>, adoption: &Adoption<'_>) -> Result<(), Failure> {
    let metadata = ObjectMeta {
        labels: Some(adoption.labels.clone()),
        annotations: Some(adoption.annotations.clone()),
        owner_references: Some(adoption.owner_references.clone()),
        ..ObjectMeta::default()
    };
    world.set_metadata(adoption.revision, metadata).await
}

/// Applies the deletion policy to the revisions of a deleted variant. Revisions that the policy
/// keeps lose the variant as their owner.
pub(crate) async fn finish(world: &World<'_>) -> Result<(), Failure> {
    let uid = world.variant().uid().unwrap_or_default();
    let mut blocked = Vec::new();
    for revision in world.revisions().iter().filter(|revision| is_owned(revision, &uid)) {
        match let_go(world, revision, true).await {
            Ok(()) => {}
            Err(Failure::Told(VariantError::DeletionBlocked(named), _)) => blocked.extend(named),
            Err(Failure::Told(error, _)) => blocked.push((revision.name_any(), error.to_string())),
            Err(other) => return Err(other),
        }
    }
    if blocked.is_empty() { Ok(()) } else { Err(VariantError::DeletionBlocked(blocked).into()) }
}

/// Applies the deletion policy to one revision.
async fn let_go(world: &World<'_>, revision: &PackageRevision, is_deleting: bool) -> Result<(), Failure> {
    let uid = world.variant().uid().unwrap_or_default();
    let release = release(world.variant().spec.deletion_policy.as_deref(), revision, is_deleting);
    let left = match release.withdrawal {
        Some(Withdrawal::Delete) => return world.delete(revision).await,
        Some(Withdrawal::ProposeDeletion) => {
            &world.set_lifecycle(revision, Lifecycle::DeletionProposed).await?
        }
        None => revision,
    };
    if !release.orphan {
        return Ok(());
    }
    let metadata = orphaned(left, &uid);
    if metadata.owner_references == left.metadata.owner_references {
        return Ok(());
    }
    world.set_metadata(left, metadata).await
}
