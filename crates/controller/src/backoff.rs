use std::time::Duration;

/// Pauses that double, for one work key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// After a conflict: somebody else wrote, and the next look is likely to do better.
    pub conflict: Duration,
}

impl Default for Backoff {
    /// 100 ms to 30 s (`installations.md` 2.2).
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
            conflict: Duration::from_millis(50),
        }
    }
}

impl Backoff {
    /// The pause after this many failures in a row, counted from 1.
    pub fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let pauses: Vec<u128> = (0..12).map(|failures| backoff.pause(failures).as_millis()).collect();
        assert_eq!(pauses, [100, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(backoff.pause(u32::MAX), backoff.longest);
    }
}
