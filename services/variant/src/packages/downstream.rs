//! Reconcile of a variant's package: spec, upstream and existing revisions decide which drafts are
//! made or updated (`packagevariants.md` 2.3 to 2.9). These decisions are the same for all stores;
//! each store carries them out through `Operations`.
//!
//! ```text
//! Operations, as read ──> resolve, select ──> released, adopted ──> targets ──make_first, update──> drafts
//! ```

use groundwork_api::metadata::annotation;
use groundwork_api::{
    DownstreamTarget, InjectionSource, Lifecycle, ObjectMeta, PackageRevision, RenderStatus,
    ResolvedUpstream, ResourceExt as _, Time,
};
use groundwork_controller::{ApiError, ReconcileError};
use groundwork_fleet::{Adoption, VariantError, Withdrawal, is_owned, orphaned, release, select};
use groundwork_krm::Package as Files;
use groundwork_packages::git::StoreError;

use super::injection::{Injection, mutate};
use super::operations::Operations;
use crate::inputs::Selected;

/// Findings and actions of a reconcile so far. The status shows them even if the reconcile fails.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) upstream: Option<ResolvedUpstream>,
    pub(crate) targets: Option<Vec<DownstreamTarget>>,
    pub(crate) sources: Vec<InjectionSource>,
    /// Kinds of the injection points in its packages, to be watched.
    pub(crate) kinds: Vec<Selected>,
    pub(crate) errors: Vec<VariantError>,
    /// Notes for users that are not failures.
    pub(crate) notes: Vec<String>,
}

/// Reason why a reconcile ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A problem that the conditions report. The target of a failed rendering reports more
    /// (`packagevariants.md` 8.1).
    Told(VariantError, Option<Box<RenderStatus>>),
    /// A problem that a retry may solve, and that the status does not report.
    Retry(ReconcileError),
}

impl From<VariantError> for Failure {
    fn from(error: VariantError) -> Self {
        Self::Told(error, None)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Retry(error.into())
    }
}

/// Maps an error of the store to a failure of the variant (`packagevariants.md` 2.10). `revision`
/// is the revision that the operation used.
pub(super) fn told(error: &StoreError, revision: &str) -> Failure {
    let cause = error.to_string();
    let told = match error {
        StoreError::Conflict | StoreError::AlreadyExists(_) => {
            return Failure::Retry(ReconcileError { message: cause, is_conflict: true });
        }
        StoreError::Render { status, .. } => {
            let error = VariantError::RenderFailed { downstream: revision.to_owned(), cause };
            return Failure::Told(error, Some(status.clone()));
        }
        StoreError::Unavailable(_) | StoreError::Interrupted => {
            VariantError::StoreUnavailable { cause, retry_after: None }
        }
        StoreError::Refused(_) => VariantError::Rejected(cause),
        StoreError::DownstreamExists(_) | StoreError::Merge(_) | StoreError::NotFound(_) => {
            VariantError::Other(cause)
        }
    };
    told.into()
}

/// Makes and updates the packages of a variant until they match its spec.
pub(crate) async fn ensure(
    world: &impl Operations,
    now: &Time,
    progress: &mut Progress,
) -> Result<(), Failure> {
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
        let made = world.make_first(upstream, progress).await?;
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
                let known = world.target(&target.name_any());
                let render_status = status.map(|status| *status).or(known.render_status.clone());
                done.push(DownstreamTarget { render_status, ..known });
                progress.errors.push(error);
            }
            Err(other) => return Err(other),
        }
    }
    progress.targets = Some(done);
    Ok(())
}

async fn adopt(world: &impl Operations, adoption: &Adoption<'_>) -> Result<(), Failure> {
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
pub(crate) async fn finish(world: &impl Operations) -> Result<(), Failure> {
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
async fn let_go(
    world: &impl Operations,
    revision: &PackageRevision,
    is_deleting: bool,
) -> Result<(), Failure> {
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

/// Returns the files after the mutations of the variant.
pub(super) async fn mutated(
    world: &impl Operations,
    progress: &mut Progress,
    files: &Files,
    name: &str,
) -> Result<Files, Failure> {
    let Injection { files, sources, kinds } = mutate(world, files, name).await?;
    progress.sources.extend(sources);
    progress.kinds.extend(kinds);
    Ok(files)
}

/// Reports whether a draft accepts content that failed to render.
pub(super) fn keeps_failures(draft: &PackageRevision) -> bool {
    draft.annotations().get(annotation::PUSH_ON_RENDER_FAILURE).is_some_and(|value| value == "true")
}
