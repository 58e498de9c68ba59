//! Operators on values.

use std::cmp::Ordering;
use std::sync::Arc;

use groundwork_budget::Steps;
use groundwork_go::strconv::format_g;

use crate::value::{EvalError, Key, Value};

type Outcome = Result<Value, EvalError>;

const OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

fn int(result: Option<i64>) -> Outcome {
    result.map(Value::Int).ok_or_else(|| EvalError::new(OVERFLOW))
}

fn uint(result: Option<u64>) -> Outcome {
    result.map(Value::Uint).ok_or_else(|| EvalError::new(UNSIGNED_OVERFLOW))
}

fn duration(result: Option<i64>) -> Outcome {
    result.map(Value::Duration).ok_or_else(|| EvalError::new(OVERFLOW))
}

/// Returns the error of a value that does not support an operator. As in cel-go, texts and times do
/// not name the operator.
pub(crate) fn unable(operator: &str, value: &Value) -> EvalError {
    match value {
        Value::String(_) | Value::Timestamp(_) | Value::Duration(_) => EvalError::no_overload(),
        _ => EvalError::no_overload_of(operator),
    }
}

/// Evaluates an operator of two operands, except for those that do not always evaluate the second
/// one.
pub(crate) fn binary(operator: &str, left: &Value, right: &Value, steps: &Steps) -> Outcome {
    if !steps.spend(left.reading_steps() + right.reading_steps()) {
        return Err(EvalError::too_many_steps());
    }
    match operator {
        "_+_" => add(left, right, steps),
        "_-_" => subtract(left, right),
        "_*_" => multiply(left, right),
        "_/_" | "_%_" => divide(operator, left, right),
        "_<_" | "_<=_" | "_>_" | "_>=_" => order(operator, left, right),
        "@in" => is_in(left, right, steps),
        _ => Err(EvalError::no_overload_of(operator)),
    }
}

fn add(left: &Value, right: &Value, steps: &Steps) -> Outcome {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => Ok(Value::from([&**left, &**right].concat())),
        (Value::Bytes(left), Value::Bytes(right)) => Ok(Value::Bytes([&**left, &**right].concat().into())),
        (Value::List(left), Value::List(right)) => {
            if !steps.spend(left.len() + right.len()) {
                return Err(EvalError::too_many_steps());
            }
            Ok(Value::List(Arc::new(left.iter().chain(&**right).cloned().collect())))
        }
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_add(*right)),
        (Value::Timestamp(time), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(time)) => {
            time.plus(*by).map(Value::Timestamp)
        }
        (Value::Null | Value::Bool(_) | Value::Map(_) | Value::Type(_), _) => {
            Err(EvalError::no_overload_of("_+_"))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn subtract(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_sub(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_sub(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_sub(*right)),
        (Value::Timestamp(time), Value::Duration(by)) => match by.checked_neg() {
            Some(by) => time.plus(by).map(Value::Timestamp),
            None => Err(EvalError::new(OVERFLOW)),
        },
        (Value::Timestamp(left), Value::Timestamp(right)) => left.minus(right).map(Value::Duration),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _) => {
            Err(EvalError::no_overload())
        }
        _ => Err(unable("_-_", left)),
    }
}

fn multiply(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_mul(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_mul(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left * right)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(EvalError::no_overload()),
        _ => Err(unable("_*_", left)),
    }
}

fn divide(operator: &str, left: &Value, right: &Value) -> Outcome {
    let is_modulus = operator == "_%_";
    let by_zero = || Err(EvalError::new(if is_modulus { "modulus by zero" } else { "division by zero" }));
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => by_zero(),
        (Value::Int(left), Value::Int(right)) if is_modulus => int(left.checked_rem(*right)),
        (Value::Int(left), Value::Int(right)) => int(left.checked_div(*right)),
        (Value::Uint(left), Value::Uint(right)) if is_modulus => uint(left.checked_rem(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_div(*right)),
        (Value::Double(left), Value::Double(right)) if !is_modulus => Ok(Value::Double(left / right)),
        (Value::Int(_) | Value::Uint(_), _) => Err(EvalError::no_overload()),
        (Value::Double(_), _) if !is_modulus => Err(EvalError::no_overload()),
        _ => Err(unable(operator, left)),
    }
}

pub(crate) fn negate(value: &Value) -> Outcome {
    match value {
        Value::Int(number) => int(number.checked_neg()),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanoseconds) => duration(nanoseconds.checked_neg()),
        Value::Bool(truth) => Ok(Value::Bool(!truth)),
        _ => Err(unable("-_", value)),
    }
}

fn order(operator: &str, left: &Value, right: &Value) -> Outcome {
    let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    match left {
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_) => {}
        _ => return Err(EvalError::no_overload_of(operator)),
    }
    if is_number(left) && is_number(right) && (is_nan(left) || is_nan(right)) {
        return Err(EvalError::new("NaN values cannot be ordered"));
    }
    let order = left.compare(right).ok_or_else(EvalError::no_overload)?;
    Ok(Value::Bool(match operator {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn is_in(value: &Value, collection: &Value, steps: &Steps) -> Outcome {
    match collection {
        Value::List(list) => Ok(Value::Bool(list.iter().any(|element| element.equals(value, steps)))),
        Value::Map(map) => Ok(Value::Bool(Key::of(value).is_some_and(|key| map.contains_key(&key)))),
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluates `size()`; of a text it is the number of characters.
pub(crate) fn size(value: &Value) -> Outcome {
    let count = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err(unable("size", value)),
    };
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Returns a member of a map, or an element of a list. `None`: there is no such member; values of
/// other types have no members.
pub(crate) fn member(collection: &Value, at: &Value) -> Result<Option<Value>, EvalError> {
    match collection {
        Value::Map(map) => Ok(Key::of(at).and_then(|key| map.get(&key).cloned())),
        Value::List(list) => {
            let position = match at {
                Value::Int(position) => *position,
                Value::Uint(position) => i64::try_from(*position).unwrap_or(i64::MAX),
                Value::Double(number) if number.fract() == 0.0 => crate::convert::double_to_int(*number)?,
                Value::Double(number) => {
                    return Err(EvalError::new(format!(
                        "unsupported index value {} in list",
                        format_g(*number)
                    )));
                }
                _ => {
                    return Err(EvalError::new(format!(
                        "unsupported index type '{}' in list",
                        at.type_name()
                    )));
                }
            };
            Ok(usize::try_from(position).ok().and_then(|position| list.get(position).cloned()))
        }
        _ => Ok(None),
    }
}

/// Checks that a value can be an index in brackets.
pub(crate) fn check_index(at: &Value) -> Result<(), EvalError> {
    match at {
        Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => Ok(()),
        other => Err(EvalError::new(format!("invalid qualifier type: {}", go_type(other)))),
    }
}

/// Returns the Go type of a value, which cel-go's messages name.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
    }
}

/// Returns the error about a missing member.
pub(crate) fn missing(collection: &Value, at: &Value) -> EvalError {
    let shown = match at {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Double(number) => format_g(*number),
        other => other.type_name().to_owned(),
    };
    match collection {
        Value::List(_) => EvalError::new(format!("index out of bounds: {shown}")),
        _ => EvalError::new(format!("no such key: {shown}")),
    }
}
