//! Where components are read from, with one answer a job (`components.md` 4.3).

use std::sync::Arc;
use std::time::Duration;

use groundwork_component::{Access, Blob, Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_registry::Keyring;
use moka::sync::Cache;

use crate::map_file::MapFile;

/// What is kept for jobs, in bytes.
const CAPACITY: u64 = 8 << 20;
/// Larger content is read again when it is asked for again; it carries a digest that says whether it is the same.
const LARGEST: u64 = 1 << 20;
/// Nothing is kept for a job that asked for nothing this long.
const IDLE: Duration = Duration::from_secs(600);
/// Installations whose latest job is known.
const JOBS: u64 = 10_000;

/// The stores of the service. Clones share what is kept.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    map: Arc<MapFile>,
    pinned: Cache<Pin, Kept>,
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
    content: Option<Access>,
}

/// What is handed out again.
#[derive(Debug, Clone)]
struct Kept {
    media_type: String,
    bytes: Arc<[u8]>,
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
    /// Whose credentials registries get.
    keyring: Arc<Keyring>,
}

struct PinnedRepository {
    inner: Arc<dyn Repository>,
    pinned: Cache<Pin, Kept>,
    scope: Scope,
    context: Arc<str>,
}

impl Stores {
    pub(crate) fn new(map: MapFile) -> Self {
        let weigh = |pin: &Pin, kept: &Kept| {
            let key = pin.name.len()
                + pin.version.len()
                + pin.content.as_ref().map_or(0, |access| access.to_string().len())
                + 200;
            u32::try_from(kept.bytes.len() + key).unwrap_or(u32::MAX)
        };
        let pinned = Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_idle(IDLE).build();
        let jobs = Cache::builder().max_capacity(JOBS).time_to_idle(IDLE).build();
        Self { map: Arc::new(map), pinned, jobs }
    }

    /// Notes the job that an Installation has now, and gives its view.
    pub(crate) fn of_new_job(
        &self,
        namespace: &str,
        installation: &str,
        job: &str,
        keyring: Arc<Keyring>,
    ) -> JobStores {
        self.jobs.insert((namespace.to_owned(), installation.to_owned()), job.into());
        self.of_job(namespace, installation, job, keyring)
    }

    /// The view of nobody's job: nothing that was seen before counts.
    pub(crate) fn fresh(&self, keyring: Arc<Keyring>) -> JobStores {
        JobStores { stores: self.clone(), scope: None, keyring }
    }

    /// The view of a job; without an id that of the latest one.
    pub(crate) fn of_job(
        &self,
        namespace: &str,
        installation: &str,
        job: &str,
        keyring: Arc<Keyring>,
    ) -> JobStores {
        let job = if job.is_empty() {
            self.jobs.get(&(namespace.to_owned(), installation.to_owned()))
        } else {
            Some(job.into())
        };
        let scope = job.map(|job| Scope { namespace: namespace.into(), job });
        JobStores { stores: self.clone(), scope, keyring }
    }
}

impl Repositories for JobStores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.stores.map.map().open_with(context, &self.keyring)?;
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
    fn pin(&self, name: &str, version: &str, content: Option<&Access>) -> Pin {
        Pin {
            scope: self.scope.clone(),
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            content: content.cloned(),
        }
    }
}

impl Repository for PinnedRepository {
    /// That there is no such version is not kept.
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let pin = self.pin(name, version, None);
        if let Some(kept) = self.pinned.get(&pin) {
            return Ok(Some(kept.bytes.to_vec()));
        }
        let found = self.inner.descriptor(name, version)?;
        if let Some(descriptor) = found.as_deref().filter(|found| found.len() as u64 <= LARGEST) {
            self.pinned.insert(pin, Kept { media_type: String::new(), bytes: descriptor.into() });
        }
        Ok(found)
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let pin = self.pin(name, version, Some(access));
        if let Some(kept) = self.pinned.get(&pin) {
            return Ok(Blob::from_bytes(kept.media_type, kept.bytes.to_vec()));
        }
        let blob = self.inner.content(name, version, access)?;
        if blob.size.is_none_or(|size| size > LARGEST) {
            return Ok(blob);
        }
        let media_type = blob.media_type.clone();
        let bytes = blob.read_all(&access.to_string(), LARGEST)?;
        let kept = Kept { media_type: media_type.clone(), bytes: bytes.as_slice().into() };
        self.pinned.insert(pin, kept);
        Ok(Blob::from_bytes(media_type, bytes))
    }
}
