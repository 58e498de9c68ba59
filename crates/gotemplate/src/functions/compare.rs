//! The comparison functions (`gotemplate.md` 8; data numbers: `blueprints.md` 5.2).

use std::cmp::Ordering;

use super::arguments::Arguments;
use crate::context::Context;
use crate::error::CallError;
use crate::format;
use crate::value::Value;
use crate::value::equal::as_number;

/// The classes of values. Only values of the same class compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    Bool,
    Integer,
    Float,
    Complex,
    String,
}

fn basic(value: &Value) -> Option<Basic> {
    Some(match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(..) => Basic::Integer,
        Value::Object(object) if object.integer().is_some() => Basic::Integer,
        Value::Float(_) | Value::Number(_) => Basic::Float,
        Value::Complex(..) => Basic::Complex,
        Value::Str(_) => Basic::String,
        _ => return None,
    })
}

/// Compares numbers by value: a data number with every kind, and integers of any signedness with
/// each other.
fn compare_by_value(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    match (a, b) {
        (Value::Number(a), b) => Some(a.compare(as_number(b)?)),
        (a, Value::Number(b)) => Some(as_number(a)?.compare(*b)),
        (Value::Int(..) | Value::Object(_), Value::Int(..) | Value::Object(_)) => {
            Some(Some(a.as_integer()?.cmp(&b.as_integer()?)))
        }
        _ => None,
    }
}

fn incompatible(a: &Value, b: &Value) -> CallError {
    format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()).into()
}

/// Runs `eq`: reports whether the first argument equals any other. Stops at the first match.
pub(super) fn eq(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, CallError> {
    let first = arguments.value(0);
    if arguments.len() < 2 {
        return Err("missing argument for comparison".into());
    }
    for other in arguments.rest(1) {
        if equal(context, first, other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn equal(context: &mut Context<'_>, a: &Value, b: &Value) -> Result<bool, CallError> {
    if let Some(order) = compare_by_value(a, b) {
        return Ok(order == Some(Ordering::Equal));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Float(a), Value::Float(b)) => Ok(a == b),
        (Value::Complex(..), Value::Complex(..)) => a.deep_equal(b, context.budget()).map_err(Into::into),
        (Value::Str(a), Value::Str(b)) => Ok(a == b),
        _ if a.is_nil() || b.is_nil() => Ok(is_nil(a) == is_nil(b) && basic(a) == basic(b)),
        _ if basic(a) != basic(b) => Err(incompatible(a, b)),
        _ if a.kind_name() != b.kind_name() => Err(format!(
            "non-comparable types {}: {}, {}: {}",
            shown(context, a, "%s")?,
            a.type_name(),
            b.type_name(),
            shown(context, b, "%v")?
        )
        .into()),
        _ if is_nil(a) || is_nil(b) => Ok(is_nil(a) == is_nil(b)),
        (Value::Object(a), Value::Object(b)) => Ok(a.equals(b.as_ref())),
        _ => Err(format!("non-comparable type {}: {}", shown(context, b, "%s")?, b.type_name()).into()),
    }
}

/// Reports whether a value is nil in Go's sense, typed nils included.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        other => other.is_nil(),
    }
}

fn shown(context: &mut Context<'_>, value: &Value, verb: &str) -> Result<String, CallError> {
    let mut sink = format::sink(context.budget());
    format::printf(&mut sink, verb.as_bytes(), std::slice::from_ref(value));
    let bytes = format::finish(sink, context.budget())?;
    Ok(crate::text::lossy(&bytes).into_owned())
}

/// Runs `lt`.
pub(super) fn less(a: &Value, b: &Value) -> Result<bool, CallError> {
    let (Some(class_a), Some(class_b)) = (basic(a), basic(b)) else {
        return Err("invalid type for comparison".into());
    };
    if let Some(order) = compare_by_value(a, b) {
        return Ok(order == Some(Ordering::Less));
    }
    if class_a != class_b {
        return Err(incompatible(a, b));
    }
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => Ok(a < b),
        (Value::Str(a), Value::Str(b)) => Ok(a < b),
        _ => Err("invalid type for comparison".into()),
    }
}

/// Runs `le`: reports whether the first argument is less than the second or equal to it, with the
/// errors of `lt` and of `eq`.
pub(super) fn less_or_equal(context: &mut Context<'_>, arguments: &[Value]) -> Result<bool, CallError> {
    let (a, b) = (arguments.value(0), arguments.value(1));
    Ok(less(a, b)? || equal(context, a, b)?)
}
