//! State for the decisions about one variant: Repositories and revisions from the Porch server, at
//! least as new as the last writes of this process (`packagevariants.md` 2.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::metadata::annotation;
use groundwork_api::{
    DownstreamTarget, Lifecycle, ObjectMeta, PackageRevision, PackageVariant, Repository, ResourceExt as _,
    Task,
};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{Key, Objects};
use groundwork_fleet::{
    Package, Repositories, Resolved, Unresolved, VariantError, check_creation, check_names,
    highest_workspace, resolve_upstream,
};
use groundwork_krm::{Package as Files, Strategy};
use groundwork_packages::git::check_file_names;
use groundwork_packages::porch::{Meaning, NewDraft, PorchError, Resources, Revision};

use super::errors::{conflict, refused, told, told_of_list};
use super::work::Work;
use super::{ListError, PorchStore, Registration, Server, Turn, registration};
use crate::packages::newest::ensure_newest;
use crate::packages::progress::{self, Failure, Progress};
use crate::shared::Shared;

/// Reason why a draft was not made.
#[derive(Debug)]
pub(super) enum CreateError {
    /// The server refuses the draft.
    Refused(PorchError),
    /// The request was not sent.
    NotAsked(Failure),
}

impl From<Failure> for CreateError {
    fn from(failure: Failure) -> Self {
        Self::NotAsked(failure)
    }
}

pub(crate) struct World<'a> {
    pub(super) store: &'a PorchStore,
    objects: &'a Objects,
    pub(super) variant: &'a PackageVariant,
    pub(super) namespace: String,
    downstream: Key,
    package: String,
    /// Repositories of the upstream and the downstream package.
    repositories: Vec<Repository>,
    /// Revisions of upstream and downstream, and other revisions that the variant controls.
    revisions: Vec<PackageRevision>,
}

