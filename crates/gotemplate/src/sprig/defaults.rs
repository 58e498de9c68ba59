//! Functions for defaults and logic (`gotemplate.md` 12.5), and the functions that belong to no
//! group.

use super::lists::items;
use super::registration::{add_all, any_rest};
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{List, Value};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::Any]);
    functions
        .add("default", any_rest(&[Type::Any]), |_, args| {
            let given = args.value(1);
            Ok(if is_empty(given) { args.value(0).clone() } else { given.clone() })
        })
        .add("empty", one.clone(), |_, args| Ok(Value::Bool(is_empty(args.value(0)))))
        .add("coalesce", any_rest(&[]), |_, args| {
            Ok(args.iter().find(|arg| !is_empty(arg)).cloned().unwrap_or(Value::Nil))
        })
        .add("all", any_rest(&[]), |_, args| Ok(Value::Bool(!args.iter().any(is_empty))))
        .add("any", any_rest(&[]), |_, args| Ok(Value::Bool(args.iter().any(|arg| !is_empty(arg)))))
        .add("ternary", Signature::fixed(&[Type::Any, Type::Any, Type::Bool]), |_, args| {
            Ok(args.value(if args.boolean(2) { 0 } else { 1 }).clone())
        })
        .add("fail", Signature::fixed(&[Type::String]), |_, args| {
            Err(crate::text::lossy(args.string(0)).into_owned().into())
        })
        .add("hello", Signature::fixed(&[]), |_, _| Ok(Value::str("Hello!")));
    add_all(functions, &["compact", "mustCompact"], &one, |context, args| {
        let list = items(args.value(0), "Cannot compact on type")?;
        context.spend(list.len())?;
        Ok(Value::List(List::new(list.iter().filter(|item| !is_empty(item)).cloned().collect())))
    });
}

/// Reports whether sprig's `empty` is true: for all false values, and never for objects.
fn is_empty(value: &Value) -> bool {
    !value.truth()
}
