//! Steps that the feed of a backend returns.

use crate::error::BusError;
use crate::record::Record;

/// One step of the feed of a backend. Sync markers are in the order of the stream here; the caller
/// holds them back until the end of the replay.
#[derive(Debug)]
pub(crate) enum Step {
    Reset {
        /// True if the stream has no records for this feed.
        caught_up: bool,
    },
    Record {
        position: u64,
        record: Result<Box<Record>, BusError>,
        /// True if the feed has now read every record that was there when it was opened.
        caught_up: bool,
    },
    CaughtUp,
}
