//! Bounded cache of contents on disk, by owner and digest (`components.md` 4.3).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_component::{Blob, RepositoryError};
use tempfile::NamedTempFile;

use crate::blobs::LARGEST_BLOB;
use crate::digest::{Digest, Verified};

/// Divisor of the space: a single content that is larger than this part of it is not cached, so
/// that it does not evict all others.
const LARGEST_SHARE: u64 = 4;

/// Folder with cached contents. Clones share it.
///
/// Keys contain the owner: a caller without access does not get content that another one has
/// fetched. Content is compared with its digest on every read, and forgotten if it has changed on
/// disk.
#[derive(Debug, Clone)]
pub struct DiskCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    /// Bytes of all contents together.
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Size and time of the last use, by file name.
    entries: HashMap<String, (u64, u64)>,
    total: u64,
    now: u64,
}

impl DiskCache {
    /// Opens the cache in a folder, and creates the folder if it does not exist. Entries of an
    /// earlier process are used, and evicted oldest first. Other files are left alone.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn open(root: &Path, limit: u64) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = entry.metadata()?;
            if metadata.is_file() && is_key(&name) {
                found.push((metadata.modified().ok(), name, metadata.len()));
            }
        }
        found.sort();
        let mut state = State::default();
        for (_, name, size) in found {
            state.add(name, size);
        }
        let cache = Self(Arc::new(Shared { root: root.to_owned(), limit, state: Mutex::new(state) }));
        cache.0.evict(&mut cache.0.lock());
        Ok(cache)
    }

    /// Returns the content with this digest, if `owner` has read it before.
    pub fn get(&self, owner: &str, digest: &Digest) -> Option<Blob> {
        let name = key(owner, digest);
        let mut state = self.0.lock();
        let size = state.touch(&name)?;
        // Opening the file may take long, so release the lock first.
        drop(state);
        let file = File::open(self.0.root.join(&name)).ok().filter(|file| {
            file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == size)
        });
        let Some(file) = file else {
            self.0.forget(&name);
            return None;
        };
        let address = self.0.root.join(&name).display().to_string();
        let body = Verified::new(file, digest.clone(), address, LARGEST_BLOB);
        let body = Forgetting { inner: body, cache: Arc::clone(&self.0), name };
        Some(Blob { media_type: String::new(), size: Some(size), body: Box::new(body) })
    }

    /// Returns a blob that enters the cache once it has been read to its end. The blob must compare
    /// itself with this digest.
    pub fn keep(&self, owner: &str, digest: &Digest, blob: Blob) -> Blob {
        let too_large = |size: u64| size > self.0.limit / LARGEST_SHARE;
        if blob.size.is_some_and(too_large) {
            return blob;
        }
        // If the cache cannot be written, the content is still available without it.
        let Ok(file) = NamedTempFile::new_in(&self.0.root) else { return blob };
        let tee = Tee {
            inner: blob.body,
            file: Some(file),
            size: 0,
            cache: Arc::clone(&self.0),
            name: key(owner, digest),
        };
        Blob { body: Box::new(tee), ..blob }
    }

    /// Returns the bytes of all entries.
    pub fn size(&self) -> u64 {
        self.0.lock().total
    }
}

/// Returns a file name that does not reveal the owner.
fn key(owner: &str, digest: &Digest) -> String {
    Digest::of(format!("{owner}\n{digest}").as_bytes()).file_name()
}

fn is_key(name: &str) -> bool {
    name.contains('.') && Digest::parse(&name.replacen('.', ":", 1)).is_some()
}

impl State {
    fn add(&mut self, name: String, size: u64) {
        self.now += 1;
        if let Some((former, _)) = self.entries.insert(name, (size, self.now)) {
            self.total -= former;
        }
        self.total += size;
    }

    fn touch(&mut self, name: &str) -> Option<u64> {
        self.now += 1;
        let entry = self.entries.get_mut(name)?;
        entry.1 = self.now;
        Some(entry.0)
    }

