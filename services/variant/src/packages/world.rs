//! State for the decisions about one variant: revisions from git, combined with the attributes that
//! only the cluster knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::{
    DownstreamTarget, Lifecycle, ObjectMeta, PackageRevision, PackageVariant, Repository, ResourceExt as _,
    RevisionRecord,
};
use groundwork_bus::{Kind, ObjectId};
use groundwork_controller::{ApiError, Key, Objects, Sight};
use groundwork_fleet::{
    Git, Package, Repositories, Resolved, Unresolved, VariantError, highest_workspace, owner_reference,
    resolve_upstream,
};
use groundwork_krm::Package as Content;
use groundwork_packages::git::{Actor, GitRepository, NewDraft, Revision, Source, Staged, Store, StoreError};

use super::downstream::{Failure, Progress, told};
use super::drafting::{CONTROLLER, Work};
use super::newest::ensure_newest;
use super::operations::Operations;
use super::records::{self, Attributes, Note, served};
use super::repository::attributes;
use super::{PackageStore, key_of};
use crate::shared::Shared;

/// Up to this number of revisions, the objects of a package are read one by one instead of by a
/// list.
const FEW: usize = 4;

pub(crate) struct World<'a> {
    store: &'a PackageStore,
    pub(super) objects: &'a Objects,
    pub(super) variant: &'a PackageVariant,
    pub(super) namespace: String,
    pub(super) downstream: Key,
    pub(super) package: String,
    pub(super) repository: Arc<GitRepository>,
    upstream: Option<Arc<GitRepository>>,
    upstream_package: String,
    /// Repositories of the upstream and the downstream package, as far as decisions need them.
    pub(super) repositories: Vec<Repository>,
    /// Revisions of upstream and downstream, and other revisions that the variant controls.
    pub(super) revisions: Vec<PackageRevision>,
    /// Records of the downstream package.
    present: BTreeMap<String, RevisionRecord>,
}

impl<'a> World<'a> {
    /// Reports whether the repository of the downstream package is registered.
    pub(crate) async fn has_downstream(
        store: &PackageStore,
        variant: &PackageVariant,
        objects: &Objects,
    ) -> bool {
        let spec = variant.spec.downstream.clone().unwrap_or_default();
        let namespace = variant.namespace().unwrap_or_default();
        let key = ObjectId::new(Kind::of::<Repository>(), Some(&namespace), spec.repo.unwrap_or_default());
        !matches!(store.repository(&key, objects).await, Err(StoreError::NotFound(_)))
    }

    /// Reads the state from the store and from the cluster.
    pub(crate) async fn read(
        shared: &Arc<Shared>,
        store: &'a PackageStore,
        variant: &'a PackageVariant,
        objects: &'a Objects,
        changed: &[(ObjectId, Sight)],
    ) -> Result<Self, Failure> {
        let namespace = variant.namespace().unwrap_or_default();
        let key = |name: Option<String>| {
            ObjectId::new(Kind::of::<Repository>(), Some(&namespace), name.unwrap_or_default())
        };
        let spec = variant.spec.downstream.clone().unwrap_or_default();
        let (downstream, package) = (key(spec.repo), spec.package.unwrap_or_default());
        let repository = match store.repository(&downstream, objects).await {
            Ok(repository) => repository,
            Err(error) => return Err(unavailable(&error)),
        };
        let spec = variant.spec.upstream.clone().unwrap_or_default();
        let (upstream_key, upstream_package) = (key(spec.repo), spec.package.unwrap_or_default());
        let upstream = match store.repository(&upstream_key, objects).await {
            Ok(repository) => Some(repository),
            // Without an upstream repository, the condition reports that the upstream revision does
            // not exist.
            Err(StoreError::NotFound(_)) => None,
            Err(error) => return Err(unavailable(&error)),
        };
        let repositories = std::iter::once(&repository).chain(&upstream);
        let repositories = repositories.map(|repository| repository.settings().object()).collect();
        let mut world = Self {
            store,
            objects,
            variant,
            namespace,
            downstream,
            package,
            repository,
            upstream,
            upstream_package,
            repositories,
            revisions: Vec::new(),
            present: BTreeMap::new(),
        };
        world.until_known(changed).await?;
        world.read_downstream().await?;
        world.read_upstream();
        world.read_owned(shared).await?;
        Ok(world)
    }

