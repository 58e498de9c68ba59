//! Stores from which components are read. Within a job, each version has one answer
//! (`components.md` 4.3).

mod pinned;

use std::sync::Arc;
use std::time::{Duration, Instant};

use groundwork_component::{
    Access, LoadedDescriptor, Repositories, Repository, RepositoryContext, RepositoryError,
};
use groundwork_registry::sources::MapFile;
use groundwork_registry::{Allowance, AnswerMemory, Digest, DiskCache, Holding, Keyring};
use moka::sync::Cache;

use crate::work::Evaluators;
use pinned::PinnedRepository;

/// Bytes of contents cached for jobs.
const CAPACITY: u64 = 8 << 20;
/// Bytes of decoded descriptors in the cache.
const DECODED: u64 = 64 << 20;
/// Factor between the size of a descriptor as JSON and in memory, as measured. Most of it is free
/// capacity in maps.
const EXPANSION: usize = 12;
/// Bytes of memory for the answers of all registries and their decoded forms.
const MEMORY: usize = 256 << 20;
/// Memory limit of one job, and of all jobs of a namespace, in bytes: enough for the largest
/// closure that fits into a message, encoded and decoded.
const MEMORY_SHARE: usize = 208 << 20;
/// Size limit for cached content in bytes. Larger content is read again; its digest proves that it
/// is the same.
const LARGEST: u64 = 1 << 20;
/// Time without requests after which the cached answers of a job are dropped.
const IDLE: Duration = Duration::from_secs(600);
/// Time for which other jobs that began earlier may use a descriptor that one job has read.
const TOGETHER: Duration = Duration::from_secs(60);
/// Limit for the cached digests of verified artifacts.
const ARTIFACTS: u64 = 20_000;
/// Limit for the Installations whose latest job is known.
const JOBS: u64 = 10_000;

/// Command line option for [`FetchTime`].
const FETCH_TIMEOUT: &str = "--fetch-timeout";

/// Time limit for registries to send all content of one job, or of one call without a job; `None`
/// for no limit.
pub(crate) type FetchTime = Option<Duration>;

/// Stores of the service. Clones share the caches.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    map: Arc<MapFile>,
    pinned: Cache<Pin, Kept>,
    /// Recent reads, each with its start time.
    flights: Cache<Flight, (Instant, Kept)>,
    /// Decoded descriptors by context and digest. A dropped entry is decoded again.
    decoded: Cache<(Arc<str>, Digest), Decoded>,
    /// SHA-256 digests of the manifests of artifacts that a job has verified. The job then gets
    /// these manifests only.
    artifacts: Cache<Pin, Arc<str>>,
    /// Cache for contents that are too large for memory.
    disk: Option<DiskCache>,
    /// Workers that decode descriptors, because descriptors are untrusted input.
    reader: Evaluators,
    /// Latest job of each Installation, for calls that do not name a job.
    jobs: Cache<(String, String), Arc<str>>,
    fetch_time: FetchTime,
    /// Remaining fetch time of jobs.
    allowances: Cache<Scope, Allowance>,
    memory: AnswerMemory,
}

/// Key of content that a job has read. It includes the namespace, so that a caller cannot read
/// content by the job ID of another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pin {
    scope: Scope,
    context: Arc<str>,
    name: String,
    version: String,
    /// Access of the content; `None` for the descriptor.
    content: Option<Access>,
}

/// Key of a read in progress. Other jobs with the same credentials wait for its answer instead of
/// sending a request. A job never uses a read that started before the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flight {
    keyring: Arc<str>,
    context: Arc<str>,
    name: String,
    version: String,
    /// Access of the content; `None` for the descriptor.
    content: Option<Access>,
}

/// Cached content.
#[derive(Debug, Clone)]
struct Kept {
    media_type: String,
    bytes: Arc<[u8]>,
    /// Digest of a descriptor; `None` for other content, which does not need it.
    digest: Option<Digest>,
}

/// Decoded descriptor from the repository of a context. Equal bytes are decoded once for all jobs.
#[derive(Debug, Clone)]
struct Decoded {
    /// Length of the encoded descriptor.
    bytes: usize,
    descriptor: LoadedDescriptor,
}

/// Scope in which each component version has one answer: a job in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scope {
    namespace: Arc<str>,
    job: Arc<str>,
}

/// View of the stores for one job.
#[derive(Debug, Clone)]
pub(crate) struct JobStores {
    stores: Stores,
    /// Namespace for which content is read.
    tenant: Arc<str>,
    /// Scope of the caches; `None` without a job, which caches no content.
    scope: Option<Scope>,
    /// Credentials for registries.
    keyring: Arc<Keyring>,
    allowance: Allowance,
    /// Memory in use by this job.
    held: Arc<Holding>,
    /// Start of the job; reads from before are not used.
    begin: Instant,
}

