//! Conversion of plain text to a typed value (`blueprints.md` 12).

use groundwork_go::strconv::{parse_int, parse_uint};
use serde_json::Number;

use crate::node::Content;

/// The value of a plain scalar before it is converted to JSON.
#[derive(Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    /// `.inf`, `-.inf`, `.nan`: YAML has them, JSON does not.
    NotFinite(f64),
    /// `<<` without quotes.
    Merge,
    Text,
}

/// Returns the value of the plain (unquoted, untagged) scalar `text`.
pub(crate) fn resolve_plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "<<" => return Scalar::Merge,
        ".nan" | ".NaN" | ".NAN" => return Scalar::NotFinite(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::NotFinite(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::NotFinite(f64::NEG_INFINITY),
        _ => {}
    }
    if let Some(value) = boolean(text) {
        return Scalar::Bool(value);
    }
    number(text).map_or(Scalar::Text, Scalar::Number)
}

/// Parses the YAML 1.1 words, each in lower case, upper case or capitalised, but not in mixed case.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'.' {
        // Go's reader does not skip underscores in numbers that begin with a point.
        return decimal_float(text);
    }
    if !(first.is_ascii_digit() || first == b'+' || first == b'-') {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| {
        let float = decimal_float(&plain)?;
        // `08` and integers beyond 64 bits are not integers to Go, so they are read as floats. A
        // small one is integral again.
        let written_as_integer = !plain.contains(['.', 'e', 'E']);
        match float.as_f64() {
            Some(value) if written_as_integer => small_integral(value).or(Some(float)),
            _ => Some(float),
        }
    })
}

fn small_integral(value: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    // 2^53: below it the cast is exact.
    #[allow(clippy::cast_possible_truncation)]
    (value.abs() <= EXACT).then(|| Number::from(value as i64))
}

/// Parses an integer with Go's base prefixes: `0x`, `0b`, `0o` and the bare leading zero. Beyond 63
/// bits a sign is not allowed.
fn integer(plain: &str) -> Option<Number> {
    let signed = parse_int(plain.as_bytes()).map(Number::from);
    signed.or_else(|| parse_uint(plain.as_bytes()).map(Number::from))
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, within the range of a double.
fn decimal_float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text)));
    if !(mantissa_fits && exponent_fits) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| Number::from_f64(value)).flatten()
}

/// Returns the value of a scalar with one of YAML's own tags, in any style; `None` if the text does
/// not fit the tag.
pub(crate) fn resolve_tagged(suffix: &str, text: &str) -> Option<Content> {
    let plain = resolve_plain(text);
    match (suffix, plain) {
        ("null", Scalar::Null) => Some(Content::Null),
        ("bool", Scalar::Bool(value)) => Some(Content::Bool(value)),
        ("int", Scalar::Number(number)) if !number.is_f64() => Some(Content::Number(number)),
        ("float", Scalar::Number(number)) => number.as_f64().and_then(Number::from_f64).map(Content::Number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, json: &str) {
        let shown = match resolve_plain(text) {
            Scalar::Null => "null".to_owned(),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::NotFinite(_) => "not finite".to_owned(),
            Scalar::Merge => "merge".to_owned(),
            Scalar::Text => format!("{text:?}"),
        };
        assert_eq!(shown, json, "{text}");
    }

    #[test]
    fn words() {
        for text in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"] {
            check(text, "true");
        }
        for text in ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"] {
            check(text, "false");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            check(text, "null");
        }
        for text in ["yEs", "tRUE", "oN", "nULL", "nil", "none"] {
            check(text, &format!("{text:?}"));
        }
    }

    /// The table of `blueprints.md` 12, and neighbouring cases.
    #[test]
    fn numbers() {
        for (text, json) in [
            ("0", "0"),
            ("-17", "-17"),
            ("+12", "12"),
            ("014", "12"),
            ("0777", "511"),
            ("0o14", "12"),
            ("0O17", "15"),
            ("0x1F", "31"),
            ("0X1f", "31"),
            ("-0x10", "-16"),
            ("0b101", "5"),
            ("1_000", "1000"),
            ("1__0", "10"),
            ("-_1", "-1"),
            ("08", "8"),
            ("-09", "-9"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551615", "18446744073709551615"),
            // In Go only integers of 63 bits may have a sign; beyond them a sign makes a float.
            ("+9223372036854775807", "9223372036854775807"),
            ("+18446744073709551615", "1.8446744073709552e+19"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("12345678901234567890123", "1.2345678901234568e+22"),
            ("3.10", "3.1"),
            ("3.0", "3.0"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("1e3", "1000.0"),
            ("1E-2", "0.01"),
            ("1_0.5", "10.5"),
            ("+.5", "0.5"),
            (".inf", "not finite"),
            ("-.INF", "not finite"),
            (".NaN", "not finite"),
            ("<<", "merge"),
        ] {
            check(text, json);
        }
    }

    #[test]
    fn strings() {
        for text in [
            "0o8",
            "0x",
            "0b",
            "0xG",
            "0x7fffffffffffffffff",
            "1e400",
            "._5",
            ".5_0",
            ".",
            "..",
            "+",
            "-",
            "--1",
            "+-1",
            "12:30:45",
            "2001-01-01",
            "2001-12-14",
            "=",
            "_1",
            "1e",
            "1e+",
            "e3",
            "1.2.3",
            "0x+1",
            "infinity",
            "NaN",
            "1,000",
            "٣",
        ] {
            check(text, &format!("{text:?}"));
        }
    }
}
