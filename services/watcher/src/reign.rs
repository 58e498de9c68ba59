//! The right to publish.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when this replica may publish. Clones are the same.
///
/// It ends by itself, so that a process that was frozen for a while does nothing when it is thawed.
#[derive(Debug, Clone)]
pub(crate) struct Reign {
    /// None: for ever.
    until: Option<Arc<Mutex<Instant>>>,
}

impl Reign {
    /// For a replica that is the only one.
    pub(crate) fn unlimited() -> Self {
        Self { until: None }
    }

    /// Until a time that can be [extended](Self::extend).
    pub(crate) fn until(time: Instant) -> Self {
        Self { until: Some(Arc::new(Mutex::new(time))) }
    }

    /// Lets it last longer, unless it is over: then somebody may have seen so.
    pub(crate) fn extend(&self, time: Instant) {
        if let Some(until) = &self.until {
            let mut until = until.lock().unwrap_or_else(PoisonError::into_inner);
            if *until > Instant::now() {
                *until = time;
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        let over = |until: &Arc<Mutex<Instant>>| {
            *until.lock().unwrap_or_else(PoisonError::into_inner) <= Instant::now()
        };
        self.until.as_ref().is_some_and(over)
    }

    /// Goes on at once while the reign lasts, and never after it: those who publish are ended from outside.
    pub(crate) async fn needed(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_over_stays_over() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let reign = Reign::until(later);
        assert!(!reign.is_over());
        reign.extend(now);
        assert!(reign.is_over());
        reign.extend(later);
        assert!(reign.is_over());
        assert!(!Reign::unlimited().is_over());
    }
}
