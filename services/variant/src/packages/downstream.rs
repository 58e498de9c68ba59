//! What a variant makes: from its spec, its upstream and the revisions that there are, to drafts (`packagevariants.md` 2.3 to 2.9).
//!
//! ```text
//! repositories, objects ──World::read──> resolve, select ──> targets ──stage, mutate, commit──> drafts ──> objects
//! ```

use groundwork_api::metadata::annotation;
use groundwork_api::{
    DownstreamTarget, InjectionSource, Lifecycle, ObjectMeta, PackageRevision, RenderStatus,
    ResolvedUpstream, ResourceExt as _, Time,
};
use groundwork_controller::{ApiError, ReconcileError};
use groundwork_fleet::{
    Adoption, Base, Freshness, Package, Repositories, VariantError, Withdrawal, base, freshness, is_owned,
    next_workspace, orphaned, release, resolve_upstream, revision_name, select,
};
use groundwork_krm::Package as Files;
use groundwork_packages::{Actor, Committed, NewDraft, Original, Owner, Source, Staged, StoreError, Update};

use super::injection::{Injection, mutate};
use super::objects::{self, Attributes};
use super::repository::attributes;
use super::world::World;
use crate::inputs::Selected;

/// The author of commits that no person has asked for.
pub(super) const CONTROLLER: &str = "package-variant-controller";

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
        StoreError::Unavailable(_) => VariantError::StoreUnavailable { cause, retry_after: None },
        StoreError::Refused(_) => VariantError::Rejected(cause),
        StoreError::DownstreamExists(_) | StoreError::Merge(_) | StoreError::NotFound(_) => {
            VariantError::Other(cause)
        }
    };
    told.into()
}

