//! Functions for regular expressions (`gotemplate.md` 12.10).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use groundwork_budget::BYTES_PER_STEP;
use groundwork_go::regexp;

use super::registration::Outcome;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::patterns::{Compiled, Pattern, is_light};
use crate::text;
use crate::value::{Element, List, SLOT_BYTES, Str, Value};

pub(super) fn register(functions: &mut Functions) {
    let two = Signature::fixed(&[Type::String, Type::String]);
    let three = Signature::fixed(&[Type::String, Type::String, Type::String]);
    let counted = Signature::fixed(&[Type::String, Type::String, Type::Int]);
    functions
        .add("regexMatch", two.clone(), |context, args| match pattern(context, args) {
            Ok(pattern) => Ok(Value::Bool(pattern.pattern.regex().is_match(&subject(args).text))),
            // sprig's `regexMatch` drops the error of a bad pattern.
            Err(CallError::Message(_)) => Ok(Value::Bool(false)),
            Err(limit) => Err(limit),
        })
        .add("mustRegexMatch", two.clone(), |context, args| {
            Ok(Value::Bool(pattern(context, args)?.pattern.regex().is_match(&subject(args).text)))
        })
        .add("regexQuoteMeta", Signature::fixed(&[Type::String]), |_, args| {
            Ok(quote_meta(args.string(0)).into())
        });
    pair(functions, ["regexFind", "mustRegexFind"], &two, find);
    pair(functions, ["regexFindAll", "mustRegexFindAll"], &counted, find_all);
    pair(functions, ["regexSplit", "mustRegexSplit"], &counted, split);
    pair(functions, ["regexReplaceAll", "mustRegexReplaceAll"], &three, |context, pattern, args| {
        replace(context, pattern, args, true)
    });
    pair(
        functions,
        ["regexReplaceAllLiteral", "mustRegexReplaceAllLiteral"],
        &three,
        |context, pattern, args| replace(context, pattern, args, false),
    );
}

type Apply = fn(&mut Context<'_>, &Pattern, &[Value]) -> Outcome;

/// Registers the function that reports a bad pattern as Go reports a panic, and its `must` twin
/// that returns the error.
fn pair(functions: &mut Functions, [plain, must]: [&'static str; 2], signature: &Signature, apply: Apply) {
    functions.add(plain, signature.clone(), move |context, args| match pattern(context, args) {
        Ok(pattern) => apply(context, &pattern, args),
        Err(CallError::Message(complaint)) => Err(compile_error(args.string(0), &complaint).into()),
        Err(limit) => Err(limit),
    });
    functions.add(must, signature.clone(), move |context, args| {
        let pattern = pattern(context, args)?;
        apply(context, &pattern, args)
    });
}

/// Returns the pattern of the first argument. Each render pays for compiling it even if it is
/// cached, so that the result of a render does not depend on earlier ones.
fn pattern(context: &mut Context<'_>, args: &[Value]) -> Result<Arc<Pattern>, CallError> {
    let compiled = compiled(context, args.text(0))?;
    if let Ok(pattern) = &compiled {
        context.spend(pattern.pattern.searching_steps(args.string(1).len()))?;
    }
    compiled.map_err(CallError::Message)
}

fn compiled(context: &mut Context<'_>, source: Str) -> Result<Compiled, CallError> {
    if let Some(known) = context.run.patterns.get(&source) {
        return Ok(known.clone());
    }
    regexp::account(&source.to_text(), |steps| context.spend(steps))?;
    let compiled = context.run.shared.get(&source);
    // Heavy patterns are not cached. They are compiled for each call and pay for it, so that they
    // occupy no memory between calls.
    if is_light(&compiled) {
        context.run.patterns.insert(source, compiled.clone());
    }
    Ok(compiled)
}

/// The text to search. Each invalid byte is searched as U+FFFD, but matches contain the original
/// byte.
struct Subject<'s> {
    raw: &'s [u8],
    text: Cow<'s, str>,
    /// Positions of the invalid bytes in the text. Each was one byte and takes three here.
    broken: Vec<usize>,
}

fn subject(args: &[Value]) -> Subject<'_> {
    let raw = args.string(1);
    let (mut text, mut broken) = (Cow::Borrowed(""), Vec::new());
    for chunk in raw.utf8_chunks() {
        if text.is_empty() && chunk.invalid().is_empty() {
            text = Cow::Borrowed(chunk.valid());
            continue;
        }
        let text = text.to_mut();
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            broken.push(text.len());
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    Subject { raw, text, broken }
}

impl Subject<'_> {
    /// Returns the original bytes at a range of the text.
    fn slice(&self, range: Range<usize>) -> &[u8] {
        let from = self.position(range.start);
        &self.raw[from..self.position(range.end)]
    }

    fn position(&self, at: usize) -> usize {
        at - 2 * self.broken.partition_point(|broken| *broken < at)
    }
}

/// Returns the largest number of matches: the count argument, or all if it is negative.
fn limit(args: &[Value]) -> usize {
    usize::try_from(args.int(2)).unwrap_or(usize::MAX)
}

fn find(_: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    let subject = subject(args);
    let found = pattern.pattern.regex().find(&subject.text).map(|found| subject.slice(found.range()));
    Ok(Str::from(found.unwrap_or_default()).into())
}

fn find_all(context: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    let subject = subject(args);
    let found = pattern.pattern.regex().find_iter(&subject.text).take(limit(args));
    let mut all: Vec<Str> = Vec::new();
    for found in found {
        look_on(context, pattern, subject.text.len() - found.end())?;
        take_part(context, &mut all, subject.slice(found.range()))?;
    }
    let found = all;
    if found.is_empty() { Ok(List::nil(Element::String).into()) } else { Ok(List::strings(found).into()) }
}

