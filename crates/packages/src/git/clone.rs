//! Bare clone of a remote, with the last known refs of the remote. All Repositories with the same
//! address share one clone.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use gix_hash::ObjectId;

use crate::git::access::Access;
use crate::git::batch::{Batches, push_batch};
use crate::git::limits::Interrupt;
use crate::git::listing::{Listing, Refs};
use crate::git::meters::Meters;
use crate::git::objects::{Objects, ObjectsError};
use crate::git::progress::Progress;
use crate::git::remote::{RefUpdate, Remote, RemoteError, RemoteOptions, RemoteRef};

/// Attempts at a listing with a fetch: a ref may be deleted between the two.
const ATTEMPTS: usize = 3;

/// Limit for the refs of one fetch, because `git` compares each requested ref with each existing
/// one.
const MAX_REFS_AT_ONCE: usize = 500;
/// Pause before refs that could not be fetched are requested again.
const REFUSED: Duration = Duration::from_secs(600);

/// Interval of checks whether the clone should be packed.
const PACKING_INTERVAL: Duration = Duration::from_secs(3600);
/// Number of loose objects up to which a clone is not packed.
const LOOSE_OBJECTS: usize = 5_000;

/// Reason why a clone is not available.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

/// A clone, usable from any number of threads.
#[derive(Debug)]
pub struct BareClone {
    remote: Remote,
    objects: Objects,
    /// Refs as of the last contact with the remote: the values that a push expects.
    listing: RwLock<Arc<Listing>>,
    /// True once an empty listing has been verified as the answer of a git server.
    speaks_git: AtomicBool,
    /// Objects that could not be fetched, with the time and the reason.
    refused: Mutex<HashMap<ObjectId, (Instant, String)>>,
    /// Lock that fetches take exclusively and pushes share. A fetch that began before a push must
    /// not overwrite the refs that the push has recorded.
    exchange: RwLock<()>,
    /// Time of the last packing.
    packed: Mutex<Option<Instant>>,
    pushes: Batches,
    branch_moves: Mutex<()>,
    /// Branches to fetch: those with published content, which the registered Repositories name.
    branches: RwLock<BTreeSet<String>>,
    meters: Meters,
}

