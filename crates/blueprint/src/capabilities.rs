//! What the program lets templates reach beside their bindings.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use groundwork_budget::TemplateLimits;
pub use groundwork_gotemplate::{Clock, Randomness};

/// Sources that executions may use (`blueprints.md` 5.4, 6.6), by default none: a function that needs one fails where it is called. Data
/// mappings get none, whatever stands here.
#[derive(Clone, Default)]
pub struct Capabilities {
    pub clock: Option<Clock>,
    pub randomness: Option<Randomness>,
    /// When to give up, however little was done.
    pub deadline: Option<Instant>,
    /// What the executions of one blueprint may take, and as much again its exports, and its data mappings.
    pub limits: TemplateLimits,
}

impl Capabilities {
    /// Clock and randomness of this machine.
    pub fn system() -> Self {
        Self {
            clock: Some(Arc::new(SystemTime::now)),
            randomness: Some(Arc::new(|buffer| getrandom::fill(buffer).map_err(|error| error.to_string()))),
            deadline: None,
            limits: TemplateLimits::default(),
        }
    }

    /// The same within other limits.
    #[must_use]
    pub fn limited(self, limits: TemplateLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same until so much time from now has passed.
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
