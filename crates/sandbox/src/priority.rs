//! Which work goes first where the processors have not enough for all: short work before long work, jobs before calls, and the long work of
//! one tenant, however much it is, as if it were a single piece.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::fence::usage;

/// The niceness of workers for calls: beside one that does not yield, a twentieth of the processor is theirs.
pub(crate) const CALL: i32 = 13;
/// The niceness of a job that is long: a tenth.
const LONG_JOB: i32 = 10;
/// The lowest priority that there is.
const LOWEST: i32 = 19;
/// Work is long once it has taken so much processor time.
const LONG: Duration = Duration::from_millis(100);
/// Work that has taken so much has the lowest priority: usual work does not.
const VERY_LONG: Duration = Duration::from_secs(1);
/// With each step of niceness the kernel gives that much less (sched(7)).
const STEP: f64 = 1.25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Pieces of long work that are under way in a pool, by tenant.
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

/// Counts as long as it is there.
struct Entry<'a> {
    all: &'a LongWork,
    tenant: &'a str,
}

impl Entry<'_> {
    /// With itself.
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

/// Who has a piece of work done, and how: by that it has its share of the processor.
pub(crate) struct Share<'a> {
    pub(crate) long_work: &'a LongWork,
    pub(crate) tenant: &'a str,
    pub(crate) is_call: bool,
}

impl Share<'_> {
    /// Lets others go before a worker whose work is long, so that those who work as long as they may do not slow everybody down. Time in which it
    /// waits for an answer does not count. `before` is the processor time that it had used when the work began.
    ///
    /// A priority is only ever lowered: to raise it again takes a privilege.
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
        // It counts until it ends.
        std::future::pending().await
    }
}

/// The niceness with which so many get together about what a single one gets with `nice`, as far as there is one.
fn shared(nice: i32, count: u32) -> i32 {
    let mut all = f64::from(count);
    let mut shared = nice;
    // Half a step more or less is as near as it gets.
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
