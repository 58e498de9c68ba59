//! The proleptic Gregorian calendar, without bounds on the year.

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    /// Month, from 1 to 12.
    pub month: i64,
    /// Day, from 1 to 31.
    pub day: i64,
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days of a month from 1 to 12.
pub(super) fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to the first day of a month, which may lie outside of 1 to 12.
/// The count is in cycles of 400 years that begin in March, so that the leap day comes last.
fn first_of_month(year: i64, month: i64) -> i64 {
    let year = year.saturating_add((month - 1).div_euclid(12));
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle.wrapping_mul(146_097).wrapping_add(day_of_cycle) - 719_468
}

/// Returns the days since 1970-01-01. Month and day may lie outside of their ranges, as in Go.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    first_of_month(year, month).wrapping_add(day).wrapping_sub(1)
}

/// Returns the date of a day counted from 1970-01-01.
pub(super) fn date(days: i64) -> Date {
    let shifted = days.saturating_add(719_468);
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Date { year: year_of_cycle + cycle * 400 + i64::from(month <= 2), month, day }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for (year, month, day, expected) in [
            (1970, 1, 1, 0),
            (2000, 2, 29, 11_016),
            (2024, 3, 1, 19_783),
            (1, 1, 1, -719_162),
            (1969, 12, 31, -1),
        ] {
            assert_eq!(days(year, month, day), expected);
            assert_eq!(date(expected), Date { year, month, day });
        }
        for day in (-800_000..800_000).step_by(97) {
            let Date { year, month, day: of_month } = date(day);
            assert_eq!(days(year, month, of_month), day);
            assert!((1..=days_in(month, year)).contains(&of_month));
        }
        assert_eq!(days(2024, 14, 0), days(2025, 1, 31));
        assert_eq!(days(2024, -1, 1), days(2023, 11, 1));
    }
}
