//! Time and memory for everything that is fetched for one purpose: a job, an item, a call.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_component::{Blob, RepositoryError};

use super::memory::Holding;

/// Bytes that extend the time by a second: a large content may take longer, as long as it arrives
/// at this rate.
const BYTES_PER_SECOND: u64 = 1 << 20;
/// Default time, if the caller sets none.
const UNSAID: Duration = Duration::from_secs(300);

/// Time limit for all waits for servers together, which grows with the bytes that arrive, and
/// memory for the answers. Clones share both.
///
/// Only time spent waiting for a server counts. The default has no limits.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    time: Option<Arc<Limited>>,
    memory: Option<Arc<Holding>>,
}

#[derive(Debug)]
struct Limited {
    time: Duration,
    /// Command-line option that sets the time, for messages.
    option: &'static str,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    time: Duration,
    bytes: u64,
    answers: u32,
}

impl Allowance {
    /// Creates an allowance of this time, and a second more for each answer and each MiB that
    /// arrives. Messages name `option`.
    pub fn of(time: Duration, option: &'static str) -> Self {
        Self { time: Some(Arc::new(Limited { time, option, used: Mutex::default() })), memory: None }
    }

    /// Creates the allowance of a command, which has no option for it.
    pub(crate) fn unsaid() -> Self {
        Self::of(UNSAID, "the time of a command")
    }

    /// Returns an allowance with the same time, and the memory of one piece of work.
    #[must_use]
    pub fn holding(&self, memory: &Arc<Holding>) -> Self {
        Self { time: self.time.clone(), memory: Some(Arc::clone(memory)) }
    }

    /// Reads the whole content, at most `limit` bytes; `address` is its name in messages. The
    /// memory stays reserved until the piece of work ends.
    ///
    /// # Errors
    ///
    /// Fails as [`Blob::read_all`] does, and if there is not enough memory.
    pub fn read_all(&self, blob: Blob, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        match &self.memory {
            Some(memory) => memory.read_all(blob, address, limit),
            None => blob.read_all(address, limit),
        }
    }

    /// Gives back the memory of content that [`Self::read_all`] returned, before the piece of work
    /// ends.
    pub(crate) fn give_back(&self, content: Vec<u8>) {
        let bytes = content.capacity();
        drop(content);
        if let Some(memory) = &self.memory {
            memory.give_back(bytes);
        }
    }

    /// Reports whether the time is used up.
    pub fn is_used_up(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Returns the remaining time; `None` without a limit.
    pub(super) fn left(&self) -> Option<Duration> {
        let limited = self.time.as_ref()?;
        let used = limited.used();
        let gained =
            Duration::from_secs(used.bytes / BYTES_PER_SECOND) + Duration::from_secs(used.answers.into());
        let time = limited.time.saturating_add(gained);
        Some(time.saturating_sub(used.time))
    }

    /// Returns `time`, or the remaining time if that is shorter.
    pub(super) fn cap(&self, time: Duration) -> Duration {
        self.left().map_or(time, |left| left.min(time))
    }

    /// Measures a wait, and counts its time and the bytes that arrive.
    pub(super) fn spend<T>(&self, wait: impl FnOnce() -> T, bytes_of: impl FnOnce(&T) -> usize) -> T {
        let Some(limited) = &self.time else { return wait() };
        let begin = Instant::now();
        let came = wait();
        let mut used = limited.used();
        used.time += begin.elapsed();
        used.bytes += bytes_of(&came) as u64;
        drop(used);
        came
    }

    /// Measures the wait for the beginning of an answer, and adds a second for an answer that
    /// arrives: many small answers do not mean that a server is slow.
    pub(super) fn spend_on_answer<T, E>(&self, wait: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let answer = self.spend(wait, |_| 0);
        if let (Some(limited), Ok(_)) = (&self.time, &answer) {
            limited.used().answers += 1;
        }
        answer
    }

    /// Counts a wait for a request that another task has made.
    pub fn charge(&self, time: Duration) {
        if let Some(limited) = &self.time {
            limited.used().time += time;
        }
    }

    /// Returns an error if no time is left.
    pub(super) fn check(&self, host: &str, address: &str) -> Result<(), RepositoryError> {
        let Some(limited) = self.time.as_ref().filter(|_| self.is_used_up()) else { return Ok(()) };
        let cause = format!(
            "it is too slow: all fetches together may take {} s, and one second more for each answer and each MiB \
             ({}); {} bytes have arrived (asked for {address})",
            limited.time.as_secs_f32(),
            limited.option,
            limited.used().bytes
        );
        Err(RepositoryError::Unreachable { host: host.to_owned(), cause })
    }
}

impl Limited {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Body that is read within an allowance.
pub(super) struct Allowed<R> {
    pub(super) inner: R,
    pub(super) allowance: Allowance,
    pub(super) host: String,
    pub(super) address: String,
}

impl<R: Read> Read for Allowed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.allowance.check(&self.host, &self.address)?;
        let read = || self.inner.read(buffer);
        let came = self.allowance.spend(read, |came| came.as_ref().map_or(0, |count| *count));
        // If the time is used up now, report that, not the timeout of this last read.
        came.or_else(|error| {
            self.allowance.check(&self.host, &self.address).map_err(Into::into).and(Err(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_used_by_waiting_and_gained_by_bytes() {
        let allowance = Allowance::of(Duration::from_secs(30), "--time");
        assert_eq!(allowance.left(), Some(Duration::from_secs(30)));
        allowance.spend(|| (), |()| 3 << 20);
        let left = allowance.left().unwrap();
        assert!(left > Duration::from_secs(32) && left < Duration::from_secs(33), "{left:?}");
        assert_eq!(allowance.clone().cap(Duration::from_secs(5)), Duration::from_secs(5));
        assert_eq!(allowance.check("host", "it"), Ok(()));
        let none = Allowance::of(Duration::ZERO, "--time");
        assert!(none.is_used_up() && !Allowance::default().is_used_up());
        assert_eq!(
            none.check("host", "it").unwrap_err().to_string(),
            "cannot reach host: it is too slow: all fetches together may take 0 s, and one second more for each answer \
             and each MiB (--time); 0 bytes have arrived (asked for it)"
        );
    }

    #[test]
    fn a_body_ends_with_its_time() {
        let allowance = Allowance::of(Duration::from_millis(20), "--time");
        let slow = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(5));
            b'x'
        });
        struct Slow<I>(I);
        impl<I: Iterator<Item = u8>> Read for Slow<I> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(byte) = self.0.next() else { return Ok(0) };
                buffer[0] = byte;
                Ok(1)
            }
        }
        let mut body = Allowed { inner: Slow(slow), allowance, host: "host".into(), address: "it".into() };
        let error = io::copy(&mut body, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("(--time)"), "{error}");
    }
}
