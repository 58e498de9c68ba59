//! Seeded random numbers of the model: the duration of each step, and its faults.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Random numbers of one order. A draw depends on the seed, on its purpose, and on the number of
/// earlier draws for the same purpose. So a map with another iteration order in each run does not
/// change the draws.
#[derive(Debug)]
pub(super) struct Chance {
    seed: u64,
    asked: Mutex<HashMap<u64, u64>>,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, asked: Mutex::default() }
    }

    /// Returns a number below the limit.
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

    /// Returns true with a probability of one in `many`.
    pub(super) fn one_in(&self, many: u64, why: &str) -> bool {
        self.draw(why, many) == 0
    }

    /// Waits for the duration of a step: mostly short, sometimes very long.
    pub(super) async fn pause(&self, why: &str) {
        let most = match self.draw(&format!("{why}?"), 20) {
            0 => 1500,
            1..4 => 200,
            _ => 15,
        };
        tokio::time::sleep(Duration::from_millis(self.draw(why, most))).await;
    }
}
