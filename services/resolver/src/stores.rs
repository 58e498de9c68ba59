//! Stores from which components are read. Within a job, each version has one answer
//! (`components.md` 4.3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use groundwork_component::{
    Access, Blob, DescriptorError, LoadedDescriptor, Repositories, Repository, RepositoryContext,
    RepositoryError,
};
use groundwork_registry::sources::MapFile;
use groundwork_registry::{Allowance, AnswerMemory, Digest, DiskCache, Holding, Keyring};
use groundwork_sandbox::{ExchangeError, WorkError};
use moka::sync::Cache;

use crate::work::Evaluators;

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

/// Reports whether another worker would fail in the same way. Timeouts and a lack of total memory
/// also depend on other work, so they do not count.
fn is_lasting(error: &ExchangeError) -> bool {
    let depends =
        matches!(error, ExchangeError::Work(WorkError::WallTime { .. } | WorkError::MemoryTotal { .. }));
    error.is_limit() && !depends
}

/// Returns true for errors of the reader's memory, which are not caused by the content.
fn is_of_memory(error: &RepositoryError) -> bool {
    matches!(error, RepositoryError::TooMuch { .. } | RepositoryError::NoRoom { .. })
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

/// Content of a component version.
enum Content {
    Small(Kept),
    /// Content that is not cached in memory.
    Large(Blob),
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

struct PinnedRepository {
    inner: Arc<dyn Repository>,
    view: JobStores,
    context: Arc<str>,
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

impl PinnedRepository {
    fn stores(&self) -> &Stores {
        &self.view.stores
    }

    /// Returns the key of content in a job; `None` without a job.
    fn pin(&self, name: &str, version: &str, content: Option<&Access>) -> Option<Pin> {
        Some(Pin {
            scope: self.view.scope.clone()?,
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            content: content.cloned(),
        })
    }

    /// Reads a descriptor, or returns the one that another job has read since this job began.
    fn read_together(&self, name: &str, version: &str) -> Result<Kept, Arc<Unkept>> {
        self.together(&self.flight(name, version, None), || match self.inner.descriptor(name, version) {
            Ok(Some(bytes)) => {
                let digest = Some(Digest::of(&bytes));
                Ok(Kept { media_type: String::new(), bytes: bytes.into(), digest })
            }
            Ok(None) => Err(Unkept::Absent),
            Err(error) => Err(Unkept::Failed(error)),
        })
    }

    /// Reads content. If it is small enough, the jobs that wait for it share it.
    fn content_together(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Content, RepositoryError> {
        let mut large = None;
        // Verified content is read by its digest: the tag may point to other content by now.
        let access = &self.pinned_access(name, version, access);
        let flight = self.flight(name, version, Some(access));
        let kept = self.together(&flight, || {
            let blob = self.inner.content(name, version, access).map_err(Unkept::Failed)?;
            if blob.size.is_none_or(|size| size > LARGEST) {
                large = Some(blob);
                return Err(Unkept::Large);
            }
            let media_type = blob.media_type.clone();
            let bytes = self.view.allowance.read_all(blob, &access.to_string(), LARGEST);
            let bytes = bytes.map_err(Unkept::Failed)?;
            Ok(Kept { media_type, bytes: bytes.into(), digest: None })
        });
        match (kept, large) {
            (Ok(kept), _) => Ok(Content::Small(kept)),
            (Err(_), Some(blob)) => Ok(Content::Large(blob)),
            (Err(error), None) => match &*error {
                Unkept::Failed(error) | Unkept::Late(error) => Err(error.clone()),
                Unkept::Absent | Unkept::Large => {
                    self.inner.content(name, version, access).map(Content::Large)
                }
            },
        }
    }

    /// Returns the access with the verified digest, if the job has one.
    fn pinned_access(&self, name: &str, version: &str, access: &Access) -> Access {
        let pin = self.pin(name, version, Some(access));
        let verified = pin.and_then(|pin| self.stores().artifacts.get(&pin));
        verified.map_or_else(|| access.clone(), |sha256| access.at_digest(&sha256))
    }

    /// Runs one read for all jobs that need the same content at the same time.
    fn together(
        &self,
        flight: &Flight,
        read: impl FnOnce() -> Result<Kept, Unkept>,
    ) -> Result<Kept, Arc<Unkept>> {
        let flights = &self.stores().flights;
        let mut read = Some(read);
        loop {
            let begin = Instant::now();
            let own = || {
                let begin = Instant::now();
                match read.take().map_or(Err(Unkept::Absent), |read| read()) {
                    Ok(kept) => Ok((begin, kept)),
                    Err(Unkept::Failed(error)) if self.is_late() || is_of_memory(&error) => {
                        Err(Unkept::Late(error))
                    }
                    Err(error) => Err(error),
                }
            };
            let read_together = flights.try_get_with_by_ref(flight, own);
            let has_waited = read.is_some();
            if has_waited {
                self.view.allowance.charge(begin.elapsed());
            }
            match read_together {
                Ok((begin, kept)) if begin >= self.view.begin => return Ok(kept),
                // A read from before this job is not used, since a new job reads again.
                Ok(_) => flights.invalidate(flight),
                // The job that read ran out of time or memory. This job may have more, so it reads
                // itself.
                Err(error) if has_waited && matches!(*error, Unkept::Late(_)) && !self.is_late() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_late(&self) -> bool {
        self.view.allowance.is_used_up()
    }

    fn flight(&self, name: &str, version: &str, content: Option<&Access>) -> Flight {
        Flight {
            keyring: self.view.keyring.identity().into(),
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            content: content.cloned(),
        }
    }
}

/// Reason why an answer is not shared.
#[derive(Debug, Clone)]
enum Unkept {
    /// The version does not exist.
    Absent,
    /// The content is too large for memory, so each job reads it.
    Large,
    Failed(RepositoryError),
    /// The reading job ran out of its own time or memory. Other jobs may succeed.
    Late(RepositoryError),
}

impl PinnedRepository {
    /// Reads a descriptor. The absence of a version is only shared with jobs that wait for this
    /// read.
    fn read(&self, name: &str, version: &str) -> Result<Option<Kept>, RepositoryError> {
        let kept = match self.pin(name, version, None) {
            Some(pin) => {
                let read = || self.read_together(name, version).map_err(|error| (*error).clone());
                self.stores().pinned.try_get_with(pin, read)
            }
            None => self.read_together(name, version),
        };
        match kept {
            Ok(kept) => Ok(Some(kept)),
            Err(error) => match &*error {
                Unkept::Failed(error) | Unkept::Late(error) => Err(error.clone()),
                Unkept::Absent | Unkept::Large => Ok(None),
            },
        }
    }
}

impl Repository for PinnedRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(kept) = self.read(name, version)? else { return Ok(None) };
        self.view.held.take(kept.bytes.len(), &format!("the descriptor of {name}:{version}"))?;
        Ok(Some(kept.bytes.to_vec()))
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        let Some(kept) = self.read(name, version)? else { return Ok(None) };
        // Count the memory for this job, even if another job has decoded the descriptor: the job
        // holds it until its end.
        let address = format!("the descriptor of {name}:{version}");
        self.view.held.take(kept.bytes.len() * EXPANSION, &address)?;
        let load = || {
            // This is a blocking thread, so waiting here delays no other call.
            let descriptor =
                match block_on(self.stores().reader.load(&self.view.tenant, &kept.bytes, context)) {
                    Ok(loaded) => loaded,
                    // A descriptor that no worker can decode counts as broken.
                    Err(error) if is_lasting(&error) => Err(DescriptorError::Unread(error.to_string())),
                    Err(error) => {
                        let (address, cause) = (address.clone(), error.to_string());
                        return Err(RepositoryError::Unreadable { address, cause });
                    }
                };
            Ok(Decoded { bytes: kept.bytes.len(), descriptor })
        };
        let decoded = match &kept.digest {
            Some(digest) => {
                let key = (Arc::clone(&self.context), digest.clone());
                self.stores()
                    .decoded
                    .try_get_with(key, load)
                    .map_err(|error: Arc<RepositoryError>| (*error).clone())
            }
            None => load(),
        };
        Ok(Some(decoded?.descriptor))
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let pin = self.pin(name, version, Some(access));
        if let Some(kept) = pin.as_ref().and_then(|pin| self.stores().pinned.get(pin)) {
            return Ok(Blob::from_bytes(kept.media_type, kept.bytes.to_vec()));
        }
        let digest = access.local_reference().and_then(Digest::parse);
        let disk = self.stores().disk.as_ref().zip(digest);
        let owner = || format!("{}\n{}\n{name}", self.view.keyring.identity(), self.context);
        if let Some(blob) = disk.as_ref().and_then(|(disk, digest)| disk.get(&owner(), digest)) {
            return Ok(blob);
        }
        let blob = match self.content_together(name, version, access)? {
            Content::Small(kept) => {
                if let Some(pin) = pin {
                    self.stores().pinned.insert(pin, kept.clone());
                }
                return Ok(Blob::from_bytes(kept.media_type, kept.bytes.to_vec()));
            }
            Content::Large(blob) => blob,
        };
        Ok(match disk {
            // An artifact is not cached: its digest is that of the manifest, not of the bytes that
            // are read.
            Some((disk, digest)) if !access.is_artifact() => disk.keep(&owner(), &digest, blob),
            _ => blob,
        })
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        let found = self.inner.artifact_digest(name, version, access)?;
        if let (Some(pin), Some(sha256)) = (self.pin(name, version, Some(access)), &found) {
            self.stores().artifacts.insert(pin, sha256.as_str().into());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
