//! Parser of times by a layout, with the error texts of Go.

use super::calendar::{self, Date};
use super::instant::Instant;
use super::layout::{self, Element, Offset};
use super::{MONTHS, WEEKDAYS, Zone, quote};

/// The parts of the time read so far.
#[derive(Debug, Default)]
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: i64,
    afternoon: Option<bool>,
    utc: bool,
    offset: Option<i64>,
    abbreviation: Option<String>,
}

/// The reason why an element does not match.
enum ElementError {
    /// The text at the place of the element has another form.
    Form,
    /// The named part is out of range.
    Range(&'static str),
}

type Fit<T> = Result<T, ElementError>;

/// Parses a time. It is in the local zone unless the text has one.
///
/// # Errors
///
/// The message of Go.
pub fn parse(layout: &[u8], value: &[u8]) -> Result<Instant, String> {
    let shown = quote(value);
    let misfit = |wanted: &[u8], found: &[u8]| {
        format!(
            "parsing time {shown} as {}: cannot parse {} as {}",
            quote(layout),
            quote(found),
            quote(wanted)
        )
    };
    let mut parts = Parts::default();
    let (mut rest, mut pending) = (value, layout);
    loop {
        let chunk = layout::next(pending);
        rest = skip(rest, chunk.prefix).map_err(|found| misfit(chunk.prefix, found))?;
        let Some((element, source)) = chunk.element else { break };
        pending = chunk.rest;
        let hold = rest;
        parts.read(element, &mut rest, pending).map_err(|problem| match problem {
            ElementError::Form => misfit(source, hold),
            ElementError::Range(what) => format!("parsing time {shown}: {what} out of range"),
        })?;
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {shown}: extra text: {}", quote(rest)));
    }
    parts.instant().map_err(|problem| format!("parsing time {shown}: {problem}"))
}

/// Skips a literal; a run of spaces matches any run of spaces. On failure returns the rest of the
/// value.
fn skip<'v>(mut value: &'v [u8], mut prefix: &[u8]) -> Result<&'v [u8], &'v [u8]> {
    while let Some((&wanted, tail)) = prefix.split_first() {
        match value.split_first() {
            _ if wanted == b' ' => {
                if value.first().is_some_and(|b| *b != b' ') {
                    return Err(value);
                }
                prefix = prefix.trim_ascii_start_spaces();
                value = value.trim_ascii_start_spaces();
            }
            Some((&found, rest)) if found == wanted => (value, prefix) = (rest, tail),
            _ => return Err(value),
        }
    }
    Ok(value)
}

trait Spaces {
    fn trim_ascii_start_spaces(&self) -> &Self;
}

impl Spaces for [u8] {
    /// Removes leading blanks; other white space stays.
    fn trim_ascii_start_spaces(&self) -> &[u8] {
        &self[self.iter().take_while(|b| **b == b' ').count()..]
    }
}

/// Takes `count` bytes.
fn take<'v>(value: &mut &'v [u8], count: usize) -> Fit<&'v [u8]> {
    let (head, tail) = value.split_at_checked(count).ok_or(ElementError::Form)?;
    *value = tail;
    Ok(head)
}

/// Reads a run of at least `least` and up to `most` digits.
fn digits(value: &mut &[u8], least: usize, most: usize) -> Fit<i64> {
    let count = value.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if count < least.max(1) {
        return Err(ElementError::Form);
    }
    Ok(number(take(value, count)?))
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}

/// Reads one or two digits, two if fixed.
fn short(value: &mut &[u8], fixed: bool) -> Fit<i64> {
    digits(value, if fixed { 2 } else { 1 }, 2)
}

/// Reads all of the bytes as a number, with an optional sign.
fn signed(text: &[u8]) -> Fit<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ElementError::Form);
    }
    Ok(sign * number(digits))
}