impl BareClone {
    /// Opens or creates the clone in `directory`, without a fetch.
    ///
    /// # Errors
    /// The address is not allowed, a part of the access has no effect on it, or the disk fails.
    pub fn open(
        url: &str,
        directory: &Path,
        access: Access,
        options: &RemoteOptions,
        meters: &Meters,
    ) -> Result<Self, CloneError> {
        let remote = Remote::new(url, directory, access, options, meters.clone())?;
        remote.initialize()?;
        let objects = Objects::open(directory)?;
        Ok(Self {
            remote,
            objects,
            listing: RwLock::default(),
            speaks_git: AtomicBool::new(false),
            refused: Mutex::default(),
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

    /// Reports whether the clone contacts its remote in this way.
    pub(crate) fn is_entered_by(&self, access: &Access) -> bool {
        self.remote.is_entered_by(access)
    }

    /// Returns the refs as of the last contact with the remote.
    pub(crate) fn listing(&self) -> Arc<Listing> {
        Arc::clone(&self.listing.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a branch to those that are fetched. Returns true if it is new.
    pub fn follow(&self, branch: &str) -> bool {
        self.branches.write().unwrap_or_else(PoisonError::into_inner).insert(branch.to_owned())
    }

    /// Fetches the refs of packages; other branches are skipped. Returns true if any ref has
    /// changed.
    ///
    /// # Errors
    /// The remote fails or refuses, or the fetch was interrupted; the known refs stay.
    pub(crate) fn fetch(&self, interrupt: &Interrupt, progress: &Progress) -> Result<bool, CloneError> {
        let _alone = self.exchange.write().unwrap_or_else(PoisonError::into_inner);
        let mut last: Option<(Listing, RemoteError)> = None;
        for _ in 0..ATTEMPTS {
            progress.asking();
            let printed = self.remote.list(interrupt)?;
            let mut listed = {
                let branches = self.branches.read().unwrap_or_else(PoisonError::into_inner);
                Listing::read(&printed, &branches)
            };
            drop(printed);
            if listed.refs.is_empty() && !self.speaks_git.load(Ordering::Relaxed) {
                self.remote.is_git(interrupt)?;
                self.speaks_git.store(true, Ordering::Relaxed);
            }
            let known = self.listing();
            let asked_for = listed.clone();
            self.leave_out_refused(&mut listed, &known);
            if *known == listed {
                return Ok(false);
            }
            let missing: Vec<(&str, ObjectId)> = listed
                .refs
                .iter()
                .filter(|(_, found)| !self.objects.has(found.id))
                .map(|(name, found)| (name.as_str(), found.id))
                .collect();
            let before = last.as_ref().filter(|(before, _)| *before == asked_for).map(|(_, error)| error);
            match self.fetch_missing(&missing, listed.refs.len(), before, interrupt, progress) {
                Ok(()) => {}
                Err(error @ RemoteError::Interrupted) => return Err(error.into()),
                Err(error) => {
                    last = Some((asked_for, error));
                    continue;
                }
            }
            self.leave_out_refused(&mut listed, &known);
            self.remote.keep(&differences(&known.refs, &listed.refs))?;
            *self.listing.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
            return Ok(true);
        }
        let error = last.map(|(_, error)| error);
        Err(error.unwrap_or_else(|| RemoteError::Failed("the remote keeps changing".to_owned())).into())
    }

    /// Fetches refs, `all` in total. If an earlier attempt at the same refs failed, the refs that
    /// fail are recorded, and the others are fetched.
    fn fetch_missing(
        &self,
        missing: &[(&str, ObjectId)],
        all: usize,
        before: Option<&RemoteError>,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> Result<(), RemoteError> {
        // A remote that is unreachable or refuses the credentials does so for all refs, so do not
        // try them one by one.
        let is_whole =
            |error: &RemoteError| !matches!(error, RemoteError::Failed(_) | RemoteError::TooSlow { .. });
        // Fetch refs separately only after the same listing has failed once: the first failure may
        // have been a ref that was deleted in between.
        let divides = all > 1 && before.is_some_and(|error| !is_whole(error));
        let until = Instant::now() + self.remote.patience();
        let mut open: Vec<&[(&str, ObjectId)]> = missing.chunks(MAX_REFS_AT_ONCE).rev().collect();
        let (mut has_some, mut last) = (missing.len() < all, None);
        let (mut done, mut refused) = (0, Vec::new());
        while let Some(part) = open.pop() {
            progress.fetching(done, missing.len());
            let names: Vec<&str> = part.iter().map(|(name, _)| *name).collect();
            let is_late = divides && Instant::now() >= until;
            let late = || RemoteError::Failed("no time was left to fetch it separately".to_owned());
            let result = if is_late { Err(late()) } else { self.remote.fetch(&names, interrupt) };
            match (result, part) {
                (Ok(()), _) => {
                    has_some = true;
                    done += part.len();
                }
                (Err(error), _) if !divides || is_whole(&error) => return Err(error),
                (Err(error), [(_, id)]) => {
                    refused.push((*id, (Instant::now(), error.to_string())));
                    last = Some(error);
                    done += 1;
                }
                (Err(_), part) => {
                    // Bisect, so that a few bad refs among many cost a logarithmic number of
                    // fetches each.
                    let (first, second) = part.split_at(part.len() / 2);
                    open.extend([second, first]);
                }
            }
        }
        // If no ref could be fetched, the remote is at fault and not a single ref.
        if let Some(error) = last.filter(|_| !has_some) {
            return Err(error);
        }
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(refused);
        Ok(())
    }

    /// Keeps the last known value of refs whose objects could not be fetched.
    fn leave_out_refused(&self, listed: &mut Listing, known: &Listing) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|_, (at, _)| at.elapsed() < REFUSED);
        if refused.is_empty() {
            return;
        }
        let Listing { refs, unfetched, .. } = listed;
        let former = &known.refs;
        refs.retain(|name, found| {
            let Some((_, problem)) = refused.get(&found.id) else { return true };
            unfetched.insert(name.clone(), format!("it cannot be fetched: {problem}"));
            match former.get(name) {
                Some(before) => *found = *before,
                None => return false,
            }
            true
        });
    }

    /// Packs the clone from time to time: each draft adds a dozen objects, and each fetch may add a
    /// pack.
    ///
    /// # Errors
    /// The disk fails.
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
            // Pushed commits have no ref in the clone yet, and packing would drop them at some
            // point.
            self.remote.keep(&differences(&Refs::new(), &self.listing().refs))?;
        }
        Ok(self.remote.pack(loose)?)
    }

    /// Pushes all of the updates or none. Updates that arrive during a push are part of the next
    /// one.
    ///
    /// # Errors
    /// See [`Remote::push`].
    pub fn push(&self, updates: Vec<RefUpdate>) -> Result<(), RemoteError> {
        let answer = self.pushes.submit(updates, |batch| {
            let _shared = self.exchange.read().unwrap_or_else(PoisonError::into_inner);
            let answers = push_batch(&self.remote, batch);
            let done = batch.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
            let mut listing = self.listing.write().unwrap_or_else(PoisonError::into_inner);
            let refs = &mut Arc::make_mut(&mut listing).refs;
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

    /// Returns the metrics of the store that uses the clone.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Takes the lock for pushes that move a branch: without the lock, concurrent pushes to a
    /// branch would make each other fail.
    pub fn alone_on_branches(&self) -> MutexGuard<'_, ()> {
        self.branch_moves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the updates for the clone's own refs. The clone may have lost some, so listed refs are
/// set regardless of their old value.
fn differences(known: &Refs, listed: &Refs) -> Vec<RefUpdate> {
    let set = listed.iter().filter(|(name, found)| known.get(*name) != Some(*found));
    let set = set.map(|(name, found)| RefUpdate { reference: name.clone(), old: None, new: Some(found.id) });
    let gone = known.keys().filter(|name| !listed.contains_key(*name));
    // Deletions come first: `a/b` cannot exist while `a` does.
    let gone = gone.map(|name| RefUpdate { reference: name.clone(), old: None, new: None });
    gone.chain(set).collect()
}
