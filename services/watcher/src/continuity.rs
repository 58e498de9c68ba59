//! Comparison of the current stream with the one that this replica has filled.
//!
//! A server that lost power comes back without its last seconds, and a restored server has an older
//! stream. Messages that were published and acknowledged are missing then, without any error. So
//! the leader compares its knowledge of the stream with the stream's own state, after every
//! connection and at regular intervals. It publishes objects only on a connection on which that was
//! done.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groundwork_bus::StreamState;
use jiff::Timestamp;
use tokio::sync::watch;

/// The leader's knowledge of the stream that it fills. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Continuity {
    known: Arc<Mutex<Known>>,
    /// Number of the last connection on which the stream was compared.
    compared: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    created_at: Option<Timestamp>,
    first_sequence: u64,
    /// Highest sequence that was acknowledged for a publication, or that was read.
    acknowledged: u64,
    mark: String,
    /// Set when an acknowledgement has shown that the stream went back.
    contradiction: Option<Gone>,
}

/// Reason why a stream is not the one that was filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The stream is another one: it was deleted and created again.
    Another,
    /// The stream has lost its last messages, or was restored.
    Back { acknowledged: u64, last: u64 },
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Another => f.write_str("the stream was replaced by another one"),
            Self::Back { acknowledged, last } => write!(
                f,
                "the stream went back to message {last}, although message {acknowledged} was acknowledged"
            ),
        }
    }
}

impl Default for Continuity {
    fn default() -> Self {
        Self { known: Arc::default(), compared: watch::Sender::new(0) }
    }
}

impl Continuity {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is a plain assignment, so a panic elsewhere cannot leave a half-done change,
        // and a poisoned lock is ignored.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over with this stream, which has this mark.
    pub(crate) fn begin(&self, state: &StreamState, mark: &str) {
        *self.lock() = Known {
            created_at: Some(state.created_at),
            first_sequence: state.first_sequence,
            acknowledged: state.last_sequence,
            mark: mark.to_owned(),
            contradiction: None,
        };
    }

    /// Returns the highest acknowledged sequence. Callers read it before they send a publication.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.lock().acknowledged
    }

    /// Notes the answer to a publication that was sent when `before` was the highest acknowledged
    /// sequence.
    ///
    /// # Errors
    ///
    /// The sequence was already given to an earlier message, so the stream went back.
    pub(crate) fn note(&self, sequence: u64, before: u64) -> Result<(), Gone> {
        let mut known = self.lock();
        if sequence <= before {
            let gone = Gone::Back { acknowledged: before, last: sequence.saturating_sub(1) };
            known.contradiction = Some(gone.clone());
            return Err(gone);
        }
        known.acknowledged = known.acknowledged.max(sequence);
        Ok(())
    }

    /// Compares a stream with the known one. `mark` is its mark. `before` is the highest
    /// acknowledged sequence at the time when its state was requested, since publications continue
    /// meanwhile and the answer does not include them.
    pub(crate) fn compare(&self, state: &StreamState, mark: &str, before: u64) -> Option<Gone> {
        let mut known = self.lock();
        if known.created_at.is_some_and(|created| created != state.created_at) {
            return Some(Gone::Another);
        }
        let is_other = known.created_at.is_some() && known.mark != mark;
        if is_other || state.last_sequence < before || state.first_sequence < known.first_sequence {
            return Some(Gone::Back { acknowledged: before, last: state.last_sequence });
        }
        known.first_sequence = state.first_sequence;
        known.contradiction.clone()
    }

    /// Notes that the stream was compared on this connection.
    pub(crate) fn set_compared(&self, connection: u64) {
        self.compared.send_replace(connection);
    }

    /// Waits until the stream was compared on this connection.
    pub(crate) async fn until_compared(&self, connection: u64) {
        // `self` keeps the sender alive, so `wait_for` never fails.
        let _ = self.compared.subscribe().wait_for(|compared| *compared >= connection).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(created: i64, first_sequence: u64, last_sequence: u64) -> StreamState {
        let created_at = Timestamp::from_second(created).unwrap();
        StreamState { created: false, messages: 1, bytes: 1, first_sequence, last_sequence, created_at }
    }

    #[test]
    fn a_stream_that_is_not_the_one_that_was_filled_is_found() {
        let continuity = Continuity::default();
        assert_eq!(continuity.compare(&state(1, 1, 1), "", 0), None, "nothing is known yet");
        continuity.begin(&state(1, 3, 7), "m");
        assert_eq!(continuity.note(9, 7), Ok(()));
        assert_eq!(continuity.note(8, 7), Ok(()), "publications run side by side");
        let back = |last| Some(Gone::Back { acknowledged: 9, last });
        for (found, mark, expected) in [
            (state(1, 3, 9), "m", None),
            (state(1, 5, 12), "m", None),
            (state(2, 5, 12), "m", Some(Gone::Another)),
            (state(1, 5, 8), "m", back(8)),
            (state(1, 4, 12), "m", back(12)),
            (state(1, 5, 12), "other", back(12)),
        ] {
            let before = continuity.acknowledged();
            assert_eq!(continuity.compare(&found, mark, before), expected, "{found:?} {mark}");
        }
        assert_eq!(continuity.compare(&state(1, 5, 8), "m", 8), None, "message 9 was acknowledged meanwhile");
        assert!(continuity.note(8, 9).is_err(), "this sequence was another message's");
        let gone = Some(Gone::Back { acknowledged: 9, last: 7 });
        assert_eq!(continuity.compare(&state(1, 5, 12), "m", 9), gone);
        continuity.begin(&state(2, 1, 1), "n");
        assert_eq!(continuity.compare(&state(2, 1, 1), "n", 1), None);
    }
}
