//! Where components are read from, with one answer a job (`components.md` 4.3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use groundwork_component::{
    Access, Blob, DescriptorError, LoadedDescriptor, Repositories, Repository, RepositoryContext,
    RepositoryError,
};
use groundwork_registry::{Digest, DiskCache, Keyring};
use groundwork_sandbox::{ExchangeError, WorkError};
use groundwork_sources::MapFile;
use moka::sync::Cache;

use crate::work::Evaluators;

/// What is kept for jobs, in bytes.
const CAPACITY: u64 = 8 << 20;
/// What decoded descriptors may take, in bytes.
const DECODED: u64 = 64 << 20;
/// How much larger a descriptor is in memory than as JSON, measured: most of it is the room that maps keep free.
const EXPANSION: usize = 12;
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
}

/// Whether the next worker would fail as this one did. Time of the clock, and the memory of all of them, are up to others, too.
fn is_lasting(error: &ExchangeError) -> bool {
    let depends =
        matches!(error, ExchangeError::Work(WorkError::WallTime { .. } | WorkError::MemoryTotal { .. }));
    error.is_limit() && !depends
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

/// A descriptor that is being read: whoever asks for it meanwhile, with the same credentials, waits for the same answer.
/// A job takes nothing that was read before it began.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flight {
    keyring: Arc<str>,
    context: Arc<str>,
    name: String,
    version: String,
}

/// What is handed out again.
#[derive(Debug, Clone)]
struct Kept {
    media_type: String,
    bytes: Arc<[u8]>,
    /// That of a descriptor; of other content nobody asks for it.
    digest: Option<Digest>,
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
    /// Without a job nothing is kept.
    scope: Option<Scope>,
    /// Whose credentials registries get.
    keyring: Arc<Keyring>,
    /// Nothing counts that was read before.
    begin: Instant,
}

struct PinnedRepository {
    inner: Arc<dyn Repository>,
    stores: Stores,
    scope: Option<Scope>,
    keyring: Arc<Keyring>,
    begin: Instant,
    context: Arc<str>,
}

impl Stores {
    pub(crate) fn new(map: MapFile, disk: Option<DiskCache>, reader: Evaluators) -> Self {
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
        Self { map: Arc::new(map), pinned, flights, decoded, artifacts, disk, reader, jobs }
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
        JobStores { stores: self.clone(), scope: None, keyring, begin: Instant::now() }
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
        JobStores { stores: self.clone(), scope, keyring, begin: Instant::now() }
    }
}

impl Repositories for JobStores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let inner = self.stores.map.map().open_with(context, &self.keyring)?;
        Ok(Arc::new(PinnedRepository {
            inner,
            stores: self.stores.clone(),
            scope: self.scope.clone(),
            keyring: Arc::clone(&self.keyring),
            begin: self.begin,
            context: context.to_json().into(),
        }))
    }
}

impl PinnedRepository {
    /// `None` without a job.
    fn pin(&self, name: &str, version: &str, content: Option<&Access>) -> Option<Pin> {
        Some(Pin {
            scope: self.scope.clone()?,
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
            content: content.cloned(),
        })
    }

    /// Reads a descriptor, or takes what another job has read since this one began.
    fn read_together(&self, name: &str, version: &str) -> Result<Kept, Arc<Unkept>> {
        let flights = &self.stores.flights;
        let flight = self.flight(name, version);
        let read = || {
            let begin = Instant::now();
            match self.inner.descriptor(name, version) {
                Ok(Some(bytes)) => {
                    let digest = Some(Digest::of(&bytes));
                    Ok((begin, Kept { media_type: String::new(), bytes: bytes.into(), digest }))
                }
                Ok(None) => Err(Unkept::Absent),
                Err(error) => Err(Unkept::Failed(error)),
            }
        };
        loop {
            let (begin, kept) = flights.try_get_with(flight.clone(), read)?;
            if begin >= self.begin {
                return Ok(kept);
            }
            // Of before this job: a new job looks anew.
            flights.invalidate(&flight);
        }
    }

    fn flight(&self, name: &str, version: &str) -> Flight {
        Flight {
            keyring: self.keyring.identity().into(),
            context: Arc::clone(&self.context),
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }
}

/// Why nothing can be kept.
#[derive(Debug, Clone)]
enum Unkept {
    /// There is no such version.
    Absent,
    Failed(RepositoryError),
}

impl PinnedRepository {
    /// A descriptor. That there is no such version is not kept beyond those who ask at the same time.
    fn read(&self, name: &str, version: &str) -> Result<Option<Kept>, RepositoryError> {
        let kept = match self.pin(name, version, None) {
            Some(pin) => {
                let read = || self.read_together(name, version).map_err(|error| (*error).clone());
                self.stores.pinned.try_get_with(pin, read)
            }
            None => self.read_together(name, version),
        };
        match kept {
            Ok(kept) => Ok(Some(kept)),
            Err(error) => match &*error {
                Unkept::Absent => Ok(None),
                Unkept::Failed(error) => Err(error.clone()),
            },
        }
    }
}

impl Repository for PinnedRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.read(name, version)?.map(|kept| kept.bytes.to_vec()))
    }

    fn load(
        &self,
        name: &str,
        version: &str,
        context: &RepositoryContext,
    ) -> Result<Option<LoadedDescriptor>, RepositoryError> {
        let Some(kept) = self.read(name, version)? else { return Ok(None) };
        let load = || {
            // This is never a thread that serves others.
            let descriptor = match block_on(self.stores.reader.load(&kept.bytes, context)) {
                Ok(loaded) => loaded,
                // As bad as one that is broken.
                Err(error) if is_lasting(&error) => Err(DescriptorError::Unread(error.to_string())),
                Err(error) => {
                    let address = format!("the descriptor of {name}:{version}");
                    return Err(RepositoryError::Unreadable { address, cause: error.to_string() });
                }
            };
            Ok(Decoded { bytes: kept.bytes.len(), descriptor })
        };
        let decoded = match &kept.digest {
            Some(digest) => {
                let key = (Arc::clone(&self.context), digest.clone());
                self.stores
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
        if let Some(kept) = pin.as_ref().and_then(|pin| self.stores.pinned.get(pin)) {
            return Ok(Blob::from_bytes(kept.media_type, kept.bytes.to_vec()));
        }
        let digest = access.local_reference().and_then(Digest::parse);
        let disk = self.stores.disk.as_ref().zip(digest);
        let owner = || format!("{}\n{}\n{name}", self.keyring.identity(), self.context);
        if let Some(blob) = disk.as_ref().and_then(|(disk, digest)| disk.get(&owner(), digest)) {
            return Ok(blob);
        }
        let verified = pin.as_ref().and_then(|pin| self.stores.artifacts.get(pin));
        let blob = match verified {
            Some(sha256) => self.inner.content(name, version, &access.at_digest(&sha256))?,
            None => self.inner.content(name, version, access)?,
        };
        if let Some(pin) = pin
            && blob.size.is_some_and(|size| size <= LARGEST)
        {
            let media_type = blob.media_type.clone();
            let bytes = blob.read_all(&access.to_string(), LARGEST)?;
            let kept = Kept { media_type: media_type.clone(), bytes: bytes.as_slice().into(), digest: None };
            self.stores.pinned.insert(pin, kept);
            return Ok(Blob::from_bytes(media_type, bytes));
        }
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
            self.stores.artifacts.insert(pin, sha256.as_str().into());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
