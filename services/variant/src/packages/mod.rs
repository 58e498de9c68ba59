//! The package store in this process: packages in git repositories, and their objects in the
//! cluster (`packagevariants.md` 6).
//!
//! ```text
//! Repository ──register──> store ──sync──> revisions ──records──> RevisionRecords
//! people ──api──> store: drafts, files, lifecycle, deletion; lists and watches of records
//! PackageRevision, annotated ──revision──> store: approval by a policy
//! PackageVariant ──downstream──porch──> Porch's API: drafts
//! gRPC ──calls──Content──> store: files of revisions, drafts of people
//! ```
//!
//! Each replica has its own clone. A replica sees the pushes of another after its next sync with
//! the remote, and code that misses a revision asks for a sync. Conflicting pushes are decided by
//! the remote, with `--force-with-lease`.
//!
//! The controller of variants is a client of Porch's API (`porch`), which this store or a Porch
//! server serves. With a Porch server, this service only makes the drafts of variants and answers
//! calls. `content` is the interface of calls to either.

mod access;
pub(crate) mod api;
mod arguments;
pub(crate) mod calls;
mod content;
mod creation;
pub(crate) mod downstream;
mod functions;
mod git_content;
mod injection;
mod newest;
pub(crate) mod porch;
pub(crate) mod progress;
mod rate_limit;
pub(crate) mod receiver;
mod records;
mod relations;
pub(crate) mod repository;
pub(crate) mod revision;
mod schedule;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_api::Repository;
use groundwork_bus::{Change, Kind, ObjectId};
use groundwork_controller::{ApiError, Key, Objects, ReconcileError, Waker};
use groundwork_packages::git::{GitRepository, Settings, Store, StoreError};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use secrecy::SecretString;

use access::access;
pub use api::{ApiArguments, ApiStartError};
pub use arguments::{StoreArguments, StoreStartError};
pub use functions::{FunctionArguments, FunctionsError, Missing};
pub(crate) use porch::PorchStore;
pub use rate_limit::TurnArguments;
use rate_limit::{Turn, Turns};
pub(crate) use relations::Relations;

/// Longest age of a replica's knowledge of a remote before the replica syncs again, unless an event
/// brings news first.
const OLD: Duration = Duration::from_secs(120);

/// The git store for async tasks: its operations block, so each runs on a thread of its own.
pub(crate) struct PackageStore {
    store: Arc<Store>,
    turns: Turns,
    /// Repositories whose settings have been read and have not changed since.
    known: Mutex<HashMap<Key, Known>>,
    /// Repositories that may receive reports of pushes.
    hooks: Mutex<HashMap<Key, Hook>>,
    /// True to approve drafts by their annotations.
    approves: bool,
}

/// Settings of a repository that this process has read.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Generation of the Repository that is being read, or was read last.
    generation: Option<i64>,
    /// True once the remote has answered.
    is_usable: bool,
}

/// Secret for reports of pushes to a repository, and the way to have it read.
#[derive(Debug, Default)]
struct Hook {
    secret: Option<SecretString>,
    waker: Option<Waker>,
}

impl PackageStore {
    /// Returns the secret of a repository for reports of pushes, and the waker of its key; `None`
    /// if it takes no reports, or was not reconciled by this process yet.
    pub(crate) fn hook(&self, repository: &Key) -> Option<(SecretString, Waker)> {
        let hooks = self.hooks();
        let hook = hooks.get(repository)?;
        hook.secret.clone().zip(hook.waker.clone())
    }

    /// Sets the waker of a repository.
    pub(crate) fn set_waker(&self, repository: &Key, waker: &Waker) {
        self.hooks().entry(repository.clone()).or_default().waker = Some(waker.clone());
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Hook>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation of the store on a repository.
    ///
    /// # Errors
    /// The operation fails, or other operations keep the repository busy for too long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        repository: &Key,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.take(repository, false).await?;
        self.work(turn, operation).await
    }

