//! Limits the memory for answers of registries and chart repositories in a process.
//!
//! ```text
//! AnswerMemory (one per process) ──begin──> Holding (one piece of work)
//! Holding ──read_all, take──> bytes, until the work is over
//! ```
//!
//! Works like the module `answer` of `crates/client`, but for blocking threads. A piece of work
//! that wants more memory than there is waits for a moment, and then fails and gives back its
//! memory. So pieces of work never wait for each other for ever.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_component::{Blob, RepositoryError};

/// Bytes that each piece of work has for itself: large answers of others do not delay requests for
/// small ones.
const ALLOWANCE: usize = 256 << 10;
/// Time that a piece of work waits for others to give back memory.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Bytes of the buffer into which a body is read at first.
const FIRST: usize = 8 << 10;
/// Bytes that are read from a body at once.
const PIECE: usize = 16 << 10;

/// Memory of a process for the answers of all registries and chart repositories. Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    share: usize,
    taken: Mutex<Taken>,
    given_back: Condvar,
}

/// Bytes in use beyond the allowances.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Bytes by tenant, of tenants that use memory.
    tenants: HashMap<String, usize>,
}

impl AnswerMemory {
    /// Creates a memory of `total` bytes. `share` is the limit of bytes for one piece of work, and
    /// for all pieces of one tenant together.
    pub fn new(total: usize, share: usize) -> Self {
        Self(Arc::new(Shared { total, share, taken: Mutex::default(), given_back: Condvar::new() }))
    }

    /// Begins a piece of work of a tenant, such as a namespace. Its memory is given back when the
    /// last reference is dropped.
    pub fn begin(&self, tenant: &str) -> Arc<Holding> {
        Arc::new(Holding { memory: self.clone(), tenant: tenant.to_owned(), bytes: Mutex::default() })
    }

