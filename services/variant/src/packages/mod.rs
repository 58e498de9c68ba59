//! The package store in this process: packages in git repositories, and their objects in the
//! cluster (`packagevariants.md` 6).
//!
//! ```text
//! Repository ──register──> store ──sync──> revisions ──objects──> PackageRevisions
//! PackageRevision, edited ──revision──> store: lifecycle, deletion
//! PackageVariant ──downstream──> store: drafts
//! gRPC ──calls──Content──> store: files of revisions, drafts of people
//! ```
//!
//! Each replica has its own clone. A replica sees the pushes of another after its next sync with
//! the remote, and code that misses a revision asks for a sync. Conflicting pushes are decided by
//! the remote, with `--force-with-lease`.
//!
//! Alternatively a Porch server keeps the packages (`porch`); then this service only makes the
//! drafts of variants and answers calls. `operations` is the interface of variants to either store,
//! and `content` the interface of calls.

pub(crate) mod calls;
mod content;
mod creation;
pub(crate) mod downstream;
mod drafting;
mod edits;
mod functions;
mod git_content;
mod injection;
mod newest;
mod objects;
mod operations;
pub(crate) mod porch;
mod rate_limit;
mod relations;
pub(crate) mod repository;
pub(crate) mod revision;
mod schedule;
pub(crate) mod world;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_api::{GitLock, Repository};
use groundwork_bus::{Change, Kind, ObjectId};
use groundwork_controller::{ApiError, Key, Objects, ReconcileError};
use groundwork_fleet::Git;
use groundwork_packages::git::{
    Credentials, GitRepository, MAX_PACKAGE_BYTES, Meters, Options, RemoteOptions, Settings, Store,
    StoreError,
};
use groundwork_telemetry::Telemetry;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;

pub use functions::{FunctionArguments, FunctionsError, Missing};
pub(crate) use objects::FINALIZER;
pub(crate) use porch::PorchStore;
pub use rate_limit::TurnArguments;
use rate_limit::{Turn, Turns, WRITES, WRITES_ON_PORCH};
pub(crate) use relations::Relations;

/// Longest age of a replica's knowledge of a remote before the replica syncs again, unless an event
/// brings news first.
const OLD: Duration = Duration::from_secs(120);
/// Default protocols of remotes. `file` is missing, because it reads disks of this machine.
const PROTOCOLS: [&str; 3] = ["https", "http", "ssh"];

/// Default time limit for an answer of a git remote, in seconds.
const GIT_TIMEOUT: u64 = 30;

/// Arguments for the location and the storage of packages.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Package store")]
pub struct StoreArguments {
    /// Keep packages in git repositories, with clones in this folder, and draft the package
    /// revisions of PackageVariants
    #[arg(long, env = "GROUNDWORK_PACKAGE_STORE", value_name = "DIRECTORY")]
    pub package_store: Option<PathBuf>,

    /// Draft the package revisions of PackageVariants, and answer calls about packages, on the
    /// Porch server that serves them in this cluster
    #[arg(long, env = "GROUNDWORK_PORCH", conflicts_with = "package_store")]
    pub porch: bool,

    /// Use the Porch server instead of the package store, if one serves package revisions when the
    /// service starts
    #[arg(long, env = "GROUNDWORK_PORCH_IF_SERVED", requires = "package_store", conflicts_with = "porch")]
    pub porch_if_served: bool,

    /// Protocols of git remotes; `file` lets users who register a Repository read disks of this
    /// machine
    #[arg(long, env = "GROUNDWORK_PACKAGE_PROTOCOLS", conflicts_with = "porch", value_name = "NAMES", value_delimiter = ',', default_values_t = PROTOCOLS.map(str::to_owned))]
    pub package_protocols: Vec<String>,

    /// Ask only git remotes at public addresses; without it users who register a Repository can
    /// send requests to any host in reach
    #[arg(long, env = "GROUNDWORK_ONLY_PUBLIC_GIT", conflicts_with = "porch")]
    pub only_public_git: bool,

    /// Time limit for an answer of a git remote, in seconds; transfers of packages may take four
    /// times as long
    #[arg(long, env = "GROUNDWORK_PACKAGE_GIT_TIMEOUT", conflicts_with = "porch", value_name = "SECONDS", default_value_t = GIT_TIMEOUT)]
    pub package_git_timeout: u64,

    /// Approve drafts by their annotations approval.nephio.org/policy (initial or always) and
    /// approval.nephio.org/delay; without it people approve
    #[arg(long, env = "GROUNDWORK_APPROVAL_POLICIES", requires = "package_store", conflicts_with = "porch")]
    pub approval_policies: bool,

    #[command(flatten)]
    pub turns: TurnArguments,

    #[command(flatten)]
    pub functions: FunctionArguments,
}