/// Brings the packages of a variant to what it asks for.
pub(crate) async fn ensure(world: &World<'_>, now: &Time, progress: &mut Progress) -> Result<(), Failure> {
    let variant = world.variant;
    let resolved = world
        .with_git(|git| resolve_upstream(variant, &world.revisions, Repositories(&world.repositories), git));
    let resolved = resolved.map_err(VariantError::from)?;
    let before = variant.status.as_ref().and_then(|status| status.upstream.as_ref());
    progress.upstream = Some(resolved.status(before, now));
    progress.notes.extend(resolved.warnings);
    let selection = select(variant, &world.revisions);
    for revision in &selection.released {
        let_go(world, revision, false).await?;
    }
    for adoption in &selection.adoptions {
        adopt(world, adoption).await?;
    }
    progress.errors.extend(selection.problems.iter().cloned());
    let mut work = Work { world, upstream: resolved.revision, progress };
    if selection.is_new() {
        let source = Source::Clone { upstream: work.upstream.name_any() };
        work.progress.targets = Some(Vec::new());
        let made = work.make(source, None).await?;
        work.progress.targets = Some(vec![made]);
        return Ok(());
    }
    let mut done = Vec::new();
    for target in selection.targets {
        match work.update(target).await {
            Ok(target) => done.push(target),
            // Several drafts do not wait for one another (2.14).
            Err(Failure::Told(error, status)) => {
                let known = world.target(&target.name_any());
                let render_status = status.map(|status| *status).or(known.render_status.clone());
                done.push(DownstreamTarget { render_status, ..known });
                work.progress.errors.push(error);
            }
            Err(other) => return Err(other),
        }
    }
    work.progress.targets = Some(done);
    Ok(())
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

/// What a variant that goes does with its revisions: those that are left to people are let go of.
pub(crate) async fn finish(world: &World<'_>) -> Result<(), Failure> {
    let uid = world.variant.uid().unwrap_or_default();
    let mut blocked = Vec::new();
    for revision in world.revisions.iter().filter(|revision| is_owned(revision, &uid)) {
        match let_go(world, revision, true).await {
            Ok(()) => {}
            Err(Failure::Told(error, _)) => blocked.push((revision.name_any(), error.to_string())),
            Err(other) => return Err(other),
        }
    }
    if blocked.is_empty() { Ok(()) } else { Err(VariantError::DeletionBlocked(blocked).into()) }
}

/// Applies the deletion policy to one revision.
async fn let_go(world: &World<'_>, revision: &PackageRevision, is_deleting: bool) -> Result<(), Failure> {
    let name = revision.name_any();
    let uid = world.variant.uid().unwrap_or_default();
    let release = release(world.variant.spec.deletion_policy.as_deref(), revision, is_deleting);
    let left = match release.withdrawal {
        Some(Withdrawal::Delete) => {
            world.delete(&name).await?;
            return objects::release(revision, world.objects).await.map_err(Failure::Retry);
        }
        Some(Withdrawal::ProposeDeletion) => &world.set_lifecycle(&name, Lifecycle::DeletionProposed).await?,
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

/// Drafts of one variant, one after the other.
struct Work<'a, 'w> {
    world: &'a World<'w>,
    upstream: &'a PackageRevision,
    progress: &'a mut Progress,
}

impl Work<'_, '_> {
    /// Brings one revision up to date: in place, if it is a draft, else by another one.
    async fn update(&mut self, target: &PackageRevision) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = target.name_any();
        let lifecycle = target.spec.lifecycle();
        let mut target = target.clone();
        if lifecycle == Some(Lifecycle::DeletionProposed) {
            // It is wanted again.
            target = world.set_lifecycle(&name, Lifecycle::Published).await?;
        }
        let is_outdated = match world.with_git(|git| freshness(&target, self.upstream, git)) {
            Freshness::Current => false,
            Freshness::Outdated => true,
            Freshness::CurrentWithoutLock(note) => {
                self.progress.notes.push(note);
                false
            }
        };
        if is_outdated {
            return self.upgrade(&target).await;
        }
        let (version, files) = world.files(&name).await?;
        let mutated = self.mutate(&files, &name).await?;
        let known = world.target(&name);
        let failed = known.render_status.as_ref().and_then(|status| status.error.as_deref());
        // After a failure a draft is rendered also if nothing else is to change: the cause may be gone, and the status tells of it (8.1).
        let is_rendered = lifecycle != Some(Lifecycle::Draft) || failed.is_none_or(str::is_empty);
        if mutated == files && is_rendered {
            return Ok(known);
        }
        let keeps_failures = keeps_failures(&target);
        match lifecycle {
            Some(Lifecycle::Proposed) => Err(VariantError::DownstreamProposed { downstream: name }.into()),
            Some(Lifecycle::Draft) => {
                let (namespace, revision) = (world.namespace.clone(), name.clone());
                let staged =
                    world.run(&name, move |store| store.stage_save(&namespace, &revision, &version, mutated));
                let staged = staged.await?;
                self.commit(staged.keep_failures(keeps_failures), None).await
            }
            _ => self.make(Source::Edit { source: name.clone() }, Some(mutated)).await,
        }
    }

    /// Takes the upstream's revision in.
    async fn upgrade(&mut self, target: &PackageRevision) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = target.name_any();
        let lock = target.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
        let reference = lock.and_then(|lock| lock.reference.clone()).unwrap_or_default();
        let original = match base(target, &world.revisions, &world.repositories) {
            Base::Revision(found) => Original::Revision(found.name_any()),
            Base::Commit { url, directory, commit, .. } => Original::Commit {
                url: url.to_owned(),
                directory: directory.to_owned(),
                reference: reference.clone(),
                commit: commit.to_owned(),
            },
            Base::Missing(error) => return Err(error.into()),
        };
        let is_commit = matches!(original, Original::Commit { .. });
        let upstream = self.upstream.name_any();
        let strategy = world.strategy();
        let update = Update { original, upstream: upstream.clone(), strategy };
        // What the store says of a merge is about the update; that the commit cannot be read any more is about what it begins with.
        let failed = |error: StoreError| match error {
            StoreError::NotFound(_) if is_commit => Failure::from(VariantError::UpgradeBaseMissing {
                reference: reference.clone(),
                downstream: name.clone(),
            }),
            StoreError::Merge(cause) | StoreError::NotFound(cause) => {
                VariantError::UpgradeFailed { downstream: name.clone(), upstream: upstream.clone(), cause }
                    .into()
            }
            other => told(&other, &name),
        };
        match target.spec.lifecycle() {
            Some(Lifecycle::Proposed) => {
                Err(VariantError::DownstreamProposed { downstream: name.clone() }.into())
            }
            Some(Lifecycle::Draft) => {
                let version = world.store_revision(&name)?.version();
                let (namespace, revision) = (world.namespace.clone(), name.clone());
                let stage = move |store: &groundwork_packages::Store| {
                    store.stage_update(&namespace, &revision, &version, &update)
                };
                let staged = world.try_run(stage).await;
                let staged = self.preflight(staged, &name).await?.map_err(failed)?;
                let mutated = self.mutate(staged.files(), &name).await?;
                self.commit(staged, Some(mutated)).await
            }
            _ => {
                let new = self.new_draft(Source::Upgrade { local: name.clone(), update });
                let staged = world.stage(new).await;
                let staged = self.preflight(staged, &name).await?.map_err(failed)?;
                let mutated = self.mutate(staged.files(), &staged.name()).await?;
                self.commit(staged, Some(mutated)).await
            }
        }
    }

    /// Makes another draft, with what the task makes or with other files.
    async fn make(&mut self, source: Source, files: Option<Files>) -> Result<DownstreamTarget, Failure> {
        let new = self.new_draft(source);
        let package = Package { repository: &new.repository, path: &new.package };
        let name = revision_name(package, &new.workspace);
        let staged = self.world.stage(new).await;
        let staged = match files {
            Some(_) => staged,
            None => self.preflight(staged, &name).await?,
        };
        let staged = staged.map_err(|error| told(&error, &name))?;
        let mutated = match files {
            Some(files) => files,
            None => self.mutate(staged.files(), &name).await?,
        };
        self.commit(staged, Some(mutated)).await
    }

    /// Lets what is wrong with a change of the variant be told before what is wrong with a rendering: the change comes first, and who reads
    /// that the pipeline cannot be edited knows what to do (2.14, phases 8 and 9).
    async fn preflight(
        &mut self,
        staged: Result<Staged, StoreError>,
        name: &str,
    ) -> Result<Result<Staged, StoreError>, Failure> {
        if let Err(StoreError::Render { files, .. }) = &staged {
            self.mutate(files, name).await?;
        }
        Ok(staged)
    }

    fn new_draft(&self, source: Source) -> NewDraft {
        let world = self.world;
        let package = Package { repository: &world.downstream.name, path: &world.package };
        let workspace = next_workspace(package, &world.revisions, world.highest_workspace());
        NewDraft {
            namespace: world.namespace.clone(),
            repository: world.downstream.name.clone(),
            package: world.package.clone(),
            workspace,
            source,
            owner: Some(Owner {
                kind: "PackageVariant".to_owned(),
                namespace: world.namespace.clone(),
                name: world.variant.name_any(),
            }),
        }
    }

    /// Makes what is staged a revision that everybody sees, with its object.
    async fn commit(
        &mut self,
        mut staged: Staged,
        files: Option<Files>,
    ) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = staged.name();
        if let Some(files) = files {
            staged.set_files(files);
        }
        let actor = Actor { name: CONTROLLER.to_owned() };
        let Committed { revision, status, error } =
            world.write(&name, move |_| staged.commit(&actor)).await?;
        let present = world.object(&name).cloned();
        let attributes = if present.is_none() { attributes(world.variant) } else { Attributes::default() };
        let ensured =
            objects::ensure(&world.repository, &revision, None, present, attributes, None, world.objects)
                .await;
        match ensured {
            // The exchange with the remote was quicker to make the object; it knows the owner too.
            Ok(_) | Err(ApiError::AlreadyExists(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(cause) = error {
            return Err(Failure::Told(
                VariantError::RenderFailed { downstream: name, cause },
                status.map(Box::new),
            ));
        }
        let known = world.target(&name);
        Ok(DownstreamTarget { render_status: status.or(known.render_status.clone()), ..known })
    }

    /// The files as the variant changes them.
    async fn mutate(&mut self, files: &Files, name: &str) -> Result<Files, Failure> {
        let Injection { files, sources, kinds } = mutate(self.world, files, name).await?;
        self.progress.sources.extend(sources);
        self.progress.kinds.extend(kinds);
        Ok(files)
    }
}

/// Whether a draft takes content that cannot be rendered.
pub(super) fn keeps_failures(draft: &PackageRevision) -> bool {
    draft.annotations().get(annotation::PUSH_ON_RENDER_FAILURE).is_some_and(|value| value == "true")
}
