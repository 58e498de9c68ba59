//! Memory limit of all workers of a service together. Each worker may use its own limit, but a
//! container has no room for all of them to do so at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fence::usage;

/// Interval at which memory is checked during work. A process can fill some ten MiB in that time.
const LOOK: Duration = Duration::from_millis(20);

/// Memory limit for the work of all pools that share it. Clones share the limit.
#[derive(Debug, Clone)]
pub struct Ceiling(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    /// Bytes of each working process, by process id.
    working: Mutex<HashMap<u32, u64>>,
}

impl Ceiling {
    /// Creates a limit of this many bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Shared { limit, working: Mutex::default() }))
    }

    pub(crate) fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Returns when all processes together exceed the limit and this process uses the most of them.
    pub(crate) async fn exceeded_by(&self, pid: u32) {
        let entry = Entry { ceiling: self, pid };
        loop {
            tokio::time::sleep(LOOK).await;
            // A process that has ended counts as 0 bytes.
            let bytes = usage::resident(pid).unwrap_or_default();
            if entry.is_too_much(bytes) {
                return;
            }
        }
    }

    fn working(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.0.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entry of a process, which counts as long as it works.
struct Entry<'a> {
    ceiling: &'a Ceiling,
    pid: u32,
}

impl Entry<'_> {
    fn is_too_much(&self, bytes: u64) -> bool {
        let mut working = self.ceiling.working();
        working.insert(self.pid, bytes);
        let all = working.values().fold(0_u64, |all, bytes| all.saturating_add(*bytes));
        all > self.ceiling.limit() && working.values().all(|other| *other <= bytes)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.ceiling.working().remove(&self.pid);
    }
}
