//! Checks and conversions of arguments.

use std::borrow::Cow;
use std::sync::Arc;

use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::{List, Map, Value};

/// Fails with `message` unless the number of arguments is in the range.
pub(super) fn count(
    arguments: &[Value],
    wanted: std::ops::RangeInclusive<usize>,
    message: &str,
) -> Result<(), Issue> {
    if wanted.contains(&arguments.len()) { Ok(()) } else { Err(message.into()) }
}

pub(super) fn text<'a>(value: &'a Value, message: &str) -> Result<&'a str, Issue> {
    value.as_str().ok_or_else(|| message.into())
}

pub(super) fn int(value: &Value, message: &str) -> Result<i64, Issue> {
    value.as_int().ok_or_else(|| message.into())
}

pub(super) fn list<'a>(value: &'a Value, message: &str) -> Result<&'a Arc<List>, Issue> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(message.into()),
    }
}

pub(super) fn map<'a>(value: &'a Value, message: &str) -> Result<&'a Arc<Map>, Issue> {
    match value {
        Value::Map(map) => Ok(map),
        _ => Err(message.into()),
    }
}

/// Returns the text of a string, an int or a bool.
pub(super) fn simple(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Int(number) | Value::Data(number) => Cow::Owned(number.to_string()),
        Value::Bool(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        _ => return None,
    })
}

/// Returns Go's name for the type of a value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Data(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Binary(_) => "[]uint8",
        Value::List(_) => "[]yaml.Node",
        Value::Map(_) => "map[string]yaml.Node",
        Value::Expression(_) => "dynaml.Expression",
        Value::Lambda(_) => "dynaml.LambdaValue",
        Value::Template(_) => "dynaml.TemplateValue",
    }
}

/// Refuses a text of more than [`Limits::string_bytes`] before it is built.
pub(super) fn fits(bytes: usize, function: &str, limits: &Limits) -> Result<(), Issue> {
    let limit = limits.string_bytes;
    if bytes > limit {
        return Err(Issue::new(format!("{function}: the result would have more than {limit} bytes")));
    }
    Ok(())
}

/// Returns the issue of a list that would have more entries than a value may have.
pub(super) fn too_many_entries(function: &str, limits: &Limits) -> Issue {
    Issue::new(format!("{function}: the result would have more than {} entries", limits.nodes))
}

/// Refuses to write a value whose text would exceed the limits. A shared part counts as often as it
/// is written.
pub(super) fn writable(value: &Value, function: &str, limits: &Limits) -> Result<(), Issue> {
    let mut budget = limits.string_bytes;
    if spend(value, &mut budget) { Ok(()) } else { fits(usize::MAX, function, limits) }
}

fn spend(value: &Value, budget: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => 1,
    };
    let Some(rest) = budget.checked_sub(own + 1) else { return false };
    *budget = rest;
    match value {
        Value::List(list) => list.values().all(|value| spend(value, budget)),
        Value::Map(map) => map.iter().all(|(key, node)| {
            budget.checked_sub(key.len()).is_some_and(|rest| {
                *budget = rest;
                spend(&node.value, budget)
            })
        }),
        Value::Template(template) => spend(&template.original, budget),
        _ => true,
    }
}
