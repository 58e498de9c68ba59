//! Functions for dicts (`gotemplate.md` 12.9). `set`, `unset` and the merges change their first
//! argument in place.

use super::cast::strval;
use super::lists::make_room;
use super::registration::{Outcome, add_all, any_rest};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::stack;
use crate::value::{ENTRY_BYTES, List, Map, MapValues, SLOT_BYTES, Str, Value};

pub(super) fn register(functions: &mut Functions) {
    let keyed = Signature::fixed(&[Type::Map, Type::String]);
    functions
        .add("dict", any_rest(&[]), dict)
        .add("get", keyed.clone(), |_, args| {
            Ok(args.map(0).get(args.string(1)).unwrap_or_else(|| Value::str("")))
        })
        .add("set", Signature::fixed(&[Type::Map, Type::String, Type::Any]), set)
        .add("unset", keyed.clone(), |_, args| {
            args.map(0).remove(args.string(1));
            Ok(args.value(0).clone())
        })
        .add("hasKey", keyed, |_, args| Ok(Value::Bool(args.map(0).contains_key(args.string(1)))))
        .add("keys", Signature::variadic(&[], Type::Map), |context, args| {
            let total: usize = (0..args.len()).map(|index| args.map(index).len()).sum();
            make_room(context, total)?;
            let keys = (0..args.len()).flat_map(|index| args.map(index).keys());
            Ok(List::strings(keys).into())
        })
        .add("values", Signature::fixed(&[Type::Map]), |context, args| {
            make_room(context, args.map(0).len())?;
            Ok(Value::list(args.map(0).entries().into_iter().map(|(_, value)| value)))
        })
        .add("pick", Signature::variadic(&[Type::Map], Type::String), |context, args| {
            filtered(context, args, true)
        })
        .add("omit", Signature::variadic(&[Type::Map], Type::String), |context, args| {
            filtered(context, args, false)
        })
        .add("pluck", Signature::variadic(&[Type::String], Type::Map), |_, args| {
            Ok(Value::list((1..args.len()).filter_map(|index| args.map(index).get(args.string(0)))))
        })
        .add("dig", any_rest(&[]), dig);
    let merged = Signature::variadic(&[Type::Map], Type::Map);
    add_all(functions, &["merge", "mustMerge"], &merged, |context, args| merge_all(context, args, false));
    add_all(functions, &["mergeOverwrite", "mustMergeOverwrite"], &merged, |context, args| {
        merge_all(context, args, true)
    });
    let one = Signature::fixed(&[Type::Any]);
    add_all(functions, &["deepCopy", "mustDeepCopy"], &one, |context, args| {
        if args.value(0).is_nil() {
            return Err("reflect: call of reflect.Value.Type on zero Value".into());
        }
        deep_copy(context, args.value(0), 0)
    });
}

fn dict(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let map = Map::default();
    for pair in args.chunks(2) {
        let key = strval(context, pair.value(0))?;
        map.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::str("")));
    }
    Ok(map.into())
}

fn set(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let map = args.map(0);
    if map.is_nil() {
        return Err("assignment to entry in nil map".into());
    }
    context.insert(&map, args.text(1), args.value(2).clone());
    Ok(args.value(0).clone())
}

/// Returns a shallow copy with only the named keys, or with all others.
fn filtered(context: &mut Context<'_>, args: &[Value], keeps_named: bool) -> Outcome {
    context.reserve(args.map(0).len().saturating_mul(2 * ENTRY_BYTES))?;
    let entries = args.map(0).entries();
    context.spend(entries.len().saturating_mul(args.len()))?;
    let is_named = |key: &Str| args.rest(1).iter().any(|name| name.as_str() == Some(key));
    Ok(entries.into_iter().filter(|(key, _)| is_named(key) == keeps_named).collect::<Map>().into())
}

/// Walks the keys into a dict. The last two arguments are the default and the dict.
fn dig(_: &mut Context<'_>, args: &[Value]) -> Outcome {
    let [keys @ .., default, start] = args else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut map = as_map(start)?;
    let mut names = Vec::with_capacity(keys.len());
    for key in keys {
        names.push(key.as_str().ok_or_else(|| unconvertible(key, "string"))?);
    }
    let mut found = start.clone();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            map = as_map(&found)?;
        }
        match map.get(name) {
            Some(value) => found = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(found)
}

fn as_map(value: &Value) -> Result<Map, CallError> {
    match value {
        Value::Map(map) if map.values_type() == MapValues::Any && map.named_type().is_none() => {
            Ok(map.clone())
        }
        other => Err(unconvertible(other, "map[string]interface {}")),
    }
}

/// Returns the message of Go's failed type assertion.
fn unconvertible(value: &Value, wanted: &str) -> CallError {
    let actual = if value.is_nil() { "nil" } else { value.type_name() };
    format!("interface conversion: interface {{}} is {actual}, not {wanted}").into()
}

fn merge_all(context: &mut Context<'_>, args: &[Value], overwrites: bool) -> Outcome {
    let target = match args.map(0) {
        nil if nil.is_nil() => Map::default(),
        map => map,
    };
    for index in 1..args.len() {
        merge(context, &target, &args.map(index), overwrites, 0)?;
    }
    Ok(target.into())
}

/// Merges the source's entries into the target: maps recursively, other values only where the
/// target has none or an empty one.
fn merge(
    context: &mut Context<'_>,
    target: &Map,
    source: &Map,
    overwrites: bool,
    depth: usize,
) -> Result<(), CallError> {
    context.budget().check_value_depth(depth)?;
    if target.is_same(source) {
        return Ok(());
    }
    context.reserve(source.len().saturating_mul(2 * ENTRY_BYTES))?;
    context.spend_entries(source.len())?;
    for (key, value) in source.entries() {
        let current = target.get(&key);
        if let (Some(Value::Map(inner)), Value::Map(value)) = (&current, &value) {
            stack::guarded(|| merge(context, inner, value, overwrites, depth + 1))?;
            continue;
        }
        let has_value = current.is_some_and(|current| current.truth());
        if !overwrites && (has_value || value.is_nil()) {
            continue;
        }
        if target.values_type() == MapValues::String && source.values_type() == MapValues::Any {
            return Err(
                "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string"
                    .into(),
            );
        }
        context.insert(target, key, value);
    }
    Ok(())
}

fn deep_copy(context: &mut Context<'_>, value: &Value, depth: usize) -> Outcome {
    context.spend(1)?;
    context.budget().check_value_depth(depth)?;
    match value {
        Value::List(list) if !list.is_nil() => stack::guarded(|| {
            context.reserve(list.len().saturating_mul(SLOT_BYTES))?;
            let items: Result<Vec<Value>, CallError> =
                list.items().iter().map(|item| deep_copy(context, item, depth + 1)).collect();
            Ok(Value::List(List::typed(list.element(), items?)))
        }),
        Value::Map(map) if !map.is_nil() => stack::guarded(|| {
            context.reserve(map.len().saturating_mul(2 * ENTRY_BYTES))?;
            context.spend_entries(map.len())?;
            let copy = map.empty_alike();
            for (key, value) in map.entries() {
                copy.insert(key, deep_copy(context, &value, depth + 1)?);
            }
            Ok(map.named_type().map_or_else(|| copy.plain(), |named| copy.named(named)).into())
        }),
        other => Ok(other.clone()),
    }
}
