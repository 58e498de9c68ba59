//! Reads answers of foreign servers: each up to its own limit, and all together within a memory
//! budget of the process.
//!
//! ```text
//! Memory (one per process) ──begin──> Holding (piece of work) ──read, take──> Held (one answer)
//! ```
//!
//! A piece of work that wants more memory than there is waits for a moment, and then fails and
//! gives back its memory. So pieces of work never wait for each other for ever.

use std::collections::HashMap;
use std::error::Error;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Bytes of one permit.
const UNIT: usize = 1 << 10;
/// Bytes that each piece of work has for itself: large answers of others do not delay requests for
/// small ones.
const ALLOWANCE: usize = 256 << 10;
/// Bytes of the buffer for an answer of unknown length.
const FIRST: usize = 8 << 10;

/// Limit of one kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Noun with its article, such as `an object`.
    pub what: &'static str,
    pub bytes: usize,
}

/// Reason that an answer was not read. Each message follows the name of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("answers with more than {}, the limit for {}", size(.0.bytes), .0.what)]
    TooLong(Limit),
    #[error("answers with content that takes more than {} of memory, the limit for one unit of work", size(*.0))]
    TooMuch(usize),
    #[error("is not read now: the answers of all servers together use the {} of memory that they may have", size(*.0))]
    NoRoom(usize),
    #[error("sends an incomplete or damaged answer: {0}")]
    Broken(String),
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Memory of a process for the answers of all servers.
#[derive(Debug, Clone)]
pub struct Memory {
    free: Arc<Semaphore>,
    /// Free permits of each tenant that uses memory.
    tenants: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
    total: usize,
    share: usize,
    patience: Duration,
}

impl Memory {
    /// Creates a memory of `total` bytes. `share` is the limit of bytes for one piece of work, and
    /// for all pieces of one tenant together. `patience` is the time that a piece of work waits for
    /// others to give back memory.
    pub fn new(total: usize, share: usize, patience: Duration) -> Self {
        let permits = (total / UNIT).min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), tenants: Arc::default(), total, share, patience }
    }

    /// Begins a piece of work of a tenant, such as a namespace. Its memory is given back when the
    /// last reference is dropped.
    pub fn begin(&self, tenant: &str) -> Arc<Holding> {
        Arc::new(Holding { memory: self.clone(), tenant: self.of(tenant), taken: Mutex::default() })
    }

    /// Returns the free permits of a tenant.
    fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        tenants.retain(|_, free| free.strong_count() > 0);
        let free = Arc::new(Semaphore::new((self.share / UNIT).min(Semaphore::MAX_PERMITS)));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&free));
        free
    }

    /// Returns the bytes in use, without allowances.
    pub fn in_use(&self) -> usize {
        self.total.saturating_sub(self.free.available_permits() * UNIT)
    }
}

/// Memory of one piece of work.
#[derive(Debug)]
pub struct Holding {
    memory: Memory,
    tenant: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    permits: Option<Permits>,
    /// Permits that requests wait for.
    awaited: usize,
}

/// Permits of the tenant and of the process, the same number of both.
#[derive(Debug)]
struct Permits {
    of_tenant: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Permits {
    fn merge(&mut self, more: Self) {
        self.of_tenant.merge(more.of_tenant);
        self.of_all.merge(more.of_all);
    }

    fn give_back(&mut self, count: usize) {
        drop((self.of_tenant.split(count), self.of_all.split(count)));
    }
}

impl Taken {
    fn permits(&self) -> usize {
        self.permits.as_ref().map_or(0, |permits| permits.of_all.num_permits())
    }

