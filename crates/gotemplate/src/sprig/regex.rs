//! Regular expressions (section 12.10).

use std::borrow::Cow;
use std::rc::Rc;

use super::Outcome;
use super::regex_syntax::{compile_error, translate};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::text;
use crate::value::{Element, List, Str, Value};

pub(super) fn register(functions: &mut Functions) {
    let two = Signature::fixed(&[Type::String, Type::String]);
    let three = Signature::fixed(&[Type::String, Type::String, Type::String]);
    let counted = Signature::fixed(&[Type::String, Type::String, Type::Int]);
    functions
        .add("regexMatch", two.clone(), |context, args| match pattern(context, args) {
            Ok(pattern) => Ok(Value::Bool(pattern.regex.is_match(&subject(args)))),
            // The original drops the error.
            Err(CallError::Message(_)) => Ok(Value::Bool(false)),
            Err(limit) => Err(limit),
        })
        .add("mustRegexMatch", two.clone(), |context, args| {
            Ok(Value::Bool(pattern(context, args)?.regex.is_match(&subject(args))))
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

/// A compiled pattern with the names of its groups.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: regex::Regex,
    names: Vec<Option<String>>,
    is_empty: bool,
}

type Apply = fn(&mut Context<'_>, &Pattern, &[Value]) -> Outcome;

/// The plain function, which reports a bad pattern as a panic does, and the one that returns the error.
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

/// The pattern in the first argument, compiled once per render.
fn pattern(context: &mut Context<'_>, args: &[Value]) -> Result<Rc<Pattern>, CallError> {
    let source = args.text(0);
    context.spend(args.string(1).len() / 16)?;
    if let Some(known) = context.run.patterns.get(&source) {
        return known.clone().map_err(CallError::Message);
    }
    // Counted repetitions multiply what a pattern compiles to.
    let weight = if source.contains(&b'{') { 50 } else { 1 };
    context.spend((1_000 + source.len()).saturating_mul(weight))?;
    let compiled =
        compile(&source).map(Rc::new).map_err(|complaint| format!("error parsing regexp: {complaint}"));
    context.run.patterns.insert(source, compiled.clone());
    compiled.map_err(CallError::Message)
}

fn compile(source: &Str) -> Result<Pattern, String> {
    if let Err(error) = std::str::from_utf8(source) {
        let rest = String::from_utf8_lossy(&source[error.valid_up_to()..]);
        return Err(format!("invalid UTF-8: `{rest}`"));
    }
    let shown = source.to_text();
    let translated = translate(&shown)?;
    let regex = regex::Regex::new(&translated.pattern)
        .map_err(|_| format!("expression nests too deeply: `{shown}`"))?;
    Ok(Pattern { regex, names: translated.names, is_empty: source.is_empty() })
}

/// The text to search; invalid UTF-8 counts as U+FFFD, as it does when the original matches it.
fn subject(args: &[Value]) -> Cow<'_, str> {
    String::from_utf8_lossy(args.string(1))
}

/// How many matches a count asks for: all if negative.
fn limit(args: &[Value]) -> usize {
    usize::try_from(args.int(2)).unwrap_or(usize::MAX)
}

fn find(_: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    Ok(pattern.regex.find(&subject(args)).map_or("", |found| found.as_str()).into())
}

fn find_all(context: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    let subject = subject(args);
    let found: Vec<Str> =
        pattern.regex.find_iter(&subject).take(limit(args)).map(|found| found.as_str().into()).collect();
    context.spend(found.len())?;
    if found.is_empty() { Ok(List::nil(Element::String).into()) } else { Ok(List::strings(found).into()) }
}

fn split(context: &mut Context<'_>, pattern: &Pattern, args: &[Value]) -> Outcome {
    let (subject, limit) = (subject(args), limit(args));
    if limit == 0 {
        return Ok(List::nil(Element::String).into());
    }
    if subject.is_empty() && !pattern.is_empty {
        return Ok(List::strings([Str::default()]).into());
    }
    let mut parts: Vec<Str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in pattern.regex.find_iter(&subject).take(limit) {
        if parts.len() == limit - 1 {
            break;
        }
        end = found.start();
        // A match at the very start that is empty separates nothing.
        if found.end() != 0 {
            parts.push(subject[begin..end].into());
        }
        begin = found.end();
    }
    if end != subject.len() {
        parts.push(subject[begin..].into());
    }
    context.spend(parts.len())?;
    Ok(List::strings(parts).into())
}

fn replace(context: &mut Context<'_>, pattern: &Pattern, args: &[Value], expands: bool) -> Outcome {
    let (subject, replacement) = (subject(args), String::from_utf8_lossy(args.string(2)));
    let mut out = String::with_capacity(subject.len());
    let mut end = 0;
    for captures in pattern.regex.captures_iter(&subject) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(&subject[end..whole.start()]);
        if expands {
            expand(&mut out, &replacement, pattern, &captures);
        } else {
            out.push_str(&replacement);
        }
        end = whole.end();
        context.spend(1 + replacement.len() / 16)?;
        context.check_text(out.len())?;
    }
    out.push_str(&subject[end..]);
    Ok(out.into())
}

/// Writes a replacement with `$1`, `${1}`, `$name`, `${name}` and `$$` filled in.
fn expand(out: &mut String, template: &str, pattern: &Pattern, captures: &regex::Captures<'_>) {
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        rest = behind;
        if let Some(after) = behind.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(behind) {
            out.push_str(group(name, pattern, captures));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
}

/// The group name behind a `$`, and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix('{');
    let name = body.unwrap_or(text);
    let length = name.find(|c| !(c == '_' || text::is_letter(c) || text::is_digit(c))).unwrap_or(name.len());
    let (name, rest) = name.split_at(length);
    if name.is_empty() {
        return None;
    }
    if body.is_some() { rest.strip_prefix('}').map(|rest| (name, rest)) } else { Some((name, rest)) }
}

/// The text of a group by number or name; of groups with the same name, the first.
fn group<'c>(name: &str, pattern: &Pattern, captures: &regex::Captures<'c>) -> &'c str {
    let is_number = name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    let index = if is_number {
        name.parse().ok()
    } else {
        pattern.names.iter().position(|known| known.as_deref() == Some(name))
    };
    index.and_then(|index| captures.get(index)).map_or("", |found| found.as_str())
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
