//! A registered repository: its content, and the pushes that change it (`packagevariants.md` 6.12).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use gix_hash::ObjectId;
use groundwork_api::{GitLock, Lifecycle};
use groundwork_fleet::normalized;
use groundwork_krm::Description;

use crate::git::clone::BareClone;
use crate::git::discovery::{Memory, describe_kptfile, discover};
use crate::git::draft::Rendered;
use crate::git::error::StoreError;
use crate::git::functions::Functions;
use crate::git::layout::{Place, full_path};
use crate::git::limits::{Interrupt, Interrupts, LOOK, Look};
use crate::git::listing::Listing;
use crate::git::message::{Annotation, Message};
use crate::git::names::check_files;
use crate::git::objects::{Content, Files, Objects, ObjectsError, Signature};
use crate::git::progress::Progress;
use crate::git::remote::{RefUpdate, RemoteError};
use crate::git::revision::Revision;
use crate::git::settings::Settings;
use crate::git::snapshot::Snapshot;
use crate::git::store::Repositories;

/// Attempts at an approval when other pushes move the branch.
const APPROVALS: u32 = 10;
/// Attempts at a push that a hook declines.
const HOOK_ATTEMPTS: u32 = 3;
const HOOK_PAUSE: Duration = Duration::from_secs(1);
const APPROVAL_PAUSE: Duration = Duration::from_millis(200);

/// Name and address for commits without another identity.
const DEFAULT_IDENTITY: (&str, &str) = ("Groundwork", "groundwork@localhost");

/// User who asks for an operation: the author of its commit, unless the Repository names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub name: String,
}

/// A repository of packages. Its operations block, on the network too.
#[derive(Debug)]
pub struct GitRepository {
    settings: Settings,
    clone: Arc<BareClone>,
    /// Limit for a package, in bytes.
    max_bytes: u64,
    functions: Functions,
    /// All repositories of the store: locks name commits of others.
    neighbours: Weak<RwLock<Repositories>>,
    discovered: Mutex<Discovered>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Time of the last contact with the remote.
    synced: Mutex<Option<Instant>>,
    /// Locks, so that writes to one package do not overlap.
    packages: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    interrupts: Interrupts,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Discovered {
    memory: Memory,
    /// Refs that the snapshot was read from, if it is complete.
    listing: Option<Arc<Listing>>,
}

impl GitRepository {
    pub fn new(
        settings: Settings,
        clone: Arc<BareClone>,
        max_bytes: u64,
        functions: Functions,
        neighbours: Weak<RwLock<Repositories>>,
    ) -> Self {
        clone.follow(&settings.branch);
        Self {
            settings,
            clone,
            max_bytes,
            functions,
            neighbours,
            discovered: Mutex::default(),
            snapshot: RwLock::default(),
            synced: Mutex::default(),
            packages: Mutex::default(),
            interrupts: Interrupts::default(),
            progress: Progress::default(),
        }
    }

    /// Ends running reads and requests, because the repository was changed or deleted. A running
    /// push is not interrupted.
    pub fn interrupt(&self) {
        self.interrupts.raise();
    }

    /// Returns the progress for users; `None` if the repository is not being read.
    pub fn progress(&self) -> Option<String> {
        self.progress.text()
    }

    /// Runs the functions of a package, and returns the rendered content.
    ///
    /// # Errors
    /// A function fails, or is not available.
    pub(crate) fn render(&self, content: Content) -> Result<Rendered, StoreError> {
        let (rendered, error) = self.render_anyhow(content);
        match error {
            Some(error) => {
                let Rendered { content, status } = rendered;
                Err(StoreError::Render { error, status: Box::new(status), files: Box::new(content.texts) })
            }
            None => Ok(rendered),
        }
    }

