//! Packages on a Porch server (`packagevariants.md` 6.13): the server keeps them and renders them, and this service asks for drafts of
//! variants by its API. Repositories and package revisions are the server's to see to.
//!
//! ```text
//! Repositories, lists ──World::read──> decisions ──Work──> preflight ──> create ──> mutate ──> save
//! calls of people ──PorchContent──> checks ──> create, save, reads
//! ```

mod choice;
mod content;
mod original;
mod status;
mod told;
mod work;
mod world;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_api::Repository;
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_fleet::Package;
use groundwork_porch::{Porch, PorchError, Revision};

use super::turns::{Turn, Turns};

pub(super) use choice::is_chosen;
pub(super) use content::PorchContent;
pub(crate) use world::World;

/// For as long a list may lag behind what was written.
const LAG: Duration = Duration::from_secs(60);
/// How often a revision is looked for that was written and is not there. People may have deleted it.
const MAX_MISSES: u32 = 5;

/// A Porch server, for drafts of variants, and for what people ask of their packages.
pub(crate) struct PorchStore {
    porch: Porch,
    turns: Turns,
    /// What this process wrote a moment ago, by namespace and name.
    written: Mutex<HashMap<(String, String), Written>>,
}

#[derive(Debug, Clone)]
struct Written {
    version: String,
    at: Instant,
    misses: u32,
}

/// Why the revisions of a package are not known.
#[derive(Debug)]
enum ListError {
    /// The server says no.
    Refused(PorchError),
    /// What was written is not to be seen yet.
    Lags(ReconcileError),
}

impl From<PorchError> for ListError {
    fn from(error: PorchError) -> Self {
        Self::Refused(error)
    }
}

/// How the server stands to a Repository. What it has not read is missing in lists, so that nothing may be decided on them (6.13).
enum Registration {
    Ready(Box<Repository>),
    /// Why nothing of it may be relied on.
    NotReady(String),
    Absent,
}

impl PorchStore {
    pub(super) fn new(objects: &Objects, turns: Turns) -> Self {
        let counter = objects.clone();
        let porch = Porch::new(objects.client().clone());
        let porch =
            porch.counting(move |verb, resource, outcome| counter.count_request(verb, resource, outcome));
        Self { porch, turns, written: Mutex::default() }
    }

    /// The revisions of a package, at least as new as what this process has written of it (2.4): a list may lag behind.
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
                    let message = format!("package revision {name:?} was made, and is not to be seen yet");
                    return Err(ListError::Lags(ReconcileError { message, is_conflict: true }));
                }
                None => {}
            }
        }
        Ok(listed)
    }

    /// Takes note of a write.
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

    /// Whether it is worth waiting for what was written and is not there.
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

/// The Repository of this name.
///
/// # Errors
/// It could not be read.
async fn registration(objects: &Objects, namespace: &str, name: &str) -> Result<Registration, ApiError> {
    let found = objects.get::<Repository>(namespace, name).await?;
    let Some(repository) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
        return Ok(Registration::Absent);
    };
    let conditions = repository.status.iter().flat_map(|status| status.conditions.iter());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    Ok(match ready {
        Some(ready) if ready.status == "True" => Registration::Ready(Box::new(repository)),
        Some(ready) => Registration::NotReady(format!("repository {name:?} is not ready: {}", ready.message)),
        None => Registration::NotReady(format!("repository {name:?} was not read by the Porch server yet")),
    })
}
