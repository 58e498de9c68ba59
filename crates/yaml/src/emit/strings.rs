//! Which of the four notations a string gets, and how characters are escaped.

use crate::scalar::{Scalar, resolve_plain};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// The first notation that fits, in the order of `blueprints.md` 5.5.1 "Strings".
pub(super) fn choose_style(text: &str) -> Style {
    if text.contains('\n') {
        return if fits_literal(text) { Style::Literal } else { Style::DoubleQuoted };
    }
    if reads_as_other_type(text) || text.contains(is_special) || has_blank_beside_break(text) {
        Style::DoubleQuoted
    } else if needs_quotes(text) {
        Style::SingleQuoted
    } else {
        Style::Plain
    }
}

fn fits_literal(text: &str) -> bool {
    let is_break = |c: char| c == '\n' || is_unicode_break(c);
    let blank_before_break = neighbours(text).any(|(c, next)| c == ' ' && is_break(next));
    !text.contains(is_special) && !blank_before_break && !text.ends_with(' ')
}

/// The chomping indicator of a literal: what its end says about final line breaks.
pub(super) fn chomping(text: &str) -> &'static str {
    let is_break = |c: char| c == '\n' || is_unicode_break(c);
    let mut from_end = text.chars().rev();
    match (from_end.next(), from_end.next()) {
        (Some(last), Some(before)) if is_break(last) && !is_break(before) => "",
        (Some(last), _) if is_break(last) => "+",
        _ => "-",
    }
}

fn has_blank_beside_break(text: &str) -> bool {
    neighbours(text).any(|(c, next)| c == ' ' && is_unicode_break(next) || is_unicode_break(c) && next == ' ')
}

fn neighbours(text: &str) -> impl Iterator<Item = (char, char)> {
    text.chars().zip(text.chars().skip(1))
}

/// Characters that only double quotes can carry.
fn is_special(c: char) -> bool {
    !matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') || c == '\u{feff}'
}

/// Line and paragraph separator: YAML 1.1 counts them as line breaks.
pub(super) fn is_unicode_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

fn reads_as_other_type(text: &str) -> bool {
    !matches!(resolve_plain(text), Scalar::Text | Scalar::Merge) || is_timestamp(text) || is_sexagesimal(text)
}

fn needs_quotes(text: &str) -> bool {
    let second_is_blank = || text[1..].is_empty() || text[1..].starts_with(' ');
    let first = match text.chars().next() {
        Some(
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
        ) => true,
        Some('-' | '?' | ':') => second_is_blank(),
        _ => false,
    };
    first
        || text.starts_with("---")
        || text.starts_with("...")
        || text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':')
        || text.starts_with(' ')
        || text.ends_with(' ')
        || text.contains(is_unicode_break)
}

/// The escape of `c` inside double quotes, if it needs one.
///
/// `all` reproduces what the Go writer does to a text that begins with a byte order mark: it takes every
/// character for one.
pub(super) fn escape(c: char, all: bool) -> Option<String> {
    let short = match c {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        '\u{a0}' if all => "\\_",
        _ if all || is_special(c) => {
            let code = u32::from(c);
            return Some(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
        _ => return None,
    };
    Some(short.to_owned())
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: YAML 1.1 numbers to base 60, which older readers still know.
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

/// An existing date, alone, with `T` time and zone, or with a blank and a time.
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

/// `h:m:s[.fraction]`; answers with what follows.
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

/// A number of one or two digits within bounds, and the rest of the text.
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