impl<'a> World<'a> {
    /// Reports whether the repository of the downstream package is registered.
    pub(crate) async fn has_downstream(
        variant: &PackageVariant,
        objects: &Objects,
    ) -> Result<bool, groundwork_controller::ApiError> {
        let spec = variant.spec.downstream.clone().unwrap_or_default();
        let namespace = variant.namespace().unwrap_or_default();
        let found = objects.get::<Repository>(&namespace, &spec.repo.unwrap_or_default()).await?;
        Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()))
    }

    /// Reads the revisions of the downstream package, and other revisions that the variant
    /// controls.
    pub(crate) async fn read_own(
        shared: &Arc<Shared>,
        store: &'a PorchStore,
        variant: &'a PackageVariant,
        objects: &'a Objects,
    ) -> Result<Self, Failure> {
        let namespace = variant.namespace().unwrap_or_default();
        let spec = variant.spec.downstream.clone().unwrap_or_default();
        let (repository, package) = (spec.repo.unwrap_or_default(), spec.package.unwrap_or_default());
        let downstream = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), repository);
        let mut world = Self {
            store,
            objects,
            variant,
            namespace,
            downstream,
            package,
            repositories: Vec::new(),
            revisions: Vec::new(),
        };
        let Some(repository) = world.ready_repository(&world.downstream.name).await? else {
            return Err(unavailable(format!("repository {:?} not found", world.downstream.name)));
        };
        world.repositories.push(repository);
        world.revisions = world.list(world.downstream_package()).await?;
        let status = variant.status.clone().unwrap_or_default();
        let mut names: Vec<String> =
            status.downstream_targets.iter().map(|target| target.name.clone()).collect();
        names.extend(shared.owned_by(&variant.uid().unwrap_or_default()));
        names.sort();
        names.dedup();
        for name in names {
            if world.revisions.iter().all(|known| known.name_any() != name) {
                world.revisions.extend(world.get(&name).await?.map(Revision::into_object));
            }
        }
        Ok(world)
    }

    /// Reads the same as `read_own`, and the upstream.
    pub(crate) async fn read(
        shared: &Arc<Shared>,
        store: &'a PorchStore,
        variant: &'a PackageVariant,
        objects: &'a Objects,
    ) -> Result<Self, Failure> {
        let mut world = Self::read_own(shared, store, variant, objects).await?;
        let spec = variant.spec.upstream.clone().unwrap_or_default();
        let (name, path) = (spec.repo.unwrap_or_default(), spec.package.unwrap_or_default());
        // Without a ready upstream repository, the condition reports that the upstream revision
        // does not exist.
        let Some(repository) = world.ready_repository(&name).await? else { return Ok(world) };
        let package = Package { repository: &name, path: &path };
        if package != world.downstream_package() {
            let upstream = world.list(package).await?;
            world.revisions.extend(upstream);
        }
        if world.repositories.iter().all(|known| known.name_any() != name) {
            world.repositories.push(repository);
        }
        Ok(world)
    }

    /// Returns a Repository that the server has read.
    async fn ready_repository(&self, name: &str) -> Result<Option<Repository>, Failure> {
        match registration(self.store.server, self.objects, &self.namespace, name).await? {
            Registration::Ready(found) => Ok(Some(*found)),
            Registration::Absent => Ok(None),
            Registration::NotReady(text) => Err(unavailable(text)),
        }
    }

    pub(super) fn downstream_package(&self) -> Package<'_> {
        Package { repository: &self.downstream.name, path: &self.package }
    }

    /// Reports whether the downstream repository is a deployment repository.
    pub(super) fn is_deployment(&self) -> bool {
        let mut heads = self.repositories.iter();
        let found = heads.find(|found| found.name_any() == self.downstream.name);
        found.is_some_and(|found| found.spec.deployment == Some(true))
    }

    /// Reports whether the server previews upgrades and carries them out with a save.
    pub(super) fn previews_upgrades(&self) -> bool {
        self.store.server == Server::Groundwork
    }

    /// Reports whether the save of a new draft removes its mark, and answers with the results of
    /// the functions even if the files are unchanged.
    pub(super) fn finishes_drafts(&self) -> bool {
        self.store.server == Server::Groundwork
    }

    /// Returns the highest number of a workspace that the status of the variant names: our store
    /// does not use the number of a deleted draft again.
    pub(super) fn highest_workspace(&self) -> u32 {
        if self.store.server == Server::Porch {
            return 0;
        }
        let targets = self.variant.status.iter().flat_map(|status| status.downstream_targets.iter());
        highest_workspace(self.downstream_package(), targets.map(|target| target.name.as_str()))
    }

    pub(super) fn repositories(&self) -> &[Repository] {
        &self.repositories
    }

    async fn list(&self, package: Package<'_>) -> Result<Vec<PackageRevision>, Failure> {
        let listed = self.store.revisions(&self.namespace, package).await;
        let listed = listed.map_err(|error| match error {
            ListError::Refused(error) => told_of_list(&error, package),
            ListError::Lags(error) => Failure::Retry(error),
        })?;
        Ok(listed.into_iter().map(Revision::into_object).collect())
    }

    /// Returns all revisions of a repository.
    pub(super) async fn list_repository(&self, name: &str) -> Result<Vec<PackageRevision>, Failure> {
        let listed = self.store.porch.list(&self.namespace, name, None).await;
        let listed = listed.map_err(|error| told_of_list(&error, self.downstream_package()))?;
        Ok(listed.into_iter().map(Revision::into_object).collect())
    }

    async fn get(&self, name: &str) -> Result<Option<Revision>, Failure> {
        let found = self.store.porch.get(&self.namespace, name).await;
        found.map_err(|error| self.told(&error, name))
    }

    pub(super) fn told(&self, error: &PorchError, revision: &str) -> Failure {
        told(error, self.downstream_package(), revision)
    }

    /// Reads the files of a revision, with their version.
    pub(super) async fn resources(&self, name: &str) -> Result<(Resources, Files), Failure> {
        let resources = self.store.porch.resources(&self.namespace, name).await;
        let resources = resources.map_err(|error| self.told(&error, name))?;
        match resources.files() {
            Some(files) => {
                check_file_names(&files).map_err(|error| progress::told(&error, name))?;
                Ok((resources, files))
            }
            None => {
                let namespace = &self.namespace;
                let text = format!("nil resources found for PackageRevisionResources '{namespace}/{name}'");
                Err(VariantError::Other(text).into())
            }
        }
    }

    /// Waits for a write slot of the downstream repository.
    async fn turn(&self, revision: &str) -> Result<Turn, Failure> {
        let turn = self.store.turns.take(&self.downstream, true).await;
        turn.map_err(|error| progress::told(&error, revision))
    }

    /// Checks the rules that a Porch server does not reliably enforce (`packagevariants.md` 6.13):
    /// names, and the references in the task.
    pub(super) async fn check(&self, workspace: &str, task: &Task) -> Result<(), Failure> {
        if self.store.server == Server::Groundwork {
            return Ok(());
        }
        let package = self.downstream_package();
        let mut all = self.list_repository(package.repository).await?;
        let branch = Repositories(&self.repositories).branch(package.repository);
        check_names(package, workspace, branch, &all).map_err(|error| refused(&error, package))?;
        all.extend(
            self.revisions
                .iter()
                .filter(|found| Package::of(found).repository != package.repository)
                .cloned(),
        );
        // The variant may have had another upstream when the old revision was made.
        let old = task.upgrade.as_ref().and_then(|task| task.old_upstream_ref.as_ref());
        if let Some(old) = old.filter(|old| all.iter().all(|found| found.name_any() != old.name)) {
            all.extend(self.get(&old.name).await?.map(Revision::into_object));
        }
        let checked =
            check_creation(package, std::slice::from_ref(task), &all, Repositories(&self.repositories));
        checked.map(drop).map_err(|error| refused(&error, package))
    }

    /// Makes a draft. If no answer comes, the draft may exist all the same: a draft with this name
    /// and this owner is taken as the result.
    pub(super) async fn create(&self, draft: &NewDraft, name: &str) -> Result<Revision, CreateError> {
        if self.store.server == Server::Porch && self.get(name).await?.is_some() {
            return Err(conflict(format!("package revision {name:?} already exists")).into());
        }
        self.store.drafts.next().await;
        // The wait may be long.
        ensure_newest(self.variant, self.objects).await?;
        let made = {
            let _turn = self.turn(name).await?;
            self.store.porch.create(draft).await
        };
        let made = match made {
            Err(error) if error.is_unanswered => {
                let uid = self.variant.uid().unwrap_or_default();
                match self.get(name).await? {
                    Some(found) if found.is_owned_by(&uid) => found,
                    _ => return Err(CreateError::Refused(error)),
                }
            }
            made => made.map_err(CreateError::Refused)?,
        };
        self.store.wrote(&self.namespace, made.name(), made.version());
        Ok(made)
    }

    /// Writes owner, labels and annotations of a new draft again if the server has lost them. A
    /// Porch server does when it makes two drafts of a repository at the same time: it then takes
    /// one for foreign, and overwrites its metadata.
    pub(super) async fn mend(&self, draft: &NewDraft, name: &str) -> Result<(), Failure> {
        if self.store.server == Server::Groundwork {
            return Ok(());
        }
        let Some(found) = self.get(name).await? else { return Ok(()) };
        let present = &found.object().metadata;
        let mut wanted = present.clone();
        wanted.labels.get_or_insert_default().extend(draft.labels.clone());
        let annotations = draft.annotations.iter().filter(|(name, _)| *name != annotation::UNFINISHED);
        let annotations = annotations.map(|(name, value)| (name.clone(), value.clone()));
        wanted.annotations.get_or_insert_default().extend(annotations);
        let owners = wanted.owner_references.get_or_insert_default();
        if let Some(owner) = &draft.owner
            && owners.iter().all(|found| found.uid != owner.uid)
        {
            owners.push(owner.clone());
        }
        let is_kept = |found: &Option<BTreeMap<String, String>>,
                       wanted: &Option<BTreeMap<String, String>>| {
            found.clone().unwrap_or_default() == wanted.clone().unwrap_or_default()
        };
        let is_whole = is_kept(&present.labels, &wanted.labels)
            && is_kept(&present.annotations, &wanted.annotations)
            && present.owner_references.clone().unwrap_or_default()
                == wanted.owner_references.clone().unwrap_or_default();
        if is_whole {
            return Ok(());
        }
        tracing::info!(
            revision = name,
            "the Porch server lost owner or labels of a new draft; they are written again"
        );
        self.write_metadata(found, wanted, name).await
    }

    /// Replaces the files of a draft.
    pub(super) async fn save(&self, resources: &Resources, name: &str) -> Result<Resources, Failure> {
        ensure_newest(self.variant, self.objects).await?;
        let saved = {
            let _turn = self.turn(name).await?;
            self.store.porch.save(resources).await
        };
        let saved = match saved {
            Ok(saved) => saved,
            Err(error) if error.meaning == Meaning::NotDraft => {
                let found = self.get(name).await?;
                let lifecycle = found.and_then(|found| found.object().spec.lifecycle());
                return Err(match lifecycle {
                    Some(Lifecycle::Proposed) => {
                        VariantError::DownstreamProposed { downstream: name.to_owned() }.into()
                    }
                    _ => conflict(error.text),
                });
            }
            Err(error) => return Err(self.told(&error, name)),
        };
        self.store.wrote(&self.namespace, name, saved.version());
        Ok(saved)
    }

    /// Deletes a draft that was begun and cannot get the content that the variant asks for
    /// (`packagevariants.md` 2.6).
    pub(super) async fn discard(&self, name: &str) -> Result<(), Failure> {
        let deleted = {
            let _turn = self.turn(name).await?;
            self.store.porch.delete(&self.namespace, name).await
        };
        self.store.forget(&self.namespace, name);
        deleted.map_err(|error| self.told(&error, name))
    }

    /// Marks a draft as finished.
    pub(super) async fn set_finished(&self, name: &str) -> Result<(), Failure> {
        let Some(found) = self.get(name).await? else { return Ok(()) };
        let metadata = found.object().metadata.clone();
        let mut annotations = metadata.annotations.unwrap_or_default();
        if annotations.remove(annotation::UNFINISHED).is_none() {
            return Ok(());
        }
        let wanted = ObjectMeta { annotations: Some(annotations), ..found.object().metadata.clone() };
        self.write_metadata(found, wanted, name).await
    }

    async fn write_metadata(&self, found: Revision, wanted: ObjectMeta, name: &str) -> Result<(), Failure> {
        let none = BTreeMap::new();
        let (labels, annotations) =
            (wanted.labels.as_ref().unwrap_or(&none), wanted.annotations.as_ref().unwrap_or(&none));
        let owners = wanted.owner_references.unwrap_or_default();
        let changed = found.with_metadata(labels, annotations, &owners);
        let changed = changed.map_err(|error| Failure::from(VariantError::Other(error.to_string())))?;
        let _turn = self.turn(name).await?;
        match self.store.porch.replace(&changed).await {
            Err(error) if error.meaning == Meaning::NotFound => Ok(()),
            answer => answer.map(drop).map_err(|error| self.told(&error, name)),
        }
    }

    /// Reads a revision again, and returns it if labels and lifecycle are as the decision saw them.
    /// The version of a revision covers neither (`packagevariants.md` 6.13).
    async fn unchanged(&self, decided: &PackageRevision) -> Result<Option<Revision>, Failure> {
        let name = decided.name_any();
        let Some(found) = self.get(&name).await? else { return Ok(None) };
        let is_same = found.object().spec.lifecycle() == decided.spec.lifecycle()
            && Some(found.version()) == decided.metadata.resource_version.as_deref();
        if is_same {
            Ok(Some(found))
        } else {
            Err(conflict(format!("package revision {name:?} has changed")))
        }
    }
}