    /// Returns the permits for the bytes beyond the allowance.
    fn due(&self) -> usize {
        self.bytes.saturating_sub(ALLOWANCE).div_ceil(UNIT)
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        let surplus = self.permits().saturating_sub(self.due());
        if surplus > 0
            && let Some(permits) = &mut self.permits
        {
            permits.give_back(surplus);
        }
    }
}

impl Holding {
    /// Reserves bytes until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// [`AnswerError::TooMuch`], or [`AnswerError::NoRoom`] if others do not give back enough in
    /// time.
    pub async fn take(self: &Arc<Self>, bytes: usize) -> Result<Held, AnswerError> {
        let mut held = Held { holding: Arc::clone(self), bytes: 0 };
        held.grow(bytes).await?;
        Ok(held)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn add(&self, bytes: usize) -> Result<(), AnswerError> {
        let missing = {
            let mut taken = self.taken();
            if taken.bytes.saturating_add(bytes) > self.memory.share {
                return Err(AnswerError::TooMuch(self.memory.share));
            }
            taken.bytes += bytes;
            let missing = taken.due().saturating_sub(taken.permits() + taken.awaited);
            taken.awaited += missing;
            missing
        };
        if missing == 0 {
            return Ok(());
        }
        // The caller may drop this future at any time; `Request` then cleans up.
        let mut request = Request { holding: self, bytes, missing };
        let (own, free) = (Arc::clone(&self.tenant), Arc::clone(&self.memory.free));
        let count = u32::try_from(missing).unwrap_or(u32::MAX);
        let acquire = async {
            // Take the tenant's permits first: a request that waits for its own tenant must not
            // keep permits from others.
            let of_tenant = own.acquire_many_owned(count).await?;
            Ok::<_, AcquireError>(Permits { of_tenant, of_all: free.acquire_many_owned(count).await? })
        };
        match tokio::time::timeout(self.memory.patience, acquire).await {
            Ok(Ok(permits)) => {
                // The bytes are granted, so dropping `request` must not give them back.
                request.bytes = 0;
                let mut taken = self.taken();
                match &mut taken.permits {
                    Some(held) => held.merge(permits),
                    none => *none = Some(permits),
                }
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(AnswerError::NoRoom(self.memory.total)),
        }
    }
}

/// Request that waits for permits. Dropping it gives back the requested bytes, unless they have
/// been granted.
struct Request<'h> {
    holding: &'h Holding,
    bytes: usize,
    missing: usize,
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let mut taken = self.holding.taken();
        taken.awaited = taken.awaited.saturating_sub(self.missing);
        taken.give_back(self.bytes);
    }
}

/// Memory of one answer, given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    holding: Arc<Holding>,
    bytes: usize,
}

impl Held {
    /// Keeps the bytes reserved until the piece of work is over, for data that was parsed from the
    /// answer and stays.
    pub fn keep(mut self) {
        self.bytes = 0;
    }

    async fn grow(&mut self, bytes: usize) -> Result<(), AnswerError> {
        self.holding.add(bytes).await?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holding.taken().give_back(self.bytes);
    }
}

/// Buffer that is filled piece by piece. The bytes are reserved before their memory is allocated.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    held: Held,
    limit: Limit,
}

impl Buffer {
    /// # Errors
    ///
    /// As [`Holding::take`].
    pub async fn new(limit: Limit, holding: &Arc<Holding>) -> Result<Self, AnswerError> {
        Ok(Self { bytes: Vec::new(), held: holding.take(0).await?, limit })
    }

