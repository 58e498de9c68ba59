//! Drafts on a Porch server (`packagevariants.md` 2.6, 2.8, 2.14, 6.13). The server runs the task
//! of a draft, and all users see the result at once. So the mutations are tried on the same content
//! first, and a draft is marked as unfinished until its mutated content is saved.

use groundwork_api::metadata::annotation;
use groundwork_api::{
    DownstreamTarget, FunctionResult, Lifecycle, PackageRevision, PackageRevisionRef, RenderStatus,
    Repository, ResourceExt as _, Task, UpgradeTask,
};
use groundwork_fleet::{
    Base, Freshness, Repositories, VariantError, base, equal_content, freshness, next_workspace,
    owner_reference, revision_name,
};
use groundwork_krm::{
    Origin, Package as Files, Versions, add_merge_keys, clone_package, restore_context, same_content,
    set_origin,
};
use groundwork_packages::git::Source;
use groundwork_packages::porch::{Meaning, NewDraft, Resources};

use super::errors::told_of_list;
use super::upgrade_base::{self, OriginalError};
use super::world::{CreateError, World};
use crate::packages::injection::mutate;
use crate::packages::newest::{asks_otherwise, is_wanted};
use crate::packages::progress::{Failure, Progress};

/// Name of the merge among the results of functions.
const MERGE: &str = "resource-merge";

/// State for the drafts of one variant, which are made one after the other.
pub(super) struct Work<'a, 'w> {
    pub(super) world: &'a World<'w>,
    pub(super) upstream: &'a PackageRevision,
    pub(super) progress: &'a mut Progress,
}

