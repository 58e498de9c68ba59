//! Repository of a job: each version has one answer in the job, and reads at the same time are
//! shared between jobs with the same credentials.

use std::sync::Arc;
use std::time::Instant;

use futures::executor::block_on;
use groundwork_component::{
    Access, Blob, DescriptorError, LoadedDescriptor, Repository, RepositoryContext, RepositoryError,
};
use groundwork_registry::Digest;
use groundwork_sandbox::{ExchangeError, WorkError};

use super::{Decoded, EXPANSION, Flight, JobStores, Kept, LARGEST, Pin, Stores};

/// Repository as a job sees it.
pub(super) struct PinnedRepository {
    pub(super) inner: Arc<dyn Repository>,
    pub(super) view: JobStores,
    pub(super) context: Arc<str>,
}

/// Content of a component version.
enum Content {
    Small(Kept),
    /// Content that is not cached in memory.
    Large(Blob),
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