    /// # Errors
    ///
    /// There are more bytes than the limit allows, or than there is room for.
    pub async fn push(&mut self, piece: &[u8]) -> Result<(), AnswerError> {
        let wanted = self.bytes.len().saturating_add(piece.len());
        if wanted > self.limit.bytes {
            return Err(AnswerError::TooLong(self.limit));
        }
        let room = self.bytes.capacity();
        if wanted > room {
            let next = wanted.max(room.saturating_mul(2).min(self.limit.bytes)).max(FIRST);
            self.held.grow(next - room).await?;
            self.bytes.reserve_exact(next - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the first bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.bytes.drain(..bytes.min(self.bytes.len()));
    }

    /// Returns the bytes, and their reservation.
    pub fn into_parts(mut self) -> (Vec<u8>, Held) {
        (mem::take(&mut self.bytes), self.held)
    }
}

/// Returns the innermost cause, since the errors that wrap it say less.
fn innermost_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Reads an answer to its end. The caller limits the time.
///
/// # Errors
///
/// The answer is over its limit, needs more memory than there is, or breaks off.
pub async fn read<B>(body: B, limit: Limit, holding: &Arc<Holding>) -> Result<(Vec<u8>, Held), AnswerError>
where
    B: Body<Data = Bytes, Error: Error>,
{
    // With a known length, fail before the first byte.
    if body.size_hint().lower() > limit.bytes as u64 {
        return Err(AnswerError::TooLong(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut buffer = Buffer::new(limit, holding).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| AnswerError::Broken(innermost_cause(&error)))?;
        if let Some(piece) = frame.data_ref() {
            buffer.push(piece).await?;
        }
    }
    Ok(buffer.into_parts())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;

    use super::*;

    const OBJECT: Limit = Limit { what: "an object", bytes: 1 << 20 };
    const MIB: usize = 1 << 20;

    fn body(bytes: usize) -> impl Body<Data = Bytes, Error = Infallible> {
        Full::new(Bytes::from(vec![b'x'; bytes]))
    }

    fn memory() -> Memory {
        Memory::new(2 * MIB, MIB + ALLOWANCE, Duration::from_millis(20))
    }

    #[tokio::test]
    async fn an_answer_may_have_so_much_and_no_more() {
        let holding = memory().begin("a");
        assert_eq!(read(body(OBJECT.bytes), OBJECT, &holding).await.unwrap().0.len(), OBJECT.bytes);
        let error = read(body(OBJECT.bytes + 1), OBJECT, &holding).await.err().unwrap();
        assert_eq!(error.to_string(), "answers with more than 1 MiB, the limit for an object");
    }

    #[tokio::test]
    async fn what_is_read_is_given_back() {
        let memory = memory();
        let holding = memory.begin("a");
        let (_, held) = read(body(MIB), OBJECT, &holding).await.unwrap();
        assert_eq!(memory.in_use(), MIB - ALLOWANCE);
        drop(held);
        assert_eq!(memory.in_use(), 0);
        holding.take(MIB).await.unwrap().keep();
        assert_eq!(memory.in_use(), MIB - ALLOWANCE);
        assert!(matches!(holding.take(MIB).await, Err(AnswerError::TooMuch(_))));
        drop(holding);
        assert_eq!(memory.in_use(), 0);
    }

    /// Two pieces of work that each have half of the memory and want more do not wait for each
    /// other for ever, and small work continues beside them.
    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let memory = memory();
        let (left, right) = (memory.begin("a"), memory.begin("b"));
        let half = MIB / 2 + ALLOWANCE;
        left.take(half).await.unwrap().keep();
        right.take(half).await.unwrap().keep();
        let third = memory.begin("c");
        third.take(MIB + ALLOWANCE - 1).await.unwrap().keep();
        let (one, other) = tokio::join!(left.take(MIB / 2), right.take(MIB / 2));
        assert!(matches!((&one, &other), (Err(AnswerError::NoRoom(_)), Err(AnswerError::NoRoom(_)))));
        memory.begin("d").take(ALLOWANCE).await.unwrap();
        drop(third);
        let (one, other) = tokio::join!(left.take(MIB / 2), right.take(MIB / 2));
        assert!(one.is_ok() && other.is_ok());
        drop((one, other, left, right));
        assert_eq!(memory.in_use(), 0);
    }

    /// All pieces of work of one tenant together have the share of one, and other tenants are not
    /// affected.
    #[tokio::test]
    async fn a_tenant_has_a_share() {
        let memory = memory();
        let own = [memory.begin("a"), memory.begin("a")];
        own[0].take(MIB).await.unwrap().keep();
        assert!(matches!(own[1].take(MIB).await, Err(AnswerError::NoRoom(_))));
        memory.begin("b").take(MIB).await.unwrap();
        drop(own);
        memory.begin("a").take(MIB).await.unwrap();
        assert_eq!(memory.in_use(), 0);
    }

    /// A caller that stops waiting leaves no bytes reserved.
    #[tokio::test]
    async fn waiting_may_end_at_any_time() {
        let memory = Memory::new(MIB, 4 * MIB, Duration::from_secs(60));
        let holding = memory.begin("a");
        let taking = holding.take(2 * MIB);
        assert!(tokio::time::timeout(Duration::from_millis(10), taking).await.is_err());
        assert_eq!(memory.in_use(), 0);
        holding.take(MIB + ALLOWANCE).await.unwrap();
    }
}