/// Returns the index of the name at the start of the value, in any letter case.
fn name(value: &mut &[u8], names: &[&str], letters: Option<usize>) -> Fit<i64> {
    for (index, name) in names.iter().enumerate() {
        let length = letters.unwrap_or(name.len());
        if value.len() >= length && value[..length].eq_ignore_ascii_case(&name.as_bytes()[..length]) {
            *value = &value[length..];
            return Ok(index as i64);
        }
    }
    Err(ElementError::Form)
}

fn within(number: i64, most: i64, what: &'static str) -> Fit<i64> {
    if number <= most { Ok(number) } else { Err(ElementError::Range(what)) }
}

/// Reads the digits behind a point or comma, `length` bytes with it, as nanoseconds.
fn fraction(value: &mut &[u8], length: usize) -> Fit<i64> {
    let [b'.' | b',', digits @ ..] = take(value, length)? else { return Err(ElementError::Form) };
    let digits = &digits[..digits.len().min(9)];
    let scale = u32::try_from(9 - digits.len()).unwrap_or(0);
    let number = signed(digits)?;
    if number < 0 { Err(ElementError::Range("fractional second")) } else { Ok(number * 10_i64.pow(scale)) }
}

/// Returns the length in bytes of a point or comma and the digits behind it.
fn fraction_length(value: &[u8]) -> Option<usize> {
    match value {
        [b'.' | b',', digits @ ..] => {
            let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
            (count > 0).then_some(1 + count)
        }
        _ => None,
    }
}

