//! Functions for strings (`gotemplate.md` 12.1), except for the case conversions of whole words.

use std::collections::HashSet;

use super::casing::{is_lower, is_title, is_upper, to_lower, to_title, to_upper};
use super::cast::strval;
use super::registration::{Outcome, add_all, any_rest};
use crate::context::Context;
use crate::error::CallError;
use crate::format::{self, Sink};
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::text;
use crate::value::{Str, Value};

pub(super) fn register(functions: &mut Functions) {
    register_trimming(functions);
    register_cutting(functions);
    register_mapping(functions);
    let two = Signature::fixed(&[Type::String, Type::String]);
    functions
        .add("contains", two.clone(), |_, args| {
            Ok(Value::Bool(text::find(args.string(1), args.string(0)).is_some()))
        })
        .add("hasPrefix", two.clone(), |_, args| Ok(Value::Bool(args.string(1).starts_with(args.string(0)))))
        .add("hasSuffix", two, |_, args| Ok(Value::Bool(args.string(1).ends_with(args.string(0)))))
        .add("quote", any_rest(&[]), |context, args| {
            joined(context, args, |context, sink, arg| {
                let text = strval(context, arg)?;
                let mut quoted = Vec::with_capacity(text.len() + 2);
                text::quote_into(&mut quoted, &text, false);
                sink.push(&quoted);
                Ok(())
            })
        })
        .add("squote", any_rest(&[]), |context, args| {
            joined(context, args, |_, sink, arg| {
                sink.push(b"'");
                format::write_value(sink, arg);
                sink.push(b"'");
                Ok(())
            })
        })
        .add("cat", any_rest(&[]), |context, args| {
            joined(context, args, |_, sink, arg| {
                format::write_value(sink, arg);
                Ok(())
            })
        })
        .add("repeat", Signature::fixed(&[Type::Int, Type::String]), |context, args| {
            repeat(context, args.string(1), args.int(0)).map(Into::into)
        })
        .add("indent", Signature::fixed(&[Type::Int, Type::String]), |context, args| {
            indent(context, args, b"")
        })
        .add("nindent", Signature::fixed(&[Type::Int, Type::String]), |context, args| {
            indent(context, args, b"\n")
        })
        .add("replace", Signature::fixed(&[Type::String, Type::String, Type::String]), |context, args| {
            replace(context, args.string(2), args.string(0), args.string(1)).map(Into::into)
        })
        .add("plural", Signature::fixed(&[Type::String, Type::String, Type::Int]), |_, args| {
            Ok(args.value(if args.int(2) == 1 { 0 } else { 1 }).clone())
        })
        .add("toString", Signature::fixed(&[Type::Any]), |context, args| {
            Ok(strval(context, args.value(0))?.into())
        });
}

