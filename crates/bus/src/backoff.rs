use std::time::Duration;

/// Pauses between attempts. Each failure in a row doubles the pause, up to the longest. The pauses
/// are not randomised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Pause after the first failure.
    pub first: Duration,
    /// Upper limit of the pause.
    pub longest: Duration,
}

impl Backoff {
    /// Back-off for one object: 100 ms to 30 s (`installations.md` 2.2). A broken object may stay
    /// broken for days, and there may be thousands of them.
    pub const OBJECT: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
    /// Back-off for reads from a server: 100 ms to 2 s, so that events arrive soon after the server
    /// is back.
    pub const SERVER: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
    /// Back-off for a publication: 50 ms to 2 s. The first pause is shorter because every later
    /// publication waits for this one, and the leader's lease may run out meanwhile.
    pub const PUBLICATION: Self = Self { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

    /// Returns the pause after this number of failures in a row, counted from 1.
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
        let pauses = |backoff: Backoff| (0..12).map(move |failures| backoff.pause(failures).as_millis());
        assert_eq!(
            pauses(Backoff::OBJECT).collect::<Vec<_>>(),
            [100, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
        );
        assert_eq!(
            pauses(Backoff::SERVER).take(8).collect::<Vec<_>>(),
            [100, 100, 200, 400, 800, 1600, 2000, 2000]
        );
        assert_eq!(
            pauses(Backoff::PUBLICATION).take(8).collect::<Vec<_>>(),
            [50, 50, 100, 200, 400, 800, 1600, 2000]
        );
        assert_eq!(Backoff::OBJECT.pause(u32::MAX), Backoff::OBJECT.longest);
    }
}