impl Parts {
    fn read(&mut self, element: Element, value: &mut &[u8], pending: &[u8]) -> Fit<()> {
        use Element as E;
        match element {
            E::LongMonth => self.month = Some(name(value, &MONTHS, None)? + 1),
            E::Month => self.month = Some(name(value, &MONTHS, Some(3))? + 1),
            E::NumericMonth | E::ZeroMonth => {
                let month = short(value, element == E::ZeroMonth)?;
                self.month = Some(month);
                if !(1..=12).contains(&month) {
                    return Err(ElementError::Range("month"));
                }
            }
            E::LongWeekday => drop(name(value, &WEEKDAYS, None)?),
            E::Weekday => drop(name(value, &WEEKDAYS, Some(3))?),
            E::Day | E::UnderDay | E::ZeroDay => {
                if element == E::UnderDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.day = Some(short(value, element == E::ZeroDay)?);
            }
            E::UnderYearDay | E::ZeroYearDay => {
                for _ in 0..if element == E::UnderYearDay { 2 } else { 0 } {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.year_day = Some(digits(value, if element == E::ZeroYearDay { 3 } else { 1 }, 3)?);
            }
            E::Hour => self.hour = within(short(value, false)?, 23, "hour")?,
            E::Hour12 | E::ZeroHour12 => {
                self.hour = within(short(value, element == E::ZeroHour12)?, 12, "hour")?;
            }
            E::Minute | E::ZeroMinute => {
                self.minute = within(short(value, element == E::ZeroMinute)?, 59, "minute")?;
            }
            E::Second | E::ZeroSecond => self.seconds(value, element == E::ZeroSecond, pending)?,
            E::LongYear => {
                if !value.first().is_some_and(u8::is_ascii_digit) {
                    return Err(ElementError::Form);
                }
                self.year = signed(take(value, 4)?)?;
            }
            E::Year => {
                let year = signed(take(value, 2)?)?;
                self.year = if year >= 69 { 1900 + year } else { 2000 + year };
            }
            E::UpperHalf => self.half(value, b"AM", b"PM")?,
            E::LowerHalf => self.half(value, b"am", b"pm")?,
            E::Abbreviation => self.abbreviation(value)?,
            E::Offset(style) => self.offset(value, style)?,
            E::Fraction { digits, .. } => self.nanoseconds = fraction(value, 1 + digits)?,
            E::TrimmedFraction { .. } => {
                if let Some(length) = fraction_length(value) {
                    self.nanoseconds = fraction(value, length)?;
                }
            }
        }
        Ok(())
    }

    /// Reads seconds. A fraction is accepted even if the layout has none.
    fn seconds(&mut self, value: &mut &[u8], fixed: bool, pending: &[u8]) -> Fit<()> {
        self.second = within(short(value, fixed)?, 59, "second")?;
        let Some(length) = fraction_length(value) else { return Ok(()) };
        let next = layout::next(pending).element;
        if !matches!(next, Some((Element::Fraction { .. } | Element::TrimmedFraction { .. }, _))) {
            self.nanoseconds = fraction(value, length)?;
        }
        Ok(())
    }

    fn half(&mut self, value: &mut &[u8], morning: &[u8], afternoon: &[u8]) -> Fit<()> {
        let half = take(value, 2)?;
        if half != morning && half != afternoon {
            return Err(ElementError::Form);
        }
        self.afternoon = Some(half == afternoon);
        Ok(())
    }

    fn offset(&mut self, value: &mut &[u8], Offset { zulu, colon, parts }: Offset) -> Fit<()> {
        if zulu && let Some(rest) = value.strip_prefix(b"Z") {
            *value = rest;
            self.utc = true;
            return Ok(());
        }
        let width = if colon { 3 } else { 2 };
        let text = take(value, 1 + width * parts - usize::from(colon))?;
        let mut numbers = [0; 3];
        for (index, number) in numbers.iter_mut().take(parts).enumerate() {
            let at = 1 + index * width;
            if index > 0 && colon && text[at - 1] != b':' {
                return Err(ElementError::Form);
            }
            *number = short(&mut &text[at..at + 2], true)?;
        }
        let [hours, minutes, seconds] = numbers;
        within(hours, 24, "time zone offset hour")?;
        within(minutes, 60, "time zone offset minute")?;
        within(seconds, 60, "time zone offset second")?;
        let offset = (hours * 60 + minutes) * 60 + seconds;
        self.offset = Some(match text[0] {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(ElementError::Form),
        });
        Ok(())
    }

    fn abbreviation(&mut self, value: &mut &[u8]) -> Fit<()> {
        if let Some(rest) = value.strip_prefix(b"UTC") {
            *value = rest;
            self.utc = true;
            return Ok(());
        }
        let length = abbreviation_length(value).ok_or(ElementError::Form)?;
        self.abbreviation = Some(crate::text::lossy(take(value, length)?).into_owned());
        Ok(())
    }

    fn instant(mut self) -> Result<Instant, String> {
        match self.afternoon {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let (month, day) = self.month_and_day()?;
        if day < 1 || day > calendar::days_in(month, self.year) {
            return Err("day out of range".to_owned());
        }
        let date = Date { year: self.year, month, day };
        let of_day = (self.hour * 60 + self.minute) * 60 + self.second;
        let at = |zone| Instant::from_wall(date, of_day, self.nanoseconds, zone);
        if self.utc {
            return Ok(at(Zone::Utc));
        }
        Ok(match (self.offset, self.abbreviation) {
            (None, None) => at(Zone::Local),
            // An offset of zero without a name is the local zone here, which is UTC.
            (Some(0), None) => at(Zone::Local),
            (Some(offset), name) => at(Zone::Fixed { name: name.unwrap_or_default().into(), offset }),
            (None, Some(name)) => {
                // An abbreviation does not determine the zone. Only GMT+3 and its like contain the
                // offset.
                let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i64>().ok());
                let instant = at(Zone::Utc);
                instant.within(Zone::Fixed { name: name.into(), offset: hours.unwrap_or(0) * 3_600 })
            }
        })
    }

    fn month_and_day(&self) -> Result<(i64, i64), String> {
        let Some(year_day) = self.year_day else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        let length = 365 + i64::from(calendar::is_leap(self.year));
        if year_day < 1 || year_day > length {
            return Err("day-of-year out of range".to_owned());
        }
        let Date { month, day, .. } = calendar::date(calendar::days(self.year, 1, year_day));
        if self.month.is_some_and(|given| given != month) {
            return Err("day-of-year does not match month".to_owned());
        }
        if self.day.is_some_and(|given| given != day) {
            return Err("day-of-year does not match day".to_owned());
        }
        Ok((month, day))
    }
}

/// Returns the length in bytes of an abbreviation of a zone at the beginning.
fn abbreviation_length(value: &[u8]) -> Option<usize> {
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_length(rest));
    }
    if value.len() < 3 {
        return None;
    }
    if matches!(value[0], b'+' | b'-') {
        return Some(signed_offset_length(value)).filter(|length| *length > 0);
    }
    match value.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count() {
        3 => Some(3),
        4 if value[3] == b'T' || value.starts_with(b"WITA") => Some(4),
        5 if value[4] == b'T' => Some(5),
        _ => None,
    }
}

