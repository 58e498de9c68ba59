//! Functions for types and kinds (`gotemplate.md` 12.7).

use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::Any]);
    let named = Signature::fixed(&[Type::String, Type::Any]);
    functions
        .add("typeOf", one.clone(), |_, args| Ok(args.value(0).type_name().into()))
        .add("typeIs", named.clone(), |_, args| {
            Ok(Value::Bool(args.string(0) == args.value(1).type_name().as_bytes()))
        })
        .add("typeIsLike", named.clone(), |_, args| {
            let actual = args.value(1).type_name().as_bytes();
            let wanted = args.string(0);
            Ok(Value::Bool(wanted == actual || [b"*", wanted].concat() == actual))
        })
        .add("kindOf", one, |_, args| Ok(args.value(0).kind_name().into()))
        .add("kindIs", named, |_, args| {
            Ok(Value::Bool(args.string(0) == args.value(1).kind_name().as_bytes()))
        })
        .add("deepEqual", Signature::fixed(&[Type::Any, Type::Any]), |context, args| {
            Ok(Value::Bool(args.value(0).deep_equal(args.value(1), context.budget())?))
        });
}
