//! Go's `time` package: instants seen in a zone, and texts by layouts (`gotemplate.md` 12.11).
//! Durations are in [`crate::duration`].

mod calendar;
mod instant;
mod layout;
mod parse;
mod zone;

use crate::duration::quote;

pub use calendar::Date;
pub use instant::{Instant, Wall};
pub use parse::parse;
pub use zone::Zone;

/// Nanoseconds per second.
pub const SECOND: i64 = 1_000_000_000;

/// The English names; the short names are their first three letters.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Returns the text of a `time.Month`.
pub fn month_name(month: i64) -> String {
    named(&MONTHS, month - 1).map_or_else(|| format!("%!Month({month})"), str::to_owned)
}

/// Returns the text of a `time.Weekday`.
pub fn weekday_name(day: i64) -> String {
    named(&WEEKDAYS, day).map_or_else(|| format!("%!Weekday({day})"), str::to_owned)
}

fn named(names: &[&'static str], index: i64) -> Option<&'static str> {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied()
}
