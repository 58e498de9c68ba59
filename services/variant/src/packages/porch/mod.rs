//! Packages on a Porch server (`packagevariants.md` 6.13). The server keeps and renders the
//! packages, and this service uses its API to make the drafts of variants. This module never
//! reconciles Repositories or package revisions: the server does.
//!
//! ```text
//! Repositories, lists ──World::read──> decisions ──Work──> preflight ──> create ──> mutate ──> save
//! calls of people ──PorchContent──> checks ──> create, save, reads
//! ```

mod content;
mod detect;
mod errors;
mod status;
mod upgrade_base;
mod work;
mod world;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_api::Repository;
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_fleet::Package;
use groundwork_packages::porch::{Porch, PorchError, Revision};

use super::rate_limit::{Drafts, Turn, Turns};

pub(super) use content::PorchContent;
pub(super) use detect::is_chosen;
pub(crate) use world::World;

/// Longest time that a list may lag behind a write.
const LAG: Duration = Duration::from_secs(60);
/// Number of lookups for a written revision that lists do not show. After that, it counts as
/// deleted by a user.
const MAX_MISSES: u32 = 5;

/// Program that serves the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Porch,
    /// Package store of Groundwork. It enforces the rules of names and tasks, keeps the owners of
    /// all drafts, and previews upgrades (`packagevariants.md` 6.14).
    Groundwork,
}

/// Server of packages, for the drafts of variants and for calls about packages.
pub(crate) struct PorchStore {
    porch: Porch,
    server: Server,
    turns: Turns,
    drafts: Drafts,
    /// Recent writes of this process, by namespace and name.
    written: Mutex<HashMap<(String, String), Written>>,
}

#[derive(Debug, Clone)]
struct Written {
    version: String,
    at: Instant,
    misses: u32,
}

/// Reason why the revisions of a package are not known.
#[derive(Debug)]
enum ListError {
    /// The server refuses the list.
    Refused(PorchError),
    /// The list does not show a recent write of this process yet.
    Lags(ReconcileError),
}

impl From<PorchError> for ListError {
    fn from(error: PorchError) -> Self {
        Self::Refused(error)
    }
}

/// State of a Repository on the server. Revisions that the server has not read yet are missing in
/// lists, so decisions must not rely on the lists until then (`packagevariants.md` 6.13).
enum Registration {
    Ready(Box<Repository>),
    /// The server has not read the Repository; the text is the reason.
    NotReady(String),
    Absent,
}

impl PorchStore {
    pub(super) fn new(server: Server, objects: &Objects, turns: Turns, drafts: Drafts) -> Self {
        let counter = objects.clone();
        let porch = Porch::new(objects.client().clone());
        let porch =
            porch.counting(move |verb, resource, outcome| counter.count_request(verb, resource, outcome));
        Self { porch, server, turns, drafts, written: Mutex::default() }
    }

    /// Returns the revisions of a package, at least as new as the last write of this process
    /// (`packagevariants.md` 2.4), because a list may lag behind.
    ///
    /// # Errors
    /// See [`ListError`].
    async fn revisions(&self, namespace: &str, package: Package<'_>) -> Result<Vec<Revision>, ListError> {
        let mut listed = self.porch.list(namespace, package.repository, Some(package.path)).await?;
        let prefix = format!("{}.{}.", package.repository, package.path.replace('/', "."));
        for (name, written) in self.written_of(namespace, &prefix) {
            let at = listed.iter().position(|found| found.name() == name);
            let is_seen =
                at.and_then(|at| listed.get(at)).is_some_and(|found| found.version() == written.version);
            if is_seen {
                self.forget(namespace, &name);
                continue;
            }
            match self.porch.get(namespace, &name).await? {
                Some(found) => {
                    let is_of_package = Package::of(found.object()) == package;
                    match at.and_then(|at| listed.get_mut(at)) {
                        Some(old) => *old = found,
                        None if is_of_package => listed.push(found),
                        None => {}
                    }
                }
                None if self.miss(namespace, &name) => {
                    let message = format!("package revision {name:?} was created, but is not visible yet");
                    return Err(ListError::Lags(ReconcileError { message, is_conflict: true }));
                }
                None => {}
            }
        }
        Ok(listed)
    }

    /// Records a write.
    fn wrote(&self, namespace: &str, name: &str, version: &str) {
        let written = Written { version: version.to_owned(), at: Instant::now(), misses: 0 };
        self.written().insert((namespace.to_owned(), name.to_owned()), written);
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.written().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn written_of(&self, namespace: &str, prefix: &str) -> Vec<(String, Written)> {
        let mut all = self.written();
        all.retain(|_, written| written.at.elapsed() < LAG);
        let of_package = all.iter().filter(|((of, name), _)| of == namespace && name.starts_with(prefix));
        of_package.map(|((_, name), written)| (name.clone(), written.clone())).collect()
    }

    /// Counts a lookup that did not find a written revision, and reports whether to wait longer.
    fn miss(&self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let mut all = self.written();
        let Some(written) = all.get_mut(&key) else { return false };
        written.misses += 1;
        let is_waited_for = written.misses < MAX_MISSES;
        if !is_waited_for {
            all.remove(&key);
        }
        is_waited_for
    }

    fn written(&self) -> MutexGuard<'_, HashMap<(String, String), Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports whether the server has read a Repository completely at least once.
fn was_read(repository: &Repository) -> bool {
    let status = repository.status.as_ref();
    status.is_some_and(|status| status.last_full_sync_time.is_some() || status.git_commit_hash.is_some())
}

/// Reads the Repository with this name.
///
/// # Errors
/// The read fails.
async fn registration(objects: &Objects, namespace: &str, name: &str) -> Result<Registration, ApiError> {
    let found = objects.get::<Repository>(namespace, name).await?;
    let Some(repository) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
        return Ok(Registration::Absent);
    };
    let conditions = repository.status.iter().flat_map(|status| status.conditions.iter());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    Ok(match ready {
        // A server that syncs a Repository again keeps what it has read before.
        Some(ready) if ready.status == "True" || ready.reason == "Reconciling" && was_read(&repository) => {
            Registration::Ready(Box::new(repository))
        }
        Some(ready) => Registration::NotReady(format!("repository {name:?} is not ready: {}", ready.message)),
        None => {
            Registration::NotReady(format!("repository {name:?} has not been read by the Porch server yet"))
        }
    })
}
