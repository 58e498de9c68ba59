//! Timestamps and durations.

use std::cmp::Ordering;

use groundwork_go::time::{Instant, Wall, Zone, parse};

use crate::value::EvalError;

const LAYOUT: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";
/// The range of a timestamp in seconds: years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const SECOND: i64 = groundwork_go::time::SECOND;

/// An instant, with the zone in which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
    /// Offset of the zone, in seconds east of Greenwich.
    offset: i64,
}

impl Time {
    /// Creates an instant from the seconds since 1970, in UTC.
    ///
    /// # Errors
    ///
    /// The year is not one of 1 to 9999.
    pub fn from_seconds(seconds: i64) -> Result<Self, EvalError> {
        Self { seconds, nanoseconds: 0, offset: 0 }.checked()
    }

    /// Parses a timestamp by RFC 3339.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, EvalError>> {
        let instant = parse(LAYOUT, text.as_bytes()).ok()?;
        let offset = instant.wall().offset;
        Some(Self { seconds: instant.seconds, nanoseconds: instant.nanoseconds, offset }.checked())
    }

    fn checked(self) -> Result<Self, EvalError> {
        if SECONDS.contains(&self.seconds) { Ok(self) } else { Err(EvalError::new("timestamp overflow")) }
    }

    fn instant(&self) -> Instant {
        let zone =
            if self.offset == 0 { Zone::Utc } else { Zone::Fixed { name: "".into(), offset: self.offset } };
        Instant::new(self.seconds, self.nanoseconds, zone)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.instant().format(LAYOUT)).into_owned()
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }

    pub(crate) fn plus(&self, nanoseconds: i64) -> Result<Self, EvalError> {
        let moved = self.instant().add(nanoseconds);
        Self { seconds: moved.seconds, nanoseconds: moved.nanoseconds, offset: self.offset }.checked()
    }

    /// Returns the nanoseconds between two timestamps. As in cel-go, the seconds alone must fit,
    /// which excludes a few results that would fit.
    pub(crate) fn minus(&self, other: &Self) -> Result<i64, EvalError> {
        let seconds = (self.seconds - other.seconds).checked_mul(SECOND);
        let nanoseconds = self.nanoseconds - other.nanoseconds;
        seconds
            .and_then(|seconds| seconds.checked_add(nanoseconds))
            .ok_or_else(|| EvalError::new("integer overflow"))
    }

    /// Returns a part of date or time of day, in UTC or in a zone.
    pub(crate) fn part(&self, getter: &str, zone: &str) -> Result<i64, EvalError> {
        let instant = Instant::new(self.seconds, self.nanoseconds, zone_of(zone)?);
        let Wall { date, hour, minute, second, weekday, year_day, .. } = instant.wall();
        Ok(match getter {
            "getFullYear" => date.year,
            "getMonth" => date.month - 1,
            "getDayOfYear" => year_day - 1,
            "getDayOfMonth" => date.day - 1,
            "getDate" => date.day,
            "getDayOfWeek" => weekday,
            "getHours" => hour,
            "getMinutes" => minute,
            "getSeconds" => second,
            "getMilliseconds" => self.nanoseconds / 1_000_000,
            _ => return Err(EvalError::no_overload_of(getter)),
        })
    }
}

/// Returns a zone of the database, or an offset such as `-05:30`.
fn zone_of(name: &str) -> Result<Zone, EvalError> {
    let Some((hours, minutes)) = name.split_once(':') else {
        return Zone::find(name).ok_or_else(|| EvalError::new(format!("unknown time zone {name}")));
    };
    let number = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| EvalError::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
    };
    let (whole, rest) = (number(hours)?, number(minutes)?);
    let minutes = if name.starts_with('-') { whole * 60 - rest } else { whole * 60 + rest };
    Ok(Zone::Fixed { name: "".into(), offset: minutes * 60 })
}

/// Returns a part of a duration: its whole hours, minutes or seconds, or the milliseconds beside
/// them.
pub(crate) fn part_of_duration(nanoseconds: i64, getter: &str) -> Result<i64, EvalError> {
    Ok(match getter {
        "getHours" => nanoseconds / (3_600 * SECOND),
        "getMinutes" => nanoseconds / (60 * SECOND),
        "getSeconds" => nanoseconds / SECOND,
        "getMilliseconds" => nanoseconds / 1_000_000,
        _ => return Err(EvalError::no_overload_of(getter)),
    })
}
