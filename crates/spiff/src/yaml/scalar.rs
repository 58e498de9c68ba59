//! Types of plain scalars (`spiff.md` 14.1), with the YAML 1.1 words of spiff++'s reader.

use std::borrow::Cow;
use std::sync::OnceLock;

use groundwork_go::strconv::{parse_float, parse_int};
use regex::Regex;

use crate::value::Value;

/// Returns the value of an unquoted text without tag; `None`: the text itself.
pub(super) fn resolve(text: &str) -> Option<Value> {
    let first = *text.as_bytes().first().unwrap_or(&b'~');
    match first {
        b'+' | b'-' | b'0'..=b'9' => number(text),
        b'.' => float(text).map(Value::Float),
        b'~' if text.len() <= 1 => Some(Value::Nil),
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => Some(Value::Nil),
        b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'n' | b'N' | b'o' | b'O' => bool(text).map(Value::Bool),
        _ => None,
    }
}

fn bool(text: &str) -> Option<bool> {
    const WORDS: &[(&str, bool)] = &[
        ("true", true),
        ("false", false),
        ("yes", true),
        ("no", false),
        ("on", true),
        ("off", false),
        ("y", true),
        ("n", false),
    ];
    WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
}

fn number(text: &str) -> Option<Value> {
    int(text).map(Value::Int).or_else(|| float(text).map(Value::Float))
}

/// Parses an int: decimal, `0x`, `0o`, `0b`, or octal after a leading `0`; underscores are skipped.
fn int(text: &str) -> Option<i64> {
    parse_int(without_underscores(text).as_bytes())
}

fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

/// Parses a number with fraction or exponent, an int beyond 64 bits, `.inf`, `.nan`. A number
/// beyond the doubles is text.
fn float(text: &str) -> Option<f64> {
    let text = without_underscores(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text)),
    };
    if digits.eq_ignore_ascii_case(".inf") {
        return Some(sign * f64::INFINITY);
    }
    if digits.eq_ignore_ascii_case(".nan") {
        return Some(f64::NAN);
    }
    // Rust's parser accepts `inf` and `nan`, and the sign has been read already, so both are
    // refused here.
    if digits.starts_with(|c: char| c.is_ascii_alphabetic() || c == '+' || c == '-') {
        return None;
    }
    parse_float(digits.as_bytes()).map(|value| sign * value)
}

/// Reports whether spiff++'s reader would read the text as a date or time. Its writer quotes such
/// texts.
pub(super) fn is_timestamp(text: &str) -> bool {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = PATTERN.get_or_init(|| {
        Regex::new(
            r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?([ \t]*(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?)?$",
        )
        .ok()
    });
    text.as_bytes().get(4) == Some(&b'-') && pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match resolve(text) {
            None => "text".to_owned(),
            Some(Value::Float(value)) => format!("float {value}"),
            Some(Value::Int(value)) => format!("int {value}"),
            Some(Value::Bool(value)) => format!("bool {value}"),
            Some(Value::Nil) => "nil".to_owned(),
            Some(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn plain_scalars_by_14_1() {
        for (text, expected) in [
            ("", "nil"),
            ("~", "nil"),
            ("null", "nil"),
            ("Null", "nil"),
            ("NULL", "nil"),
            ("nuLL", "text"),
            ("~x", "text"),
            ("y", "bool true"),
            ("N", "bool false"),
            ("YeS", "bool true"),
            ("off", "bool false"),
            ("True", "bool true"),
            ("yess", "text"),
            ("0", "int 0"),
            ("-0", "int 0"),
            ("+5", "int 5"),
            ("1_000", "int 1000"),
            ("0x1F", "int 31"),
            ("-0x1F", "int -31"),
            ("010", "int 8"),
            ("0o17", "int 15"),
            ("0b101", "int 5"),
            ("9223372036854775807", "int 9223372036854775807"),
            ("-9223372036854775808", "int -9223372036854775808"),
            ("9223372036854775808", "float 9223372036854776000"),
            ("08", "float 8"),
            ("1.50", "float 1.5"),
            (".5", "float 0.5"),
            ("5.", "float 5"),
            ("1e3", "float 1000"),
            ("1e+08", "float 100000000"),
            ("1_0.5", "float 10.5"),
            (".inf", "float inf"),
            ("+.INF", "float inf"),
            ("-.inf", "float -inf"),
            (".NaN", "float NaN"),
            ("0x1p-2", "float 0.25"),
            ("--1", "text"),
            ("+-1", "text"),
            ("1e400", "text"),
            ("0x", "text"),
            ("0o8", "text"),
            ("-", "text"),
            ("+", "text"),
            (".", "text"),
            ("1:30", "text"),
            ("1.2.3", "text"),
            ("2001-01-01", "text"),
            ("inf", "text"),
            ("nan", "text"),
            ("-inf", "text"),
            ("(( a ))", "text"),
            ("<<", "text"),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn timestamps_by_the_originals_pattern() {
        for text in ["2001-01-01", "2001-1-1", "2001-12-14T21:59:43.10Z", "2001-12-14 21:59:43 +05:30"] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in ["2001-01", "12:30:45", "2001-01-01x", "é001-01-01"] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
