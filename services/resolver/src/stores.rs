//! Where components are read from, with one answer a job (`components.md` 4.3).

use std::sync::Arc;
use std::time::Duration;

use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use moka::sync::Cache;

use crate::map_file::MapFile;

/// What is kept for jobs, in bytes.
const CAPACITY: u64 = 8 << 20;
/// Larger content is read again when it is asked for again; it carries a digest that says whether it is the same.
const LARGEST: usize = 1 << 20;
/// Nothing is kept for a job that asked for nothing this long.
const IDLE: Duration = Duration::from_secs(600);
/// Installations whose latest job is known.
const JOBS: u64 = 10_000;

/// The stores of the service. Clones share what is kept.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    map: Arc<MapFile>,
    pinned: Cache<Pin, Arc<[u8]>>,
    /// The latest job of an Installation, for calls that do not name it.
    jobs: Cache<(String, String), Arc<str>>,
}

/// Content that a job has seen. The namespace is part of it, so that nobody sees by a foreign job id what they may not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pin {
    scope: Scope,
    context: Arc<str>,
    name: String,
    version: String,
    /// `None`: the descriptor.
    blob: Option<String>,
}

/// Within a scope a version keeps its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scope {
    namespace: Arc<str>,
    job: Arc<str>,
}

/// The stores as one job sees them.
#[derive(Debug, Clone)]
pub(crate) struct JobStores {
    stores: Stores,
    /// Without a job nothing is kept.
    scope: Option<Scope>,
}

struct PinnedRepository {
    inner: Arc<dyn Repository>,
    pinned: Cache<Pin, Arc<[u8]>>,
    scope: Scope,
    context: Arc<str>,
}

impl Stores {
    pub(crate) fn new(map: MapFile) -> Self {
        let weigh = |pin: &Pin, content: &Arc<[u8]>| {
            let key = pin.name.len() + pin.version.len() + pin.blob.as_ref().map_or(0, String::len) + 200;
            u32::try_from(content.len() + key).unwrap_or(u32::MAX)
        };
        let pinned = Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_idle(IDLE).build();
        let jobs = Cache::builder().max_capacity(JOBS).time_to_idle(IDLE).build();
        Self { map: Arc::new(map), pinned, jobs }
    }

    /// Notes the job that an Installation has now, and gives its view.
    pub(crate) fn of_new_job(&self, namespace: &str, installation: &str, job: &str) -> JobStores {
        self.jobs.insert((namespace.to_owned(), installation.to_owned()), job.into());
        self.of_job(namespace, installation, job)
    }

    /// The view of a job; without an id that of the latest one.
    pub(crate) fn of_job(&self, namespace: &str, installation: &str, job: &str) -> JobStores {
        let job = if job.is_empty() {
            self.jobs.get(&(namespace.to_owned(), installation.to_owned()))
        } else {
            Some(job.into())
        };
        let scope = job.map(|job| Scope { namespace: namespace.into(), job });
        JobStores { stores: self.clone(), scope }
    }
}

impl Repositories for JobStores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.stores.map.map().open(context)?;
        Ok(match &self.scope {
            None => inner,
            Some(scope) => Arc::new(PinnedRepository {
                inner,
                pinned: self.stores.pinned.clone(),
                scope: scope.clone(),
                context: context.to_json().into(),
            }),
        })
    }
}

impl PinnedRepository {
    fn pin(&self, name: &str, version: &str, blob: Option<&str>) -> Pin {
        Pin {
            scope: self.scope.clone(),
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            blob: blob.map(str::to_owned),
        }
    }

    fn keep(&self, pin: Pin, content: &[u8]) {
        if content.len() <= LARGEST {
            self.pinned.insert(pin, content.into());
        }
    }
}

impl Repository for PinnedRepository {
    /// That there is no such version is not kept.
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let pin = self.pin(name, version, None);
        if let Some(kept) = self.pinned.get(&pin) {
            return Ok(Some(kept.to_vec()));
        }
        let found = self.inner.descriptor(name, version)?;
        if let Some(descriptor) = &found {
            self.keep(pin, descriptor);
        }
        Ok(found)
    }

    fn blob(&self, name: &str, version: &str, reference: &str) -> Result<Vec<u8>, RepositoryError> {
        let pin = self.pin(name, version, Some(reference));
        if let Some(kept) = self.pinned.get(&pin) {
            return Ok(kept.to_vec());
        }
        let content = self.inner.blob(name, version, reference)?;
        self.keep(pin, &content);
        Ok(content)
    }
}