    /// Returns the bytes in use, without allowances.
    pub fn in_use(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves bytes for a tenant as soon as they are free. Returns false if that takes too long.
    fn take(&self, tenant: &str, bytes: usize) -> bool {
        let until = Instant::now() + PATIENCE;
        let Shared { total, share, given_back, .. } = &*self.0;
        let mut taken = self.taken();
        loop {
            let of_tenant = taken.tenants.get(tenant).copied().unwrap_or_default();
            if taken.all + bytes <= *total && of_tenant + bytes <= *share {
                taken.all += bytes;
                taken.tenants.insert(tenant.to_owned(), of_tenant + bytes);
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            taken = given_back.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give_back(&self, tenant: &str, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut taken = self.taken();
        taken.all = taken.all.saturating_sub(bytes);
        let of_tenant = taken.tenants.get(tenant).copied().unwrap_or_default().saturating_sub(bytes);
        match of_tenant {
            0 => drop(taken.tenants.remove(tenant)),
            left => drop(taken.tenants.insert(tenant.to_owned(), left)),
        }
        // Release the lock first, or the threads that wake up would wait for it at once.
        drop(taken);
        self.0.given_back.notify_all();
    }
}

/// Memory of one piece of work.
#[derive(Debug)]
pub struct Holding {
    memory: AnswerMemory,
    tenant: String,
    bytes: Mutex<usize>,
}

/// Returns the bytes beyond the allowance.
fn due(bytes: usize) -> usize {
    bytes.saturating_sub(ALLOWANCE)
}

impl Holding {
    /// Reserves bytes until they are given back or this is dropped. `address` is their source, for
    /// messages.
    ///
    /// # Errors
    ///
    /// One piece of work may not have so much, or others do not give back enough in time.
    pub fn take(&self, bytes: usize, address: &str) -> Result<(), RepositoryError> {
        // The lock is held while waiting, so threads of the same piece of work wait for each other
        // here.
        let mut held = self.bytes();
        let wanted = held.saturating_add(bytes);
        let Shared { total, share, .. } = &*self.memory.0;
        if due(wanted) > *share {
            return Err(RepositoryError::TooMuch { address: address.to_owned(), limit: *share as u64 });
        }
        if !self.memory.take(&self.tenant, due(wanted) - due(*held)) {
            let (address, total, share) = (address.to_owned(), *total as u64, *share as u64);
            return Err(RepositoryError::NoRoom { address, total, share });
        }
        *held = wanted;
        Ok(())
    }

    /// Gives back this number of bytes.
    pub fn give_back(&self, bytes: usize) {
        let mut held = self.bytes();
        let left = held.saturating_sub(bytes);
        self.memory.give_back(&self.tenant, due(*held) - due(left));
        *held = left;
    }

    /// Reads the whole content, at most `limit` bytes. Each byte is reserved before its memory is
    /// allocated, and stays reserved.
    ///
    /// # Errors
    ///
    /// Fails as [`Holding::take`] and [`Blob::read_all`] do; then no bytes stay reserved.
    pub fn read_all(&self, blob: Blob, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        let mut bytes = Vec::new();
        let read = self.read_into(&mut bytes, blob, address, limit);
        if read.is_err() {
            self.give_back(bytes.capacity());
        }
        read.map(|()| bytes)
    }

    fn read_into(
        &self,
        bytes: &mut Vec<u8>,
        mut blob: Blob,
        address: &str,
        limit: u64,
    ) -> Result<(), RepositoryError> {
        let too_large = || RepositoryError::TooLarge { address: address.to_owned(), limit };
        if blob.size.is_some_and(|size| size > limit) {
            return Err(too_large());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut piece = [0; PIECE];
        loop {
            let count = match blob.body.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(RepositoryError::of_read(&error, address)),
            };
            let wanted = bytes.len() + count;
            if wanted > limit {
                return Err(too_large());
            }
            let room = bytes.capacity();
            if wanted > room {
                let next = wanted.max(room.saturating_mul(2).min(limit)).max(FIRST);
                self.take(next - room, address)?;
                bytes.reserve_exact(next - bytes.len());
            }
            bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        }
    }

    fn bytes(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let held = *self.bytes();
        self.memory.give_back(&self.tenant, due(held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn memory() -> AnswerMemory {
        AnswerMemory::new(3 * MIB, 2 * MIB)
    }

    fn read(holding: &Holding, bytes: usize) -> Result<Vec<u8>, RepositoryError> {
        let blob = Blob { size: None, ..Blob::from_bytes("", vec![7; bytes]) };
        holding.read_all(blob, "it", MIB as u64)
    }

    #[test]
    fn what_is_read_is_held_until_the_work_is_over() {
        let memory = memory();
        let holding = memory.begin("a");
        assert_eq!(read(&holding, MIB).unwrap().len(), MIB);
        assert_eq!(memory.in_use(), MIB - ALLOWANCE);
        let error = read(&holding, MIB + 1).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 1048576 bytes");
        assert_eq!(memory.in_use(), MIB - ALLOWANCE, "what failed is given back");
        read(&holding, MIB).unwrap();
        let error = read(&holding, MIB).unwrap_err().to_string();
        assert_eq!(
            error,
            "it exceeds the 2097152 bytes of memory for the content that one unit of work fetches"
        );
        drop(holding);
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn a_tenant_has_a_share_and_small_work_goes_on() {
        let memory = memory();
        let own = [memory.begin("a"), memory.begin("a")];
        own[0].take(2 * MIB, "it").unwrap();
        let error = own[1].take(MIB, "it").unwrap_err().to_string();
        assert!(error.contains("3145728 bytes of memory") && error.contains("2097152 for one"), "{error}");
        own[1].take(ALLOWANCE, "it").unwrap();
        let other = memory.begin("b");
        other.take(MIB, "it").unwrap();
        assert!(other.take(MIB, "it").is_err());
        drop((own, other));
        assert_eq!((memory.in_use(), memory.taken().tenants.len()), (0, 0));
    }

    /// A waiting thread continues as soon as enough memory is given back.
    #[test]
    fn waiting_ends_with_room() {
        let memory = memory();
        let (first, second) = (memory.begin("a"), memory.begin("b"));
        first.take(2 * MIB, "it").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.take(2 * MIB, "it"));
            first.give_back(2 * MIB);
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }
}
