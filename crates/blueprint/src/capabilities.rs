//! External sources and limits that the caller grants to templates.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use groundwork_budget::TemplateLimits;
pub use groundwork_gotemplate::{Clock, Randomness};

/// Sources that executions may use (`blueprints.md` 5.4, 6.6). By default there are none, and a
/// function that needs one fails when it is called. Data mappings never get any.
#[derive(Clone, Default)]
pub struct Capabilities {
    pub clock: Option<Clock>,
    pub randomness: Option<Randomness>,
    /// Time at which rendering is cancelled.
    pub deadline: Option<Instant>,
    /// Limits for all executions of one blueprint together. Its exports, and its data mappings, get
    /// the same limits again.
    pub limits: TemplateLimits,
    /// True if functions that need a cluster return placeholders, as without a server.
    pub placeholders: bool,
}

impl Capabilities {
    /// Grants the clock and the randomness of this machine.
    pub fn system() -> Self {
        Self {
            clock: Some(Arc::new(SystemTime::now)),
            randomness: Some(Arc::new(|buffer| getrandom::fill(buffer).map_err(|error| error.to_string()))),
            deadline: None,
            limits: TemplateLimits::default(),
            placeholders: false,
        }
    }

    /// Returns the same capabilities with other limits.
    #[must_use]
    pub fn limited(self, limits: TemplateLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the same capabilities, with placeholders for what needs a cluster.
    #[must_use]
    pub fn with_placeholders(self) -> Self {
        Self { placeholders: true, ..self }
    }

    /// Returns the same capabilities with a deadline `limit` from now.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { deadline: Some(Instant::now() + limit), ..self }
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capabilities")
            .field("clock", &self.clock.is_some())
            .field("randomness", &self.randomness.is_some())
            .field("deadline", &self.deadline)
            .field("limits", &self.limits)
            .finish()
    }
}
