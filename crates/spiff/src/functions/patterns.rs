//! Functions for regular expressions (`spiff.md` 11.2).

use std::cell::RefCell;
use std::collections::HashMap;

use groundwork_go::regexp::Pattern;
use regex::Captures;

use super::arguments::{count, fits, int, simple, text, too_many_entries};
use super::calling::{Answer, Caller};
use super::text::{replacement, strings, times};
use crate::issue::Issue;
use crate::value::Value;

/// Compiled patterns that are cached.
pub(crate) const KEPT: usize = 64;

/// Returns the compiled pattern. Each thread caches those used last, since `map` calls functions
/// with the same pattern again and again.
pub(super) fn compile(pattern: &str) -> Result<Pattern, Issue> {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Pattern>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(regex) = compiled.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = Pattern::compile(pattern)
            .map_err(|complaint| Issue::new(format!("error parsing regexp: {complaint}")))?;
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        if regex.is_light() {
            compiled.insert(pattern.to_owned(), regex.clone());
        }
        Ok(regex)
    })
}

/// Returns the compiled pattern for a search in a text, and accounts for both.
fn compile_for(
    caller: &mut dyn Caller,
    function: &str,
    pattern: &str,
    subject: &str,
) -> Result<Pattern, Issue> {
    caller.pattern(pattern, subject.len())?;
    compile(pattern).map_err(|issue| Issue::new(format!("{function}: {issue}")))
}

fn groups<'a>(captures: &Captures<'a>) -> Vec<&'a str> {
    captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect()
}

/// `match(re, s [, n|true])`
pub(super) fn matches(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=3, "match takes two or three arguments")?;
    let pattern = text(&arguments[0], "pattern string for argument one of function match required")?;
    if matches!(arguments[1], Value::Nil) {
        return Ok(Some(Value::Bool(false)));
    }
    const NOT_SIMPLE: &str = "simple value for argument two of function match required";
    let limit = match arguments.get(2) {
        None => None,
        Some(Value::Bool(all)) => Some(if *all { usize::MAX } else { 1 }),
        Some(limit) => match int(limit, NOT_SIMPLE)? {
            0 => return Err("repetition count may not be zero".into()),
            limit => Some(usize::try_from(limit).unwrap_or(usize::MAX)),
        },
    };
    let subject = simple(&arguments[1]).ok_or(NOT_SIMPLE)?;
    let regex = compile_for(caller, "match", pattern, &subject)?;
    let Some(limit) = limit else {
        let captures = regex.regex().captures(&subject);
        return Ok(Some(strings(captures.map_or_else(Vec::new, |captures| groups(&captures)))));
    };
    let (mut matches, mut entries) = (Vec::new(), 0);
    for captures in regex.regex().captures_iter(&subject).take(limit) {
        let beyond = captures.get(0).map_or(0, |whole| regex.steps_beyond(subject.len() - whole.end()));
        caller.spend(1 + captures.len() + beyond)?;
        // The list of a match itself takes as much memory as three entries.
        entries += captures.len() + 3;
        if entries > caller.limits().nodes {
            return Err(too_many_entries("match", caller.limits()));
        }
        matches.push(strings(groups(&captures)));
    }
    Ok(Some(Value::list(matches)))
}

/// `split_match(re, s [, n])`
pub(super) fn split_match(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=3, "split_match takes 2 or 3 arguments")?;
    let pattern = text(&arguments[0], "first argument for split_match must be a string")?;
    let subject = text(&arguments[1], "second argument for split_match must be a string")?;
    let limit = match arguments.get(2) {
        Some(limit) => int(limit, "third argument for split must be an integer")?,
        None => -1,
    };
    let regex = compile_for(caller, "split_match", pattern, subject)?;
    if limit == 0 {
        return Ok(Some(Value::list([])));
    }
    if subject.is_empty() && !pattern.is_empty() {
        return Ok(Some(strings([""])));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in regex.regex().find_iter(subject) {
        if parts.len() + 1 == limit {
            break;
        }
        if parts.len() == caller.limits().nodes {
            return Err(too_many_entries("split_match", caller.limits()));
        }
        end = found.start();
        caller.spend(1 + regex.steps_beyond(subject.len() - found.end()))?;
        // An empty match at the start does not split off a part.
        if found.end() != 0 {
            parts.push(&subject[begin..end]);
        }
        begin = found.end();
    }
    if end != subject.len() {
        parts.push(&subject[begin..]);
    }
    Ok(Some(strings(parts)))
}

/// `replace_match(s, re, new [, n])`, where `new` is a template with `$1` and `${name}`, or a
/// lambda.
pub(super) fn replace_match(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 3..=usize::MAX, "replace_match requires at least 3 arguments")?;
    count(arguments, 3..=4, "replace_match does not take more than 4 arguments")?;
    let subject = text(&arguments[0], "first argument for replace_match must be a string")?;
    let pattern = text(&arguments[1], "second argument for replace_match must be a string")?;
    let times = times(arguments.get(3), "replace_match")?;
    let regex = compile_for(caller, "replace_match", pattern, subject)?;
    let mut result = String::new();
    let mut rest = subject;
    let mut after_empty = true;
    // As in spiff++, each search starts anew with the rest of the text, so that `^` matches there
    // again.
    for _ in 0..times {
        // The template is read again for each match, and each of its bytes may be a reference.
        let template = arguments[2].as_str().map_or(0, str::len);
        caller.spend(1 + rest.len() / 64 + regex.steps_beyond(rest.len()) + template)?;
        let Some(captures) = regex.regex().captures(rest) else { break };
        let Some(whole) = captures.get(0) else { break };
        result.push_str(&rest[..whole.start()]);
        // An empty match directly behind the last match is not replaced.
        if after_empty || whole.end() > 0 {
            if let Value::String(template) = &arguments[2] {
                regex.expand(template, &captures, &mut result);
            } else {
                let groups = groups(&captures);
                let Some(new) = replacement(caller, &arguments[2], "replace_match", &groups)? else {
                    return Ok(None);
                };
                result.push_str(&new);
            }
        }
        // One match adds at most about as much as template and subject are long, so checking after
        // it is early enough.
        fits(result.len(), "replace_match", caller.limits())?;
        rest = &rest[whole.end()..];
        after_empty = whole.is_empty();
        if after_empty {
            let Some(skipped) = rest.chars().next() else { break };
            result.push(skipped);
            rest = &rest[skipped.len_utf8()..];
        }
    }
    result.push_str(rest);
    fits(result.len(), "replace_match", caller.limits())?;
    Ok(Some(Value::string(result)))
}
