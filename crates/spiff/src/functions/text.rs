//! Functions for strings (`spiff.md` 11.2).

use std::collections::HashSet;

use groundwork_budget::BYTES_PER_STEP;

use super::arguments::{count, fits, int, simple, text, too_many_entries};
use super::calling::{Answer, Caller, Outcome};
use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::Value;

/// `join(sep, x…)`
pub(super) fn join(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    let Some((separator, rest)) = arguments.split_first() else { return Err(Issue::default()) };
    let separator = match separator {
        Value::Nil | Value::List(_) => return Err("first argument for join must be a string".into()),
        separator => simple(separator).ok_or_else(|| not_joinable(0))?,
    };
    let mut result = String::new();
    let mut is_first = true;
    let mut push = |value: &str| {
        fits(result.len() + separator.len() + value.len(), "join", caller.limits())?;
        result.push_str(if is_first { "" } else { &separator });
        result.push_str(value);
        is_first = false;
        Ok::<(), Issue>(())
    };
    for (position, argument) in (1..).zip(rest) {
        match argument {
            Value::Nil => {}
            Value::List(list) => {
                for entry in list.values() {
                    push(&simple(entry).ok_or_else(|| {
                        Issue::new(format!("elements of list(arg {position}) to join must be simple values"))
                    })?)?;
                }
            }
            argument => push(&simple(argument).ok_or_else(|| not_joinable(position))?)?,
        }
    }
    Ok(Some(Value::string(result)))
}

fn not_joinable(position: usize) -> Issue {
    Issue::new(format!("argument {position} to join must be simple value or list"))
}

pub(super) fn strings<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::list(parts.into_iter().map(Value::string))
}

/// Makes a list of strings, checking the number of parts while they are made, because a short text
/// may have very many.
pub(super) fn many_strings<'a>(
    parts: impl IntoIterator<Item = &'a str>,
    function: &str,
    limits: &Limits,
) -> Outcome {
    let mut entries = Vec::new();
    for part in parts {
        if entries.len() == limits.nodes {
            return Err(too_many_entries(function, limits));
        }
        entries.push(Value::string(part));
    }
    Ok(Value::list(entries))
}

/// `split(sep, s [, n])`
pub(super) fn split(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=3, "split takes 2 or 3 arguments")?;
    let subject = text(&arguments[1], "second argument for split must be a string")?;
    let limit = match arguments.get(2) {
        Some(limit) => int(limit, "third argument for split must be an integer")?,
        None => -1,
    };
    let limit_or_all = usize::try_from(limit).unwrap_or(usize::MAX);
    let limits = caller.limits();
    let parts = match &arguments[0] {
        Value::String(separator) if separator.is_empty() => {
            many_strings(characters(subject, limit_or_all), "split", limits)
        }
        Value::String(_) if limit == 0 => Ok(Value::list([])),
        Value::String(separator) => many_strings(subject.splitn(limit_or_all, &**separator), "split", limits),
        separator => {
            let size = int(separator, "first argument for split must be a string")?;
            let size = usize::try_from(size).ok().filter(|size| *size > 0);
            let size = size.ok_or("max line length argument must be positive")?;
            many_strings(chunks(subject, size, limit), "split", limits)
        }
    };
    parts.map(Some)
}

/// Splits into characters; the last of `limit` parts has the rest.
fn characters(subject: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = subject;
    (1..=limit).map_while(move |number| {
        let first = rest.chars().next()?;
        let end = if number == limit { rest.len() } else { first.len_utf8() };
        let (part, behind) = rest.split_at(end);
        rest = behind;
        Some(part)
    })
}

/// Splits into pieces of `size` characters; the last of `limit` (from 1) pieces has the rest.
fn chunks(subject: &str, size: usize, limit: i64) -> impl Iterator<Item = &str> {
    let mut limit = limit;
    let mut rest = subject;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_last = limit == 0 || limit == 1;
        let end = if is_last { None } else { rest.char_indices().nth(size).map(|(at, _)| at) };
        let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        limit -= 1;
        Some(part)
    })
}