impl Stores {
    pub(crate) fn new(
        map: MapFile,
        disk: Option<DiskCache>,
        reader: Evaluators,
        fetch_time: FetchTime,
    ) -> Self {
        let weigh = |pin: &Pin, kept: &Kept| {
            let key = pin.name.len()
                + pin.version.len()
                + pin.content.as_ref().map_or(0, |access| access.to_string().len())
                + 200;
            u32::try_from(kept.bytes.len() + key).unwrap_or(u32::MAX)
        };
        let pinned = Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_idle(IDLE).build();
        let weigh_flight = |_: &Flight, (_, kept): &(Instant, Kept)| {
            u32::try_from(kept.bytes.len() + 200).unwrap_or(u32::MAX)
        };
        let flights =
            Cache::builder().max_capacity(CAPACITY).weigher(weigh_flight).time_to_live(TOGETHER).build();
        let weigh_decoded = |_: &(Arc<str>, Digest), decoded: &Decoded| {
            u32::try_from(decoded.bytes * EXPANSION).unwrap_or(u32::MAX)
        };
        let decoded =
            Cache::builder().max_capacity(DECODED).weigher(weigh_decoded).time_to_idle(IDLE).build();
        let artifacts = Cache::builder().max_capacity(ARTIFACTS).time_to_idle(IDLE).build();
        let jobs = Cache::builder().max_capacity(JOBS).time_to_idle(IDLE).build();
        let allowances = Cache::builder().max_capacity(JOBS).time_to_idle(IDLE).build();
        let map = Arc::new(map);
        let memory = AnswerMemory::new(MEMORY, MEMORY_SHARE);
        Self { map, pinned, flights, decoded, artifacts, disk, reader, jobs, fetch_time, allowances, memory }
    }

    /// Records the current job of an Installation, and returns the job's view.
    pub(crate) fn of_new_job(
        &self,
        namespace: &str,
        installation: &str,
        job: &str,
        keyring: Arc<Keyring>,
    ) -> JobStores {
        self.jobs.insert((namespace.to_owned(), installation.to_owned()), job.into());
        // Each attempt at a job starts with the full fetch time.
        self.allowances.invalidate(&Scope { namespace: namespace.into(), job: job.into() });
        self.of_job(namespace, installation, job, keyring)
    }

    /// Returns a view for a namespace without a job, which uses no earlier reads.
    pub(crate) fn fresh(&self, namespace: &str, keyring: Arc<Keyring>) -> JobStores {
        self.view(namespace, None, keyring, false)
    }

    /// Returns a view. A call that does not name the job of its scope has a fetch time of its own,
    /// so that it does not use up the job's.
    fn view(
        &self,
        namespace: &str,
        scope: Option<Scope>,
        keyring: Arc<Keyring>,
        is_of_job: bool,
    ) -> JobStores {
        let new =
            || self.fetch_time.map_or_else(Allowance::default, |time| Allowance::of(time, FETCH_TIMEOUT));
        let allowance = match scope.as_ref().filter(|_| is_of_job) {
            Some(scope) => self.allowances.get_with_by_ref(scope, new),
            None => new(),
        };
        // The memory is counted per view; the allowance in the cache outlives the view, so it must
        // not keep the memory.
        let held = self.memory.begin(namespace);
        let (stores, tenant, allowance) = (self.clone(), namespace.into(), allowance.holding(&held));
        JobStores { stores, tenant, scope, keyring, allowance, held, begin: Instant::now() }
    }

    /// Returns the view of a job; without an ID, of the latest job.
    pub(crate) fn of_job(
        &self,
        namespace: &str,
        installation: &str,
        job: &str,
        keyring: Arc<Keyring>,
    ) -> JobStores {
        let is_of_job = !job.is_empty();
        let job = if job.is_empty() {
            self.jobs.get(&(namespace.to_owned(), installation.to_owned()))
        } else {
            Some(job.into())
        };
        let scope = job.map(|job| Scope { namespace: namespace.into(), job });
        self.view(namespace, scope, keyring, is_of_job)
    }
}

impl JobStores {
    /// Returns the namespace for which content is read.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }
}

impl Repositories for JobStores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.stores.map.map().open_with(context, &self.keyring, &self.allowance)?;
        Ok(Arc::new(PinnedRepository { inner, view: self.clone(), context: context.to_json().into() }))
    }
}

#[cfg(test)]
mod tests;
