//! Conversions (`spiff.md` 11.2).

use groundwork_go::strconv::{format_g, parse_float};

use super::arguments::{count, go_type};
use super::calling::Outcome;
use crate::issue::Issue;
use crate::operators::arithmetic::as_float;
use crate::value::Value;

/// `string(x [, base])`
pub(super) fn string(arguments: &[Value]) -> Outcome {
    let Some(value) = arguments.first() else { return Err("string requires one argument".into()) };
    if let Some(number) = value.as_int() {
        count(arguments, 1..=2, "string for integers requires one or two arguments")?;
        return arguments.get(1).map_or(Ok(10), base).map(|base| Value::string(in_base(number, base)));
    }
    count(arguments, 1..=1, "string requires one argument")?;
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Float(number) => Ok(Value::string(format_g(*number))),
        Value::Bool(flag) => Ok(Value::string(flag.to_string())),
        _ => Err(not_to(value, "string")),
    }
}

fn base(argument: &Value) -> Result<u64, Issue> {
    let base = argument.as_int().ok_or("base argument for string requires integer value")?;
    u64::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))
        .ok_or_else(|| "base argument for string requires integer value >=2 and <=36 ".into())
}

pub(super) fn in_base(number: i64, base: u64) -> String {
    if base == 10 {
        return number.to_string();
    }
    let mut digits = Vec::new();
    let mut rest = number.unsigned_abs();
    loop {
        let digit = u32::try_from(rest % base).ok().and_then(|digit| char::from_digit(digit, 36));
        digits.push(digit.unwrap_or('?'));
        rest /= base;
        if rest == 0 {
            break;
        }
    }
    let sign = if number < 0 { "-" } else { "" };
    sign.chars().chain(digits.into_iter().rev()).collect()
}

fn not_to(value: &Value, target: &str) -> Issue {
    Issue::new(format!("cannot convert {} to {target}", go_type(value)))
}

/// `integer(x)`
pub(super) fn integer(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "integer requires one argument")?;
    Ok(Value::Int(match &arguments[0] {
        Value::String(text) => {
            text.parse().map_err(|_| Issue::new(format!("{text:?} is no integer value")))?
        }
        Value::Int(number) | Value::Data(number) => *number,
        #[expect(clippy::cast_possible_truncation, reason = "truncation is what was asked for")]
        Value::Float(number) => *number as i64,
        Value::Bool(flag) => i64::from(*flag),
        other => return Err(not_to(other, "integer")),
    }))
}

/// `float(x)`
pub(super) fn float(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "float requires one argument")?;
    Ok(Value::Float(match &arguments[0] {
        Value::String(text) => {
            parse_float(text.as_bytes()).ok_or_else(|| Issue::new(format!("{text:?} is no float value")))?
        }
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        other => as_float(other).ok_or_else(|| not_to(other, "float"))?,
    }))
}

/// `bool(x)`
pub(super) fn bool(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "bool requires one argument")?;
    Ok(Value::Bool(match &arguments[0] {
        Value::Nil => false,
        Value::String(text) if text.is_empty() => false,
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => return Err(Issue::new(format!("{text:?} is no bool value"))),
        },
        Value::Int(number) | Value::Data(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Bool(flag) => *flag,
        other => return Err(not_to(other, "bool")),
    }))
}
