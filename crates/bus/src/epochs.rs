//! Positions: sequences that go on when the stream is rebuilt.

use jiff::Timestamp;

/// The distance between the bases of two epochs. No incarnation of the stream has as many messages.
const DISTANCE: u64 = 1 << 40;

/// The incarnations of the stream that this process has seen, in order.
///
/// A rebuilt stream counts from one again. What compares sequences (a work item waits for the index) would wait for
/// ever, or not at all. So consumers hand out positions: the sequence plus a base that grows with every incarnation.
/// In the first incarnation that a process sees they are equal.
#[derive(Debug, Default)]
pub(crate) struct Epochs(Vec<Timestamp>);

impl Epochs {
    /// Base of the incarnation that was created at this time. Ask in the order in which they were seen.
    pub(crate) fn base(&mut self, created: Timestamp) -> u64 {
        let index = self.0.iter().position(|known| *known == created).unwrap_or_else(|| {
            self.0.push(created);
            self.0.len() - 1
        });
        u64::try_from(index).map_or(u64::MAX, |index| index.saturating_mul(DISTANCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_only_grow() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let mut epochs = Epochs::default();
        assert_eq!(epochs.base(time(20)), 0);
        // The clock of a server may have been set back.
        assert_eq!(epochs.base(time(10)), DISTANCE);
        assert_eq!(epochs.base(time(20)), 0);
        assert_eq!(epochs.base(time(30)), 2 * DISTANCE);
    }
}