    fn remove(&mut self, name: &str) {
        if let Some((size, _)) = self.entries.remove(name) {
            self.total -= size;
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts the entries that have not been used for the longest time.
    fn evict(&self, state: &mut State) {
        while state.total > self.limit {
            let oldest = state.entries.iter().min_by_key(|(_, (_, used))| *used);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            state.remove(&name);
            // A file that is gone already is fine, and one that cannot be removed is found again by
            // the next process.
            drop(fs::remove_file(self.root.join(name)));
        }
    }

    fn forget(&self, name: &str) {
        self.lock().remove(name);
        drop(fs::remove_file(self.root.join(name)));
    }

    fn take_in(&self, file: NamedTempFile, name: &str, size: u64) {
        if file.persist(self.root.join(name)).is_ok() {
            let mut state = self.lock();
            state.add(name.to_owned(), size);
            self.evict(&mut state);
        }
    }
}

/// Reader of cached content that removes the entry if its digest does not match.
struct Forgetting<R> {
    inner: R,
    cache: Arc<Shared>,
    name: String,
}

impl<R: Read> Read for Forgetting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.inner.read(buffer);
        if let Err(error) = &result
            && matches!(RepositoryError::of_read(error, &self.name), RepositoryError::Digest { .. })
        {
            self.cache.forget(&self.name);
        }
        result
    }
}

/// Reader that copies content into a file.
struct Tee {
    inner: Box<dyn Read + Send>,
    /// `None` once the file has entered the cache, or could not be written.
    file: Option<NamedTempFile>,
    size: u64,
    cache: Arc<Shared>,
    name: String,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.inner.read(buffer) {
            Ok(count) => count,
            Err(error) => {
                // Content that fails before its end is not cached. An interrupted read is not a
                // failure, since the caller retries it.
                if error.kind() != io::ErrorKind::Interrupted {
                    self.file = None;
                }
                return Err(error);
            }
        };
        if buffer.is_empty() {
            return Ok(0);
        }
        self.size += count as u64;
        if count == 0 {
            if let Some(file) = self.file.take() {
                self.cache.take_in(file, &self.name, self.size);
            }
        } else if let Some(file) = &mut self.file
            && (self.size > self.cache.limit / LARGEST_SHARE || file.write_all(&buffer[..count]).is_err())
        {
            self.file = None;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blob: Blob) -> Result<Vec<u8>, RepositoryError> {
        blob.read_all("blob", 1 << 20)
    }

    fn kept(cache: &DiskCache, owner: &str, content: &[u8]) -> Digest {
        let digest = Digest::of(content);
        let blob = cache.keep(owner, &digest, Blob::from_bytes("", content.to_vec()));
        assert_eq!(read(blob).unwrap(), content);
        digest
    }

    #[test]
    fn what_was_read_is_found_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1000).unwrap();
        let digest = kept(&cache, "a", b"seven");
        assert_eq!(read(cache.get("a", &digest).unwrap()).unwrap(), b"seven");
        assert!(cache.get("b", &digest).is_none() && cache.get("a", &Digest::of(b"x")).is_none());
        // The next process finds the entry, too, and leaves other files alone.
        fs::write(folder.path().join("other"), "x").unwrap();
        let next = DiskCache::open(folder.path(), 1000).unwrap();
        assert_eq!((read(next.get("a", &digest).unwrap()).unwrap(), next.size()), (b"seven".to_vec(), 5));
        DiskCache::open(folder.path(), 0).unwrap();
        assert!(next.get("a", &digest).is_none() && folder.path().join("other").exists());
    }

    #[test]
    fn the_bound_holds() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 100).unwrap();
        let content = |number: u8| vec![number; 20];
        let digests: Vec<Digest> = (0..5).map(|number| kept(&cache, "a", &content(number))).collect();
        assert!(cache.get("a", &digests[0]).is_some());
        let last = kept(&cache, "a", &content(9));
        assert_eq!(cache.size(), 100);
        // The first entry was used again, so the second one was evicted.
        let present: Vec<bool> = digests.iter().map(|digest| cache.get("a", digest).is_some()).collect();
        assert_eq!(present, [true, false, true, true, true]);
        assert!(cache.get("a", &last).is_some());
        let large = kept(&cache, "a", &[7; 26]);
        assert!(cache.get("a", &large).is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn what_is_broken_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 1000).unwrap();
        let digest = kept(&cache, "a", b"seven");
        fs::write(folder.path().join(key("a", &digest)), "eight").unwrap();
        assert!(matches!(read(cache.get("a", &digest).unwrap()), Err(RepositoryError::Digest { .. })));
        assert!(cache.get("a", &digest).is_none());

        let failing = Blob {
            media_type: String::new(),
            size: None,
            body: Box::new(Verified::new(&b"eight"[..], digest.clone(), "x".to_owned(), 100)),
        };
        assert!(read(cache.keep("a", &digest, failing)).is_err());
        let half = cache.keep("a", &digest, Blob::from_bytes("", b"seven".to_vec()));
        drop(half);
        assert!(cache.get("a", &digest).is_none());
        assert_eq!((cache.size(), fs::read_dir(folder.path()).unwrap().count()), (0, 0));
    }
}