    /// Syncs until this replica knows the revisions that other replicas have pushed. Events report
    /// these: if an object has a revision that this replica does not have, or has at another
    /// commit, the replica asks the remote.
    async fn until_known(&self, changed: &[(ObjectId, Sight)]) -> Result<(), Failure> {
        let upstream = self.upstream.iter().filter(|upstream| !Arc::ptr_eq(upstream, &self.repository));
        for repository in std::iter::once(&self.repository).chain(upstream) {
            let prefix = format!("{}.", repository.settings().name);
            let of_repository = changed.iter().map(|(object, _)| object).filter(|object| {
                object.kind == Kind::of::<PackageRevision>() && object.name.starts_with(&prefix)
            });
            // The replica that worked on the variant before may have pushed a revision without
            // creating its object.
            let is_downstream = Arc::ptr_eq(repository, &self.repository);
            let mut is_known = !(is_downstream && goes_unsettled(self.variant));
            for object in of_repository {
                is_known &= self.is_known(repository, &object.name).await?;
            }
            if !is_known {
                let syncing = Arc::clone(repository);
                let key = key_of(repository);
                let synced = self.store.run(&key, move |_| syncing.sync().map(drop));
                synced.await.map_err(|error| told(&error, &repository.settings().name))?;
            }
        }
        Ok(())
    }

    async fn is_known(&self, repository: &GitRepository, name: &str) -> Result<bool, Failure> {
        let found = repository.revision(name).ok();
        let object = self.objects.get::<RevisionRecord>(&self.namespace, name).await?;
        let lock =
            object.as_ref().and_then(|object| object.status.as_ref()?.self_lock.as_ref()?.git.as_ref());
        let told = lock.and_then(|lock| lock.commit.clone());
        Ok(match (found, object.is_some(), told) {
            (None, is_there, _) => !is_there,
            (Some(_), false, _) => false,
            (Some(found), true, told) => told.is_none_or(|told| told == format!("{}", found.commit)),
        })
    }

    /// Reads the records of revisions by name. Few records are read one by one, since a list makes
    /// the API server scan the whole namespace.
    async fn records_of(&self, names: &[&str]) -> Result<BTreeMap<String, RevisionRecord>, Failure> {
        let found = if names.len() > FEW {
            let fields =
                format!("spec.repository={},spec.packageName={}", self.downstream.name, self.package);
            self.objects.select::<RevisionRecord>(&self.namespace, &fields).await?
        } else {
            let reads = names.iter().map(|name| self.objects.get::<RevisionRecord>(&self.namespace, name));
            futures::future::try_join_all(reads).await?.into_iter().flatten().collect()
        };
        Ok(found.into_iter().map(|object| (object.name_any(), object)).collect())
    }

    async fn read_downstream(&mut self) -> Result<(), Failure> {
        let snapshot = self.repository.snapshot();
        let of_package: Vec<_> =
            snapshot.revisions.values().filter(|found| found.package == self.package).collect();
        let numbered: Vec<&str> =
            of_package.iter().filter(|found| found.number >= 0).map(|found| found.name.as_str()).collect();
        let mut listed = self.records_of(&numbered).await?;
        for revision in of_package {
            let object = listed.remove(&revision.name);
            let owner = revision.facts.owner.as_ref();
            let is_ours = owner.is_some_and(|owner| owner.name == self.variant.name_any());
            if object.is_none() && is_ours && self.variant.metadata.deletion_timestamp.is_some() {
                // The revision was pushed without an object, and the variant is being deleted. List
                // the revision as owned, so that the deletion policy covers it.
                let mut seen = in_git(&self.repository, revision, None);
                seen.metadata.owner_references = Some(vec![owner_reference(self.variant)]);
                self.revisions.push(seen);
                continue;
            }
            if object.is_none() && is_ours {
                // An earlier attempt pushed this revision and ended before it created the object.
                let attributes = attributes(self.variant);
                let made = records::ensure(
                    &self.repository,
                    revision,
                    None,
                    None,
                    attributes,
                    Note::Kept,
                    self.objects,
                );
                let made = made.await?;
                self.revisions.push(served(&made));
                self.present.insert(made.name_any(), made);
                continue;
            }
            self.revisions.push(in_git(&self.repository, revision, object.as_ref()));
            self.present.extend(object.map(|object| (object.name_any(), object)));
        }
        Ok(())
    }