/// Accounts for the bytes that a search read beyond its match.
fn look_on(context: &mut Context<'_>, pattern: &Pattern, rest: usize) -> Result<(), CallError> {
    context.spend(pattern.pattern.steps_beyond(rest))
}

/// Adds a part of the subject to a growing list, whose memory doubles when it is full.
fn take_part(context: &mut Context<'_>, parts: &mut Vec<Str>, part: &[u8]) -> Result<(), CallError> {
    context.reserve(part.len() + (parts.len() + 1).saturating_mul(3 * SLOT_BYTES))?;
    context.spend(1)?;
    parts.push(part.into());
    Ok(())
}

fn split(context: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    let (subject, limit) = (subject(args), limit(args));
    if limit == 0 {
        return Ok(List::nil(Element::String).into());
    }
    if subject.raw.is_empty() && !pattern.is_empty {
        return Ok(List::strings([Str::default()]).into());
    }
    let mut parts: Vec<Str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in pattern.pattern.regex().find_iter(&subject.text).take(limit) {
        if parts.len() == limit - 1 {
            break;
        }
        end = found.start();
        look_on(context, pattern, subject.text.len() - found.end())?;
        // An empty match at the very start does not separate a part, as in Go.
        if found.end() != 0 {
            take_part(context, &mut parts, subject.slice(begin..end))?;
        }
        begin = found.end();
    }
    if end != subject.text.len() {
        parts.push(subject.slice(begin..subject.text.len()).into());
    }
    context.reserve(parts.len().saturating_mul(2 * SLOT_BYTES))?;
    Ok(List::strings(parts).into())
}

fn replace(context: &mut Context<'_>, pattern: &Pattern, args: &[Value], expands: bool) -> Outcome {
    let (subject, replacement) = (subject(args), args.string(2));
    let mut out: Vec<u8> = Vec::with_capacity(subject.raw.len());
    let mut end = 0;
    for captures in pattern.pattern.regex().captures_iter(&subject.text) {
        let Some(whole) = captures.get(0) else { continue };
        look_on(context, pattern, subject.text.len() - whole.end())?;
        out.extend(subject.slice(end..whole.start()));
        // Each `$` may insert the whole match, so the largest possible replacement is reserved.
        let references = if expands { replacement.iter().filter(|byte| **byte == b'$').count() } else { 0 };
        let most = replacement.len().saturating_add(references.saturating_mul(whole.len()));
        context.reserve(out.len().saturating_add(most))?;
        context.spend(1 + most / BYTES_PER_STEP)?;
        if expands {
            expand(&mut out, replacement, |name| {
                group(name, pattern, &captures).map(|range| subject.slice(range))
            });
        } else {
            out.extend(replacement);
        }
        end = whole.end();
        if out.len() > context.budget().limits().output_bytes {
            context.check_text(out.len())?;
        }
    }
    context.check_text(out.len() + subject.raw.len().saturating_sub(subject.position(end)))?;
    out.extend(subject.slice(end..subject.text.len()));
    Ok(out.into())
}

/// Writes a replacement with `$1`, `${1}`, `$name`, `${name}` and `$$` expanded.
fn expand<'s>(out: &mut Vec<u8>, template: &[u8], group: impl Fn(&str) -> Option<&'s [u8]>) {
    let mut rest = template;
    while let Some(dollar) = rest.iter().position(|b| *b == b'$') {
        out.extend(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            out.extend(group(name).unwrap_or_default());
            rest = after;
        } else {
            out.push(b'$');
        }
    }
    out.extend(rest);
}

/// Returns the group name behind a `$`, and the rest of the text.
fn reference(text: &[u8]) -> Option<(&str, &[u8])> {
    let body = text.strip_prefix(b"{");
    let name = body.unwrap_or(text);
    let is_part = |c: &Option<char>| c.is_some_and(|c| c == '_' || text::is_letter(c) || text::is_digit(c));
    let length = text::runes(name).take_while(|(c, _)| is_part(c)).map(|(_, raw)| raw.len()).sum();
    let (name, rest) = name.split_at(length);
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    if body.is_some() { rest.strip_prefix(b"}").map(|rest| (name, rest)) } else { Some((name, rest)) }
}

/// Returns the range that a group matched; the group is given by number or name.
fn group(name: &str, pattern: &Pattern, captures: &regex::Captures<'_>) -> Option<Range<usize>> {
    Some(captures.get(pattern.pattern.group(name)?)?.range())
}

/// Returns an error with the prefix of Go's `Compile(…)`.
fn compile_error(pattern: &[u8], complaint: &str) -> String {
    let shown = if text::can_backquote(pattern) {
        format!("`{}`", text::lossy(pattern))
    } else {
        text::quote(pattern)
    };
    format!("regexp: Compile({shown}): {complaint}")
}

fn quote_meta(subject: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(subject.len());
    for &byte in subject {
        if br"\.+*?()|[]{}^$".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn broken_bytes_are_searched_as_one_character_and_kept() {
        check_all(&[
            (r#"{{regexFind "[^a-z]+" "bad\xff\xfeutf" | printf "%q"}}"#, r#""\xff\xfe""#),
            (r#"{{regexReplaceAll "(.)u" "bad\xffutf" "<$1>" | printf "%q"}}"#, r#""bad<\xff>tf""#),
            (r#"{{regexSplit "a" "ba\xffd\xfe" -1 | printf "%q"}}"#, r#"["b" "\xffd\xfe"]"#),
            (
                r#"{{regexFindAll "." "\xe6\x97" -1 | printf "%q"}} {{regexMatch "^..$" "\xe6\x97"}}"#,
                r#"["\xe6" "\x97"] true"#,
            ),
        ]);
    }
}
