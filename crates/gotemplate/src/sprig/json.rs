//! Functions for JSON (`gotemplate.md` 12.6).

use super::json_decode::decode;
use super::json_encode::{Style, encode};
use super::registration::Outcome;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    let text = Signature::fixed(&[Type::String]);
    let any = Signature::fixed(&[Type::Any]);
    functions
        .add("fromJson", text.clone(), |context, args| match decode(context, args.string(0)) {
            // sprig's `fromJson` drops the error and returns nil.
            Err(CallError::Message(_)) => Ok(Value::Nil),
            result => result,
        })
        .add("mustFromJson", text, |context, args| decode(context, args.string(0)))
        .add("toJson", any.clone(), |context, args| lenient(context, args, Style::Compact))
        .add("toPrettyJson", any.clone(), |context, args| lenient(context, args, Style::Pretty))
        .add("toRawJson", any.clone(), |context, args| strict(context, args, Style::Raw))
        .add("mustToJson", any.clone(), |context, args| strict(context, args, Style::Compact))
        .add("mustToPrettyJson", any.clone(), |context, args| strict(context, args, Style::Pretty))
        .add("mustToRawJson", any, |context, args| strict(context, args, Style::Raw));
}

fn strict(context: &mut Context<'_>, args: &[Value], style: Style) -> Outcome {
    encode(context, args.value(0), style).map(Into::into)
}

/// Encodes a value. A value without a JSON form gives an empty text, as in sprig's functions
/// without `must`.
fn lenient(context: &mut Context<'_>, args: &[Value], style: Style) -> Outcome {
    match strict(context, args, style) {
        Err(CallError::Message(_)) => Ok(Value::str("")),
        result => result,
    }
}
