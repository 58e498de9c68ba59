//! The functions of texts, times and types.

use std::sync::Arc;

use groundwork_budget::{BYTES_PER_STEP, Steps};

use crate::convert::{convert, is_conversion};
use crate::declarations::{Overload, overloads};
use crate::operators::{negate, size, unable};
use crate::time::part_of_duration;
use crate::types::Type;
use crate::value::{EvalError, Value};

type Outcome = Result<Value, EvalError>;

/// Program that evaluates expressions, and provides variables and regular expressions to them.
pub trait Host {
    /// Returns the value of a variable, or `None` if it is declared but not known.
    fn variable(&self, name: &str) -> Option<Value>;

    /// Reports whether a part of a text matches an RE2 pattern.
    ///
    /// # Errors
    ///
    /// The text is not a pattern; the message is that of cel-go.
    fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError>;
}

/// Calls a function. The target of a member call is the first argument. `only` is the overload that
/// the type check chose, if it left only one. The caller accounts for reading the texts.
pub(crate) fn call(
    host: &dyn Host,
    function: &str,
    only: Option<usize>,
    arguments: &[Value],
    steps: &Steps,
) -> Outcome {
    match (function, arguments) {
        ("!_", [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        ("!_", [_]) => Err(EvalError::no_overload()),
        ("-_", [value]) => negate(value),
        ("size", [value]) => size(value),
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("matches", [text, pattern]) => matches(host, text, pattern),
        ("contains" | "startsWith" | "endsWith", [text, part]) => has_part(function, text, part),
        (_, [value]) if is_conversion(function) => {
            if function != "dyn" && !takes(function, only, arguments) {
                return Err(EvalError::no_overload_for(function, arguments));
            }
            convert(function, value)
        }
        (_, [value, rest @ ..]) if function.starts_with("get") => get(function, only, value, rest, arguments),
        _ => extension(function, arguments, steps),
    }
}

/// Reports whether the remaining overload, or any, accepts these values.
fn takes(function: &str, only: Option<usize>, arguments: &[Value]) -> bool {
    let declared = overloads(function).unwrap_or(&[]);
    let fits = |overload: &Overload| {
        overload.takes.len() == arguments.len()
            && overload.takes.iter().zip(arguments).all(|(wanted, value)| is_of(value, wanted))
    };
    match only {
        Some(position) => declared.get(position).is_some_and(fits),
        None => declared.iter().any(fits),
    }
}

fn is_of(value: &Value, wanted: &Type) -> bool {
    matches!(
        (value, wanted),
        (_, Type::Dyn | Type::Variable(_))
            | (Value::Null, Type::Null)
            | (Value::Bool(_), Type::Bool)
            | (Value::Int(_), Type::Int)
            | (Value::Uint(_), Type::Uint)
            | (Value::Double(_), Type::Double)
            | (Value::String(_), Type::String)
            | (Value::Bytes(_), Type::Bytes)
            | (Value::Timestamp(_), Type::Timestamp)
            | (Value::Duration(_), Type::Duration)
            | (Value::List(_), Type::List(_))
            | (Value::Map(_), Type::Map(..))
            | (Value::Type(_), Type::Named(_))
    )
}

fn matches(host: &dyn Host, text: &Value, pattern: &Value) -> Outcome {
    match (text, pattern) {
        (Value::String(text), Value::String(pattern)) => host.matches(text, pattern).map(Value::Bool),
        (Value::String(_), _) => Err(EvalError::no_overload()),
        _ => Err(unable("matches", text)),
    }
}

fn has_part(function: &str, text: &Value, part: &Value) -> Outcome {
    let (Value::String(text), Value::String(part)) = (text, part) else {
        return Err(EvalError::no_overload());
    };
    Ok(Value::Bool(match function {
        "contains" => text.contains(&**part),
        "startsWith" => text.starts_with(&**part),
        _ => text.ends_with(&**part),
    }))
}

fn get(function: &str, only: Option<usize>, value: &Value, rest: &[Value], arguments: &[Value]) -> Outcome {
    if !takes(function, only, arguments) {
        return Err(EvalError::no_overload_for(function, arguments));
    }
    match (value, rest) {
        (Value::Timestamp(time), []) => time.part(function, "").map(Value::Int),
        (Value::Timestamp(time), [Value::String(zone)]) => time.part(function, zone).map(Value::Int),
        (Value::Duration(nanoseconds), []) => part_of_duration(*nanoseconds, function).map(Value::Int),
        _ => Err(EvalError::no_overload_for(function, arguments)),
    }
}

/// Calls a function of cel-go's string library (`packagevariants.md` 4.4), which its standard
/// library does not have.
fn extension(function: &str, arguments: &[Value], steps: &Steps) -> Outcome {
    match (function, arguments) {
        ("lowerAscii", [Value::String(text)]) => Ok(text.to_ascii_lowercase().into()),
        ("trim", [Value::String(text)]) => Ok(text.trim().into()),
        ("replace", [Value::String(text), Value::String(old), Value::String(new)]) => {
            replace(text, old, new, -1, steps)
        }
        ("replace", [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)]) => {
            replace(text, old, new, *count, steps)
        }
        ("split", [Value::String(text), Value::String(by)]) => split(text, by, -1, steps),
        ("split", [Value::String(text), Value::String(by), Value::Int(count)]) => {
            split(text, by, *count, steps)
        }
        ("join", [Value::List(texts)]) => join(texts, "", steps),
        ("join", [Value::List(texts), Value::String(by)]) => join(texts, by, steps),
        ("substring", [Value::String(text), Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::String(text), Value::Int(from), Value::Int(to)]) => {
            substring(text, *from, Some(*to))
        }
        _ => Err(EvalError::no_overload_for(function, arguments)),
    }
}

/// Accounts for a text of this many bytes before it is made.
fn make(bytes: usize, steps: &Steps) -> Result<(), EvalError> {
    if steps.spend(bytes / BYTES_PER_STEP) { Ok(()) } else { Err(EvalError::too_many_steps()) }
}

/// Replaces the first `count` occurrences, or all for a negative number. An empty text occurs
/// between all characters.
fn replace(text: &str, old: &str, new: &str, count: i64, steps: &Steps) -> Outcome {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let found = text.matches(old).take(most).count();
    make(text.len().saturating_add(found.saturating_mul(new.len())), steps)?;
    Ok(text.replacen(old, new, most).into())
}

fn split(text: &str, by: &str, count: i64, steps: &Steps) -> Outcome {
    // An empty separator splits between all characters.
    let whole: Vec<&str> = if by.is_empty() {
        text.split("").filter(|part| !part.is_empty()).collect()
    } else {
        text.split(by).collect()
    };
    if !steps.spend(whole.len()) {
        return Err(EvalError::too_many_steps());
    }
    let texts = |parts: Vec<&str>| Value::List(Arc::new(parts.into_iter().map(Value::from).collect()));
    Ok(match usize::try_from(count) {
        Err(_) => texts(whole),
        Ok(0) => texts(Vec::new()),
        Ok(count) if whole.len() <= count => texts(whole),
        Ok(count) => {
            let kept = &whole[..count - 1];
            let begun: usize = kept.iter().map(|part| part.len() + by.len()).sum();
            texts(kept.iter().copied().chain([&text[begun..]]).collect())
        }
    })
}

fn join(texts: &[Value], by: &str, steps: &Steps) -> Outcome {
    let mut parts = Vec::with_capacity(texts.len());
    let mut bytes = 0_usize;
    for text in texts {
        let Value::String(text) = text else { return Err(EvalError::no_overload()) };
        bytes = bytes.saturating_add(text.len() + by.len());
        parts.push(&**text);
    }
    make(bytes, steps)?;
    Ok(parts.join(by).into())
}

/// Returns a part of a text; positions count characters.
fn substring(text: &str, from: i64, to: Option<i64>) -> Outcome {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let to = to.unwrap_or(length);
    for at in [from, to] {
        if !(0..=length).contains(&at) {
            return Err(EvalError::new(format!("index out of range: {at}")));
        }
    }
    if from > to {
        return Err(EvalError::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let (from, to) = (usize::try_from(from).unwrap_or(0), usize::try_from(to).unwrap_or(0));
    Ok(text.chars().skip(from).take(to - from).collect::<String>().into())
}
