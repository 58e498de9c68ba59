//! The functions `len`, `index` and `slice` (`gotemplate.md` 8).

use crate::error::CallError;
use crate::value::{Element, IntKind, List, Str, Value};

/// Panic message of Go's `reflect` package for an invalid value.
const ZERO_VALUE: &str = "reflect: call of reflect.Value.Type on zero Value";

pub(super) fn length(item: &Value) -> Result<Value, CallError> {
    let length = match item {
        Value::Absent => return Err(ZERO_VALUE.into()),
        Value::Nil => return Err("len of nil pointer".into()),
        Value::Str(s) | Value::Bytes(s) => s.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("len of type {}", pointee(other)).into()),
    };
    Ok(Value::int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Returns the type name behind a pointer, because these functions look through pointers.
fn pointee(value: &Value) -> &str {
    value.type_name().trim_start_matches('*')
}

pub(super) fn index(item: &Value, indexes: &[Value]) -> Result<Value, CallError> {
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    let mut item = item.clone();
    for index in indexes {
        item = step(&item, index)?;
    }
    Ok(item)
}

fn step(item: &Value, index: &Value) -> Result<Value, CallError> {
    match item {
        Value::Absent | Value::Nil => Err("index of nil pointer".into()),
        Value::Str(s) => byte_at(s, index, "string"),
        Value::Bytes(bytes) => byte_at(bytes, index, "slice"),
        Value::List(list) => {
            let at = position(index, list.len())?;
            list.items().get(at).cloned().ok_or_else(|| "reflect: slice index out of range".into())
        }
        Value::Map(map) => {
            let key = match index {
                Value::Str(key) => key,
                nil if nil.is_nil() => return Err("value is nil; should be of type string".into()),
                other => return Err(format!("value has type {}; should be string", other.type_name()).into()),
            };
            Ok(map.get(key).unwrap_or_else(|| map.values_type().zero()))
        }
        other => Err(format!("can't index item of type {}", pointee(other)).into()),
    }
}

fn byte_at(bytes: &Str, index: &Value, kind: &str) -> Result<Value, CallError> {
    let at = position(index, bytes.len())?;
    let byte = bytes.get(at).ok_or_else(|| format!("reflect: {kind} index out of range"))?;
    Ok(Value::Int(IntKind::Uint8, i64::from(*byte)))
}

/// Returns an index from 0 to the length inclusive. The length itself is refused later, by the
/// access to the element.
fn position(index: &Value, length: usize) -> Result<usize, CallError> {
    let Some(at) = index.as_integer() else {
        return Err(match index.is_nil() {
            true => "cannot index slice/array with nil".into(),
            false => format!("cannot index slice/array with type {}", index.type_name()).into(),
        });
    };
    let wrapped = at as i64;
    match usize::try_from(wrapped) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(format!("index out of range: {wrapped}").into()),
    }
}

pub(super) fn slice(item: &Value, indexes: &[Value]) -> Result<Value, CallError> {
    if item.is_nil() {
        return Err("slice of untyped nil".into());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let length = match item {
        Value::Str(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Value::Str(bytes) | Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        other => return Err(format!("can't slice item of type {}", pointee(other)).into()),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [from, to, capacity] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}").into());
    }
    if indexes.len() == 3 && to > capacity {
        return Err(format!("invalid slice index: {to} > {capacity}").into());
    }
    Ok(match item {
        Value::List(list) => sub_list(list, from, to),
        Value::Bytes(bytes) => Value::Bytes(Str::from(&bytes[from..to])),
        Value::Str(bytes) => Value::Str(Str::from(&bytes[from..to])),
        other => other.clone(),
    })
}

/// Returns a part of a list, of the same type; a part of nil is nil.
pub(crate) fn sub_list(list: &List, from: usize, to: usize) -> Value {
    let element: Element = list.element();
    if list.is_nil() {
        return Value::List(List::nil(element));
    }
    Value::List(List::typed(element, list.items()[from..to].to_vec()))
}
