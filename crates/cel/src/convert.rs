//! Conversions from one type to another.

use std::sync::Arc;

use groundwork_go::duration;
use groundwork_go::strconv::{FloatVerb, append_float, format_g, parse_float};

use crate::time::Time;
use crate::value::{EvalError, Value};

/// Reports whether a function is a conversion. Conversions of constants are done when an expression
/// is compiled.
pub(crate) fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "uint"
    )
}

/// Converts a value to the type that the function is named after. The caller has checked that the
/// function accepts its type.
pub(crate) fn convert(function: &str, value: &Value) -> Result<Value, EvalError> {
    match function {
        "dyn" => Ok(value.clone()),
        "bool" => to_bool(value),
        "bytes" => to_bytes(value),
        "double" => to_double(value),
        "duration" => to_duration(value),
        "int" => to_int(value),
        "string" => to_string(value),
        "timestamp" => to_timestamp(value),
        "uint" => to_uint(value),
        _ => Err(EvalError::no_overload_of(function)),
    }
}

fn failed(value: &Value, wanted: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
}

fn to_bool(value: &Value) -> Result<Value, EvalError> {
    let Value::String(text) = value else { return same(value, "bool") };
    match &**text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
        _ => Err(failed(value, "bool")),
    }
}

fn same(value: &Value, wanted: &str) -> Result<Value, EvalError> {
    if value.type_name() == wanted { Ok(value.clone()) } else { Err(failed(value, wanted)) }
}

fn to_bytes(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::String(text) => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => same(value, "bytes"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as in the original")]
fn to_double(value: &Value) -> Result<Value, EvalError> {
    Ok(Value::Double(match value {
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::String(text) => parse_float(text.as_bytes()).ok_or_else(|| failed(value, "double"))?,
        _ => return same(value, "double"),
    }))
}

fn to_duration(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::String(text) => duration::parse(text.as_bytes())
            .map(Value::Duration)
            .map_err(|_| failed(value, "google.protobuf.Duration")),
        _ => same(value, "google.protobuf.Duration"),
    }
}

/// Converts towards zero. A number out of range, or NaN, is an overflow.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
pub(crate) fn double_to_int(number: f64) -> Result<i64, EvalError> {
    // cel-go refuses the doubles at the bounds themselves, although the lower one would fit.
    let bound = 9_223_372_036_854_775_808.0;
    if number.is_nan() || number <= -bound || number >= bound {
        return Err(EvalError::new("integer overflow"));
    }
    Ok(number as i64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked")]
fn double_to_uint(number: f64) -> Result<u64, EvalError> {
    if !(0.0..18_446_744_073_709_551_616.0).contains(&number) {
        return Err(EvalError::new("unsigned integer overflow"));
    }
    Ok(number as u64)
}

fn to_int(value: &Value) -> Result<Value, EvalError> {
    Ok(Value::Int(match value {
        Value::Double(number) => double_to_int(*number)?,
        Value::Duration(nanoseconds) => *nanoseconds,
        Value::String(text) => decimal(text).ok_or_else(|| failed(value, "int"))?,
        Value::Timestamp(time) => time.seconds,
        Value::Uint(number) => i64::try_from(*number).map_err(|_| EvalError::new("integer overflow"))?,
        _ => return same(value, "int"),
    }))
}

fn to_uint(value: &Value) -> Result<Value, EvalError> {
    Ok(Value::Uint(match value {
        Value::Double(number) => double_to_uint(*number)?,
        Value::Int(number) => {
            u64::try_from(*number).map_err(|_| EvalError::new("unsigned integer overflow"))?
        }
        Value::String(text) if text.starts_with('+') => return Err(failed(value, "uint")),
        Value::String(text) => text.parse().map_err(|_| failed(value, "uint"))?,
        _ => return same(value, "uint"),
    }))
}

/// Parses a decimal number with an optional sign.
fn decimal(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn to_timestamp(value: &Value) -> Result<Value, EvalError> {
    let wanted = "google.protobuf.Timestamp";
    match value {
        Value::Int(seconds) => Time::from_seconds(*seconds).map(Value::Timestamp),
        Value::String(text) => {
            Time::parse(text).unwrap_or_else(|| Err(failed(value, wanted))).map(Value::Timestamp)
        }
        _ => same(value, wanted),
    }
}

fn to_string(value: &Value) -> Result<Value, EvalError> {
    Ok(Value::from(match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => format_g(*number),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Timestamp(time) => time.text(),
        Value::Duration(nanoseconds) => seconds(*nanoseconds),
        _ => return same(value, "string"),
    }))
}

/// Formats seconds as a double, as cel-go does, so that the last digits may be inexact.
#[expect(clippy::cast_precision_loss, reason = "as in the original")]
fn seconds(nanoseconds: i64) -> String {
    let second = groundwork_go::time::SECOND;
    let number = (nanoseconds / second) as f64 + (nanoseconds % second) as f64 / 1e9;
    let mut text = Vec::new();
    append_float(&mut text, number, FloatVerb::Decimal, None);
    text.push(b's');
    String::from_utf8_lossy(&text).into_owned()
}
