//! Which component versions belong to an Installation: others are not read on its behalf.
//!
//! The closure is walked with repositories that record every request, so what a job may ask for is exactly what its own evaluation
//! asks for, versions that a repository does not hold included.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_component::{
    Access, Blob, Reference, Repositories, Repository, RepositoryContext, RepositoryError,
};
use moka::sync::Cache;

/// Installations in the cache.
const CAPACITY: u64 = 10_000;
/// How long an entry is relied on before the closure is walked again.
const LIFETIME: Duration = Duration::from_secs(30);

/// A component version in a repository.
type Version = (String, String, String);

/// The versions that the evaluation of one Installation asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct PermittedVersions(Arc<Mutex<HashSet<Version>>>);

/// The permitted versions of Installations, by namespace and name. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PermittedVersionsCache(Cache<(String, String), PermittedVersions>);

/// Repositories that record what they are asked for.
pub(crate) struct RecordingRepositories<R> {
    pub(crate) inner: R,
    pub(crate) permitted: PermittedVersions,
}

struct RecordingRepository {
    inner: Arc<dyn Repository>,
    context: String,
    permitted: PermittedVersions,
}

impl PermittedVersions {
    fn add(&self, version: Version) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(version);
    }

    /// Whether a reference that names its repository is one of them.
    pub(crate) fn contains(&self, reference: &Reference) -> bool {
        let Some(repository) = &reference.repository else { return false };
        let version = (repository.to_json(), reference.name.clone(), reference.version.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&version)
    }
}

impl PermittedVersionsCache {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(CAPACITY).time_to_live(LIFETIME).build())
    }

    /// What was found for an Installation, if that is not longer ago than the lifetime of entries.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<PermittedVersions> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn insert(&self, namespace: &str, name: &str, permitted: PermittedVersions) {
        self.0.insert((namespace.to_owned(), name.to_owned()), permitted);
    }
}

impl<R: Repositories> Repositories for RecordingRepositories<R> {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.inner.open(context)?;
        Ok(Arc::new(RecordingRepository {
            inner,
            context: context.to_json(),
            permitted: self.permitted.clone(),
        }))
    }
}

impl Repository for RecordingRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        self.permitted.add((self.context.clone(), name.to_owned(), version.to_owned()));
        self.inner.descriptor(name, version)
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        self.inner.content(name, version, access)
    }
}
