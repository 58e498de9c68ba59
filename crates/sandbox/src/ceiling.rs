//! The memory of all workers of a service together: each may take what one may, but a container has no room for all of them to do so at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fence::usage;

/// How often memory is looked at while work is done. A process that does nothing else fills some ten MiB in that time.
const LOOK: Duration = Duration::from_millis(20);

/// So many bytes for the work of all pools that share it. Clones are the same.
#[derive(Debug, Clone)]
pub struct Ceiling(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    /// Bytes by process, of those that work.
    working: Mutex<HashMap<u32, u64>>,
}

impl Ceiling {
    /// `limit` in bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Shared { limit, working: Mutex::default() }))
    }

    pub(crate) fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Comes back once all together take more than there is, and this process takes the most of them.
    pub(crate) async fn exceeded_by(&self, pid: u32) {
        let entry = Entry { ceiling: self, pid };
        loop {
            tokio::time::sleep(LOOK).await;
            // One that has ended takes nothing.
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

/// A process counts as long as it works.
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
