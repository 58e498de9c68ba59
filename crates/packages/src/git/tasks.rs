//! Tasks that make the content of a draft: from scratch, from an upstream, from an earlier
//! revision, or by a merge (`packagevariants.md` 6.6, 7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::{
    CloneTask, EditTask, InitTask, PackageRevision, PackageRevisionRef, RenderStatus, ResourceExt as _, Task,
    UpgradeTask, UpstreamPackage,
};
use groundwork_fleet::{Base, Package, Repositories, base, check_creation, check_names, normalized};
use groundwork_krm::{Merged, Origin, Strategy, Versions};

use crate::git::draft::{Rendered, Staged, tell};
use crate::git::error::StoreError;
use crate::git::message::{Owner, Updated};
use crate::git::objects::{Content, Objects};
use crate::git::repository::GitRepository;
use crate::git::revision::Revision;
use crate::git::store::Store;
use crate::git::visit::Address;

/// Draft to create.
#[derive(Debug, Clone)]
pub struct NewDraft {
    pub namespace: String,
    pub repository: String,
    /// Path below the directory of the repository.
    pub package: String,
    pub workspace: String,
    pub source: Source,
    /// Owner, for the commit message.
    pub owner: Option<Owner>,
}

/// Source of a draft. Names are those of package revisions in the namespace.
#[derive(Debug, Clone)]
pub enum Source {
    Init(InitTask),
    Clone {
        upstream: String,
    },
    /// Clone from an address that no Repository registers.
    Visit(Box<Address>),
    Edit {
        source: String,
    },
    Upgrade {
        local: String,
        update: Update,
    },
}

/// Update from one revision of an upstream to another.
#[derive(Debug, Clone)]
pub struct Update {
    /// Base: the content that the local package was made from.
    pub original: Original,
    pub upstream: String,
    pub strategy: Strategy,
}

/// Content that a package was made from.
#[derive(Debug, Clone)]
pub enum Original {
    Revision(String),
    /// Commit without a revision, as named by the lock in the Kptfile.
    Commit {
        url: String,
        directory: String,
        reference: String,
        commit: String,
    },
}

/// Warnings of a merge for users: the path of a file, and a sentence.
type Warnings = Vec<(String, String)>;

impl Store {
    /// Stages the content of a new draft, which users see only after its commit.
    ///
    /// # Errors
    /// A source is missing, or the task breaks a rule.
    pub fn stage(&self, new: &NewDraft) -> Result<Staged, StoreError> {
        let repository = self.repository(&new.namespace, &new.repository)?;
        let task = new.source.task();
        self.check(&repository, new, &task)?;
        let mut warnings = Vec::new();
        let content = match &new.source {
            Source::Init(task) => {
                let texts = groundwork_krm::init_package(&new.package, task);
                Content { texts, ..Content::default() }
            }
            Source::Clone { upstream } => self.cloned(&repository, new, upstream)?,
            Source::Visit(address) => self.cloned_from(&repository, new, address)?,
            Source::Edit { source } => self.files(&new.namespace, source)?,
            Source::Upgrade { local, update } => {
                let (content, found) = self.upgraded(&repository, new, local, update)?;
                warnings = found;
                content
            }
        };
        let rendered = repository.render(content)?;
        let owner = new.owner.clone();
        Ok(Staged::create(&repository, &new.package, &new.workspace, rendered, task, owner).warn(warnings))
    }

    /// Checks the name of the new revision, and the revisions that its task names.
    fn check(&self, repository: &GitRepository, new: &NewDraft, task: &Task) -> Result<(), StoreError> {
        let package = Package { repository: &new.repository, path: &new.package };
        let objects = |repository: &GitRepository| -> Vec<PackageRevision> {
            let place = repository.settings().place();
            repository.snapshot().revisions.values().map(|found| found.object(&place)).collect()
        };
        let mut revisions = objects(repository);
        check_names(package, &new.workspace, &repository.settings().branch, &revisions)?;
        // Revisions of other repositories only matter if the task names them.
        let mut heads = vec![repository.settings().object()];
        for name in new.source.named() {
            let (other, revision) = self.revision(&new.namespace, name)?;
            if other.settings().name != new.repository {
                revisions.push(revision.object(&other.settings().place()));
                heads.push(other.settings().object());
            }
        }
        if let Source::Upgrade { update: Update { original: Original::Commit { .. }, .. }, .. } = &new.source
        {
            // The source is not a revision, so there are no rules for it.
            return Ok(());
        }
        check_creation(package, std::slice::from_ref(task), &revisions, Repositories(&heads))?;
        Ok(())
    }

