//! Chance that follows from a seed: how long everything takes, and what goes wrong.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The chance of one order. A draw follows from the seed, from what it is for and from how often that was asked, so that maps which are
/// walked in another order each time change nothing.
#[derive(Debug)]
pub(super) struct Chance {
    seed: u64,
    asked: Mutex<HashMap<u64, u64>>,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, asked: Mutex::default() }
    }

    /// A number below a limit.
    fn draw(&self, why: &str, limit: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, why).hash(&mut hasher);
        let reason = hasher.finish();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(reason).or_default();
        *times += 1;
        (reason, *times).hash(&mut hasher);
        hasher.finish() % limit.max(1)
    }

    /// True once in so many times.
    pub(super) fn one_in(&self, many: u64, why: &str) -> bool {
        self.draw(why, many) == 0
    }

    /// Waits as long as a step takes: mostly a moment, now and then very long.
    pub(super) async fn pause(&self, why: &str) {
        let most = match self.draw(&format!("{why}?"), 20) {
            0 => 1500,
            1..4 => 200,
            _ => 15,
        };
        tokio::time::sleep(Duration::from_millis(self.draw(why, most))).await;
    }
}
