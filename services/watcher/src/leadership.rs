//! Until when this replica may publish.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The time in which this replica leads. Clones share one end.
///
/// It ends by the clock and not by a message, so that a process that was frozen for a while publishes nothing when it is thawed.
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    /// `None` if it never ends.
    end: Option<Arc<Mutex<Instant>>>,
}

impl Leadership {
    /// For a replica that is the only one.
    pub(crate) fn unlimited() -> Self {
        Self { end: None }
    }

    /// Ends at a time that can be [put off](Self::extend).
    pub(crate) fn until(end: Instant) -> Self {
        Self { end: Some(Arc::new(Mutex::new(end))) }
    }

    /// Puts the end off. A leadership that has ended stays so: another replica may lead by now.
    pub(crate) fn extend(&self, new_end: Instant) {
        if let Some(end) = &self.end {
            let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
            if *end > Instant::now() {
                *end = new_end;
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        let has_passed =
            |end: &Arc<Mutex<Instant>>| *end.lock().unwrap_or_else(PoisonError::into_inner) <= Instant::now();
        self.end.as_ref().is_some_and(has_passed)
    }

    /// Returns at once while the leadership lasts, and never after its end.
    ///
    /// Waiting for ever is right here: whoever publishes does so within the future of the [`Leader`](crate::leader::Leader), and the
    /// [`Election`](crate::lease::Election) that notices the end drops that future. An error would only be a second way to say the same.
    pub(crate) async fn block_if_ended(&self) {
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_has_ended_is_not_extended() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let leadership = Leadership::until(later);
        assert!(!leadership.has_ended());
        leadership.extend(now);
        assert!(leadership.has_ended());
        leadership.extend(later);
        assert!(leadership.has_ended());
        assert!(!Leadership::unlimited().has_ended());
    }
}