    /// Stages an update of a draft to another revision of its upstream.
    ///
    /// # Errors
    /// The draft has changed since `version` or is not a draft, a source is missing, or the merge
    /// fails.
    pub fn stage_update(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        update: &Update,
    ) -> Result<Staged, StoreError> {
        let (repository, draft) = self.draft(namespace, name, version)?;
        let (content, upstream, warnings) = self.updated(namespace, &repository, &draft, update)?;
        let from = match &update.original {
            Original::Revision(name) => self.revision(namespace, name)?.1.short_reference.clone(),
            Original::Commit { reference, .. } => reference.clone(),
        };
        let updated = Updated {
            from,
            to: upstream.short_reference.clone(),
            strategy: update.strategy.as_str().to_owned(),
        };
        Ok(Staged::update(&repository, &draft, repository.render(content)?, updated).warn(warnings))
    }

    /// Returns the base of a package's revision, as its Kptfile names it (`packagevariants.md`
    /// 2.8).
    ///
    /// # Errors
    /// The revision does not exist, or its base is unknown.
    pub fn original_of(&self, namespace: &str, name: &str) -> Result<Original, StoreError> {
        let (repository, local) = self.revision(namespace, name)?;
        let repositories = self.repositories(namespace);
        let heads: Vec<_> = repositories.iter().map(|found| found.settings().object()).collect();
        let revisions: Vec<PackageRevision> = repositories
            .iter()
            .flat_map(|found| {
                let place = found.settings().place();
                found
                    .snapshot()
                    .revisions
                    .values()
                    .map(|revision| revision.object(&place))
                    .collect::<Vec<_>>()
            })
            .collect();
        let local = local.object(&repository.settings().place());
        let lock = local.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
        match base(&local, &revisions, &heads) {
            Base::Revision(found) => Ok(Original::Revision(found.name_any())),
            Base::Commit { url, directory, commit, .. } => Ok(Original::Commit {
                url: url.to_owned(),
                directory: directory.to_owned(),
                reference: lock.and_then(|lock| lock.reference.clone()).unwrap_or_default(),
                commit: commit.to_owned(),
            }),
            Base::Missing(error) => Err(StoreError::Refused(error.to_string())),
        }
    }

    fn cloned(
        &self,
        repository: &GitRepository,
        new: &NewDraft,
        upstream: &str,
    ) -> Result<Content, StoreError> {
        let (source, revision) = self.revision(&new.namespace, upstream)?;
        let content = source.content(&revision)?;
        bring_binaries(&content, source.objects(), repository)?;
        as_clone(content, repository, new, &revision.package, &origin(&source, &revision))
    }

    fn cloned_from(
        &self,
        repository: &GitRepository,
        new: &NewDraft,
        address: &Address,
    ) -> Result<Content, StoreError> {
        let visited = self.visit(address)?;
        bring_binaries(&visited.content, &visited.objects, repository)?;
        let origin = Origin {
            repo: address.url().to_owned(),
            directory: address.directory().to_owned(),
            reference: address.reference().to_owned(),
            commit: Some(visited.commit.to_string()),
        };
        as_clone(visited.content, repository, new, address.directory(), &origin)
    }

    fn upgraded(
        &self,
        repository: &GitRepository,
        new: &NewDraft,
        local: &str,
        update: &Update,
    ) -> Result<(Content, Warnings), StoreError> {
        let (home, local) = self.revision(&new.namespace, local)?;
        let (content, _, warnings) = self.updated(&new.namespace, &home, &local, update)?;
        bring_binaries(&content, home.objects(), repository)?;
        Ok((content, warnings))
    }

    /// Returns the content of a revision after an update, unrendered, and the revision of its new
    /// upstream.
    fn updated(
        &self,
        namespace: &str,
        home: &GitRepository,
        local: &Revision,
        update: &Update,
    ) -> Result<(Content, Arc<Revision>, Warnings), StoreError> {
        let (source, upstream) = self.revision(namespace, &update.upstream)?;
        let (merged, warnings) = self.merged(namespace, home, local, update)?;
        bring_binaries(&merged, source.objects(), home)?;
        Ok((with_origin(merged, &source, &upstream)?, upstream, warnings))
    }

