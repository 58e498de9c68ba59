//! What a variant makes: from its spec, its upstream and the revisions that there are, to drafts (`packagevariants.md` 2.3 to 2.9). It is the
//! same for every store; how a store does it is for its `Operations` to say.
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
use groundwork_packages::StoreError;

use super::injection::{Injection, mutate};
use super::operations::Operations;
use crate::inputs::Selected;

/// What a reconcile has found and done so far; on failure, too, it is what the status tells.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) upstream: Option<ResolvedUpstream>,
    pub(crate) targets: Option<Vec<DownstreamTarget>>,
    pub(crate) sources: Vec<InjectionSource>,
    /// Kinds that points of its packages are of, so that changes of their objects are noticed.
    pub(crate) kinds: Vec<Selected>,
    pub(crate) errors: Vec<VariantError>,
    /// What people should know although nothing failed.
    pub(crate) notes: Vec<String>,
}

/// Why a reconcile ends before its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The conditions say it, and of a rendering its target says more (8.1).
    Told(VariantError, Option<Box<RenderStatus>>),
    /// Another attempt may succeed, and nobody has to know.
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

/// What an error of the store means for a variant (2.10). `revision` is what it is about.
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

/// Brings the packages of a variant to what it asks for.
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
            // Several drafts do not wait for one another (2.14).
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

/// What a variant that goes does with its revisions: those that are left to people are let go of.
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

/// The files as the variant changes them.
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

/// Whether a draft takes content that cannot be rendered.
pub(super) fn keeps_failures(draft: &PackageRevision) -> bool {
    draft.annotations().get(annotation::PUSH_ON_RENDER_FAILURE).is_some_and(|value| value == "true")
}
