//! Functions for lists (`gotemplate.md` 12.8). Every result is a new list; the arguments are not
//! changed.

use std::borrow::Cow;

use super::cast::to_int;
use super::registration::{NIL_POINTER, Outcome, add_all, any_rest};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{Element, IntKind, List, SLOT_BYTES, Value};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::Any]);
    let two = Signature::fixed(&[Type::Any, Type::Any]);
    add_all(functions, &["list", "tuple"], &any_rest(&[]), copied);
    add_all(functions, &["first", "mustFirst"], &one, |_, args| {
        let list = items(args.value(0), "Cannot find first on type")?;
        Ok(list.first().cloned().unwrap_or(Value::Nil))
    });
    add_all(functions, &["last", "mustLast"], &one, |_, args| {
        let list = items(args.value(0), "Cannot find last on type")?;
        Ok(list.last().cloned().unwrap_or(Value::Nil))
    });
    add_all(functions, &["rest", "mustRest"], &one, |context, args| {
        let list = items(args.value(0), "Cannot find rest on type")?;
        list.get(1..).map_or_else(nil_list, |rest| copied(context, rest))
    });
    add_all(functions, &["initial", "mustInitial"], &one, |context, args| {
        let list = items(args.value(0), "Cannot find initial on type")?;
        list.split_last().map_or_else(nil_list, |(_, head)| copied(context, head))
    });
    add_all(functions, &["append", "push", "mustAppend", "mustPush"], &two, |context, args| {
        let list = items(args.value(0), "Cannot push on type")?;
        make_room(context, list.len() + 1)?;
        Ok(Value::list(list.iter().chain([args.value(1)]).cloned()))
    });
    add_all(functions, &["prepend", "mustPrepend"], &two, |context, args| {
        let list = items(args.value(0), "Cannot prepend on type")?;
        make_room(context, list.len() + 1)?;
        Ok(Value::list([args.value(1)].into_iter().chain(list.iter()).cloned()))
    });
    add_all(functions, &["reverse", "mustReverse"], &one, |context, args| {
        let list = items(args.value(0), "Cannot find reverse on type")?;
        make_room(context, list.len())?;
        Ok(Value::list(list.iter().rev().cloned()))
    });
    functions.add("concat", any_rest(&[]), concat);
    add_all(functions, &["uniq", "mustUniq"], &one, uniq);
    add_all(functions, &["without", "mustWithout"], &any_rest(&[Type::Any]), without);
    add_all(functions, &["has", "mustHas"], &two, has);
    add_all(functions, &["slice", "mustSlice"], &any_rest(&[Type::Any]), slice);
    add_all(functions, &["chunk", "mustChunk"], &Signature::fixed(&[Type::Int, Type::Any]), chunk);
}

/// Returns the elements of a list of any type. For other values the error is `complaint` and the
/// kind; for nil it is Go's nil pointer.
pub(super) fn items<'v>(value: &'v Value, complaint: &str) -> Result<Cow<'v, [Value]>, CallError> {
    match value {
        Value::List(list) => Ok(Cow::Borrowed(list.items())),
        Value::Bytes(bytes) => {
            Ok(bytes.iter().map(|&byte| Value::Int(IntKind::Uint8, i64::from(byte))).collect())
        }
        Value::Absent | Value::Nil => Err(NIL_POINTER.into()),
        other => Err(format!("{complaint} {}", other.kind_name()).into()),
    }
}

/// Accounts for a list of this many elements before it is built.
pub(super) fn make_room(context: &mut Context<'_>, elements: usize) -> Result<(), CallError> {
    context.reserve(elements.saturating_mul(SLOT_BYTES))?;
    context.spend(elements)
}

fn copied(context: &mut Context<'_>, items: &[Value]) -> Outcome {
    make_room(context, items.len())?;
    Ok(Value::List(List::new(items.to_vec())))
}

fn nil_list() -> Outcome {
    Ok(Value::List(List::nil(Element::Any)))
}

fn concat(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let mut all = Vec::new();
    for arg in args {
        if !matches!(arg, Value::List(_) | Value::Bytes(_)) && !arg.is_nil() {
            return Err(format!("Cannot concat type {} as list", arg.kind_name()).into());
        }
        let part = items(arg, "")?;
        context.reserve((all.len() + part.len()).saturating_mul(SLOT_BYTES))?;
        context.spend(part.len())?;
        all.extend(part.iter().cloned());
    }
    if all.is_empty() { nil_list() } else { Ok(Value::List(List::new(all))) }
}

fn contains(context: &mut Context<'_>, list: &[Value], needle: &Value) -> Result<bool, CallError> {
    for item in list {
        if item.deep_equal(needle, context.budget())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let list = items(args.value(0), "Cannot find uniq on type")?;
    let mut kept: Vec<Value> = Vec::new();
    for item in list.iter() {
        if !contains(context, &kept, item)? {
            kept.push(item.clone());
        }
    }
    make_room(context, kept.len())?;
    Ok(Value::List(List::new(kept)))
}

fn without(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let list = items(args.value(0), "Cannot find without on type")?;
    let mut kept = Vec::new();
    for item in list.iter() {
        if !contains(context, args.rest(1), item)? {
            kept.push(item.clone());
        }
    }
    make_room(context, kept.len())?;
    Ok(Value::List(List::new(kept)))
}

fn has(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    if args.value(1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let list = items(args.value(1), "Cannot find has on type")?;
    Ok(Value::Bool(contains(context, &list, args.value(0))?))
}

/// Returns a part of a list, of the list's own type. Bounds are the length, not Go's capacity
/// (`gotemplate.md` 12.8).
fn slice(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let subject = args.value(0);
    let list = items(subject, "list should be type of slice or array but")?;
    if list.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, default: usize| {
        args.get(index).map_or(Some(default), |value| usize::try_from(to_int(value)).ok())
    };
    let range = bound(1, 0).zip(bound(2, list.len()));
    let Some((from, to)) = range.filter(|&(from, to)| from <= to && to <= list.len()) else {
        return Err("reflect.Value.Slice: slice index out of bounds".into());
    };
    make_room(context, to - from)?;
    Ok(match subject {
        Value::Bytes(bytes) => Value::Bytes(bytes[from..to].into()),
        Value::List(typed) => Value::List(List::typed(typed.element(), list[from..to].to_vec())),
        other => other.clone(),
    })
}

fn chunk(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    const BAD_LENGTH: &str = "runtime error: makeslice: len out of range";
    let list = items(args.value(1), "Cannot chunk type")?;
    // Each chunk is a list of its own, so chunks of one element need the most memory.
    context.reserve(list.len().saturating_mul(4 * SLOT_BYTES))?;
    context.spend(list.len())?;
    let chunks = |size: usize| {
        let chunk = |part: &[Value]| Value::List(List::new(part.to_vec()));
        Ok(Value::List(List::typed(Element::List, list.chunks(size).map(chunk).collect())))
    };
    let size = args.int(0);
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    match usize::try_from(size) {
        Ok(0) => Err(BAD_LENGTH.into()),
        Ok(size) => chunks(size),
        // sprig computes the number of chunks with a float division. With a negative size the
        // result can be 0 or 1, which sprig accepts.
        Err(_) => match ((length - 1) as f64 / size as f64).floor() as i64 + 1 {
            0 => Ok(Value::List(List::typed(Element::List, Vec::new()))),
            1 if length % size != 0 => chunks(usize::try_from(length % size).unwrap_or(1)),
            _ => Err(BAD_LENGTH.into()),
        },
    }
}