/// `trim(s|list [, cutset])`
pub(super) fn trim(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=2, "split takes one or two arguments")?;
    let cutset = match arguments.get(1) {
        Some(cutset) => text(cutset, "second argument of split must be a string")?,
        None => " \t",
    };
    let cutset: HashSet<char> = cutset.chars().collect();
    let trimmed = |text: &str| Value::string(text.trim_matches(|c| cutset.contains(&c)));
    match &arguments[0] {
        Value::String(text) => Ok(trimmed(text)),
        Value::List(list) => {
            let message = "list elements must be strings to be trimmed";
            let entries: Result<Vec<_>, Issue> =
                list.values().map(|entry| Ok(trimmed(text(entry, message)?))).collect();
            Ok(Value::list(entries?))
        }
        _ => Err("trim accepts only a string or list".into()),
    }
}

/// `lower(s)`
pub(super) fn lower(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "lower requires one argument")?;
    Ok(Value::string(text(&arguments[0], "first argument for lower must be a string")?.to_lowercase()))
}

/// `upper(s)`
pub(super) fn upper(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "upper requires one argument")?;
    Ok(Value::string(text(&arguments[0], "first argument for upper must be a string")?.to_uppercase()))
}

/// `substr(s, start [, end])`, in bytes **[D4]**.
pub(super) fn substr(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=3, "substr takes two to three arguments")?;
    let subject = text(&arguments[0], "first argument for substr must be a string")?;
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    let from_start = |position: i64| if position < 0 { length.saturating_add(position) } else { position };
    let start = from_start(int(&arguments[1], "second argument for substr must be an integer")?);
    let end = match arguments.get(2) {
        Some(end) => from_start(int(end, "third argument for substr must be an integer")?),
        None => length,
    };
    if length < end {
        return Err(Issue::new(format!(
            "substr effective end index ({end}) exceeds string length ({length})"
        )));
    }
    if start < 0 {
        return Err(Issue::new(format!("negative substr effective start index ({start})")));
    }
    if start > end {
        return Err(Issue::new(format!("substr start index ({start}) aftsre end index ({end}) ")));
    }
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(start, end)| subject.get(start..end));
    Ok(Value::string(part.ok_or("substr range cuts a character")?))
}

/// `length(string|list|map)`
pub(super) fn length(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "length takes exactly 1 arguments")?;
    let length = match &arguments[0] {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err("invalid type for function length".into()),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Returns the largest number of replacements.
pub(super) fn times(argument: Option<&Value>, function: &str) -> Result<usize, Issue> {
    let Some(argument) = argument else { return Ok(usize::MAX) };
    let times = int(argument, &format!("fourth argument for {function} must be an integer"))?;
    Ok(usize::try_from(times).unwrap_or(usize::MAX))
}

/// `replace(s, old, new [, n])`; `new` may be a lambda.
pub(super) fn replace(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 3..=usize::MAX, "replace requires at least 3 arguments")?;
    count(arguments, 3..=4, "replace does not take more than 4 arguments")?;
    let subject = text(&arguments[0], "first argument for replace must be a string")?;
    let old = text(&arguments[1], "second argument for replace must be a string")?;
    let times = times(arguments.get(3), "replace")?;
    let matches: Vec<usize> = subject.match_indices(old).take(times).map(|(at, _)| at).collect();
    let mut result = String::new();
    let mut end = 0;
    for at in matches {
        // The replacement is copied for each match.
        caller.spend(1 + arguments[2].as_str().map_or(0, str::len) / BYTES_PER_STEP)?;
        let Some(new) = replacement(caller, &arguments[2], "replace", &[old])? else { return Ok(None) };
        fits(result.len() + (at - end) + new.len(), "replace", caller.limits())?;
        result.push_str(&subject[end..at]);
        result.push_str(&new);
        end = at + old.len();
    }
    fits(result.len() + subject.len() - end, "replace", caller.limits())?;
    result.push_str(&subject[end..]);
    Ok(Some(Value::string(result)))
}

/// Returns the replacement of a match: a string, or the result of a lambda for the match and its
/// groups.
pub(super) fn replacement(
    caller: &mut dyn Caller,
    new: &Value,
    function: &str,
    groups: &[&str],
) -> Result<Option<String>, Issue> {
    let lambda = match new {
        Value::String(text) => return Ok(Some(text.to_string())),
        Value::Lambda(lambda) => lambda,
        _ => {
            return Err(Issue::new(format!("{function}: replace substitution must be string or lambda")));
        }
    };
    let called = caller.call(lambda, &[strings(groups.iter().copied())]);
    match called.map_err(|issue| Issue::new(format!("{function}: replace: {}", issue.message)))? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_string())),
        Some(_) => Err(Issue::new(format!("{function}: replace: lambda must return a string"))),
    }
}