impl StoreArguments {
    /// Returns the store that the arguments ask for. For `porch_if_served` this waits for the API
    /// server until the process ends.
    ///
    /// # Errors
    /// The arguments for functions cannot be used.
    pub(crate) async fn store(
        &self,
        objects: &Objects,
        telemetry: &Telemetry,
    ) -> Result<Option<Backend>, FunctionsError> {
        let metrics = &telemetry.metrics;
        if self.porch || (self.porch_if_served && porch::is_chosen(objects, telemetry).await) {
            let turns = Turns::new(self.turns, WRITES_ON_PORCH, metrics);
            return Ok(Some(Backend::Porch(PorchStore::new(objects, turns))));
        }
        let Some(directory) = self.package_store.clone() else { return Ok(None) };
        let protocols = match self.package_protocols.as_slice() {
            [] => PROTOCOLS.map(str::to_owned).to_vec(),
            given => given.to_vec(),
        };
        let functions = self.functions.functions()?;
        let meters = Meters::new(metrics);
        let timeout = Some(self.package_git_timeout).filter(|seconds| *seconds > 0).unwrap_or(GIT_TIMEOUT);
        let remotes = RemoteOptions {
            protocols,
            only_public: self.only_public_git,
            timeout: Duration::from_secs(timeout),
        };
        let options = Options { directory, remotes, max_package_bytes: MAX_PACKAGE_BYTES, functions, meters };
        Ok(Some(Backend::Git(PackageStore {
            store: Arc::new(Store::new(options)),
            turns: Turns::new(self.turns, WRITES, metrics),
            known: Mutex::default(),
            approves: self.approval_policies,
        })))
    }
}

/// Store for packages; it also decides who carries out the users' edits of package revisions
/// (`packagevariants.md` 6.1).
pub(crate) enum Backend {
    /// Git repositories, written by this service.
    Git(PackageStore),
    /// Porch server, which carries out edits itself.
    Porch(PorchStore),
}

impl Backend {
    /// Returns the git store of this service.
    pub(crate) fn git(&self) -> Option<&PackageStore> {
        match self {
            Self::Git(store) => Some(store),
            Self::Porch(_) => None,
        }
    }
}

/// The git store for async tasks: its operations block, so each runs on a thread of its own.
pub(crate) struct PackageStore {
    store: Arc<Store>,
    turns: Turns,
    /// Repositories whose settings have been read and have not changed since.
    known: Mutex<HashMap<Key, Known>>,
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

impl PackageStore {
    /// Runs a decision about an upstream package with access to git.
    pub(crate) fn with_git<T>(
        &self,
        namespace: &str,
        package: &str,
        repository: &GitRepository,
        decide: impl FnOnce(&Git<'_>) -> T,
    ) -> T {
        let tag = |name: &str| repository.tag_commit(package, name);
        decide(&Git { same_tree: &self.same_tree(namespace), tag_commit: &tag })
    }

    /// Returns a function that compares the files of two commits in the repositories of a
    /// namespace.
    fn same_tree(&self, namespace: &str) -> impl Fn(&GitLock, &GitLock) -> Option<bool> {
        move |one, other| Some(self.store.has_same_tree(namespace, one, other))
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

    /// Waits until the rate limit allows another draft (`packagevariants.md` 5.5).
    pub(crate) async fn draft(&self) {
        self.turns.draft().await;
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
        let credentials = credentials(&settings, objects).await?;
        let generation = repository.metadata.generation;
        // From here on, an event with another generation cancels this registration.
        self.known().entry(key.clone()).or_default().generation = generation;
        let registered = self
            .run(key, move |store| {
                let repository = store.register(settings, credentials)?;
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

/// Reads the credentials in the Secret of a repository (`packagevariants.md` 1.4).
async fn credentials(settings: &Settings, objects: &Objects) -> Result<Credentials, StoreError> {
    let Some(name) = &settings.secret else { return Ok(Credentials::None) };
    let secret = objects.get::<Secret>(&settings.namespace, name).await.map_err(|error| unread(&error))?;
    let data = secret.and_then(|secret| secret.data);
    let data = data
        .ok_or_else(|| StoreError::Unavailable(format!("spec.git.secretRef: secret {name:?} not found")))?;
    let text = |key: &str| data.get(key).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
    if let Some(key) = text("ssh-privatekey") {
        return Ok(Credentials::Ssh { private_key: key.into(), known_hosts: text("known_hosts") });
    }
    if let (Some(username), Some(password)) = (text("username"), text("password")) {
        return Ok(Credentials::Basic { username, password: password.into() });
    }
    if let Some(token) = text("bearerToken").or_else(|| text("token")) {
        return Ok(Credentials::Bearer(token.trim().into()));
    }
    Err(StoreError::Refused(format!(
        "spec.git.secretRef: secret {name:?} has none of username and password, bearerToken, ssh-privatekey"
    )))
}
