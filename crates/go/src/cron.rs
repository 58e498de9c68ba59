//! Cron expressions as robfig/cron v3 reads them: their form, and the times that they give
//! (`installations.md` 1.1 rule 7, 3.5; `packagevariants.md` 1.4).

use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use crate::duration;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Names for common schedules.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Years after which the search for the next time ends, as in robfig/cron: an expression without a
/// time until then has none.
const LONGEST_SEARCH_YEARS: i16 = 5;

/// The times of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Cron {
    /// Times at a fixed distance from one another, in whole seconds.
    Every(SignedDuration),
    At {
        zone: TimeZone,
        times: Times,
    },
}

/// The allowed values of each of the five fields, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Values {
    bits: u64,
    /// True if written as `*` or `?`, which matters for the two fields of days, see `allow_day`.
    is_any: bool,
}

impl Values {
    fn contains(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

/// The range and names of one of the five fields.
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    /// Names for `first` and the values after it.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, names: &[] },
    Field { name: "hour", first: 0, last: 23, names: &[] },
    Field { name: "day of month", first: 1, last: 31, names: &[] },
    Field { name: "month", first: 1, last: 12, names: &MONTHS },
    Field { name: "day of week", first: 0, last: 6, names: &DAYS },
];

impl FromStr for Cron {
    type Err = String;

    /// Reads five fields, a descriptor such as `@hourly`, or `@every <duration>`, behind an
    /// optional `TZ=<zone>` or `CRON_TZ=<zone>`.
    fn from_str(expression: &str) -> Result<Self, String> {
        let (zone, schedule) = zone_of(expression)?;
        if let Some(distance) = schedule.strip_prefix("@every ") {
            let nanoseconds = duration::parse(distance.as_bytes()).ok().filter(|found| *found >= 0);
            let distance_of =
                |nanoseconds| Self::Every(whole_seconds(SignedDuration::from_nanos(nanoseconds)));
            return nanoseconds
                .map(distance_of)
                .ok_or_else(|| format!("{distance:?} is not a duration; write one such as 1h30m"));
        }
        let described = DESCRIPTORS.iter().find(|(name, _)| *name == schedule);
        if schedule.starts_with('@') && described.is_none() {
            let names: Vec<&str> = DESCRIPTORS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{schedule} is not one of {}, @every <duration>", names.join(", ")));
        }
        let times = Times::parse(described.map_or(schedule, |(_, fields)| fields))?;
        Ok(Self::At { zone, times })
    }
}

/// Rounds down to whole seconds, with one second as the minimum.
fn whole_seconds(duration: SignedDuration) -> SignedDuration {
    SignedDuration::from_secs(duration.as_secs().max(1))
}

/// Returns the zone, UTC if none is given (`installations.md` 3.5), and the expression behind it.
fn zone_of(expression: &str) -> Result<(TimeZone, &str), String> {
    let zoned = ["TZ=", "CRON_TZ="].into_iter().find_map(|prefix| expression.strip_prefix(prefix));
    let Some(zoned) = zoned else { return Ok((TimeZone::UTC, expression.trim())) };
    match zoned.split_once(' ') {
        Some((zone, schedule)) if !zone.is_empty() => {
            let found = TimeZone::get(zone).map_err(|_| {
                format!("time zone {zone:?} is not known; use an IANA name such as Europe/Berlin")
            })?;
            Ok((found, schedule.trim()))
        }
        _ => Err("a time zone, a blank and the schedule are expected".to_owned()),
    }
}

impl Times {
    fn parse(schedule: &str) -> Result<Self, String> {
        let texts: Vec<&str> = schedule.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = texts[..] else {
            return Err(format!(
                "five fields are expected (minute, hour, day of month, month, day of week), found {}",
                texts.len()
            ));
        };
        let [of_minute, of_hour, of_day, of_month, of_weekday] = &FIELDS;
        Ok(Self {
            minutes: of_minute.values(minutes)?,
            hours: of_hour.values(hours)?,
            days: of_day.values(days)?,
            months: of_month.values(months)?,
            weekdays: of_weekday.values(weekdays)?,
        })
    }

    /// Reports whether the days allow this one. If both days of the month and days of the week are
    /// restricted, one of them is enough.
    fn allow_day(&self, day: &Zoned) -> bool {
        let of_month = self.days.contains(day.day());
        let of_week = self.weekdays.contains(day.weekday().to_sunday_zero_offset());
        if self.days.is_any || self.weekdays.is_any { of_month && of_week } else { of_month || of_week }
    }
}

impl Field {
    fn values(&self, text: &str) -> Result<Values, String> {
        let mut values = Values::default();
        for range in text.split(',') {
            let found = self.range(range)?;
            values.bits |= found.bits;
            values.is_any |= found.is_any;
        }
        Ok(values)
    }