    /// Adds the revisions of the upstream; git alone has everything that decisions need of them.
    fn read_upstream(&mut self) {
        let Some(upstream) = self.upstream.clone() else { return };
        let known: Vec<String> = self.revisions.iter().map(groundwork_api::ResourceExt::name_any).collect();
        let snapshot = upstream.snapshot();
        let of_package = snapshot.revisions.values().filter(|found| found.package == self.upstream_package);
        let others = of_package.filter(|revision| !known.contains(&revision.name));
        self.revisions.extend(others.map(|revision| in_git(&upstream, revision, None)));
    }

    /// Adds the revisions that the variant controls although its spec names another downstream
    /// package by now.
    async fn read_owned(&mut self, shared: &Arc<Shared>) -> Result<(), Failure> {
        let status = self.variant.status.clone().unwrap_or_default();
        let mut names: Vec<String> =
            status.downstream_targets.iter().map(|target| target.name.clone()).collect();
        names.extend(shared.owned_by(&self.variant.uid().unwrap_or_default()));
        names.sort();
        names.dedup();
        for name in names {
            if self.revisions.iter().all(|known| known.name_any() != name)
                && let Some(record) = self.objects.get::<RevisionRecord>(&self.namespace, &name).await?
            {
                self.revisions.push(served(&record));
            }
        }
        Ok(())
    }

    /// Runs an operation of the store on a revision.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        revision: &str,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        self.store.run(&self.downstream, operation).await.map_err(|error| told(&error, revision))
    }

    /// Runs an operation that pushes a replacement of content that was read before.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        revision: &str,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        ensure_newest(self.variant, self.objects).await?;
        self.store.write(&self.downstream, operation).await.map_err(|error| told(&error, revision))
    }

    /// Deletes a new draft and its object if its variant was deleted during the push: the reconcile
    /// of the deletion did not see the draft.
    pub(super) async fn take_back(&self, draft: &Revision) -> Result<(), Failure> {
        let (namespace, name, version) = (self.namespace.clone(), draft.name.clone(), draft.version());
        let actor = Actor { name: CONTROLLER.to_owned() };
        let deleted = self
            .store
            .write(&self.downstream, move |store| store.delete(&namespace, &name, &version, &actor));
        match deleted.await {
            Ok(()) | Err(StoreError::NotFound(_)) => Ok(()),
            Err(error) => Err(told(&error, &draft.name)),
        }
    }

    /// Stages the content of a new draft, after the rate limit allows one.
    pub(super) async fn stage(&self, new: NewDraft) -> Result<Staged, StoreError> {
        self.store.draft().await;
        self.try_run(move |store| store.stage(&new)).await
    }

    /// Like `run`, for callers that map the errors of the store themselves.
    pub(super) async fn try_run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.store.run(&self.downstream, operation).await
    }

    /// Returns the highest number that a workspace of the package ever had. Git forgets a draft
    /// whose branch somebody deletes; the status of the variant still names it.
    pub(super) fn highest_workspace(&self) -> u32 {
        let settings = self.repository.settings();
        let in_git = self.repository.snapshot().marks_of(&settings.directory, &self.package).workspace;
        let targets = self.variant.status.iter().flat_map(|status| status.downstream_targets.iter());
        let package = Package { repository: &settings.name, path: &self.package };
        in_git.max(highest_workspace(package, targets.map(|target| target.name.as_str())))
    }

    /// Runs a decision with access to git.
    pub(super) fn with_git<T>(&self, decide: impl FnOnce(&Git<'_>) -> T) -> T {
        match &self.upstream {
            Some(upstream) => self.store.with_git(&self.namespace, &self.upstream_package, upstream, decide),
            None => decide(&Git { tag_commit: &|_| None, same_tree: &self.store.same_tree(&self.namespace) }),
        }
    }

    /// Returns a revision from the store.
    pub(super) fn store_revision(&self, name: &str) -> Result<Arc<Revision>, Failure> {
        let repositories = std::iter::once(&self.repository).chain(&self.upstream);
        let found = repositories.filter_map(|repository| repository.revision(name).ok()).next();
        let gone = || {
            Failure::Retry(groundwork_controller::ReconcileError {
                message: format!("package revision {name:?} is gone"),
                is_conflict: true,
            })
        };
        found.ok_or_else(gone)
    }

    /// Returns the record of a revision, if it exists.
    pub(super) fn record(&self, name: &str) -> Option<&RevisionRecord> {
        self.present.get(name)
    }

    /// Returns the files of a revision, and their version. A write of the result fails if the
    /// version has changed by then.
    pub(super) async fn files(&self, name: &str) -> Result<(String, Content), Failure> {
        let (namespace, revision) = (self.namespace.clone(), name.to_owned());
        let read = move |store: &Store| {
            let (repository, revision) = store.revision(&namespace, &revision)?;
            Ok((revision.version(), repository.content(&revision)?.texts))
        };
        self.run(name, read).await
    }
}