    /// Returns the files that a revision would have after an update, and the warnings of the merge.
    /// If the files cannot be rendered, they are as merged, and the error says why.
    ///
    /// # Errors
    /// A revision is missing, or the merge fails.
    pub fn preview_update(
        &self,
        namespace: &str,
        name: &str,
        update: &Update,
    ) -> Result<(Content, RenderStatus), StoreError> {
        let (repository, local) = self.revision(namespace, name)?;
        let (content, _, warnings) = self.updated(namespace, &repository, &local, update)?;
        let (Rendered { content: rendered, status }, error) = repository.render_anyhow(content.clone());
        let content = if error.is_some() { content } else { rendered };
        let mut status = RenderStatus { error, ..status };
        tell(&mut status, warnings);
        Ok((content, status))
    }

    /// Returns the files of a revision.
    fn files(&self, namespace: &str, name: &str) -> Result<Content, StoreError> {
        let (repository, revision) = self.revision(namespace, name)?;
        repository.content(&revision)
    }

    /// Merges the change of the upstream into the local package.
    fn merged(
        &self,
        namespace: &str,
        repository: &GitRepository,
        local: &Revision,
        update: &Update,
    ) -> Result<(Content, Warnings), StoreError> {
        // The other strategies take the upstream's files anyway.
        let made = match update.strategy {
            Strategy::ResourceMerge | Strategy::FastForward => match repository.made(local) {
                // An earlier revision that cannot be read must not block an upgrade.
                Err(StoreError::Refused(_)) => None,
                made => made?,
            },
            Strategy::ForceDeleteReplace | Strategy::CopyMerge => None,
        };
        let local = repository.content(local)?;
        let original = self.original(namespace, &update.original)?;
        let (source, upstream) = self.revision(namespace, &update.upstream)?;
        let updated = source.content(&upstream)?;
        let versions = Versions {
            original: &original.texts,
            updated: &updated.texts,
            local: &local.texts,
            made: made.as_ref(),
        };
        let merged = groundwork_krm::merge(update.strategy, versions);
        let Merged { files: mut texts, warnings } =
            merged.map_err(|error| StoreError::Merge(error.to_string()))?;
        groundwork_krm::restore_context(&mut texts, &local.texts, update.strategy);
        let binaries = merged_binaries(&original.binaries, &updated.binaries, &local.binaries);
        Ok((Content { texts, binaries }, warnings))
    }

    fn original(&self, namespace: &str, original: &Original) -> Result<Content, StoreError> {
        match original {
            Original::Revision(name) => self.files(namespace, name),
            Original::Commit { url, directory, reference, commit } => {
                for repository in self.of_address(namespace, url) {
                    if let Some(content) = repository.content_at(commit, directory)? {
                        return Ok(content);
                    }
                }
                let text = format!("commit {commit} of {url} ({reference}) can no longer be read");
                Err(StoreError::NotFound(text))
            }
        }
    }

    /// Returns the repositories with this address.
    fn of_address(&self, namespace: &str, url: &str) -> Vec<Arc<GitRepository>> {
        let address = normalized(url);
        let mut repositories = self.repositories(namespace);
        repositories.retain(|repository| normalized(&repository.settings().url) == address);
        repositories
    }
}

impl Source {
    /// Returns the task for the commit and the object, and for a Porch server (`packagevariants.md`
    /// 6.13). A task cannot name a commit without a revision.
    pub fn task(&self) -> Task {
        match self {
            Self::Init(task) => {
                Task { type_: "init".to_owned(), init: Some(task.clone()), ..Task::default() }
            }
            Self::Clone { upstream } => {
                clone_task(UpstreamPackage { upstream_ref: Some(named(upstream)), ..Default::default() })
            }
            Self::Visit(address) => clone_task(UpstreamPackage {
                type_: Some("git".to_owned()),
                git: Some(address.package.clone()),
                ..Default::default()
            }),
            Self::Edit { source } => {
                let task = EditTask { source_ref: Some(named(source)), ..EditTask::default() };
                Task { type_: "edit".to_owned(), edit: Some(task), ..Task::default() }
            }
            Self::Upgrade { local, update } => {
                let old = match &update.original {
                    Original::Revision(name) => Some(named(name)),
                    Original::Commit { .. } => None,
                };
                let task = UpgradeTask {
                    old_upstream_ref: old,
                    new_upstream_ref: Some(named(&update.upstream)),
                    local_package_revision_ref: Some(named(local)),
                    strategy: Some(update.strategy.as_str().to_owned()),
                    ..UpgradeTask::default()
                };
                Task { type_: "upgrade".to_owned(), upgrade: Some(task), ..Task::default() }
            }
        }
    }

