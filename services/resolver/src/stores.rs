//! Where components are read from, with one answer a job (`components.md` 4.3).

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

/// What is kept for jobs, in bytes.
const CAPACITY: u64 = 8 << 20;
/// What decoded descriptors may take, in bytes.
const DECODED: u64 = 64 << 20;
/// How much larger a descriptor is in memory than as JSON, measured: most of it is the room that maps keep free.
const EXPANSION: usize = 12;
/// Memory for the answers of all registries, and what is made of them.
const MEMORY: usize = 256 << 20;
/// Of one piece of work, and of all of a namespace: a closure that fits into a message, as it came and decoded.
const MEMORY_SHARE: usize = 208 << 20;
/// Larger content is read again when it is asked for again; it carries a digest that says whether it is the same.
const LARGEST: u64 = 1 << 20;
/// Nothing is kept for a job that asked for nothing this long.
const IDLE: Duration = Duration::from_secs(600);
/// How long a descriptor that one job has read is there for others that began before.
const TOGETHER: Duration = Duration::from_secs(60);
/// Artifacts of jobs whose digests are known.
const ARTIFACTS: u64 = 20_000;
/// Installations whose latest job is known.
const JOBS: u64 = 10_000;

/// The option for [`FetchTime`].
const FETCH_TIMEOUT: &str = "--fetch-timeout";

/// How long registries may take to give all that is fetched for one job, or for one call without a job; `None` for no limit.
pub(crate) type FetchTime = Option<Duration>;

/// The stores of the service. Clones share what is kept.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    map: Arc<MapFile>,
    pinned: Cache<Pin, Kept>,
    /// With the time at which the reading began.
    flights: Cache<Flight, (Instant, Kept)>,
    /// By context and digest. It may be lost at any time, and costs only time then.
    decoded: Cache<(Arc<str>, Digest), Decoded>,
    /// SHA-256 of the manifests of artifacts that a job has verified: it gets just these then.
    artifacts: Cache<Pin, Arc<str>>,
    /// Contents that are too large for memory.
    disk: Option<DiskCache>,
    /// Who reads descriptors, which strangers have written.
    reader: Evaluators,
    /// The latest job of an Installation, for calls that do not name it.
    jobs: Cache<(String, String), Arc<str>>,
    fetch_time: FetchTime,
    /// The time that jobs have.
    allowances: Cache<Scope, Allowance>,
    memory: AnswerMemory,
}

/// Whether the next worker would fail as this one did. Time of the clock, and the memory of all of them, are up to others, too.
fn is_lasting(error: &ExchangeError) -> bool {
    let depends =
        matches!(error, ExchangeError::Work(WorkError::WallTime { .. } | WorkError::MemoryTotal { .. }));
    error.is_limit() && !depends
}

/// True for errors of the reader's memory, which say nothing of the content.
fn is_of_memory(error: &RepositoryError) -> bool {
    matches!(error, RepositoryError::TooMuch { .. } | RepositoryError::NoRoom { .. })
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

/// A descriptor or content that is being read: whoever asks for it meanwhile, with the same credentials, waits for the same answer.
/// A job takes nothing that was read before it began.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flight {
    keyring: Arc<str>,
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
    /// That of a descriptor; of other content nobody asks for it.
    digest: Option<Digest>,
}

/// Content of a component version.
enum Content {
    Small(Kept),
    /// It goes past memory.
    Large(Blob),
}

/// A descriptor as it was loaded from the repository of a context. Equal bytes are decoded once for all jobs.
#[derive(Debug, Clone)]
struct Decoded {
    /// Length of what was decoded.
    bytes: usize,
    descriptor: LoadedDescriptor,
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
    /// The namespace.
    tenant: Arc<str>,
    /// Without a job nothing is kept.
    scope: Option<Scope>,
    /// Whose credentials registries get.
    keyring: Arc<Keyring>,
    allowance: Allowance,
    /// The memory that this piece of work holds.
    held: Arc<Holding>,
    /// Nothing counts that was read before.
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

    /// Notes the job that an Installation has now, and gives its view.
    pub(crate) fn of_new_job(
        &self,
        namespace: &str,
        installation: &str,
        job: &str,
        keyring: Arc<Keyring>,
    ) -> JobStores {
        self.jobs.insert((namespace.to_owned(), installation.to_owned()), job.into());
        // Each attempt at a job has the whole time.
        self.allowances.invalidate(&Scope { namespace: namespace.into(), job: job.into() });
        self.of_job(namespace, installation, job, keyring)
    }

    /// The view of a namespace for no job: nothing that was seen before counts.
    pub(crate) fn fresh(&self, namespace: &str, keyring: Arc<Keyring>) -> JobStores {
        self.view(namespace, None, keyring, false)
    }

    /// A call that does not name the job of its scope has time of its own: a reader takes none from the job.
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
        // Each piece of work holds its own memory, and the jobs' time is kept without any.
        let held = self.memory.begin(namespace);
        let (stores, tenant, allowance) = (self.clone(), namespace.into(), allowance.holding(&held));
        JobStores { stores, tenant, scope, keyring, allowance, held, begin: Instant::now() }
    }

    /// The view of a job; without an id that of the latest one.
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
    /// The namespace that they are read for.
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

    /// `None` without a job.
    fn pin(&self, name: &str, version: &str, content: Option<&Access>) -> Option<Pin> {
        Some(Pin {
            scope: self.view.scope.clone()?,
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            content: content.cloned(),
        })
    }

    /// Reads a descriptor, or takes what another job has read since this one began.
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

    /// Content, which is kept for the others that wait for it if it is small enough.
    fn content_together(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Content, RepositoryError> {
        let mut large = None;
        // By digest, once the job has verified it: what others get under a tag may be something else by now.
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

    /// The access by which the job gets a content.
    fn pinned_access(&self, name: &str, version: &str, access: &Access) -> Access {
        let pin = self.pin(name, version, Some(access));
        let verified = pin.and_then(|pin| self.stores().artifacts.get(&pin));
        verified.map_or_else(|| access.clone(), |sha256| access.at_digest(&sha256))
    }

    /// One read for all who want the same at the same time.
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
                // Of before this job: a new job looks anew.
                Ok(_) => flights.invalidate(flight),
                // The one that read had no time or memory left; this one may have some.
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

/// Why nothing can be kept.
#[derive(Debug, Clone)]
enum Unkept {
    /// There is no such version.
    Absent,
    /// It is too large to be kept: everybody reads it.
    Large,
    Failed(RepositoryError),
    /// The one that read had no time or memory left, which says nothing of others.
    Late(RepositoryError),
}

impl PinnedRepository {
    /// A descriptor. That there is no such version is not kept beyond those who ask at the same time.
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
        // This piece of work keeps it until its end, also if another one has decoded it.
        let address = format!("the descriptor of {name}:{version}");
        self.view.held.take(kept.bytes.len() * EXPANSION, &address)?;
        let load = || {
            // This is never a thread that serves others.
            let descriptor =
                match block_on(self.stores().reader.load(&self.view.tenant, &kept.bytes, context)) {
                    Ok(loaded) => loaded,
                    // As bad as one that is broken.
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
            // An artifact is kept under the digest of its manifest, and what it is read as is something else.
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