impl Operations for World<'_> {
    fn variant(&self) -> &PackageVariant {
        self.variant
    }

    fn objects(&self) -> &Objects {
        self.objects
    }

    fn revisions(&self) -> &[PackageRevision] {
        &self.revisions
    }

    fn resolve(&self) -> Result<Resolved<'_>, Unresolved> {
        let repositories = Repositories(&self.repositories);
        self.with_git(|git| resolve_upstream(self.variant, &self.revisions, repositories, git))
    }

    async fn make_first(
        &self,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> Result<DownstreamTarget, Failure> {
        let source = Source::Clone { upstream: upstream.name_any() };
        Work { world: self, upstream, progress }.make(source, None).await
    }

    async fn update(
        &self,
        target: &PackageRevision,
        upstream: &PackageRevision,
        progress: &mut Progress,
    ) -> Result<DownstreamTarget, Failure> {
        Work { world: self, upstream, progress }.update(target).await
    }

    /// Runs the work in a slot of the store's operations.
    async fn compute<T: Send + 'static>(
        &self,
        revision: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.run(revision, move |_| Ok(work())).await
    }

    /// Changes the lifecycle in git and on the object.
    async fn set_lifecycle(
        &self,
        revision: &PackageRevision,
        to: Lifecycle,
    ) -> Result<PackageRevision, Failure> {
        let name = &revision.name_any();
        let (namespace, revision) = (self.namespace.clone(), name.clone());
        let moved = self.write(name, move |store| {
            let version = store.revision(&namespace, &revision)?.1.version();
            let actor = Actor { name: CONTROLLER.to_owned() };
            let moved = store.set_lifecycle(&namespace, &revision, &version, to, &actor)?;
            Ok((store.revision(&namespace, &revision)?.0, moved))
        });
        let (repository, moved) = moved.await?;
        let present = self.objects.get::<RevisionRecord>(&self.namespace, name).await?;
        let none = Attributes::default();
        let record = records::ensure(&repository, &moved, None, present, none, Note::Kept, self.objects);
        Ok(served(&record.await?))
    }

    /// Deletes the revision from git, and its object.
    async fn delete(&self, object: &PackageRevision) -> Result<(), Failure> {
        let (namespace, name) = (self.namespace.clone(), object.name_any());
        let revision = name.clone();
        let deleted = self.store.write(&self.downstream, move |store| {
            let version = store.revision(&namespace, &revision)?.1.version();
            store.delete(&namespace, &revision, &version, &Actor { name: CONTROLLER.to_owned() })
        });
        match deleted.await {
            Ok(()) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(told(&error, &name)),
        }
        match self.objects.get::<RevisionRecord>(&self.namespace, &name).await? {
            Some(record) => records::release(&record, self.objects).await.map_err(Failure::Retry),
            None => Ok(()),
        }
    }

    async fn set_metadata(&self, revision: &PackageRevision, wanted: ObjectMeta) -> Result<(), Failure> {
        let name = revision.name_any();
        let Some(mut record) = self.objects.get::<RevisionRecord>(&self.namespace, &name).await? else {
            return Ok(());
        };
        let present = served(&record).metadata;
        if present.uid != revision.uid() {
            return Ok(());
        }
        records::with_metadata(&mut record, &ObjectMeta { finalizers: present.finalizers, ..wanted });
        match self.objects.replace(&record).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns a revision for decisions, as git and its record have it.
fn in_git(
    repository: &GitRepository,
    revision: &Revision,
    record: Option<&RevisionRecord>,
) -> PackageRevision {
    served(&records::wanted(repository, revision, None, record, Note::Kept))
}

/// Reports whether a variant is being deleted before its last generation was reconciled. The
/// deletion itself counts as one generation.
fn goes_unsettled(variant: &PackageVariant) -> bool {
    let status = variant.status.clone().unwrap_or_default();
    let is_ready = status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
    let seen = status.observed_generation.map(|generation| generation + 1);
    variant.metadata.deletion_timestamp.is_some() && !(is_ready && seen >= variant.metadata.generation)
}

fn unavailable(error: &StoreError) -> Failure {
    VariantError::StoreUnavailable { cause: error.to_string(), retry_after: None }.into()
}
