//! Which component versions belong to an Installation: others are not read in its name.
//!
//! The closure is walked with repositories that note every question, so what a job may ask for is exactly what its own evaluation
//! asks for, versions that a repository does not hold included.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_component::{Reference, Repositories, Repository, RepositoryContext, RepositoryError};
use moka::sync::Cache;

/// Installations whose reach is known, and how long it is relied on without another look.
const KNOWN: u64 = 10_000;
const LIFETIME: Duration = Duration::from_secs(30);

/// A component version in a repository.
type Version = (String, String, String);

/// The versions that the evaluation of one Installation asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach(Arc<Mutex<HashSet<Version>>>);

/// The reaches of Installations. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Reaches(Cache<(String, String), Reach>);

/// Repositories that note what they are asked for.
pub(crate) struct Noting<R> {
    pub(crate) inner: R,
    pub(crate) reach: Reach,
}

struct NotingRepository {
    inner: Arc<dyn Repository>,
    context: String,
    reach: Reach,
}

impl Reach {
    fn note(&self, version: Version) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(version);
    }

    /// Whether a reference that says where to look is part of it.
    pub(crate) fn has(&self, reference: &Reference) -> bool {
        let Some(repository) = &reference.repository else { return false };
        let version = (repository.to_json(), reference.name.clone(), reference.version.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&version)
    }
}

impl Reaches {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(KNOWN).time_to_live(LIFETIME).build())
    }

    /// What was last found for an Installation, if that is not long ago.
    pub(crate) fn known(&self, namespace: &str, name: &str) -> Option<Reach> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn learn(&self, namespace: &str, name: &str, reach: Reach) {
        self.0.insert((namespace.to_owned(), name.to_owned()), reach);
    }
}

impl<R: Repositories> Repositories for Noting<R> {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.inner.open(context)?;
        Ok(Arc::new(NotingRepository { inner, context: context.to_json(), reach: self.reach.clone() }))
    }
}

impl Repository for NotingRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        self.reach.note((self.context.clone(), name.to_owned(), version.to_owned()));
        self.inner.descriptor(name, version)
    }

    fn blob(&self, name: &str, version: &str, reference: &str) -> Result<Vec<u8>, RepositoryError> {
        self.inner.blob(name, version, reference)
    }
}