    /// Renders a package. After a failure, returns the error with the content as it was, or as far
    /// as it was rendered.
    pub(crate) fn render_anyhow(&self, content: Content) -> (Rendered, Option<String>) {
        let begun = Instant::now();
        let rendered = self.functions.render(&content.texts, self.max_bytes);
        self.clone.meters().rendered(rendered.error.is_none(), begun.elapsed());
        let content = Content { texts: rendered.files, binaries: content.binaries };
        (Rendered { content, status: rendered.status }, rendered.error)
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Reports whether this repository has the given settings and clone.
    pub(crate) fn is(&self, settings: &Settings, clone: &Arc<BareClone>) -> bool {
        self.settings == *settings && Arc::ptr_eq(&self.clone, clone)
    }

    /// Returns the content as of the last sync.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(test)]
    pub(crate) fn listing(&self) -> Arc<Listing> {
        self.clone.listing()
    }

    pub(crate) fn objects(&self) -> &Objects {
        self.clone.objects()
    }

    /// Fetches, reads changed refs, and repairs the traces of incomplete pushes.
    ///
    /// # Errors
    /// The remote fails, or the sync was interrupted; the known content stays.
    pub fn sync(&self) -> Result<Arc<Snapshot>, StoreError> {
        let interrupt = self.interrupts.watch();
        let synced = self.sync_until(&interrupt);
        self.progress.rest();
        synced
    }

    fn sync_until(&self, interrupt: &Interrupt) -> Result<Arc<Snapshot>, StoreError> {
        self.clone.fetch(interrupt, &self.progress)?;
        *lock(&self.synced) = Some(Instant::now());
        self.ensure_branch()?;
        let mut snapshot = self.refresh(interrupt)?;
        if !snapshot.repairs.is_empty() {
            // The repair fails if another writer is faster, or the server declines it. The next
            // sync finds the traces again.
            let pushed = self.clone.push(snapshot.repairs.clone());
            if pushed.is_ok() {
                snapshot = self.refresh(interrupt)?;
            }
        }
        // A failed packing is ignored, since the clone is still usable; a full disk causes other
        // errors.
        drop(self.clone.pack_sometimes());
        Ok(snapshot)
    }

    #[cfg(test)]
    pub(crate) fn pack(&self) -> Result<(), StoreError> {
        Ok(self.clone.pack(None)?)
    }

    /// Returns the time since the last contact with the remote; `None` if there was none.
    pub fn age(&self) -> Option<Duration> {
        lock(&self.synced).map(|at| at.elapsed())
    }

    /// Reads changed refs, or continues the last look, without contact to the remote.
    fn refresh(&self, interrupt: &Interrupt) -> Result<Arc<Snapshot>, StoreError> {
        let mut discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
        let listing = self.clone.listing();
        if discovered
            .listing
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &listing) || **known == *listing)
        {
            return Ok(self.snapshot());
        }
        let look = Look::new(interrupt.clone(), LOOK, self.progress.clone());
        let snapshot = discover(self.objects(), &listing, &self.settings, &mut discovered.memory, &look)?;
        discovered.listing = snapshot.left.is_none().then_some(listing);
        let snapshot = Arc::new(snapshot);
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&snapshot);
        Ok(snapshot)
    }

    fn ensure_branch(&self) -> Result<(), StoreError> {
        let place = Place::Branch(self.settings.branch.clone());
        let listing = self.clone.listing();
        let is_there = listing.refs.contains_key(&place.reference());
        // The first drafts of an empty repository have no parent, and the first approval makes the
        // branch.
        if is_there || !listing.has_content() && !self.settings.create_branch {
            return Ok(());
        }
        let branch = &self.settings.branch;
        if !self.settings.create_branch {
            let other = match listing.any_branch() {
                Some(other) => format!(", which has the branch {other:?}"),
                None => String::new(),
            };
            return Err(StoreError::Refused(format!(
                "branch {branch:?} does not exist in the repository{other}: name a branch in spec.git.branch, or let \
                 spec.git.createBranch make it"
            )));
        }
        let text = format!("# {}\n\nPackages.\n", self.settings.name);
        let tree = self.objects().with_file(None, "README.md", &text)?;
        let message = format!("Initial commit: Creating {branch} branch\n");
        let commit = self.objects().write_commit(tree, &[], &self.signature(None), &message)?;
        self.clone.push(vec![RefUpdate { reference: place.reference(), old: None, new: Some(commit) }])?;
        Ok(())
    }

    /// Returns the author of a commit: the Repository's own identity, or else the user
    /// (`packagevariants.md` 6.4).
    pub(crate) fn signature(&self, actor: Option<&Actor>) -> Signature {
        let (name, email) = match (&self.settings.identity, actor) {
            (Some((name, email)), _) => (name.as_str(), email.as_str()),
            (None, Some(actor)) => (actor.name.as_str(), actor.name.as_str()),
            (None, None) => DEFAULT_IDENTITY,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Signature {
            name: name.to_owned(),
            email: email.to_owned(),
            time: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        }
    }

    /// Returns the files of a revision.
    ///
    /// # Errors
    /// The package has links or unsafe names, or is too large.
    pub fn content(&self, revision: &Revision) -> Result<Content, StoreError> {
        Ok(self.objects().content(&revision.package, revision.directory, self.max_bytes)?)
    }

    /// Returns the files of a revision, including those that are not text.
    ///
    /// # Errors
    /// Like [`Self::content`].
    pub fn files(&self, revision: &Revision) -> Result<Files, StoreError> {
        let Content { texts, binaries } = self.content(revision)?;
        let mut files: Files = texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
        for (path, id) in binaries {
            files.insert(path, self.objects().blob(id)?);
        }
        Ok(files)
    }

    /// Converts files from a request to the content of a package.
    ///
    /// # Errors
    /// The files are not a package, or are too large.
    pub(crate) fn content_of(&self, package: &str, files: Files) -> Result<Content, StoreError> {
        // Check before functions run, since their errors would be harder to understand.
        check_files(&files)?;
        let bytes = files.values().map(|file| file.len() as u64).sum();
        if bytes > self.max_bytes {
            let (package, allowed) = (package.to_owned(), self.max_bytes);
            return Err(ObjectsError::TooLarge { package, bytes, allowed }.into());
        }
        let mut content = Content::default();
        for (path, bytes) in files {
            match String::from_utf8(bytes) {
                Ok(text) => {
                    content.texts.insert(path, text);
                }
                Err(error) => {
                    content.binaries.insert(path, self.objects().write_blob(error.as_bytes())?);
                }
            }
        }
        Ok(content)
    }

    /// Returns the files of a package in a commit, whether or not a ref leads to it; `None` if the
    /// commit or the package does not exist.
    ///
    /// # Errors
    /// Like [`Self::content`].
    pub fn content_at(&self, commit: &str, package: &str) -> Result<Option<Content>, StoreError> {
        let Ok(id) = ObjectId::from_hex(commit.as_bytes()) else { return Ok(None) };
        let Some(directory) = self.directory_at(id, package) else { return Ok(None) };
        Ok(Some(self.objects().content(package, directory, self.max_bytes)?))
    }

    /// Returns the description in the Kptfile of a package in a commit, whether or not a ref leads
    /// to it; `None` if this clone does not have it.
    pub fn description_at(&self, commit: &str, package: &str) -> Option<Description> {
        let directory = self.directory_at(ObjectId::from_hex(commit.as_bytes()).ok()?, package)?;
        Some(describe_kptfile(self.objects().kptfile(directory).ok()??))
    }

    /// Returns the tree of the package that a lock names, in any repository of the namespace;
    /// `None` if none has its commit.
    pub fn tree_of(&self, lock: &GitLock) -> Option<String> {
        let commit = ObjectId::from_hex(lock.commit.as_deref()?.as_bytes()).ok()?;
        let address = normalized(lock.repo.as_deref()?);
        let directory = lock.directory.as_deref().unwrap_or_default();
        let neighbours = self.neighbours.upgrade()?;
        let neighbours = neighbours.read().unwrap_or_else(PoisonError::into_inner);
        let mut trees = neighbours.values().filter_map(|found| {
            let Settings { namespace, url, .. } = found.settings();
            let is_it = *namespace == self.settings.namespace && normalized(url) == address;
            is_it.then(|| found.directory_at(commit, directory)).flatten()
        });
        trees.next().map(|tree| tree.to_string())
    }

    /// Returns the object ID of a package's directory in a commit, whether or not a ref leads to
    /// it.
    pub(crate) fn directory_at(&self, commit: ObjectId, package: &str) -> Option<ObjectId> {
        let tree = self.objects().commit(commit).ok()?.tree;
        // A lock may contain the full path, or the path below the directory of the repository
        // (`packagevariants.md` 2.8).
        let whole = full_path(&self.settings.directory, package);
        let found = self.objects().directory(tree, &whole).ok().flatten();
        found.or_else(|| self.objects().directory(tree, package).ok().flatten())
    }

    /// Returns a revision by the name of its object.
    ///
    /// # Errors
    /// The revision does not exist.
    pub fn revision(&self, name: &str) -> Result<Arc<Revision>, StoreError> {
        let snapshot = self.snapshot();
        let found = snapshot.revisions.get(name);
        found.cloned().ok_or_else(|| StoreError::NotFound(format!("package revision {name:?} not found")))
    }

    /// Returns a revision, if it still has the version that the caller has seen.
    pub(crate) fn revision_of(&self, name: &str, version: &str) -> Result<Arc<Revision>, StoreError> {
        if version.is_empty() {
            return Err(StoreError::Refused("resourceVersion must be specified for an update".to_owned()));
        }
        let revision = self.revision(name)?;
        if revision.version() == version { Ok(revision) } else { Err(StoreError::Conflict) }
    }

    /// Returns the root tree that a draft's commits change.
    pub(crate) fn root_of(&self, commit: Option<ObjectId>) -> Result<Option<ObjectId>, StoreError> {
        Ok(commit.map(|commit| self.objects().commit(commit)).transpose()?.map(|commit| commit.tree))
    }

    /// Runs a write to a package while no other write to it is running.
    pub(crate) fn exclusively<T>(
        &self,
        package: &str,
        write: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let lock = {
            let mut packages = lock(&self.packages);
            // Drop unused locks here, so that the map does not grow with each package that was ever
            // written.
            packages.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(packages.entry(package.to_owned()).or_default())
        };
        let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
        write()
    }

    /// Pushes, and reads the new content of the repository. A push that a hook declines is retried
    /// a few times, since some hooks are only busy.
    pub(crate) fn push(&self, updates: &[RefUpdate]) -> Result<(), StoreError> {
        let mut attempt = 1;
        loop {
            match self.clone.push(updates.to_vec()) {
                Ok(()) => break,
                Err(RemoteError::Declined(_)) if attempt < HOOK_ATTEMPTS => std::thread::sleep(HOOK_PAUSE),
                Err(error @ RemoteError::Stale(_)) => {
                    // Fetch the changes of the other writer, which the next attempt needs.
                    drop(self.clone.fetch(&Interrupt::default(), &Progress::default()));
                    drop(self.refresh(&Interrupt::default()));
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
            attempt += 1;
        }
        self.refresh(&Interrupt::default()).map(drop)
    }

    /// Moves a draft to Proposed, or back.
    pub(crate) fn move_draft(&self, revision: &Revision, proposed: bool) -> Result<(), StoreError> {
        let path = full_path(&self.settings.directory, &revision.package);
        let workspace = revision.workspace.clone();
        let place =
            if proposed { Place::Proposed { path, workspace } } else { Place::Draft { path, workspace } };
        self.push(&[
            RefUpdate { reference: place.reference(), old: None, new: Some(revision.commit) },
            RefUpdate { reference: revision.reference.clone(), old: Some(revision.commit), new: None },
        ])
    }

    /// Publishes a proposed revision by a commit on the branch and a tag. If another push moves the
    /// branch, the approval is attempted again.
    pub(crate) fn approve(&self, revision: &Revision, number: i64, actor: &Actor) -> Result<(), StoreError> {
        let path = full_path(&self.settings.directory, &revision.package);
        let branch = Place::Branch(self.settings.branch.clone()).reference();
        let tag = Place::Tag { path: path.clone(), name: format!("v{number}") }.reference();
        let message = Message {
            headline: format!("Approving package revision {path}/{number}"),
            annotations: vec![Annotation {
                package: path.clone(),
                workspace_name: revision.workspace.clone(),
                revision: number.to_string(),
                task: None,
            }],
            extension: None,
        };
        for attempt in 1..=APPROVALS {
            let alone = self.clone.alone_on_branches();
            let head = self.snapshot().head;
            let root = self.root_of(head)?;
            let tree = self.objects().replace(root, &path, Some(revision.directory))?;
            // The draft is the second parent, so that `discovery` can recognize an approval whose
            // push was incomplete.
            let parents: Vec<ObjectId> = head.into_iter().chain([revision.commit]).collect();
            let signature = self.signature(Some(actor));
            let commit = self.objects().write_commit(tree, &parents, &signature, &message.text())?;
            let pushed = self.push(&[
                RefUpdate { reference: branch.clone(), old: head, new: Some(commit) },
                RefUpdate { reference: tag.clone(), old: None, new: Some(commit) },
                RefUpdate { reference: revision.reference.clone(), old: Some(revision.commit), new: None },
            ]);
            drop(alone);
            match pushed {
                Err(StoreError::Conflict) => {}
                result => return result,
            }
            // A retry is only right if the branch has moved. If the revision itself or its tag has
            // changed, the caller gets a conflict.
            let present = self.revision(&revision.name);
            let is_same = present.is_ok_and(|present| present.version() == revision.version());
            if !is_same || self.snapshot().head == head {
                return Err(StoreError::Conflict);
            }
            std::thread::sleep(APPROVAL_PAUSE * attempt);
        }
        Err(StoreError::Unavailable(format!("push failed after {APPROVALS} attempts")))
    }

    /// Proposes the deletion of a published revision, or withdraws the proposal.
    pub(crate) fn mark_for_deletion(&self, revision: &Revision, marked: bool) -> Result<(), StoreError> {
        let reference = self.marker_of(revision);
        let (old, new) =
            if marked { (None, Some(revision.commit)) } else { (Some(self.marker(&reference)?), None) };
        self.push(&[RefUpdate { reference, old, new }])
    }

    fn marker_of(&self, revision: &Revision) -> String {
        let path = full_path(&self.settings.directory, &revision.package);
        let name = revision.short_reference.rsplit('/').next().unwrap_or_default().to_owned();
        Place::DeletionProposed { path, name }.reference()
    }

    fn marker(&self, reference: &str) -> Result<ObjectId, StoreError> {
        self.clone.listing().refs.get(reference).map(|found| found.id).ok_or(StoreError::Conflict)
    }

    /// Deletes a revision: its refs, or its directory on the branch.
    pub(crate) fn remove(&self, revision: &Revision, actor: &Actor) -> Result<(), StoreError> {
        if revision.is_placeholder(&self.settings.branch) {
            return self.remove_from_branch(revision, actor);
        }
        let listing = self.clone.listing();
        // An annotated tag is an object of its own, and the remote compares its ID instead of the
        // commit's.
        let own = listing.refs.get(&revision.reference).map_or(revision.commit, |found| found.id);
        let mut updates =
            vec![RefUpdate { reference: revision.reference.clone(), old: Some(own), new: None }];
        if revision.lifecycle == Lifecycle::DeletionProposed {
            let reference = self.marker_of(revision);
            let old = self.marker(&reference)?;
            updates.push(RefUpdate { reference, old: Some(old), new: None });
        }
        self.push(&updates)
    }

    fn remove_from_branch(&self, revision: &Revision, actor: &Actor) -> Result<(), StoreError> {
        let path = full_path(&self.settings.directory, &revision.package);
        let _alone = self.clone.alone_on_branches();
        let root = self.root_of(Some(revision.commit))?;
        let tree = self.objects().replace(root, &path, None)?;
        let message = format!("Deleting package {path}\n");
        let signature = self.signature(Some(actor));
        let commit = self.objects().write_commit(tree, &[revision.commit], &signature, &message)?;
        let reference = revision.reference.clone();
        self.push(&[RefUpdate { reference, old: Some(revision.commit), new: Some(commit) }])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
