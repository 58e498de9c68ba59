//! Packages by Porch's API (`packagevariants.md` 6.13), which a Porch server or our package store
//! serves. The server keeps and renders the packages, and the controller of variants makes its
//! drafts there. This module never reconciles Repositories or package revisions: the server does.
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

use groundwork_api::{Repository, ResourceExt as _};
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_fleet::Package;
use groundwork_packages::porch::{Porch, PorchError, Revision};

use super::rate_limit::{Drafts, Turn, Turns};

pub(super) use content::PorchContent;
pub(super) use detect::is_chosen;
pub(crate) use world::World;

/// Annotation of Repositories that Porch serves by its next version of the API only
/// (`packagevariants.md` 1.8).
const V1ALPHA2: &str = "porch.kpt.dev/v1alpha2-migration";
/// Longest time that a list may lag behind a write.
const LAG: Duration = Duration::from_secs(60);
/// Answer of the API server to a list, in other words: nobody serves the kind.
const NO_SERVER: &str = "no server in the cluster serves package revisions: is the Porch server installed, or the APIService \
                         v1alpha1.porch.kpt.dev of the package store available?";
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
        let mut porch = Porch::new(objects.client().clone());
        if server == Server::Groundwork {
            porch = porch.listing_at_once();
        }
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
    pub(crate) fn wrote(&self, namespace: &str, name: &str, version: &str) {
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
async fn registration(
    server: Server,
    objects: &Objects,
    namespace: &str,
    name: &str,
) -> Result<Registration, ApiError> {
    let found = objects.get::<Repository>(namespace, name).await?;
    let found = found.filter(|found| found.metadata.deletion_timestamp.is_none());
    Ok(found.map_or(Registration::Absent, |found| read(server, found)))
}

/// Returns the state of a Repository that exists.
fn read(server: Server, repository: Repository) -> Registration {
    let name = repository.name_any();
    // Porch leaves the revisions of such a Repository out of its lists, as if there were none.
    let is_migrated = repository.annotations().get(V1ALPHA2).is_some_and(|value| value == "true");
    if server == Server::Porch && is_migrated {
        return Registration::NotReady(format!(
            "repository {name:?} is served as porch.kpt.dev/v1alpha2 (annotation {V1ALPHA2}), and Groundwork reads \
             v1alpha1: remove the annotation, or register the packages in another Repository"
        ));
    }
    let conditions = repository.status.iter().flat_map(|status| status.conditions.iter());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    match ready {
        // A server that syncs a Repository again keeps what it has read before.
        Some(ready) if ready.status == "True" || ready.reason == "Reconciling" && was_read(&repository) => {
            Registration::Ready(Box::new(repository))
        }
        Some(ready) => Registration::NotReady(format!("repository {name:?} is not ready: {}", ready.message)),
        None => Registration::NotReady(format!("repository {name:?} has not been read by its server yet")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Revisions of a Repository that was not read, or is read by another version of the API, are
    /// not missing because lists do not have them.
    #[test]
    fn a_repository_is_ready_once_it_was_read() {
        let state = |annotations: Value, status: Value| {
            let repository =
                json!({"metadata": {"name": "edge", "annotations": annotations}, "status": status});
            match read(Server::Porch, serde_json::from_value(repository).unwrap()) {
                Registration::Ready(_) => "ready".to_owned(),
                Registration::NotReady(text) => text,
                Registration::Absent => "absent".to_owned(),
            }
        };
        let ready = |status: &str, reason: &str| {
            json!({"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        };
        assert_eq!(state(json!({}), ready("True", "Ready")), "ready");
        assert_eq!(state(json!({}), ready("False", "Error")), "repository \"edge\" is not ready: m");
        let mut again = ready("False", "Reconciling");
        assert_eq!(state(json!({}), again.clone()), "repository \"edge\" is not ready: m");
        again["gitCommitHash"] = json!("c");
        assert_eq!(state(json!({}), again), "ready");
        assert_eq!(state(json!({}), json!({})), "repository \"edge\" has not been read by its server yet");
        let migrated = state(json!({V1ALPHA2: "true"}), ready("True", "Ready"));
        assert!(migrated.contains("served as porch.kpt.dev/v1alpha2"), "{migrated}");
    }
}
