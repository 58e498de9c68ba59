//! The cast rules of sprig (`gotemplate.md` 11): each value becomes a number, or a text.

use groundwork_go::strconv::{float_to_i64, parse_float, parse_int};

use crate::context::Context;
use crate::error::CallError;
use crate::format;
use crate::value::{DataNumber, Str, Value};

/// Casts as sprig's `toInt64`, and as `toInt` on 64 bits.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Bool(b) => i64::from(*b),
        Value::Int(_, bits) => *bits,
        Value::Float(f) => float_to_i64(*f),
        Value::Number(DataNumber::Int(i)) => *i,
        Value::Number(number) => float_to_i64(number.as_f64()),
        Value::Object(object) => object.integer().unwrap_or(0),
        Value::Str(text) => parse_int(integer_part(text)).unwrap_or(0),
        _ => 0,
    }
}

/// Casts as sprig's `toFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Int(kind, bits) if kind.is_unsigned() => bits.cast_unsigned() as f64,
        Value::Int(_, i) => *i as f64,
        Value::Float(f) => *f,
        Value::Number(number) => number.as_f64(),
        Value::Object(object) => object.integer().unwrap_or(0) as f64,
        Value::Str(text) => parse_float(text).unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Returns the part before the point of a plain decimal number, and other texts unchanged.
fn integer_part(text: &[u8]) -> &[u8] {
    let Some(point) = text.iter().position(|&b| b == b'.') else { return text };
    let (whole, decimals) = (&text[..point], &text[point + 1..]);
    let digits = whole.strip_prefix(b"-").or(whole.strip_prefix(b"+")).unwrap_or(whole);
    let is_decimal = digits.iter().chain(decimals).all(u8::is_ascii_digit);
    match (is_decimal, digits.is_empty()) {
        (true, true) => b"0",
        (true, false) => whole,
        (false, _) => text,
    }
}

/// Casts as sprig's `strval`: strings as they are, bytes as text, other values in the default
/// format (`gotemplate.md` 11).
pub(super) fn strval(context: &mut Context<'_>, value: &Value) -> Result<Str, CallError> {
    match value {
        Value::Str(text) | Value::Bytes(text) => Ok(text.clone()),
        other => Ok(format::to_bytes(other, context.budget())?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_become_integers() {
        let check = |text: &str, expected: i64| assert_eq!(to_int(&Value::str(text)), expected, "{text}");
        check("3.7", 3);
        check("-1.9", -1);
        check(".5", 0);
        check("1.", 1);
        check("0x10", 16);
        check("010", 8);
        check("0o17", 15);
        check("0b11", 3);
        check("1_000", 1000);
        for zero in ["08", " 3", "1e3", "12a", "", "9223372036854775808", "true"] {
            check(zero, 0);
        }
    }

    #[test]
    fn strings_become_floats() {
        let check = |text: &str, expected: f64| assert_eq!(to_float(&Value::str(text)), expected, "{text}");
        check("1e3", 1000.0);
        check("Inf", f64::INFINITY);
        check("0x1p4", 16.0);
        check("bad", 0.0);
    }
}