impl World<'_> {
    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone()
    }

    pub(crate) fn variant(&self) -> &PackageVariant {
        self.variant
    }

    pub(crate) fn objects(&self) -> &Objects {
        self.objects
    }

    pub(crate) fn revisions(&self) -> &[PackageRevision] {
        &self.revisions
    }

    pub(crate) fn resolve(&self) -> Result<Resolved<'_>, Unresolved> {
        let repositories = Repositories(&self.repositories);
        resolve_upstream(self.variant, &self.revisions, repositories)
    }

    pub(crate) async fn make_first(
        &self,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> Result<DownstreamTarget, Failure> {
        Work { world: self, upstream, progress }.make_first().await
    }

    pub(crate) async fn update(
        &self,
        target: &PackageRevision,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> Result<DownstreamTarget, Failure> {
        Work { world: self, upstream, progress }.update(target).await
    }

    /// Changes the lifecycle by an update, if the transition needs no approval.
    pub(crate) async fn set_lifecycle(
        &self,
        revision: &PackageRevision,
        to: Lifecycle,
    ) -> Result<PackageRevision, Failure> {
        let name = revision.name_any();
        let Some(found) = self.unchanged(revision).await? else {
            return Err(conflict(format!("package revision {name:?} is gone")));
        };
        ensure_newest(self.variant, self.objects).await?;
        let _turn = self.turn(&name).await?;
        let moved = self.store.porch.replace(&found.with_lifecycle(to)).await;
        Ok(moved.map_err(|error| self.told(&error, &name))?.into_object())
    }

    pub(crate) async fn delete(&self, revision: &PackageRevision) -> Result<(), Failure> {
        let name = revision.name_any();
        // A repository that the server cannot read has no revisions in lists. They are not deleted
        // for that.
        let repository = revision.spec.repository.clone().unwrap_or_default();
        if self.ready_repository(&repository).await?.is_none() {
            let cause = format!("repository {repository:?} not found");
            return Err(VariantError::DeletionBlocked(vec![(name, cause)]).into());
        }
        match self.unchanged(revision).await? {
            Some(_) => self.discard(&name).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn set_metadata(
        &self,
        revision: &PackageRevision,
        wanted: ObjectMeta,
    ) -> Result<(), Failure> {
        let name = revision.name_any();
        let Some(found) = self.get(&name).await? else { return Ok(()) };
        self.write_metadata(found, wanted, &name).await
    }

    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        revision: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| {
            let text =
                format!("work on {revision:?} failed with an internal error; see the log of the service");
            VariantError::Other(text).into()
        })
    }

    /// Returns the merge strategy for updates. The validation has already rejected an unknown one.
    pub(super) fn strategy(&self) -> Strategy {
        let given = self.variant.spec.update_strategy.as_deref().unwrap_or_default();
        given.parse().unwrap_or_default()
    }

    /// Returns the status entry of a revision that this reconcile did not render.
    pub(crate) fn target(&self, name: &str) -> DownstreamTarget {
        let status = self.variant.status.clone().unwrap_or_default();
        let known = status.downstream_targets.iter().find(|target| target.name == name).cloned();
        known.unwrap_or_else(|| DownstreamTarget { name: name.to_owned(), ..DownstreamTarget::default() })
    }
}

fn unavailable(cause: String) -> Failure {
    VariantError::StoreUnavailable { cause, retry_after: None }.into()
}
