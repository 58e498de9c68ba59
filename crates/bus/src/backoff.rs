use std::time::Duration;

/// Pauses between attempts: they double with each failure in a row, up to the longest. None is drawn by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// For one object: 100 ms to 30 s (`installations.md` 2.2). What is wrong with it may stay wrong for days, and there may be thousands.
    pub const OBJECT: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
    /// For a server that is read: 100 ms to 2 s, so that events come again soon after it is back.
    pub const SERVER: Self = Self { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
    /// For a publication: 50 ms to 2 s. It begins earlier, since everything behind it waits, and leadership ends meanwhile.
    pub const PUBLICATION: Self = Self { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

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
