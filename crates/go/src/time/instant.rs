//! Instants in time, and arithmetic with them.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::calendar::{self, Date};
use super::{SECOND, Zone};

/// A `time.Time`: an instant seen in a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Instant {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: i64,
    pub zone: Zone,
    /// True if the instant was read from a clock and only moved since. Its text then ends with `m=`
    /// and the reading, as in Go.
    pub monotonic: bool,
}

/// Date and time of day that a clock in the zone shows.
#[derive(Clone, Debug)]
pub struct Wall {
    pub date: Date,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// Day of the week; 0 is Sunday.
    pub weekday: i64,
    /// Day of the year, from 1.
    pub year_day: i64,
    /// Offset of the zone, in seconds east of Greenwich.
    pub offset: i64,
    pub abbreviation: String,
}

const DAY: i64 = 86_400;
/// Seconds from 1970 back to the year 1, where Go's zero time is.
const ZERO: i64 = -62_135_596_800;

impl Instant {
    /// Creates the instant this many seconds and nanoseconds after 1970.
    pub fn new(seconds: i64, nanoseconds: i64, zone: Zone) -> Instant {
        Instant { seconds, nanoseconds, zone, monotonic: false }
    }

    /// Returns the zero of the type: the first second of the year 1, in UTC.
    pub fn zero() -> Instant {
        Instant::new(ZERO, 0, Zone::Utc)
    }

    /// Reports whether this is the zero of the type.
    pub fn is_zero(&self) -> bool {
        self.seconds == ZERO && self.nanoseconds == 0
    }

    /// Creates an instant from the time of the host's clock.
    pub fn now(time: SystemTime) -> Instant {
        let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (seconds(after), i64::from(after.subsec_nanos())),
            Err(before) => match (seconds(before.duration()), i64::from(before.duration().subsec_nanos())) {
                (seconds, 0) => (-seconds, 0),
                (seconds, nanoseconds) => (-seconds - 1, SECOND - nanoseconds),
            },
        };
        Instant { seconds, nanoseconds, zone: Zone::Local, monotonic: true }
    }

    /// Returns the instant at which a clock in a zone shows this date and time of day. Parts may
    /// lie outside of their ranges.
    pub fn from_wall(date: Date, seconds_of_day: i64, nanoseconds: i64, zone: Zone) -> Instant {
        let wall = calendar::days(date.year, date.month, date.day)
            .wrapping_mul(DAY)
            .wrapping_add(seconds_of_day)
            .wrapping_add(nanoseconds.div_euclid(SECOND));
        // As in Go, the offset before a change of the clock is tried first, then the offset at the
        // result.
        let (first, _) = zone.at(wall);
        let (second, _) = zone.at(wall.wrapping_sub(first));
        let offset =
            if first == second || zone.at(wall.wrapping_sub(second)).0 == second { second } else { first };
        Instant::new(wall.wrapping_sub(offset), nanoseconds.rem_euclid(SECOND), zone)
    }

    /// Returns the date and time of day of this instant in its zone.
    pub fn wall(&self) -> Wall {
        let (offset, abbreviation) = self.zone.at(self.seconds);
        let local = self.seconds.saturating_add(offset);
        let days = local.div_euclid(DAY);
        let of_day = local.rem_euclid(DAY);
        let date = calendar::date(days);
        Wall {
            date,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            // 1970-01-01 was a Thursday, which is day 4.
            weekday: (days.rem_euclid(7) + 4) % 7,
            year_day: days - calendar::days(date.year, 1, 1) + 1,
            offset,
            abbreviation,
        }
    }

    /// Moves the instant by nanoseconds.
    pub fn add(&self, duration: i64) -> Instant {
        let nanoseconds = self.nanoseconds + duration % SECOND;
        let seconds =
            self.seconds.wrapping_add(duration / SECOND).wrapping_add(nanoseconds.div_euclid(SECOND));
        Instant { seconds, nanoseconds: nanoseconds.rem_euclid(SECOND), ..self.clone() }
    }

    /// Moves the date on the calendar; the time of day stays.
    pub fn add_date(&self, years: i64, months: i64, days: i64) -> Instant {
        let Wall { date, hour, minute, second, .. } = self.wall();
        let date = Date {
            year: date.year.wrapping_add(years),
            month: date.month.wrapping_add(months),
            day: date.day.wrapping_add(days),
        };
        let of_day = (hour * 60 + minute) * 60 + second;
        Instant::from_wall(date, of_day, self.nanoseconds, self.zone.clone())
    }

    /// Returns the nanoseconds from another instant to this one, within the range of the type.
    pub fn since(&self, other: &Instant) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanoseconds = seconds * i128::from(SECOND) + i128::from(self.nanoseconds - other.nanoseconds);
        i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the seconds since the year 1.
    pub fn since_year_1(&self) -> i64 {
        self.seconds.wrapping_sub(ZERO)
    }

    /// Returns the nanoseconds past the last multiple of a positive duration, counted from the year
    /// 1.
    fn remainder(&self, duration: i64) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(ZERO);
        let nanoseconds = seconds * i128::from(SECOND) + i128::from(self.nanoseconds);
        // The remainder is less than the duration, so it fits.
        i64::try_from(nanoseconds.rem_euclid(i128::from(duration))).unwrap_or(0)
    }

    /// Rounds down to a multiple of the duration. If the duration is not positive, only `monotonic`
    /// is cleared.
    pub fn truncate(&self, duration: i64) -> Instant {
        let plain = Instant { monotonic: false, ..self.clone() };
        if duration <= 0 { plain } else { plain.add(-plain.remainder(duration)) }
    }

    /// Rounds to the nearest multiple of the duration, half up.
    pub fn round(&self, duration: i64) -> Instant {
        let plain = Instant { monotonic: false, ..self.clone() };
        if duration <= 0 {
            return plain;
        }
        let remainder = plain.remainder(duration);
        if remainder < duration - remainder { plain.add(-remainder) } else { plain.add(duration - remainder) }
    }

    /// Returns the same instant, seen in another zone.
    pub fn within(&self, zone: Zone) -> Instant {
        Instant { zone, monotonic: false, ..self.clone() }
    }

    /// Compares instants, independent of their zones.
    pub fn compare(&self, other: &Instant) -> Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }
}