impl Work<'_, '_> {
    /// Makes the first draft by a clone of the upstream.
    pub(super) async fn make_first(&mut self) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let upstream = self.upstream.name_any();
        let (_, mut files) = world.resources(&upstream).await?;
        let origin = self.origin()?;
        let source = self.upstream.spec.package_name.clone().unwrap_or_default();
        let (path, is_deployment) = (world.downstream_package().path.to_owned(), world.is_deployment());
        let cloned = world.compute(&upstream, move || {
            clone_package(&mut files, &source, &path, &origin, is_deployment).map(|()| files)
        });
        let files = cloned.await?.map_err(|error| VariantError::Rejected(error.to_string()))?;
        self.create(Source::Clone { upstream }.task(), &files).await
    }

    /// Updates one revision: a draft in place, a published one by a new draft.
    pub(super) async fn update(&mut self, target: &PackageRevision) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = target.name_any();
        let mut target = target.clone();
        if target.spec.lifecycle() == Some(Lifecycle::DeletionProposed) {
            // The deletion was proposed, but the variant wants the revision again: publish it
            // before the update.
            target = world.set_lifecycle(&target, Lifecycle::Published).await?;
        }
        match freshness(&target, self.upstream) {
            Freshness::Current => self.progress.notes.extend(equal_content(&target, self.upstream)),
            Freshness::Outdated => match self.upgrade(&target).await {
                Err(Failure::Told(VariantError::UpgradeBaseMissing { .. }, _))
                    if !world.previews_upgrades() && self.is_of_branch(&target) =>
                {
                    self.progress.notes.push(format!(
                        "downstream {name:?} was cloned from the head of a branch that has moved since, and a Porch server \
                         does not show the content that it had: upgrades need a downstream that was cloned from a published \
                         revision"
                    ));
                }
                result => return result,
            },
            Freshness::Unknown(note) => self.progress.notes.push(note),
        }
        let (resources, files) = world.resources(&name).await?;
        if target.spec.lifecycle() == Some(Lifecycle::Draft) {
            let known = world.target(&name);
            let failed = known.render_status.as_ref().and_then(|status| status.error.as_deref());
            // After a failed rendering, save the draft even if it is unchanged: the cause may be
            // gone, and the status reports the result (`packagevariants.md` 8.1).
            let has_failed = failed.is_some_and(|error| !error.is_empty());
            let is_unfinished = target.annotations().contains_key(annotation::UNFINISHED);
            let must_save = has_failed || is_unfinished && world.finishes_drafts();
            let next = Next { resources, before: files.clone(), files, must_save };
            return self.settle(&target, next).await;
        }
        let changed = self.mutate(&files, &name).await?;
        if same_content(&files, &changed) {
            return Ok(world.target(&name));
        }
        if target.spec.lifecycle() == Some(Lifecycle::Proposed) {
            return Err(VariantError::DownstreamProposed { downstream: name }.into());
        }
        self.create(Source::Edit { source: name }.task(), &files).await
    }

    /// Reports whether a revision was cloned from the head of a branch, as Porch does for every
    /// upstream with `revision` and without `workspaceName`.
    fn is_of_branch(&self, target: &PackageRevision) -> bool {
        let lock = target.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
        let Some(lock) = lock else { return false };
        let repositories = Repositories(self.world.repositories());
        let upstream = self.upstream.spec.repository.as_deref().unwrap_or_default();
        lock.reference.as_deref() == Some(repositories.branch(upstream))
    }

    /// Merges the upstream's revision into the package.
    async fn upgrade(&mut self, target: &PackageRevision) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = target.name_any();
        if target.spec.lifecycle() == Some(Lifecycle::Proposed) {
            return Err(VariantError::DownstreamProposed { downstream: name }.into());
        }
        let (resources, local) = world.resources(&name).await?;
        let mut task = UpgradeTask {
            new_upstream_ref: Some(reference(self.upstream.name_any())),
            strategy: Some(world.strategy().as_str().to_owned()),
            ..UpgradeTask::default()
        };
        let mut told = Vec::new();
        let (resources, merged) = if world.previews_upgrades() {
            let (upgrading, merged, results) = self.previewed(target, resources, &task).await?;
            told = results;
            (upgrading, merged)
        } else {
            let original = self.original(target).await?;
            let merged = self.merged(&name, &original, local.clone()).await?;
            task.old_upstream_ref = Some(reference(original));
            (resources, merged)
        };
        if target.spec.lifecycle() == Some(Lifecycle::Draft) {
            let next = Next { resources, before: local, files: merged, must_save: true };
            return self.settle(target, next).await;
        }
        task.local_package_revision_ref = Some(reference(name));
        let task = Task { type_: "upgrade".to_owned(), upgrade: Some(task), ..Task::default() };
        let mut made = self.create(task, &merged).await?;
        if let Some(status) = &mut made.render_status {
            let results = status.result.get_or_insert_default();
            results.items = told.into_iter().chain(results.items.iter().cloned()).collect();
        }
        Ok(made)
    }

    /// Returns the resources whose save carries out an upgrade, the files as the server would make
    /// them, and the results of the merge.
    async fn previewed(
        &mut self,
        target: &PackageRevision,
        resources: Resources,
        task: &UpgradeTask,
    ) -> Result<(Resources, Files, Vec<FunctionResult>), Failure> {
        let (world, name) = (self.world, target.name_any());
        let upgrading = resources.with_upgrade(task);
        let upgrading = upgrading.map_err(|error| Failure::from(VariantError::Other(error.to_string())))?;
        let preview = world.store.porch.preview_upgrade(&upgrading).await;
        let preview = preview.map_err(|error| match error.meaning {
            Meaning::Invalid | Meaning::Permanent if is_base_missing(&error.text) => {
                let lock =
                    target.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
                let reference = lock.and_then(|lock| lock.reference.clone()).unwrap_or_default();
                VariantError::UpgradeBaseMissing { reference, downstream: name.clone() }.into()
            }
            Meaning::Invalid | Meaning::Permanent => self.upgrade_failed(&name, error.text).into(),
            _ => world.told(&error, &name),
        })?;
        let files = preview.files().unwrap_or_default();
        let status = preview.render_status().cloned().unwrap_or_default();
        let error = status.error.clone();
        if let Some(cause) = error.filter(|error| !error.is_empty()) {
            // A user who reads that the pipeline cannot be edited knows what to change, so errors
            // of the mutations come first (`packagevariants.md` 2.14, phases 8 and 9).
            self.mutate(&files, &name).await?;
            let error = VariantError::RenderFailed { downstream: name, cause };
            return Err(Failure::Told(error, Some(Box::new(status))));
        }
        let results = status.result.map(|results| results.items.to_vec()).unwrap_or_default();
        let of_merge = results.into_iter().filter(|result| result.exec.as_deref() == Some(MERGE));
        Ok((upgrading, files, of_merge.collect()))
    }

    /// Returns the revision that a package was made from (`packagevariants.md` 2.8). The variant
    /// may have had another upstream then, in any repository.
    async fn original(&self, target: &PackageRevision) -> Result<String, Failure> {
        let world = self.world;
        if let Base::Revision(found) = base(target, world.revisions(), world.repositories()) {
            return Ok(found.name_any());
        }
        let registered = world.objects().list::<Repository>(&world.namespace, "").await?;
        let found = upgrade_base::original(&world.store.porch, target, world.revisions(), &registered).await;
        found.map_err(|error| match error {
            OriginalError::List(error) => told_of_list(&error, world.downstream_package()),
            OriginalError::Missing(error) => error.into(),
        })
    }

    /// Merges the change of the upstream into the local package.
    async fn merged(&self, name: &str, original: &str, local: Files) -> Result<Files, Failure> {
        let world = self.world;
        let upstream = self.upstream.name_any();
        let (_, before) = world.resources(original).await?;
        let (_, after) = world.resources(&upstream).await?;
        let (strategy, origin) = (world.strategy(), self.origin()?);
        let package = self.upstream.spec.package_name.clone().unwrap_or_default();
        let merged = world.compute(name, move || {
            let merged = groundwork_krm::merge(strategy, Versions::new(&before, &after, &local));
            let mut files = merged.map_err(|error| error.to_string())?.files;
            restore_context(&mut files, &local, strategy);
            set_origin(&mut files, &package, None, &origin).map_err(|error| error.to_string())?;
            add_merge_keys(&mut files);
            Ok::<_, String>(files)
        });
        merged.await?.map_err(|cause| self.upgrade_failed(name, cause).into())
    }

    fn upgrade_failed(&self, downstream: &str, cause: String) -> VariantError {
        let upstream = self.upstream.name_any();
        VariantError::UpgradeFailed { downstream: downstream.to_owned(), upstream, cause }
    }

    /// Returns the location of the upstream in the form of Kptfiles.
    fn origin(&self) -> Result<Origin, Failure> {
        let lock = self.upstream.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
        let Some(lock) = lock else {
            let text = format!(
                "the place of upstream {:?} is not known: it has no selfLock",
                self.upstream.name_any()
            );
            return Err(VariantError::Other(text).into());
        };
        let package = self.upstream.spec.package_name.clone();
        Ok(Origin {
            repo: lock.repo.clone().unwrap_or_default(),
            directory: lock.directory.clone().or(package).unwrap_or_default(),
            reference: lock.reference.clone().unwrap_or_default(),
            commit: lock.commit.clone(),
        })
    }

    /// Makes a new draft. `files` are the expected result of its task, on which the mutations are
    /// tried first.
    async fn create(&mut self, task: Task, files: &Files) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let package = world.downstream_package();
        let workspace = next_workspace(package, world.revisions(), world.highest_workspace());
        let name = revision_name(package, &workspace);
        // Try the mutations first: users see the draft from its creation on, and one whose
        // mutations fail is useless to them.
        self.mutate(files, &name).await?;
        let upgraded = task.upgrade.as_ref().and_then(|task| task.local_package_revision_ref.as_ref());
        let upgraded = upgraded.map(|local| local.name.clone());
        let upgrade_failed = |cause: String| match &upgraded {
            Some(local) => self.upgrade_failed(local, cause),
            None => VariantError::Rejected(cause),
        };
        match world.check(&workspace, &task).await {
            Err(Failure::Told(VariantError::Rejected(cause), _)) => return Err(upgrade_failed(cause).into()),
            checked => checked?,
        }
        let spec = &world.variant.spec;
        let pairs = |map: &groundwork_api::Map<String>| {
            map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let mut draft = NewDraft {
            namespace: world.namespace.clone(),
            repository: package.repository.to_owned(),
            package: package.path.to_owned(),
            workspace,
            task,
            owner: Some(owner_reference(world.variant)),
            labels: pairs(&spec.labels),
            annotations: pairs(&spec.annotations),
        };
        // The mark tells a later attempt that the mutations of this draft have not been saved yet.
        draft.annotations.insert(annotation::UNFINISHED.to_owned(), "true".to_owned());
        let made = world.create(&draft, &name).await.map_err(|error| match error {
            CreateError::Refused(error) if matches!(error.meaning, Meaning::Permanent | Meaning::Invalid) => {
                upgrade_failed(error.text).into()
            }
            CreateError::Refused(error) => world.told(&error, &name),
            CreateError::NotAsked(failure) => failure,
        })?;
        let name = made.name().to_owned();
        // The variant may have been deleted meanwhile. The reconcile of its deletion has not seen
        // this draft, so delete the draft here.
        if !is_wanted(world.variant, world.objects()).await? {
            world.discard(&name).await?;
            return Err(asks_otherwise());
        }
        // The draft exists on the server from here on, even if a later step fails.
        self.progress.begun = Some(world.target(&name));
        let (resources, files) = world.resources(&name).await?;
        let must_save = world.finishes_drafts();
        let next = Next { resources, before: files.clone(), files, must_save };
        let target = self.settle(made.object(), next).await?;
        world.mend(&draft, &name).await?;
        Ok(target)
    }

    /// Applies the mutations to the files of a draft, and saves the result.
    async fn settle(&mut self, draft: &PackageRevision, next: Next) -> Result<DownstreamTarget, Failure> {
        let world = self.world;
        let name = draft.name_any();
        let Next { resources, before, files, must_save } = next;
        let is_unfinished = draft.annotations().contains_key(annotation::UNFINISHED);
        let changed = match self.mutate(&files, &name).await {
            Err(error @ Failure::Told(..)) if is_unfinished => {
                // A draft without the variant's mutations must not stay for users to find
                // (`packagevariants.md` 2.6).
                world.discard(&name).await?;
                self.progress.begun = None;
                return Err(error);
            }
            changed => changed?,
        };
        let finishes = is_unfinished && world.finishes_drafts();
        let resources = if finishes { resources.finishing() } else { resources };
        let known = world.target(&name);
        let status = if must_save || !same_content(&before, &changed) {
            Some(self.save(&resources, &changed, &name).await?)
        } else {
            known.render_status.clone()
        };
        if is_unfinished && !finishes {
            world.set_finished(&name).await?;
        }
        Ok(DownstreamTarget { render_status: status, ..known })
    }

    /// Saves files; the server renders them.
    async fn save(&self, read: &Resources, files: &Files, name: &str) -> Result<RenderStatus, Failure> {
        let saved = self.world.save(&read.clone().with_files(files), name).await?;
        let status = saved.render_status().cloned().unwrap_or_default();
        match status.error.clone().filter(|error| !error.is_empty()) {
            None => Ok(status),
            // The draft has the setting that keeps content after a failed rendering.
            Some(cause) => {
                let error = VariantError::RenderFailed { downstream: name.to_owned(), cause };
                Err(Failure::Told(error, Some(Box::new(status))))
            }
        }
    }

    async fn mutate(&mut self, files: &Files, name: &str) -> Result<Files, Failure> {
        mutate(self.world, self.progress, files, name).await
    }
}

/// Reports whether an upgrade failed because git no longer has its base (`packagevariants.md`
/// 6.14).
fn is_base_missing(text: &str) -> bool {
    text.contains("cannot find the upstream revision") || text.contains("can no longer be read")
}

fn reference(name: String) -> PackageRevisionRef {
    PackageRevisionRef { name, ..PackageRevisionRef::default() }
}

/// Content for a draft, before the mutations of the variant.
struct Next {
    /// Resources as read; a save fails if the server has another version by then.
    resources: Resources,
    before: Files,
    files: Files,
    must_save: bool,
}
