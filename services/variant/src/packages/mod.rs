//! The package store in this process: packages in git repositories, and what the cluster shows of them (`packagevariants.md` 6).
//!
//! ```text
//! Repository ──register──> store ──sync──> revisions ──objects──> PackageRevisions
//! PackageRevision, edited ──revision──> store: lifecycle, deletion
//! PackageVariant ──downstream──> store: drafts
//! gRPC ──calls──Content──> store: files of revisions, drafts of people
//! ```
//!
//! Each replica has a clone of its own. What another one has pushed is known after the next exchange with the remote, which whoever
//! misses something asks for; leases of pushes decide.
//!
//! Or a Porch server keeps the packages (`porch`); then nothing but drafts of variants and calls is done here. What a variant wants of either
//! is in `operations`, what calls want of it in `content`.

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
mod relations;
pub(crate) mod repository;
pub(crate) mod revision;
mod schedule;
mod turns;
pub(crate) mod world;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_api::{GitLock, Repository};
use groundwork_bus::{Change, ObjectId};
use groundwork_controller::{ApiError, Key, Objects, ReconcileError};
use groundwork_fleet::Git;
use groundwork_packages::{
    Credentials, GitRepository, MAX_PACKAGE_BYTES, Meters, Options, RemoteOptions, Settings, Store,
    StoreError,
};
use groundwork_telemetry::Telemetry;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;

pub use functions::{FunctionArguments, FunctionsError, Missing};
pub(crate) use objects::FINALIZER;
pub(crate) use porch::PorchStore;
pub(crate) use relations::Relations;
pub use turns::TurnArguments;
use turns::{Turn, Turns};

use crate::handler::kind;

/// What a replica knows of a remote is used for as long without asking, unless an event tells of news.
const OLD: Duration = Duration::from_secs(120);
/// Protocols of remotes unless the operator says otherwise: none of them reads disks of this machine.
const PROTOCOLS: [&str; 3] = ["https", "http", "ssh"];

/// Seconds for an answer of a git remote, by default.
const GIT_TIMEOUT: u64 = 30;

/// Where and how packages are kept.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Package store")]
pub struct StoreArguments {
    /// Keep packages in git repositories, with clones in this folder, and draft the package revisions of PackageVariants
    #[arg(long, env = "GROUNDWORK_PACKAGE_STORE", value_name = "DIRECTORY")]
    pub package_store: Option<PathBuf>,

    /// Draft the package revisions of PackageVariants, and answer calls about packages, on the Porch server that serves them in this cluster
    #[arg(long, env = "GROUNDWORK_PORCH", conflicts_with = "package_store")]
    pub porch: bool,

    /// The same in place of the package store, if a Porch server serves package revisions when the service starts
    #[arg(long, env = "GROUNDWORK_PORCH_IF_SERVED", requires = "package_store", conflicts_with = "porch")]
    pub porch_if_served: bool,

    /// Protocols of git remotes; `file` lets whoever registers a Repository read disks of this machine
    #[arg(long, env = "GROUNDWORK_PACKAGE_PROTOCOLS", conflicts_with = "porch", value_name = "NAMES", value_delimiter = ',', default_values_t = PROTOCOLS.map(str::to_owned))]
    pub package_protocols: Vec<String>,

    /// Ask only git remotes at public addresses; without it whoever may register a Repository can have any host asked that this one reaches
    #[arg(long, env = "GROUNDWORK_ONLY_PUBLIC_GIT", conflicts_with = "porch")]
    pub only_public_git: bool,

    /// How long a git remote may take for an answer, in seconds; packages may come and go four times as long
    #[arg(long, env = "GROUNDWORK_PACKAGE_GIT_TIMEOUT", conflicts_with = "porch", value_name = "SECONDS", default_value_t = GIT_TIMEOUT)]
    pub package_git_timeout: u64,

    #[command(flatten)]
    pub turns: TurnArguments,

    #[command(flatten)]
    pub functions: FunctionArguments,
}

impl StoreArguments {
    /// The store that they ask for. If it is to be chosen, the API server is waited for, to the end of the process.
    ///
    /// # Errors
    /// What they say of functions cannot be used.
    pub(crate) async fn store(
        &self,
        objects: &Objects,
        telemetry: &Telemetry,
    ) -> Result<Option<Backend>, FunctionsError> {
        let metrics = &telemetry.metrics;
        if self.porch || (self.porch_if_served && porch::is_chosen(objects, telemetry).await) {
            let turns = Turns::new(self.turns, metrics);
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
            turns: Turns::new(self.turns, metrics),
            known: Mutex::default(),
        })))
    }
}