/// Joins the arguments other than nil, each written by `write`, with spaces.
fn joined(
    context: &mut Context<'_>,
    args: &[Value],
    write: impl Fn(&mut Context<'_>, &mut Sink, &Value) -> Result<(), CallError>,
) -> Outcome {
    let mut sink = format::sink(context.budget());
    for (index, arg) in args.iter().filter(|arg| !arg.is_nil()).enumerate() {
        if index > 0 {
            sink.push(b" ");
        }
        write(context, &mut sink, arg)?;
    }
    Ok(format::finish(sink, context.budget())?.into())
}

fn repeat(context: &mut Context<'_>, text: &[u8], count: i64) -> Result<Vec<u8>, CallError> {
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count")?;
    context.check_text(text.len().saturating_mul(count))?;
    Ok(text.repeat(count))
}

/// Puts spaces before every line, the last empty one included.
fn indent(context: &mut Context<'_>, args: &[Value], lead: &[u8]) -> Outcome {
    let pad = repeat(context, b" ", args.int(0))?;
    let lines = replace(context, args.string(1), b"\n", &[b"\n", &pad[..]].concat())?;
    context.check_text(pad.len().saturating_add(lines.len()))?;
    Ok([lead, &pad, &lines].concat().into())
}

/// Replaces as Go's `strings.ReplaceAll`: an empty old text matches before every character and at
/// the end.
fn replace(context: &mut Context<'_>, subject: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut pieces: Vec<&[u8]> = Vec::new();
    let mut rest = subject;
    let piece = size_of::<&[u8]>();
    if old.is_empty() {
        context.reserve(subject.len().saturating_mul(piece))?;
        context.spend(subject.len())?;
        pieces.push(b"");
        pieces.extend(text::runes(subject).map(|(_, raw)| raw));
        rest = b"";
    } else {
        while let Some(at) = text::find(rest, old) {
            if pieces.len().is_power_of_two() {
                context.reserve(pieces.len().saturating_mul(3 * piece))?;
            }
            context.spend(1)?;
            pieces.push(&rest[..at]);
            rest = &rest[at + old.len()..];
        }
    }
    // A replacement follows each piece, but not the rest.
    context.check_text(subject.len().saturating_add(pieces.len().saturating_mul(new.len())))?;
    let mut out = Vec::with_capacity(subject.len());
    for piece in pieces {
        out.extend_from_slice(piece);
        out.extend_from_slice(new);
    }
    out.extend_from_slice(rest);
    Ok(out)
}

// === trimming ===

fn register_trimming(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    let two = Signature::fixed(&[Type::String, Type::String]);
    functions
        .add("trim", one, |_, args| {
            Ok(trim_matching(args.string(0), |c| c.is_some_and(text::is_space)).into())
        })
        .add("trimPrefix", two.clone(), |_, args| {
            let subject = args.string(1);
            Ok(Str::from(subject.strip_prefix(args.string(0)).unwrap_or(subject)).into())
        })
        .add("trimSuffix", two.clone(), |_, args| {
            let subject = args.string(1);
            Ok(Str::from(subject.strip_suffix(args.string(0)).unwrap_or(subject)).into())
        });
    add_all(functions, &["trimAll", "trimall"], &two, |_, args| {
        let cut: HashSet<Option<char>> = text::runes(args.string(0)).map(|(c, _)| c).collect();
        Ok(trim_matching(args.string(1), |c| cut.contains(&c)).into())
    });
}

/// Returns the text without the matching characters at both ends.
fn trim_matching(subject: &[u8], matches: impl Fn(Option<char>) -> bool) -> Str {
    let kept = |(at, (c, raw)): (usize, (Option<char>, &[u8]))| (!matches(c)).then_some((at, at + raw.len()));
    let positions = text::runes(subject).scan(0, |at, (c, raw)| {
        let start = *at;
        *at += raw.len();
        Some((start, (c, raw)))
    });
    let mut bounds: Option<(usize, usize)> = None;
    for (start, end) in positions.filter_map(kept) {
        bounds = Some((bounds.map_or(start, |(first, _)| first), end));
    }
    bounds.map_or_else(Str::default, |(start, end)| Str::from(&subject[start..end]))
}

// === cutting ===

fn register_cutting(functions: &mut Functions) {
    let counted = Signature::fixed(&[Type::Int, Type::String]);
    functions
        .add("trunc", counted.clone(), |_, args| Ok(Str::from(trunc(args.string(1), args.int(0))).into()))
        .add("abbrev", counted.clone(), |_, args| {
            let subject = args.string(1);
            Ok(match usize::try_from(args.int(0)) {
                Ok(width) if width >= 4 => abbreviate(subject, 0, width),
                _ => subject.to_vec(),
            }
            .into())
        })
        .add("abbrevboth", Signature::fixed(&[Type::Int, Type::Int, Type::String]), |_, args| {
            let (left, right, subject) = (args.int(0), args.int(1), args.string(2));
            if right < 4 || (left > 0 && right < 7) {
                return Ok(args.value(2).clone());
            }
            let offset = usize::try_from(left).unwrap_or(0);
            Ok(abbreviate(subject, offset, usize::try_from(right).unwrap_or(usize::MAX)).into())
        })
        .add("substr", Signature::fixed(&[Type::Int, Type::Int, Type::String]), |_, args| {
            substr(args.string(2), args.int(0), args.int(1))
        })
        .add("wrap", counted, |context, args| wrap(context, args.string(1), args.int(0), b"\n", false))
        .add("wrapWith", Signature::fixed(&[Type::Int, Type::String, Type::String]), |context, args| {
            let separator = if args.string(1).is_empty() { b"\n" } else { args.string(1) };
            wrap(context, args.string(2), args.int(0), separator, true)
        });
}

/// Returns the first bytes, or with a negative count the last ones.
fn trunc(subject: &[u8], count: i64) -> &[u8] {
    let length = subject.len();
    let bytes = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(length);
    if count < 0 { &subject[length - bytes..] } else { &subject[..bytes] }
}

/// Returns at most `width` bytes from about `offset` on, with `...` in the place of omitted text.
fn abbreviate(subject: &[u8], offset: usize, width: usize) -> Vec<u8> {
    let length = subject.len();
    if width < 4 {
        return Vec::new();
    }
    if length <= width {
        return subject.to_vec();
    }
    let kept = width - 3;
    let mut offset = offset.min(length);
    if length - offset < kept {
        offset = length - kept;
    }
    if offset <= 4 {
        return [&subject[..kept], b"..."].concat();
    }
    if offset + kept < length {
        return [b"...", &abbreviate(&subject[offset..], 0, kept)[..]].concat();
    }
    [b"...", &subject[length - kept..]].concat()
}

fn substr(subject: &[u8], start: i64, end: i64) -> Outcome {
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    let fail = |bounds: String| Err(format!("runtime error: slice bounds out of range {bounds}").into());
    let (from, to) = match (start, end) {
        (..0, ..0) => return fail(format!("[:{end}]")),
        (..0, _) if end > length => return fail(format!("[:{end}] with length {length}")),
        (..0, _) => (0, end),
        _ if end < 0 || end > length => {
            if start > length {
                return fail(format!("[{start}:{length}]"));
            }
            (start, length)
        }
        _ if start > end => return fail(format!("[{start}:{end}]")),
        _ => (start, end),
    };
    Ok(Str::from(&subject[from as usize..to as usize]).into())
}

/// Breaks lines at spaces. Words longer than the width are left whole or cut.
fn wrap(
    context: &mut Context<'_>,
    subject: &[u8],
    width: i64,
    separator: &[u8],
    cuts_words: bool,
) -> Outcome {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut sink = format::sink(context.budget());
    let mut offset = 0;
    while subject.len() - offset > width {
        if subject[offset] == b' ' {
            offset += 1;
            continue;
        }
        let limit = offset + width;
        let (end, next) = match subject[offset..=limit].iter().rposition(|&b| b == b' ') {
            Some(space) => (offset + space, offset + space + 1),
            None if cuts_words => (limit, limit),
            None => match subject[limit..].iter().position(|&b| b == b' ') {
                Some(space) => (limit + space, limit + space + 1),
                None => break,
            },
        };
        sink.push(&subject[offset..end]);
        sink.push(separator);
        offset = next;
    }
    sink.push(&subject[offset..]);
    Ok(format::finish(sink, context.budget())?.into())
}

// === mapping characters ===

fn register_mapping(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("upper", one.clone(), |context, args| Ok(map(mapped(context, args, 1)?, |_, c| to_upper(c))))
        .add("lower", one.clone(), |context, args| Ok(map(mapped(context, args, 1)?, |_, c| to_lower(c))))
        .add("title", one.clone(), |context, args| {
            Ok(map(
                mapped(context, args, 1)?,
                |before, c| if before.is_none_or(separates) { to_title(c) } else { c },
            ))
        })
        .add("untitle", one.clone(), |context, args| {
            Ok(map(mapped(context, args, 1)?, |before, c| {
                if before.is_none_or(text::is_space) { to_lower(c) } else { c }
            }))
        })
        .add("swapcase", one.clone(), |context, args| Ok(swapcase(mapped(context, args, 1)?)))
        .add("nospace", one.clone(), |context, args| {
            let subject = mapped(context, args, 1)?;
            let is_space = |b: &u8| text::is_space(char::from(*b));
            if !subject.iter().any(is_space) {
                return Ok(args.value(0).clone());
            }
            // sprig reads byte by byte, as Latin-1, which mangles text with other characters.
            let kept: String = subject.iter().filter(|b| !is_space(b)).map(|&b| char::from(b)).collect();
            Ok(kept.into())
        })
        .add("initials", one, |context, args| {
            let mut after_gap = true;
            let mut initials = String::new();
            for c in mapped(context, args, 1)?.iter().map(|&b| char::from(b)) {
                let is_gap = text::is_space(c);
                if after_gap && !is_gap {
                    initials.push(c);
                }
                after_gap = is_gap;
            }
            Ok(initials.into())
        });
}

/// Returns the subject of a function that reads every character. Checks that there is memory for a
/// result of `bytes` times its length.
pub(super) fn mapped<'v>(
    context: &mut Context<'_>,
    args: &'v [Value],
    bytes: usize,
) -> Result<&'v [u8], CallError> {
    let subject = args.string(0);
    context.reserve(subject.len().saturating_mul(2 * bytes))?;
    Ok(subject)
}

/// Maps each character; the mapping also gets the one before it. Invalid bytes become U+FFFD.
fn map(subject: &[u8], mut mapping: impl FnMut(Option<char>, char) -> char) -> Value {
    let mut before = None;
    let mut out = String::with_capacity(subject.len());
    for (c, _) in text::runes(subject) {
        let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.push(mapping(before, c));
        before = Some(c);
    }
    out.into()
}

/// Reports whether a new word starts behind this character.
fn separates(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !text::is_letter(c) && !text::is_digit(c) && text::is_space(c)
}

fn swapcase(subject: &[u8]) -> Value {
    let mut after_space = true;
    map(subject, |_, c| {
        if is_upper(c) || is_title(c) {
            after_space = false;
            return to_lower(c);
        }
        if is_lower(c) {
            return if std::mem::take(&mut after_space) { to_title(c) } else { to_upper(c) };
        }
        after_space = text::is_space(c);
        c
    })
}
