//! The rules by which Go's YAML writer quotes and escapes strings.

use crate::scalar::{Scalar, resolve_plain};
use crate::style::Dialect;

/// The dialect of the Go tools.
pub(super) struct GoTools;

impl Dialect for GoTools {
    fn reads_as_other_type(text: &str) -> bool {
        !matches!(resolve_plain(text), Scalar::Text | Scalar::Merge)
            || is_timestamp(text)
            || is_sexagesimal(text)
    }

    fn is_special(c: char) -> bool {
        !matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') || c == '\u{feff}'
    }
}

/// Reports whether a text matches `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: YAML 1.1 numbers
/// to base 60, which older readers still accept.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (parts, fraction) = match unsigned.split_once('.') {
        Some((parts, fraction)) => (parts, fraction),
        None => (unsigned, ""),
    };
    let digit_or_underscore = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut parts = parts.split(':');
    let Some(first) = parts.next() else { return false };
    let mut rest = parts.peekable();
    rest.peek().is_some()
        && first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(digit_or_underscore)
        && fraction.bytes().all(digit_or_underscore)
        && rest.all(|part| match part.as_bytes() {
            [low] => low.is_ascii_digit(),
            [high, low] => (b'0'..=b'5').contains(high) && low.is_ascii_digit(),
            _ => false,
        })
}

/// Reports whether a text is an existing date, alone, with `T` time and zone, or with a blank and a
/// time.
fn is_timestamp(text: &str) -> bool {
    parse_timestamp(text).is_some()
}

fn parse_timestamp(text: &str) -> Option<()> {
    let (year, rest) = text.split_once('-')?;
    if year.len() != 4 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (month, rest) = short_number(rest, 1, 12)?;
    let (day, rest) = short_number(rest.strip_prefix('-')?, 1, 31)?;
    if day > days_in_month(year.parse().ok()?, month) {
        return None;
    }
    if rest.is_empty() {
        return Some(());
    }
    if let Some(rest) = rest.strip_prefix(' ') {
        return time_of_day(rest)?.is_empty().then_some(());
    }
    zone(time_of_day(rest.strip_prefix(['T', 't'])?)?)
}

/// Reads `h:m:s[.fraction]`. Returns the text behind it.
fn time_of_day(text: &str) -> Option<&str> {
    let (_, rest) = short_number(text, 0, 23)?;
    let (_, rest) = short_number(rest.strip_prefix(':')?, 0, 59)?;
    let (_, rest) = short_number(rest.strip_prefix(':')?, 0, 59)?;
    let Some(fraction) = rest.strip_prefix(['.', ',']) else {
        return Some(rest);
    };
    let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    (after.len() < fraction.len()).then_some(after)
}

fn zone(text: &str) -> Option<()> {
    if text == "Z" {
        return Some(());
    }
    let offset = text.strip_prefix(['+', '-'])?;
    let (hours, minutes) = offset.split_once(':')?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    (two_digits(hours) && two_digits(minutes) && hours <= "24" && minutes < "60").then_some(())
}

/// Reads a number of one or two digits within bounds. Returns also the rest of the text.
fn short_number(text: &str, low: u32, high: u32) -> Option<(u32, &str)> {
    let len = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let value: u32 = text[..len].parse().ok()?;
    (low..=high).contains(&value).then_some((value, &text[len..]))
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}