/// Where packages are kept, and who does what people ask for by edits of their objects (6.1).
pub(crate) enum Backend {
    /// In git repositories, by this service.
    Git(PackageStore),
    /// On a Porch server, by the server.
    Porch(PorchStore),
}

impl Backend {
    /// The store of this service.
    pub(crate) fn git(&self) -> Option<&PackageStore> {
        match self {
            Self::Git(store) => Some(store),
            Self::Porch(_) => None,
        }
    }
}

/// The store, for tasks: its operations block, so each has a thread.
pub(crate) struct PackageStore {
    store: Arc<Store>,
    turns: Turns,
    /// Repositories whose settings have been read, and have not changed since.
    known: Mutex<HashMap<Key, Known>>,
}

/// The known settings of a repository.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The generation of the Repository that is read, or was read last.
    generation: Option<i64>,
    /// True once its remote has been asked, too.
    is_usable: bool,
}

impl PackageStore {
    /// Lets a decision about an upstream package ask git.
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

    /// Whether two places of the repositories of a namespace hold the same files.
    fn same_tree(&self, namespace: &str) -> impl Fn(&GitLock, &GitLock) -> bool {
        move |one, other| self.store.has_same_tree(namespace, one, other)
    }

    /// Lets the store do something with a repository.
    ///
    /// # Errors
    /// Those of the operation, or others have been using the repository for long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        repository: &Key,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.take(repository, false).await?;
        self.work(turn, operation).await
    }

    /// The same, for what is pushed to the remote.
    ///
    /// # Errors
    /// As those of `run`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        repository: &Key,
        operation: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.take(repository, true).await?;
        self.work(turn, operation).await
    }

    /// Waits until another draft may be begun (5.5).
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
            StoreError::Unavailable("the operation did not end; the log of the service says why".to_owned())
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(panicked(error)))
    }

    /// The settings of a repository may have changed: they are read again before it is used, and what is read of it now is not wanted any
    /// more. Its status says nothing of them.
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

    /// How far a repository is read, for people; none if nobody reads it.
    pub(crate) fn progress(&self, key: &Key) -> Option<String> {
        self.registered(key).ok()?.progress()
    }

    /// The number of a package revision, if this replica knows it by now. A draft has none yet.
    pub(crate) fn number(&self, revision: &Key) -> Option<i64> {
        let namespace = revision.namespace.as_deref().unwrap_or_default();
        self.store
            .revision(namespace, &revision.name)
            .ok()
            .map(|(_, found)| found.number)
            .filter(|number| *number != 0)
    }

    /// Forgets a repository that is gone.
    pub(crate) fn unregister(&self, key: &Key) {
        self.known().remove(key);
        self.turns.forget(key);
        self.store.unregister(key.namespace.as_deref().unwrap_or_default(), &key.name);
    }

    /// A repository, ready to be used. One that this replica does not know is read.
    ///
    /// # Errors
    /// There is no Repository of this name, it cannot be used, or its remote is away.
    pub(crate) async fn repository(
        &self,
        key: &Key,
        objects: &Objects,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let namespace = key.namespace.as_deref().unwrap_or_default().to_owned();
        if self.known().get(key).is_some_and(|known| known.is_usable) {
            let known = self.registered(key)?;
            // One replica asks the remote regularly; the others do when they need it.
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

    /// Registers a repository as its object says, and reads what it holds.
    pub(crate) async fn register(
        &self,
        key: &Key,
        repository: &Repository,
        objects: &Objects,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let settings = Settings::of(repository)?;
        let credentials = credentials(&settings, objects).await?;
        let generation = repository.metadata.generation;
        // From now on an event of another generation ends this.
        self.known().entry(key.clone()).or_default().generation = generation;
        let registered = self
            .run(key, move |store| {
                let repository = store.register(settings, credentials)?;
                repository.sync()?;
                Ok(repository)
            })
            .await?;
        // Unless it has changed meanwhile.
        if let Some(known) = self.known().get_mut(key).filter(|known| known.generation == generation) {
            known.is_usable = true;
        }
        Ok(registered)
    }

    /// Refuses a Repository that cannot be used until somebody changes it.
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

/// The Repository of a repository.
fn key_of(repository: &GitRepository) -> Key {
    let settings = repository.settings();
    ObjectId::new(kind::<Repository>(), Some(&settings.namespace), &settings.name)
}

/// Whether a namespace is being deleted: then objects go without a word to git, since nobody has asked for the end of packages.
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

/// What the Secret of a repository holds (1.4).
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
