//! A bare clone of a remote, with what is known of the remote's refs. All Repositories of one address share one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::batch::{Batches, push_batch};
use crate::meters::Meters;
use crate::objects::{Objects, ObjectsError};
use crate::remote::{Credentials, RefUpdate, Remote, RemoteError, RemoteRef};

/// Refs of a remote by name.
pub(crate) type Refs = BTreeMap<String, RemoteRef>;

/// A ref can go between the listing and the fetching of it; then both begin again.
const ATTEMPTS: usize = 3;

/// Between two looks at whether the clone should be packed.
const PACKING_INTERVAL: Duration = Duration::from_secs(3600);
/// Objects that may lie about by themselves.
const LOOSE_OBJECTS: usize = 5_000;

/// Why a clone cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

/// A clone, for any number of threads.
#[derive(Debug)]
pub struct BareClone {
    remote: Remote,
    objects: Objects,
    /// As of the last exchange with the remote: what a push expects to find.
    refs: RwLock<Arc<Refs>>,
    /// Fetches take it for themselves, pushes share it: a fetch that began before a push must not undo what the push told.
    exchange: RwLock<()>,
    /// When it was packed last.
    packed: Mutex<Option<Instant>>,
    pushes: Batches,
    branch_moves: Mutex<()>,
    /// Branches with published content: those that somebody has registered.
    branches: RwLock<BTreeSet<String>>,
    meters: Meters,
}

impl BareClone {
    /// Opens or makes the clone in `directory`; nothing is fetched yet.
    ///
    /// # Errors
    /// The protocol of the address is not allowed, or the disk.
    pub fn open(
        url: &str,
        directory: &Path,
        credentials: Credentials,
        protocols: &[String],
        meters: &Meters,
    ) -> Result<Self, CloneError> {
        let remote = Remote::new(url, directory, credentials, protocols, meters.clone())?;
        remote.initialize()?;
        let objects = Objects::open(directory)?;
        Ok(Self {
            remote,
            objects,
            refs: RwLock::default(),
            exchange: RwLock::new(()),
            packed: Mutex::default(),
            pushes: Batches::default(),
            branch_moves: Mutex::new(()),
            branches: RwLock::default(),
            meters: meters.clone(),
        })
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Whether the remote lets us in by these.
    pub(crate) fn is_entered_by(&self, credentials: &Credentials) -> bool {
        self.remote.is_entered_by(credentials)
    }

    /// The refs as of the last exchange.
    pub fn refs(&self) -> Arc<Refs> {
        Arc::clone(&self.refs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on, this branch is fetched too. Tells whether it was not before.
    pub fn follow(&self, branch: &str) -> bool {
        self.branches.write().unwrap_or_else(PoisonError::into_inner).insert(branch.to_owned())
    }

    /// Learns what the remote has of packages; other branches are passed over. Tells whether anything has changed.
    ///
    /// # Errors
    /// The remote cannot be reached or says no; what is known stays.
    pub fn fetch(&self) -> Result<bool, CloneError> {
        let _alone = self.exchange.write().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let mut listed = self.remote.list()?;
            {
                let branches = self.branches.read().unwrap_or_else(PoisonError::into_inner);
                listed.retain(|name, _| is_of_packages(name, &branches));
            }
            let known = self.refs();
            if *known == listed {
                return Ok(false);
            }
            let missing: Vec<&str> = listed
                .iter()
                .filter(|(_, found)| !self.objects.has(found.id))
                .map(|(name, _)| name.as_str())
                .collect();
            if !missing.is_empty()
                && let Err(error) = self.remote.fetch(&missing)
            {
                last = Some(error);
                continue;
            }
            self.remote.keep(&differences(&known, &listed))?;
            *self.refs.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
            return Ok(true);
        }
        Err(last.unwrap_or_else(|| RemoteError::Failed("the remote keeps changing".to_owned())).into())
    }

    /// Packs what has gathered, now and then: each draft is a dozen objects, each fetch may be a pack.
    ///
    /// # Errors
    /// The disk.
    pub fn pack_sometimes(&self) -> Result<(), CloneError> {
        {
            let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
            if packed.is_some_and(|at| at.elapsed() < PACKING_INTERVAL) {
                return Ok(());
            }
            *packed = Some(Instant::now());
        }
        self.pack(Some(LOOSE_OBJECTS))
    }

    pub(crate) fn pack(&self, loose: Option<usize>) -> Result<(), CloneError> {
        {
            let _alone = self.exchange.write().unwrap_or_else(PoisonError::into_inner);
            // What was pushed from here has no ref in the clone yet, and would not be kept for ever.
            self.remote.keep(&differences(&Refs::new(), &self.refs()))?;
        }
        Ok(self.remote.pack(loose)?)
    }

    /// Pushes all of the updates or none. What others want to push while a push is under way goes out with the next one.
    ///
    /// # Errors
    /// See [`Remote::push`].
    pub fn push(&self, updates: Vec<RefUpdate>) -> Result<(), RemoteError> {
        let answer = self.pushes.submit(updates, |batch| {
            let _shared = self.exchange.read().unwrap_or_else(PoisonError::into_inner);
            let answers = push_batch(&self.remote, batch);
            let done = batch.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
            let mut refs = self.refs.write().unwrap_or_else(PoisonError::into_inner);
            let refs = Arc::make_mut(&mut refs);
            for update in done.flat_map(|(updates, _)| updates.iter()) {
                match update.new {
                    Some(id) => refs.insert(update.reference.clone(), RemoteRef { id, commit: id }),
                    None => refs.remove(&update.reference),
                };
            }
            answers
        });
        self.meters.pushed(&answer);
        answer
    }

    /// Where those who use the clone count what they do.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Lets only one thread at a time do what moves a branch: it would lose against each of the others otherwise.
    pub fn alone_on_branches(&self) -> MutexGuard<'_, ()> {
        self.branch_moves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the clone's own refs have to become. The clone may have lost some: they are set to what is listed whatever they were.
fn differences(known: &Refs, listed: &Refs) -> Vec<RefUpdate> {
    let set = listed.iter().filter(|(name, found)| known.get(*name) != Some(*found));
    let set = set.map(|(name, found)| RefUpdate { reference: name.clone(), old: None, new: Some(found.id) });
    let gone = known.keys().filter(|name| !listed.contains_key(*name));
    // Those that go come first: `a/b` cannot be while `a` is.
    let gone = gone.map(|name| RefUpdate { reference: name.clone(), old: None, new: None });
    gone.chain(set).collect()
}

fn is_of_packages(reference: &str, branches: &BTreeSet<String>) -> bool {
    if let Some(tag) = reference.strip_prefix("refs/tags/") {
        return tag.contains('/');
    }
    let Some(branch) = reference.strip_prefix("refs/heads/") else { return false };
    let is_revision =
        ["drafts/", "proposed/", "deletionProposed/"].iter().any(|prefix| branch.starts_with(prefix));
    is_revision || branches.contains(branch)
}
