//! Permissions and time of a template: those that the `groundwork` command gives it.

use std::time::{Duration, Instant};

use groundwork_blueprint::Capabilities;
use groundwork_gotemplate::{Deadline, Grants};

/// Longest run of one template.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The clock and random values; the environment and the network are denied.
pub(crate) fn grants() -> Grants {
    let system = Capabilities::system();
    Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() }
}

/// End of the time of a template that starts now.
pub(crate) fn deadline() -> Deadline {
    let end = Instant::now() + TIME_LIMIT;
    Deadline::new(move || Instant::now() >= end)
}
