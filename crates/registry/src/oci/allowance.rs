//! Time and memory for all that is fetched for one purpose: a job, an item, a call.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groundwork_component::{Blob, RepositoryError};

use super::memory::Holding;

/// Large contents have a second more for each so many bytes that have come: what comes faster than this is let come.
const BYTES_PER_SECOND: u64 = 1 << 20;
/// The time where nobody has said how long it may take.
const UNSAID: Duration = Duration::from_secs(300);

/// Time that servers may take to give what is asked of them, all of it together, which gets longer with what comes; and memory for it. Clones share
/// both.
///
/// Only time in which somebody waits for a server counts. Without limits by default.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    time: Option<Arc<Limited>>,
    memory: Option<Arc<Holding>>,
}

#[derive(Debug)]
struct Limited {
    time: Duration,
    /// The option that sets it, for messages.
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
    /// So much time, and a second more for each answer and for each MiB that comes. Messages say that `option` sets it.
    pub fn of(time: Duration, option: &'static str) -> Self {
        Self { time: Some(Arc::new(Limited { time, option, used: Mutex::default() })), memory: None }
    }

    /// The time of a command, for which there is no option.
    pub(super) fn unsaid() -> Self {
        Self::of(UNSAID, "the time of a command")
    }

    /// The same time, and what one piece of work holds.
    #[must_use]
    pub fn holding(&self, memory: &Arc<Holding>) -> Self {
        Self { time: self.time.clone(), memory: Some(Arc::clone(memory)) }
    }

    /// The whole content, at most `limit` bytes; `address` is what messages call it. It is paid for until the piece of work is over.
    ///
    /// # Errors
    ///
    /// As [`Blob::read_all`], and there may be no room for it.
    pub fn read_all(&self, blob: Blob, address: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        match &self.memory {
            Some(memory) => memory.read_all(blob, address, limit),
            None => blob.read_all(address, limit),
        }
    }

    /// True once there is no time left.
    pub fn is_used_up(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// The time that is left; `None` without a limit.
    pub(super) fn left(&self) -> Option<Duration> {
        let limited = self.time.as_ref()?;
        let used = limited.used();
        let gained =
            Duration::from_secs(used.bytes / BYTES_PER_SECOND) + Duration::from_secs(used.answers.into());
        let time = limited.time.saturating_add(gained);
        Some(time.saturating_sub(used.time))
    }

    /// A shorter time, if that is all that is left.
    pub(super) fn cap(&self, time: Duration) -> Duration {
        self.left().map_or(time, |left| left.min(time))
    }

    /// Counts the time that a wait takes, and the bytes that come of it.
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

    /// Counts the time that an answer takes to begin, and the answer if one comes: many small ones are no sign of a slow server.
    pub(super) fn spend_on_answer<T, E>(&self, wait: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let answer = self.spend(wait, |_| 0);
        if let (Some(limited), Ok(_)) = (&self.time, &answer) {
            limited.used().answers += 1;
        }
        answer
    }

    /// Counts a wait for what somebody else has asked for.
    pub fn charge(&self, time: Duration) {
        if let Some(limited) = &self.time {
            limited.used().time += time;
        }
    }

    /// An error that says so if no time is left.
    pub(super) fn check(&self, host: &str, address: &str) -> Result<(), RepositoryError> {
        let Some(limited) = self.time.as_ref().filter(|_| self.is_used_up()) else { return Ok(()) };
        let cause = format!(
            "it is too slow: all that is fetched may take {} s, and a second more for each answer and each MiB ({}), and {} bytes have \
             come (asked for {address})",
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

/// A body that comes within an allowance.
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
        // A part that did not come in time is the last of what was too slow, if no time is left now.
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
            "cannot reach host: it is too slow: all that is fetched may take 0 s, and a second more for each answer and each MiB \
             (--time), and 0 bytes have come (asked for it)"
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
