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

    pub(crate) fn extend(&self, time: Instant) {
        if let Some(until) = &self.until {
            *until.lock().unwrap_or_else(PoisonError::into_inner) = time;
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
