//! Priorities of work when the processors are busy: short work before long work, and jobs before
//! calls. All long work of one tenant together counts as a single piece.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::fence::usage;

/// Niceness of workers for calls: beside a normal process, they get a twentieth of a processor.
pub(crate) const CALL: i32 = 13;
/// Niceness of a long job: beside a normal process, it gets a tenth of a processor.
const LONG_JOB: i32 = 10;
/// Niceness of the lowest priority.
const LOWEST: i32 = 19;
/// Processor time after which work counts as long.
const LONG: Duration = Duration::from_millis(100);
/// Processor time after which work gets the lowest priority; normal work needs less.
const VERY_LONG: Duration = Duration::from_secs(1);
/// Factor by which each step of niceness reduces a process's share of the processor (sched(7)).
const STEP: f64 = 1.25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Number of long pieces of work in progress in a pool, by tenant.
#[derive(Debug, Default)]
pub(crate) struct LongWork(Mutex<HashMap<String, u32>>);

impl LongWork {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter<'a>(&'a self, tenant: &'a str) -> Entry<'a> {
        *self.counts().entry(tenant.to_owned()).or_default() += 1;
        Entry { all: self, tenant }
    }
}

/// Entry of a long piece of work, which counts until it is dropped.
struct Entry<'a> {
    all: &'a LongWork,
    tenant: &'a str,
}

impl Entry<'_> {
    /// Returns the number of long pieces of the tenant, including this one.
    fn count(&self) -> u32 {
        self.all.counts().get(self.tenant).copied().unwrap_or_default()
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(self.tenant);
            }
        }
    }
}

/// Data that decides the processor share of a piece of work: its tenant and its type.
pub(crate) struct Share<'a> {
    pub(crate) long_work: &'a LongWork,
    pub(crate) tenant: &'a str,
    pub(crate) is_call: bool,
}

impl Share<'_> {
    /// Lowers the priority of a worker whose work is long, so that long work of one tenant does not
    /// slow down others. Waits for answers use no processor time and so do not count. `before` is
    /// the processor time of the process at the start of the work.
    ///
    /// Priorities are only ever lowered, because raising them needs a privilege.
    pub(crate) async fn yield_when_long(
        &self,
        pid: u32,
        before: Duration,
        has_yielded: &AtomicBool,
    ) -> Infallible {
        let (mut nice, long) = if self.is_call { (CALL, CALL) } else { (0, LONG_JOB) };
        let mut entry = None;
        while nice < LOWEST {
            sleep(BETWEEN_LOOKS).await;
            let now = usage::used_cpu_time(pid).unwrap_or_default();
            let used = now.saturating_sub(before);
            if used < LONG {
                continue;
            }
            let count = entry.get_or_insert_with(|| self.long_work.enter(self.tenant)).count();
            let next = if used < VERY_LONG { shared(long, count) } else { LOWEST };
            if next > nice && usage::yield_to_others(pid, next).is_ok() {
                nice = next;
                has_yielded.store(true, Ordering::Relaxed);
            }
        }
        // Keep the entry, so that this work counts as long until it ends.
        std::future::pending().await
    }
}

/// Returns the niceness with which `count` processes together get about the share of a single one
/// at `nice`, limited by the lowest priority.
fn shared(nice: i32, count: u32) -> i32 {
    let mut all = f64::from(count);
    let mut shared = nice;
    // Niceness has whole steps, so the result is exact to half a step.
    while shared < LOWEST && all > STEP.sqrt() {
        all /= STEP;
        shared += 1;
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_get_together_what_one_gets() {
        let cases =
            [(10, 1, 10), (10, 2, 13), (10, 3, 15), (10, 4, 16), (10, 8, 19), (10, 16, 19), (13, 2, 16)];
        for (nice, count, expected) in cases {
            assert_eq!(shared(nice, count), expected, "{count} at {nice}");
        }
    }

    #[test]
    fn tenants_count_apart_and_not_when_they_have_ended() {
        let all = LongWork::default();
        let (first, other) = (all.enter("a"), all.enter("b"));
        let second = all.enter("a");
        assert_eq!((first.count(), second.count(), other.count()), (2, 2, 1));
        drop(first);
        assert_eq!(second.count(), 1);
        drop((second, other));
        assert!(all.counts().is_empty());
    }
}
