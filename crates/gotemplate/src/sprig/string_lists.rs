//! Functions for string lists (`gotemplate.md` 12.2).

use groundwork_budget::live_bytes::OVERHEAD;

use super::cast::strval;
use super::registration::Outcome;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::text;
use crate::value::{Element, List, Map, SLOT_BYTES, Str, Value};

pub(super) fn register(functions: &mut Functions) {
    let two = Signature::fixed(&[Type::String, Type::String]);
    functions
        .add("join", Signature::fixed(&[Type::String, Type::Any]), |context, args| {
            let parts = strings(context, args.value(1))?;
            context.reserve(parts.len().saturating_mul(SLOT_BYTES))?;
            let separators = args.string(0).len().saturating_mul(parts.len());
            let total = parts.iter().map(|part| part.len()).fold(separators, usize::saturating_add);
            context.check_text(total)?;
            let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
            Ok(parts.join(args.string(0)).into())
        })
        .add("toStrings", Signature::fixed(&[Type::Any]), |context, args| match args.value(0) {
            Value::List(list) if list.element() == Element::String => Ok(list.clone().into()),
            other => Ok(List::strings(strings(context, other)?).into()),
        })
        .add("sortAlpha", Signature::fixed(&[Type::Any]), |context, args| {
            let mut sorted = match args.value(0) {
                Value::List(list) if list.element() == Element::String && list.is_empty() => {
                    return Ok(list.clone().into());
                }
                list @ (Value::List(_) | Value::Bytes(_)) => strings(context, list)?,
                other => vec![strval(context, other)?],
            };
            let comparisons = sorted.len().saturating_mul(1 + sorted.len().max(1).ilog2() as usize);
            context.spend(comparisons)?;
            sorted.sort_unstable();
            Ok(List::strings(sorted).into())
        })
        .add("splitList", two.clone(), |context, args| {
            let parts = split(context, args.string(0), args.string(1), None)?;
            // Each part becomes a text of its own with its own header.
            context.reserve(
                parts.len().saturating_mul(2 * SLOT_BYTES + OVERHEAD).saturating_add(args.string(1).len()),
            )?;
            Ok(List::strings(parts.into_iter().map(Str::from)).into())
        })
        .add("split", two, |context, args| {
            let parts = split(context, args.string(0), args.string(1), None)?;
            numbered(context, &parts)
        })
        .add("splitn", Signature::fixed(&[Type::String, Type::Int, Type::String]), |context, args| {
            let limit = usize::try_from(args.int(1)).ok();
            let parts = split(context, args.string(0), args.string(2), limit)?;
            numbered(context, &parts)
        });
}

/// Casts as sprig's `toStrings`: the text of each element that is not nil. A scalar counts as a
/// list of one element.
fn strings(context: &mut Context<'_>, value: &Value) -> Result<Vec<Str>, CallError> {
    match value {
        Value::Absent | Value::Nil => Ok(Vec::new()),
        Value::List(list) => {
            context.reserve(list.len().saturating_mul(SLOT_BYTES))?;
            context.spend(list.len())?;
            list.items().iter().filter(|item| !item.is_nil()).map(|item| strval(context, item)).collect()
        }
        Value::Bytes(bytes) => {
            context.reserve(bytes.len().saturating_mul(SLOT_BYTES + OVERHEAD))?;
            context.spend(bytes.len())?;
            Ok(bytes.iter().map(|byte| Str::from(byte.to_string())).collect())
        }
        other => Ok(vec![strval(context, other)?]),
    }
}

/// Splits as Go's `strings.SplitN`: into at most `limit` parts, or all without a limit. An empty
/// separator splits into characters.
fn split<'s>(
    context: &mut Context<'_>,
    separator: &[u8],
    subject: &'s [u8],
    limit: Option<usize>,
) -> Result<Vec<&'s [u8]>, CallError> {
    if limit == Some(0) {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    let mut rest = subject;
    while limit.is_none_or(|limit| parts.len() + 1 < limit) {
        let (end, next) = if separator.is_empty() {
            match text::decode(rest) {
                // No split follows the last character.
                Some((_, width)) if width < rest.len() => (width, width),
                _ => break,
            }
        } else {
            match text::find(rest, separator) {
                Some(at) => (at, at + separator.len()),
                None => break,
            }
        };
        if parts.len().is_power_of_two() {
            context.reserve(parts.len().saturating_mul(3 * size_of::<&[u8]>()))?;
        }
        context.spend(1)?;
        parts.push(&rest[..end]);
        rest = &rest[next..];
    }
    if !(separator.is_empty() && subject.is_empty()) {
        parts.push(rest);
    }
    Ok(parts)
}

/// Returns the parts as a `map[string]string` with the keys `_0`, `_1` and so on.
fn numbered(context: &mut Context<'_>, parts: &[&[u8]]) -> Outcome {
    let map = Map::of_strings();
    context.spend_entries(parts.len())?;
    for (index, &part) in parts.iter().enumerate() {
        map.insert(format!("_{index}").into(), Str::from(part).into());
    }
    Ok(map.into())
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn lists_of_texts_stay_what_they_are() {
        check_all(&[
            (
                r#"{{regexFindAll "x" "" 1 | toStrings | toJson}} {{regexFindAll "x" "" 1 | sortAlpha | toJson}}"#,
                "null null",
            ),
            (
                r#"{{toStrings (list) | toJson}} {{toStrings nil | toJson}} {{list 1 nil "a" | toStrings}}"#,
                "[] [] [1 a]",
            ),
        ]);
    }

    #[test]
    fn broken_bytes_show_one_by_one_in_errors() {
        check_all(&[(
            r#"{{fail "\xe6\x97"}}"#,
            "error 1:2: executing \"t\" at <fail \"\\xe6\\x97\">: error calling fail: \u{fffd}\u{fffd}",
        )]);
    }
}
