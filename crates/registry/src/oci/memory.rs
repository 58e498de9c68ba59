//! Memory for what registries and chart repositories answer: all answers of a process together take no more than there is for them.
//!
//! ```text
//! AnswerMemory (one a process) ──begin──> Holding (one piece of work) ──read_all, take──> bytes, until the work is over
//! ```
//!
//! As the module `answer` of `crates/client` has it for clusters, for threads that wait. A piece of work that wants more than there is waits for
//! a moment, and fails then: it gives back what it holds, so that pieces of work never wait for one another for ever.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_component::{Blob, RepositoryError};

/// Every piece of work has so much for itself: large answers of others do not hold up those who ask for something small.
const ALLOWANCE: usize = 256 << 10;
/// How long a piece of work waits for others to give something back.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Room that a body is read into first.
const FIRST: usize = 8 << 10;
/// Bytes that are taken from a body at once.
const PIECE: usize = 16 << 10;

/// The memory of a process for the answers of all registries and chart repositories. Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    share: usize,
    taken: Mutex<Taken>,
    given_back: Condvar,
}

/// Bytes beyond the allowances.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Of each tenant that holds something.
    tenants: HashMap<String, usize>,
}

impl AnswerMemory {
    /// `share` is the most that one piece of work may hold, and all pieces of one tenant beside it, in bytes.
    pub fn new(total: usize, share: usize) -> Self {
        Self(Arc::new(Shared { total, share, taken: Mutex::default(), given_back: Condvar::new() }))
    }

    /// A piece of work of a tenant, say of a namespace, begins; what it holds is given back when the last that refers to it is gone.
    pub fn begin(&self, tenant: &str) -> Arc<Holding> {
        Arc::new(Holding { memory: self.clone(), tenant: tenant.to_owned(), bytes: Mutex::default() })
    }

    /// Bytes that are held now, but for allowances.
    pub fn in_use(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes for a tenant, as soon as they are there; false if they do not come in time.
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
        drop(taken);
        self.0.given_back.notify_all();
    }
}

/// The memory that one piece of work holds.
#[derive(Debug)]
pub struct Holding {
    memory: AnswerMemory,
    tenant: String,
    bytes: Mutex<usize>,
}

/// Bytes beyond the allowance.
fn due(bytes: usize) -> usize {
    bytes.saturating_sub(ALLOWANCE)
}

impl Holding {
    /// Takes so many bytes until they are given back, or this is dropped. `address` is where they come from, for messages.
    ///
    /// # Errors
    ///
    /// It is more than one piece of work may hold, or others give back too little for a while.
    pub fn take(&self, bytes: usize, address: &str) -> Result<(), RepositoryError> {
        // Threads that do the same work wait here for one another.
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

    /// Gives so many of the bytes back.
    pub fn give_back(&self, bytes: usize) {
        let mut held = self.bytes();
        let left = held.saturating_sub(bytes);
        self.memory.give_back(&self.tenant, due(*held) - due(left));
        *held = left;
    }

    /// The whole content, at most `limit` bytes, each paid for before there is room for it. They stay held.
    ///
    /// # Errors
    ///
    /// As [`Holding::take`] and [`Blob::read_all`]; nothing is held then.
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
        assert_eq!(error, "it takes what is fetched for one piece of work beyond 2097152 bytes of memory");
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

    /// A thread that waits goes on as soon as something is given back.
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