    /// Reads `*`, `5`, `1-5`, each with an optional `/step`. `5/step` means from 5 to the end.
    fn range(&self, text: &str) -> Result<Values, String> {
        let wrong = |problem: &str| Err(format!("{}: {text:?} {problem}", self.name));
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let Ok(distance) = step.map_or(Ok(1), str::parse::<u32>) else {
            return wrong("has a step that is not a positive number");
        };
        if distance == 0 {
            return wrong("has a step that is not a positive number");
        }
        let is_any = range == "*" || range == "?";
        let (first, last) = if is_any {
            (self.first, self.last)
        } else {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (self.value(first), self.value(last)) {
                (Some(first), Some(_)) if step.is_some() && !range.contains('-') => (first, self.last),
                (Some(first), Some(last)) if first <= last => (first, last),
                (Some(_), Some(_)) => return wrong("ends before it starts"),
                _ => return wrong(&format!("is not between {} and {}", self.first, self.last)),
            }
        };
        let step = usize::try_from(distance).unwrap_or(usize::MAX);
        let bits = (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value);
        // robfig/cron drops the mark of `*` for a step above one, so that `*/2` restricts the days.
        Ok(Values { bits, is_any: is_any && distance == 1 })
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().zip(self.first..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let number = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let value = named.map(|(_, value)| value).or_else(number)?;
        (self.first..=self.last).contains(&value).then_some(value)
    }
}

impl Cron {
    /// Returns the first time after this one; `None` if there is none for years, as for the 30th of
    /// February.
    ///
    /// When clocks are set forward, times in the skipped hour are left out. When they are set back,
    /// times in the repeated hour count twice.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(distance) => {
                Timestamp::from_second(time.as_second()).ok()?.checked_add(*distance).ok()
            }
            Self::At { zone, times } => {
                let minute = time.as_second().div_euclid(60) * 60;
                let start = Timestamp::from_second(minute).ok()?.checked_add(1.minute()).ok()?;
                times.first_from(start.to_zoned(zone.clone())).map(|found| found.timestamp())
            }
        }
    }
}

impl Times {
    /// Returns the first time from a full minute on. Months, days and hours that do not match are
    /// skipped in one step each.
    fn first_from(&self, mut time: Zoned) -> Option<Zoned> {
        let last_year = time.year().checked_add(LONGEST_SEARCH_YEARS)?;
        while time.year() <= last_year {
            if !self.months.contains(time.month()) {
                time = time.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok()?;
            } else if !self.allow_day(&time) {
                time = time.tomorrow().ok()?.start_of_day().ok()?;
            } else if !self.hours.contains(time.hour()) {
                let rest = 60 - i64::from(time.minute());
                time = time.checked_add(SignedDuration::from_mins(rest)).ok()?;
            } else if !self.minutes.contains(time.minute()) {
                time = time.checked_add(SignedDuration::from_mins(1)).ok()?;
            } else {
                return Some(time);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for good in [
            "30 2 * * *",
            "*/5 0-12/2 1,15 jan-MAR mon",
            " 0 0 ? * 0 ",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Berlin 0 6 * * *",
            "CRON_TZ=UTC @daily",
        ] {
            assert!(good.parse::<Cron>().is_ok(), "{good}");
        }
        for (bad, start) in [
            ("", "five fields are expected"),
            ("* * * *", "five fields are expected"),
            ("0 * * * * *", "five fields are expected"),
            ("60 * * * *", "minute: \"60\" is not between 0 and 59"),
            ("* * 0 * *", "day of month: \"0\" is not between"),
            ("* * * * 7", "day of week: \"7\" is not between"),
            ("* 5-2 * * *", "hour: \"5-2\" ends before it starts"),
            ("*/0 * * * *", "minute: \"*/0\" has a step"),
            ("1, * * * *", "minute: \"\" is not between"),
            ("+1 * * * *", "minute: \"+1\" is not between"),
            ("@never", "@never is not one of"),
            ("@every soon", "\"soon\" is not a duration"),
            ("@every none", "\"none\" is not a duration"),
            ("TZ=UTC", "a time zone, a blank"),
            ("TZ=Atlantis/Main 0 0 * * *", "time zone \"Atlantis/Main\" is not known"),
        ] {
            let error = bad.parse::<Cron>().unwrap_err();
            assert!(error.starts_with(start), "{bad}: {error}");
        }
    }

    /// I-121: the next times of expressions, in the given zone.
    #[test]
    fn next_times() {
        for (expression, from, next) in [
            ("30 2 * * *", "2026-01-01T02:29:59Z", "2026-01-01T02:30:00Z"),
            ("30 2 * * *", "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"),
            ("*/15 * * * *", "2026-01-01T02:46:10.5Z", "2026-01-01T03:00:00Z"),
            ("5/20 * * * *", "2026-01-01T02:26:00Z", "2026-01-01T02:45:00Z"),
            ("0 0 1 mar *", "2026-03-01T00:00:00Z", "2027-03-01T00:00:00Z"),
            ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            // If both fields of days are restricted, either may match. If one is not, the other
            // must match.
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("0 0 ? * fri", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@every 90s", "2026-01-01T00:00:00.7Z", "2026-01-01T00:01:30Z"),
            ("@every 10ms", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
            ("TZ=Europe/Berlin 0 6 * * *", "2026-07-01T00:00:00Z", "2026-07-01T04:00:00Z"),
            // 02:30 does not exist on the 29th of March, and exists twice on the 25th of October.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ] {
            let cron: Cron = expression.parse().unwrap();
            let found = cron.next_after(from.parse().unwrap()).unwrap();
            assert_eq!(found.to_string(), next, "{expression} from {from}");
        }
        let never: Cron = "0 0 30 2 *".parse().unwrap();
        assert_eq!(never.next_after(Timestamp::UNIX_EPOCH), None);
    }
}