    /// Runs an operation that pushes to the remote.
    ///
    /// # Errors
    /// Like `run`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        repository: &Key,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.take(repository, true).await?;
        self.work(turn, operation).await
    }

    async fn work<T: Send + 'static>(
        &self,
        turn: Turn,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        let work = move || {
            let _turn = turn;
            operation(&store)
        };
        let panicked = |_| {
            StoreError::Unavailable(
                "the operation failed with an internal error; see the log of the service".to_owned(),
            )
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(panicked(error)))
    }

    /// Discards the known settings of a repository after a change, and cancels the sync that is
    /// running with them. The settings are read again before the next use. A change of the status
    /// only is ignored.
    pub(crate) fn observe(&self, key: &Key, change: &Change) {
        let generation = match change {
            Change::Applied(snapshot) if !snapshot.is_deleting() => snapshot.generation,
            Change::Applied(_) | Change::Deleted(_) => None,
        };
        let mut known = self.known();
        let is_other =
            known.get(key).is_some_and(|known| generation.is_none() || known.generation != generation);
        if !is_other {
            return;
        }
        known.remove(key);
        drop(known);
        if let Ok(repository) = self.registered(key) {
            repository.interrupt();
        }
    }

    fn registered(&self, key: &Key) -> Result<Arc<GitRepository>, StoreError> {
        self.store.repository(key.namespace.as_deref().unwrap_or_default(), &key.name)
    }

    /// Reports whether drafts are approved by their annotations.
    pub(crate) fn approves(&self) -> bool {
        self.approves
    }

    /// Returns the progress of a running sync as text; `None` if no sync is running.
    pub(crate) fn progress(&self, key: &Key) -> Option<String> {
        self.registered(key).ok()?.progress()
    }

    /// Returns the number of a package revision, if this replica knows the revision. A draft has no
    /// number.
    pub(crate) fn number(&self, revision: &Key) -> Option<i64> {
        let namespace = revision.namespace.as_deref().unwrap_or_default();
        self.store
            .revision(namespace, &revision.name)
            .ok()
            .map(|(_, found)| found.number)
            .filter(|number| *number != 0)
    }

    /// Removes a deleted repository from the store.
    pub(crate) fn unregister(&self, key: &Key) {
        self.known().remove(key);
        self.hooks().remove(key);
        self.turns.forget(key);
        self.store.unregister(key.namespace.as_deref().unwrap_or_default(), &key.name);
    }

    /// Returns a repository that is ready for use. A repository that this replica does not know is
    /// read first.
    ///
    /// # Errors
    /// The Repository does not exist or is invalid, or its remote does not answer.
    pub(crate) async fn repository(
        &self,
        key: &Key,
        objects: &Objects,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let namespace = key.namespace.as_deref().unwrap_or_default().to_owned();
        if self.known().get(key).is_some_and(|known| known.is_usable) {
            let known = self.registered(key)?;
            // Only one replica polls the remote regularly; the others sync when they need the
            // repository.
            if known.age().is_none_or(|age| age > OLD) {
                let syncing = Arc::clone(&known);
                self.run(key, move |_| syncing.sync().map(drop)).await?;
            }
            return Ok(known);
        }
        let found = objects.get::<Repository>(&namespace, &key.name).await.map_err(|error| unread(&error))?;
        let Some(repository) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
            self.unregister(key);
            return Err(StoreError::NotFound(format!("repository {:?} not found", key.name)));
        };
        self.register(key, &repository, objects).await
    }

    /// Registers a repository as its object describes it, and reads its content.
    pub(crate) async fn register(
        &self,
        key: &Key,
        repository: &Repository,
        objects: &Objects,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let settings = Settings::of(repository)?;
        let (access, hook) = access(&settings, objects).await?;
        self.hooks().entry(key.clone()).or_default().secret = hook;
        let generation = repository.metadata.generation;
        // From here on, an event with another generation cancels this registration.
        self.known().entry(key.clone()).or_default().generation = generation;
        let registered = self
            .run(key, move |store| {
                let repository = store.register(settings, access)?;
                repository.sync()?;
                Ok(repository)
            })
            .await?;
        // The Repository may have changed during the sync; then its content is not usable yet.
        if let Some(known) = self.known().get_mut(key).filter(|known| known.generation == generation) {
            known.is_usable = true;
        }
        Ok(registered)
    }

    /// Refuses a Repository that cannot be used until a user changes it.
    ///
    /// # Errors
    /// The fault of the Repository.
    pub(crate) fn check(&self, repository: &Repository) -> Result<(), StoreError> {
        self.store.check_repository(repository)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the object of a repository.
fn key_of(repository: &GitRepository) -> Key {
    let settings = repository.settings();
    ObjectId::new(Kind::of::<Repository>(), Some(&settings.namespace), &settings.name)
}

/// Reports whether a namespace is being deleted. The store then releases objects without deleting
/// from git, because a deleted namespace is not a request to delete packages.
pub(crate) async fn is_ending(namespace: &str, objects: &Objects) -> Result<bool, ReconcileError> {
    let namespaces = Api::<Namespace>::all(objects.client().clone());
    let found = namespaces.get_opt(namespace).await.map_err(|error| {
        let problem = groundwork_telemetry::innermost_cause(&error);
        ReconcileError::new(format!("cannot read namespace {namespace}: {problem}"))
    })?;
    Ok(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()))
}

fn unread(error: &ApiError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
