//! Dates, times and durations of RFC 3339.

use groundwork_go::time::parse;

use super::{Checked, character, integer, no, within};

pub(super) fn date(text: &str) -> Checked {
    parse(b"2006-01-02", text.as_bytes()).map(drop)
}

pub(super) fn time(text: &str) -> Checked {
    time_of_day(text.as_bytes())
}

fn time_of_day(text: &[u8]) -> Checked {
    if text.len() < 9 {
        return no("less than 9 characters long");
    }
    if text[2] != b':' || text[5] != b':' {
        return no("missing colon in correct place");
    }
    let mut parts = [0; 3];
    for (part, at) in parts.iter_mut().zip([0, 3, 6]) {
        *part = integer(&text[at..at + 2]).map_err(|_| "invalid hour/min/sec")?;
        if *part < 0 {
            return no("non-positive hour/min/sec");
        }
    }
    let [hour, minute, second] = parts;
    if hour > 23 || minute > 59 || second > 60 {
        return no("hour/min/sec out of range");
    }
    let mut rest = &text[8..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return no("no digits in second fraction");
        }
        rest = &fraction[digits..];
    }
    let mut of_day = hour * 60 + minute;
    if rest != b"z" && rest != b"Z" {
        of_day = (of_day - offset(rest)?).rem_euclid(24 * 60);
    }
    // Leap seconds are inserted only at the end of a day in UTC.
    if second == 60 && of_day != 24 * 60 - 1 {
        return no("invalid leap second");
    }
    Ok(())
}

/// Returns the minutes by which a zone is ahead of UTC.
fn offset(text: &[u8]) -> Result<i64, String> {
    let reason = |reason: &str| Err(reason.to_owned());
    let [sign, time @ ..] = text else { return reason("offset must be 6 characters long") };
    if text.len() != 6 {
        return reason("offset must be 6 characters long");
    }
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return reason("offset must begin with plus/minus"),
    };
    if time[2] != b':' {
        return reason("missing colon in offset in correct place");
    }
    let mut parts = [0; 2];
    for (part, at) in parts.iter_mut().zip([0, 3]) {
        *part = integer(&time[at..at + 2]).map_err(|_| "invalid hour/min in offset")?;
        if *part < 0 {
            return reason("non-positive hour/min in offset");
        }
    }
    let [hours, minutes] = parts;
    if hours > 23 || minutes > 59 {
        return reason("hour/min in offset out of range");
    }
    Ok(sign * (hours * 60 + minutes))
}

pub(super) fn date_time(text: &str) -> Checked {
    let bytes = text.as_bytes();
    if bytes.len() < 20 {
        return no("less than 20 characters long");
    }
    if !matches!(bytes[10], b't' | b'T') {
        return no("11th character must be t or T");
    }
    within("invalid date element", parse(b"2006-01-02", &bytes[..10]).map(drop))?;
    within("invalid time element", time_of_day(&bytes[11..]))
}

pub(super) fn duration(text: &str) -> Checked {
    const UNITS: [&str; 2] = ["YMD", "HMS"];
    let Some(text) = text.strip_prefix('P') else { return no("must start with P") };
    if text.is_empty() {
        return no("nothing after P");
    }
    if let Some(weeks) = text.strip_suffix('W') {
        return match weeks {
            "" => no("no number in week"),
            weeks if weeks.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
            _ => no("invalid week"),
        };
    }
    for (at, part) in text.split('T').enumerate() {
        if at > 0 && part.is_empty() {
            return no("no time elements");
        }
        let Some(all) = UNITS.get(at) else { return no("more than one T") };
        elements(part, all)?;
    }
    Ok(())
}

/// Checks numbers with units. Each unit may occur once, in this order.
fn elements(text: &str, all: &str) -> Checked {
    let (mut rest, mut units) = (text, all);
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if behind.len() == rest.len() {
            return no("missing number");
        }
        let Some(unit) = behind.bytes().next().map(char::from) else { return no("missing unit") };
        match units.split_once(unit) {
            Some((_, later)) => units = later,
            None if all.contains(unit) => return no(format!("unit {} out of order", character(unit))),
            None => return no(format!("invalid unit {}", character(unit))),
        }
        // A unit is one byte.
        rest = &behind[1..];
    }
    Ok(())
}

pub(super) fn period(text: &str) -> Checked {
    let Some((start, end)) = text.split_once('/') else { return no("missing slash") };
    if start.starts_with('P') {
        within("invalid start duration", duration(start))?;
        return within("invalid end date-time", date_time(end));
    }
    within("invalid start date-time", date_time(start))?;
    if end.starts_with('P') {
        return within("invalid end duration", duration(end));
    }
    within("invalid end date-time", date_time(end))
}