/// Returns the length of a sign and an hour up to 23.
fn signed_offset_length(value: &[u8]) -> usize {
    let [b'+' | b'-', digits @ ..] = value else { return 0 };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let fits = count > 0 && count < 18 && number(&digits[..count]) <= 23;
    if fits { 1 + count } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time as Go prints it, or the error.
    fn read(layout: &str, value: &str) -> String {
        match parse(layout.as_bytes(), value.as_bytes()) {
            Ok(instant) => instant.text(),
            Err(message) => message,
        }
    }

    #[test]
    fn times_are_read_by_their_layout() {
        for (layout, value, expected) in [
            ("2006-01-02", "2024-02-29", "2024-02-29 00:00:00 +0000 UTC"),
            ("2006-01-02T15:04:05Z07:00", "2024-05-06T07:08:09.5+02:00", "2024-05-06 07:08:09.5 +0200 +0200"),
            ("2006-01-02T15:04:05Z07:00", "2024-05-06T07:08:09Z", "2024-05-06 07:08:09 +0000 UTC"),
            ("Mon Jan _2 15:04:05 2006", "Thu Feb  4 21:00:57 2010", "2010-02-04 21:00:57 +0000 UTC"),
            (
                "Monday, 02-Jan-06 15:04:05 MST",
                "thursday, 04-feb-10 21:00:57 PST",
                "2010-02-04 21:00:57 +0000 PST",
            ),
            ("2006-01-02 MST", "2010-02-04 GMT+3", "2010-02-04 03:00:00 +0300 GMT+3"),
            ("3:04pm", "9:05pm", "0000-01-01 21:05:00 +0000 UTC"),
            ("2006-002", "2024-060", "2024-02-29 00:00:00 +0000 UTC"),
            ("15:04:05.000", "01:02:03.456", "0000-01-01 01:02:03.456 +0000 UTC"),
            ("15:04:05,999", "01:02:03", "0000-01-01 01:02:03 +0000 UTC"),
            ("06 1 2", "69 7 8", "1969-07-08 00:00:00 +0000 UTC"),
        ] {
            assert_eq!(read(layout, value), expected, "{layout} {value}");
        }
    }

    #[test]
    fn complaints_are_those_of_the_original() {
        for (layout, value, expected) in [
            ("2006-01-02", "bad", r#"parsing time "bad" as "2006-01-02": cannot parse "bad" as "2006""#),
            ("2006-01-02", "2024-13-01", r#"parsing time "2024-13-01": month out of range"#),
            ("2006-01-02", "2023-02-29", r#"parsing time "2023-02-29": day out of range"#),
            ("2006-01-02", "2024-02-29x", r#"parsing time "2024-02-29x": extra text: "x""#),
            ("2006-01-02", "2024/02", r#"parsing time "2024/02" as "2006-01-02": cannot parse "/02" as "-""#),
            ("15:04", "25:00", r#"parsing time "25:00": hour out of range"#),
            ("Jan", "Foo", r#"parsing time "Foo" as "Jan": cannot parse "Foo" as "Jan""#),
            ("2006-002", "2023-366", r#"parsing time "2023-366": day-of-year out of range"#),
            (
                "15 é",
                "1 \u{1}",
                r#"parsing time "1 \x01" as "15 \xc3\xa9": cannot parse "\x01" as " \xc3\xa9""#,
            ),
        ] {
            assert_eq!(read(layout, value), expected, "{layout} {value}");
        }
    }
}
