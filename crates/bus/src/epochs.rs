//! Positions: sequences that keep growing when the stream is rebuilt.

use jiff::Timestamp;

/// Distance between the bases of two epochs. An incarnation of the stream never has as many
/// messages.
const DISTANCE: u64 = 1 << 40;

/// The incarnations of the stream that this process has seen, in order.
///
/// A rebuilt stream counts from one again, and a stream that went back reuses the sequences of lost
/// messages. Code that compares sequences (a work item waits for the index) would then wait for
/// ever, or not at all. So consumers hand out positions: the sequence plus a base that grows with
/// every incarnation. In the first incarnation that a process sees, position and sequence are
/// equal.
#[derive(Debug, Default)]
pub(crate) struct Epochs(Vec<Epoch>);

#[derive(Debug)]
struct Epoch {
    created: Timestamp,
    /// Highest sequence seen in this incarnation.
    last: u64,
}

impl Epochs {
    /// Returns the base of the incarnation that was created at `created` and whose last sequence is
    /// `last`. Callers must ask in the order in which they saw the incarnations.
    pub(crate) fn base(&mut self, created: Timestamp, last: u64) -> u64 {
        let known = self.0.iter().rposition(|epoch| epoch.created == created);
        let index = known.filter(|index| self.0[*index].last <= last).unwrap_or(self.0.len());
        match self.0.get_mut(index) {
            Some(epoch) => epoch.last = last,
            None => self.0.push(Epoch { created, last }),
        }
        base_of(index)
    }

    /// Records a message of the incarnation with this base. If the stream later ends before this
    /// sequence, it went back.
    pub(crate) fn heard(&mut self, base: u64, sequence: u64) {
        let epochs = self.0.iter_mut().enumerate();
        for (_, epoch) in epochs.filter(|(index, _)| base_of(*index) == base) {
            epoch.last = epoch.last.max(sequence);
        }
    }
}

fn base_of(index: usize) -> u64 {
    u64::try_from(index).map_or(u64::MAX, |index| index.saturating_mul(DISTANCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_only_grow() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let mut epochs = Epochs::default();
        assert_eq!(epochs.base(time(20), 5), 0);
        // The clock of a server may have been set back.
        assert_eq!(epochs.base(time(10), 1), DISTANCE);
        assert_eq!(epochs.base(time(20), 7), 0);
        assert_eq!(epochs.base(time(30), 0), 2 * DISTANCE);
    }

    /// A server restored from a backup has the old stream, with the old last sequence.
    #[test]
    fn a_stream_that_went_back_is_another_one() {
        let created = Timestamp::from_second(20).unwrap();
        let mut epochs = Epochs::default();
        assert_eq!((epochs.base(created, 5), epochs.base(created, 7)), (0, 0));
        assert_eq!(epochs.base(created, 6), DISTANCE);
        assert_eq!(epochs.base(created, 9), DISTANCE);
        epochs.heard(DISTANCE, 12);
        epochs.heard(0, 40);
        assert_eq!(epochs.base(created, 11), 2 * DISTANCE, "more was heard than asked for");
    }
}
