//! Functions for lists (`spiff.md` 11.3).

use std::collections::HashSet;
use std::sync::Arc;

use super::arguments::{count, list, simple};
use super::calling::{Answer, Caller, Outcome};
use crate::issue::Issue;
use crate::operators::compare::equal;
use crate::operators::concatenate::short;
use crate::value::{List, Node, Value};

/// Compares as `==` of `spiff.md` 7.5, but a failure counts as false.
pub(super) fn is_equal(first: &Value, second: &Value) -> bool {
    equal(first, second).unwrap_or(false)
}

fn list_of(nodes: Vec<Node>) -> Value {
    Value::List(Arc::new(List::new(nodes)))
}

/// `element(list, i)`, `element(map, k)`
pub(super) fn element(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "element takes exactly two arguments")?;
    match (&arguments[0], &arguments[1]) {
        (Value::Nil, _) | (_, Value::Nil) => Err("function element does not take nil arguments".into()),
        (Value::List(list), index) => {
            let index = match index {
                Value::String(text) => text.parse().map_err(|_| {
                    Issue::new(format!("invalid value '{text}' of index argument for function element"))
                })?,
                index => index.as_int().ok_or("invalid type of index argument for function element")?,
            };
            let index = usize::try_from(index).map_err(|_| Issue::new("index lower than 0"))?;
            Ok(list.get(index).ok_or("index greater or equal list size")?.value.clone())
        }
        (Value::Map(map), Value::String(key)) => {
            let node = map.get(key).ok_or_else(|| Issue::new(format!("map key '{key}' not found")))?;
            Ok(node.value.clone())
        }
        (Value::Map(_), key) => Err(Issue::new(format!("map key ({}) must be of type string", short(key)))),
        _ => Err("invalid type for first argument of function element".into()),
    }
}

/// `contains(list, x)`, `contains(map, key)`, `contains(string, s)`
pub(super) fn contains(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "function contains takes exactly two arguments")?;
    Ok(Value::Bool(match (&arguments[0], &arguments[1]) {
        (Value::List(_) | Value::Map(_), Value::Nil) => false,
        (Value::List(list), wanted) => list.values().any(|entry| is_equal(entry, wanted)),
        (Value::Map(map), wanted) => map.get(&simple(wanted).ok_or("invalid type for check key")?).is_some(),
        (Value::String(text), wanted) => {
            text.contains(&*simple(wanted).ok_or("invalid type for check string")?)
        }
        _ => return Err("list or string expected for argument one of function contains".into()),
    }))
}

/// `index(list|string, x)`
pub(super) fn index(arguments: &[Value]) -> Outcome {
    position(
        arguments,
        |text, wanted| text.find(wanted),
        |list, wanted| list.values().position(|entry| is_equal(entry, wanted)),
    )
}

/// `lastindex(list|string, x)`
pub(super) fn lastindex(arguments: &[Value]) -> Outcome {
    position(
        arguments,
        |text, wanted| text.rfind(wanted),
        |list, wanted| list.values().rposition(|entry| is_equal(entry, wanted)),
    )
}

fn position(
    arguments: &[Value],
    in_text: fn(&str, &str) -> Option<usize>,
    in_list: fn(&List, &Value) -> Option<usize>,
) -> Outcome {
    count(arguments, 2..=2, "function index takes exactly two arguments")?;
    let found = match (&arguments[0], &arguments[1]) {
        (Value::List(_), Value::Nil) => None,
        (Value::List(list), wanted) => in_list(list, wanted),
        (Value::String(text), wanted) => {
            in_text(text, &simple(wanted).ok_or("invalid type for check string")?)
        }
        _ => return Err("list or string expected for argument one of function index".into()),
    };
    Ok(Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)))
}

/// `reverse(list)`, as a new list **[D6]**.
pub(super) fn reverse(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "reverse takes exactly 1 argument")?;
    let list = list(&arguments[0], "argument for reverse must be a list")?;
    Ok(list_of(list.iter().rev().cloned().collect()))
}

/// `uniq(list)`
pub(super) fn uniq(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 1..=1, "uniq takes exactly 1 argument")?;
    let list = list(&arguments[0], "invalid type for function uniq")?;
    if let Some(texts) = list.values().map(Value::as_str).collect::<Option<Vec<_>>>() {
        let mut seen = HashSet::new();
        let first = list.iter().zip(texts).filter(|(_, text)| seen.insert(*text));
        return Ok(Some(list_of(first.map(|(node, _)| node.clone()).collect())));
    }
    let mut unique: Vec<Node> = Vec::new();
    for node in list.iter() {
        caller.spend(unique.len())?;
        if !unique.iter().any(|known| is_equal(&node.value, &known.value)) {
            unique.push(node.clone());
        }
    }
    Ok(Some(list_of(unique)))
}

/// `compact(list)`
pub(super) fn compact(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "compact takes exactly 1 argument")?;
    let list = list(&arguments[0], "invalid type for function compact")?;
    let is_empty = |value: &Value| match value {
        Value::Nil => true,
        Value::String(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    };
    Ok(list_of(list.iter().filter(|node| !is_empty(&node.value)).cloned().collect()))
}

/// `intersect(list…)`
pub(super) fn intersect(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    let mut common: Option<Vec<Node>> = None;
    for (position, argument) in arguments.iter().enumerate() {
        let list = match argument {
            Value::Nil => continue,
            Value::List(list) => list,
            other => {
                return Err(Issue::new(format!(
                    "intersect: argument {position}: type '{}' cannot be intersected",
                    other.type_name()
                )));
            }
        };
        common = Some(match common {
            None => list.iter().cloned().collect(),
            Some(nodes) => {
                caller.spend(nodes.len().saturating_mul(list.len()))?;
                let in_list = |node: &Node| list.values().any(|entry| is_equal(&node.value, entry));
                nodes.into_iter().filter(in_list).collect()
            }
        });
    }
    Ok(Some(list_of(common.unwrap_or_default())))
}
