//! Set of component versions that belong to an Installation: a caller cannot read other versions on
//! its behalf.
//!
//! The closure is walked with repositories that record every request. So a job may read exactly the
//! versions that its own resolution asks for, including versions that a repository does not
//! contain. Content of a version is only read if the version's descriptor names it, since a
//! registry contains other content too.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_component::{
    Access, Blob, Descriptor, LoadedDescriptor, Reference, Repositories, Repository, RepositoryContext,
    RepositoryError,
};
use groundwork_registry::Keyring;
use moka::sync::Cache;

/// Capacity of the cache in bytes: some ten thousand Installations, or fewer if their components
/// have many references.
const CAPACITY: u64 = 64 << 20;
/// Bytes of an entry in a set in addition to its texts.
const ENTRY: usize = 200;
/// Lifetime of an entry; after it the closure is walked again.
const LIFETIME: Duration = Duration::from_secs(30);

/// Component version in a repository.
type Version = (String, String, String);

/// Versions that the resolution of one Installation asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermittedVersions(Arc<Mutex<Permitted>>);

#[derive(Debug, Default)]
struct Permitted {
    versions: HashSet<Version>,
    /// Contents by name and version, for any repository.
    contents: HashSet<(String, String, Access)>,
}

/// Result of the walk for an Installation.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) permitted: PermittedVersions,
    /// Credentials that registries get for the Installation.
    pub(crate) keyring: Arc<Keyring>,
}

/// Cache of results by namespace and name. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PermittedVersionsCache(Cache<(String, String), Known>);

/// Repositories that record the requested versions.
pub(crate) struct RecordingRepositories<R> {
    pub(crate) inner: R,
    pub(crate) permitted: PermittedVersions,
}

struct RecordingRepository {
    inner: Arc<dyn Repository>,
    context: RepositoryContext,
    permitted: PermittedVersions,
}

impl PermittedVersions {
    fn lock(&self) -> std::sync::MutexGuard<'_, Permitted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the approximate size in bytes.
    fn size(&self) -> usize {
        let permitted = self.lock();
        let of_version =
            |(repository, name, version): &Version| repository.len() + name.len() + version.len();
        let of_content = |(name, version, access): &(String, String, Access)| {
            name.len() + version.len() + access.to_string().len()
        };
        let versions = permitted.versions.iter().map(|version| ENTRY + of_version(version));
        let contents = permitted.contents.iter().map(|content| ENTRY + of_content(content));
        ENTRY + versions.chain(contents).sum::<usize>()
    }

    /// Adds the contents that a descriptor names.
    fn add_contents(&self, descriptor: &Descriptor) {
        let (name, version) = (descriptor.name(), descriptor.version());
        let contents =
            descriptor.accesses().map(|access| (name.to_owned(), version.to_owned(), key(&access)));
        self.lock().contents.extend(contents);
    }

    /// Adds an inline descriptor of the Installation. A job does not read the descriptor from a
    /// repository, but it reads the contents that the descriptor names.
    pub(crate) fn add_inline(&self, descriptor: &Descriptor, effective: Option<&RepositoryContext>) {
        self.add_contents(descriptor);
        let own = descriptor.repository_context();
        let registries = descriptor.accesses().filter_map(|access| access.registry());
        let contexts = effective.cloned().into_iter().chain(own).chain(registries);
        let id = |context: RepositoryContext| {
            (context.to_json(), descriptor.name().to_owned(), descriptor.version().to_owned())
        };
        self.lock().versions.extend(contexts.map(id));
    }

    /// Reports whether the set contains a reference, which must include its repository.
    pub(crate) fn contains(&self, reference: &Reference) -> bool {
        let Some(repository) = &reference.repository else { return false };
        let version = (repository.to_json(), reference.name.clone(), reference.version.clone());
        self.lock().versions.contains(&version)
    }

    /// Reports whether the descriptor of the version names this content.
    pub(crate) fn has_content(&self, reference: &Reference, access: &Access) -> bool {
        let content = (reference.name.clone(), reference.version.clone(), key(access));
        self.lock().contents.contains(&content)
    }
}

/// Returns an access without its declared size and media type.
fn key(access: &Access) -> Access {
    match access {
        Access::Local { reference, .. } => {
            Access::Local { reference: reference.clone(), media_type: String::new() }
        }
        Access::Layer { repository, digest, .. } => Access::Layer {
            repository: repository.clone(),
            digest: digest.clone(),
            size: None,
            media_type: String::new(),
        },
        Access::Artifact { .. } | Access::RelativeArtifact { .. } | Access::Outside(_) => access.clone(),
    }
}

impl PermittedVersionsCache {
    pub(crate) fn new() -> Self {
        let weigh = |key: &(String, String), known: &Known| {
            u32::try_from(key.0.len() + key.1.len() + known.permitted.size()).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_live(LIFETIME).build())
    }

    /// Returns the result for an Installation, unless it is older than the lifetime.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Known> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn insert(&self, namespace: &str, name: &str, known: Known) {
        self.0.insert((namespace.to_owned(), name.to_owned()), known);
    }
}

impl<R: Repositories> Repositories for RecordingRepositories<R> {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.inner.open(context)?;
        Ok(Arc::new(RecordingRepository {
            inner,
            context: context.clone(),
            permitted: self.permitted.clone(),
        }))
    }
}

impl RecordingRepository {
    fn permit(&self, name: &str, version: &str) {
        let id = (self.context.to_json(), name.to_owned(), version.to_owned());
        self.permitted.lock().versions.insert(id);
    }
}

impl Repository for RecordingRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        // An unusable descriptor names no contents.
        self.load(name, version, &self.context)?;
        self.inner.descriptor(name, version)
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        self.permit(name, version);
        let found = self.inner.load(name, version, context)?;
        if let Some(Ok(descriptor)) = &found {
            self.permitted.add_contents(descriptor);
        }
        Ok(found)
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        self.inner.content(name, version, access)
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        self.inner.artifact_digest(name, version, access)
    }
}
