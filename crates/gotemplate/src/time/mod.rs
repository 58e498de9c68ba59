//! Go's `time` package as far as templates see it (section 12.11): instants in a zone, and layouts.

pub(crate) mod calendar;
mod instant;
mod layout;
mod parse;
mod zone;

use groundwork_go::duration::quote;

pub(crate) use instant::Instant;
pub(crate) use parse::parse;
pub(crate) use zone::Zone;

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// The English names; those of three letters are their beginnings.
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

/// `time.Month`'s text.
pub(crate) fn month_name(month: i64) -> String {
    named(&MONTHS, month - 1).map_or_else(|| format!("%!Month({month})"), str::to_owned)
}

/// `time.Weekday`'s text.
pub(crate) fn weekday_name(day: i64) -> String {
    named(&WEEKDAYS, day).map_or_else(|| format!("%!Weekday({day})"), str::to_owned)
}

fn named(names: &[&'static str], index: i64) -> Option<&'static str> {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied()
}