    /// Returns the revisions that the source names.
    fn named(&self) -> Vec<&str> {
        match self {
            Self::Init(_) | Self::Visit(_) => Vec::new(),
            Self::Clone { upstream } => vec![upstream],
            Self::Edit { source } => vec![source],
            Self::Upgrade { local, update } => {
                let original = match &update.original {
                    Original::Revision(name) => Some(name.as_str()),
                    Original::Commit { .. } => None,
                };
                [local.as_str(), update.upstream.as_str()].into_iter().chain(original).collect()
            }
        }
    }
}

fn origin(repository: &GitRepository, upstream: &Revision) -> Origin {
    Origin {
        repo: repository.settings().url.clone(),
        directory: upstream.package.clone(),
        reference: upstream.short_reference.clone(),
        commit: Some(upstream.commit.to_string()),
    }
}

/// Makes the content of an upstream that of a new package.
fn as_clone(
    mut content: Content,
    repository: &GitRepository,
    new: &NewDraft,
    source: &str,
    origin: &Origin,
) -> Result<Content, StoreError> {
    let is_deployment = repository.settings().deployment;
    groundwork_krm::clone_package(&mut content.texts, source, &new.package, origin, is_deployment)
        .map_err(|error| StoreError::Refused(error.to_string()))?;
    Ok(content)
}

/// Sets the upstream of merged content, and the merge keys by which later merges find its objects.
fn with_origin(
    mut content: Content,
    repository: &GitRepository,
    upstream: &Revision,
) -> Result<Content, StoreError> {
    let origin = origin(repository, upstream);
    let set = groundwork_krm::set_origin(&mut content.texts, &upstream.package, None, &origin);
    set.map_err(|error| StoreError::Refused(error.to_string()))?;
    groundwork_krm::add_merge_keys(&mut content.texts);
    Ok(content)
}

/// Copies the files that are not text into the clone of another repository. Each address has a
/// clone of its own, and a push needs all objects of its commits.
fn bring_binaries(content: &Content, from: &Objects, into: &GitRepository) -> Result<(), StoreError> {
    for id in content.binaries.values().filter(|id| !into.objects().has(**id)) {
        into.objects().write_blob(&from.blob(*id)?)?;
    }
    Ok(())
}

/// Merges binary files as a whole: if the upstream has changed a file, its version wins
/// (`packagevariants.md` 7.7).
fn merged_binaries(
    original: &BTreeMap<String, ObjectId>,
    updated: &BTreeMap<String, ObjectId>,
    local: &BTreeMap<String, ObjectId>,
) -> BTreeMap<String, ObjectId> {
    let paths: BTreeSet<&String> = original.keys().chain(updated.keys()).chain(local.keys()).collect();
    let one = |path: &String| {
        let (before, theirs, ours) = (original.get(path), updated.get(path), local.get(path));
        let taken = match theirs {
            _ if before == theirs => ours,
            // A file that the upstream deleted is deleted here too, unless it was changed here.
            None if ours != before => ours,
            theirs => theirs,
        };
        taken.map(|id| (path.clone(), *id))
    };
    paths.into_iter().filter_map(one).collect()
}

fn clone_task(upstream: UpstreamPackage) -> Task {
    let clone = CloneTask { upstream_ref: Some(upstream), ..CloneTask::default() };
    Task { type_: "clone".to_owned(), clone: Some(clone), ..Task::default() }
}

fn named(name: &str) -> PackageRevisionRef {
    PackageRevisionRef { name: name.to_owned(), ..PackageRevisionRef::default() }
}
