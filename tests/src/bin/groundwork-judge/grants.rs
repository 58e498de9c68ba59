//! Permissions and time limit of a template, the same as in the `groundwork` command.

use std::time::{Duration, Instant};

use groundwork_blueprint::Capabilities;
use groundwork_gotemplate::{Deadline, Grants};

/// Time limit of one template, or of the executions of one blueprint. Charts have their own.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Grants the clock and random values, and denies the environment and the network.
pub(crate) fn grants() -> Grants {
    let system = Capabilities::system();
    Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() }
}

/// Returns the deadline of work that starts now.
pub(crate) fn deadline(limit: Duration) -> Deadline {
    let end = Instant::now() + limit;
    Deadline::new(move || Instant::now() >= end)
}
