//! Time for which this replica may publish.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The period in which this replica leads. Clones share its end.
///
/// The end is a time, not a message. So a process that was frozen for a while publishes nothing
/// after its leadership has ended.
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    /// End of the period; `None` if it never ends.
    end: Option<Arc<Mutex<Instant>>>,
}

impl Leadership {
    /// Returns a leadership without an end, for a single replica.
    pub(crate) fn unlimited() -> Self {
        Self { end: None }
    }

    /// Returns a leadership that ends at a time that can be [extended](Self::extend).
    pub(crate) fn until(end: Instant) -> Self {
        Self { end: Some(Arc::new(Mutex::new(end))) }
    }

    /// Extends the leadership. One that has already ended stays so, because another replica may
    /// lead by now.
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

    /// Returns at once during the leadership, and never after its end.
    ///
    /// Never returning is right here. Publishers run within the future of the
    /// [`Leader`](crate::leader::Leader), and the [`Election`](crate::lease::Election) drops that
    /// future when the leadership ends. So an error would be redundant.
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
