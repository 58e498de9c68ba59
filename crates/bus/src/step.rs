//! What the feed of a backend says.

use crate::error::BusError;
use crate::record::Record;

/// One step of the feed of a backend, before sync markers are put in their place.
#[derive(Debug)]
pub(crate) enum Step {
    Reset {
        /// The stream holds nothing for us.
        caught_up: bool,
    },
    Record {
        position: u64,
        record: Result<Box<Record>, BusError>,
        /// With this, all is known that was there when the feed was opened.
        caught_up: bool,
    },
    CaughtUp,
}
