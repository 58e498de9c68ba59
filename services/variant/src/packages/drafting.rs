//! Drafts in git repositories (`packagevariants.md` 2.6, 2.8, 2.14): a draft is staged, mutated,
//! and pushed once.

use groundwork_api::{DownstreamTarget, Lifecycle, PackageRevision, ResourceExt as _};
use groundwork_controller::ApiError;
use groundwork_fleet::{
    Base, Freshness, Package, VariantError, base, equal_content, freshness, next_workspace, revision_name,
};
use groundwork_krm::Package as Files;
use groundwork_packages::git::{
    Actor, Committed, NewDraft, Original, Owner, Source, Staged, StoreError, Update,
};

use super::downstream::{Failure, Progress, keeps_failures, mutated, told};
use super::newest::{asks_otherwise, is_wanted};
use super::operations::Operations as _;
use super::records::{self, Attributes, Note};
use super::repository::attributes;
use super::world::World;

/// Author of commits that no user has asked for.
pub(super) const CONTROLLER: &str = "package-variant-controller";

/// State for the drafts of one variant, which are made one after the other.
pub(super) struct Work<'a, 'w> {
    pub(super) world: &'a World<'w>,
    pub(super) upstream: &'a PackageRevision,
    pub(super) progress: &'a mut Progress,
}

impl Work<'_, '_> {
    /// Updates one revision: a draft in place, a published one by a new draft.
    pub(super) async fn update(&mut self, target: &PackageRevision) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = target.name_any();
        let lifecycle = target.spec.lifecycle();
        let mut target = target.clone();
        if lifecycle == Some(Lifecycle::DeletionProposed) {
            // The deletion was proposed, but the variant wants the revision again: publish it
            // before the update.
            target = world.set_lifecycle(&target, Lifecycle::Published).await?;
        }
        let is_outdated = match world.with_git(|git| freshness(&target, self.upstream, git)) {
            Freshness::Current => {
                self.progress.notes.extend(equal_content(&target, self.upstream));
                false
            }
            Freshness::Outdated => true,
            Freshness::Unknown(note) => {
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
        // After a failed rendering, render again even if the files are unchanged: the cause may be
        // gone, and the status reports the result (`packagevariants.md` 8.1).
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

    /// Merges the upstream's revision into the package.
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
        // A merge error is about the update. A commit that cannot be read any more is about the
        // base of the merge, so it has its own error.
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
                let stage = move |store: &groundwork_packages::git::Store| {
                    store.stage_update(&namespace, &revision, &version, &update)
                };
                let staged = world.try_run(stage).await;
                self.preflight(&staged, &name).await?;
                let staged = staged.map_err(failed)?;
                let mutated = self.mutate(staged.files(), &name).await?;
                self.commit(staged, Some(mutated)).await
            }
            _ => {
                let new = self.new_draft(Source::Upgrade { local: name.clone(), update });
                let staged = world.stage(new).await;
                self.preflight(&staged, &name).await?;
                let staged = staged.map_err(failed)?;
                let mutated = self.mutate(staged.files(), &staged.name()).await?;
                self.commit(staged, Some(mutated)).await
            }
        }
    }

    /// Makes a new draft from a task, or from the given files.
    pub(super) async fn make(
        &mut self,
        source: Source,
        files: Option<Files>,
    ) -> Result<DownstreamTarget, Failure> {
        let new = self.new_draft(source);
        let package = Package { repository: &new.repository, path: &new.package };
        let name = revision_name(package, &new.workspace);
        let staged = self.world.stage(new).await;
        if files.is_none() {
            self.preflight(&staged, &name).await?;
        }
        let staged = staged.map_err(|error| told(&error, &name))?;
        let mutated = match files {
            Some(files) => files,
            None => self.mutate(staged.files(), &name).await?,
        };
        self.commit(staged, Some(mutated)).await
    }

    /// Reports errors in the variant's mutations before errors of the rendering. The mutations come
    /// first, and a user who reads that the pipeline cannot be edited knows what to change
    /// (`packagevariants.md` 2.14, phases 8 and 9).
    async fn preflight(&mut self, staged: &Result<Staged, StoreError>, name: &str) -> Result<(), Failure> {
        if let Err(StoreError::Render { files, .. }) = staged {
            self.mutate(files, name).await?;
        }
        Ok(())
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

    /// Pushes the staged draft and creates its object.
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
        let present = world.record(&name).cloned();
        // The variant may have been deleted during the push. The reconcile of its deletion has not
        // seen this draft, so delete the draft here.
        if present.is_none() && !is_wanted(world.variant, world.objects).await? {
            world.take_back(&revision).await?;
            return Err(asks_otherwise());
        }
        let attributes = if present.is_none() { attributes(world.variant) } else { Attributes::default() };
        let ensured = records::ensure(
            &world.repository,
            &revision,
            None,
            present,
            attributes,
            Note::Kept,
            world.objects,
        );
        match ensured.await {
            // The sync with the remote has already created the object, with the same owner.
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

    /// Returns the files after the mutations of the variant.
    async fn mutate(&mut self, files: &Files, name: &str) -> Result<Files, Failure> {
        mutated(self.world, self.progress, files, name).await
    }
}
