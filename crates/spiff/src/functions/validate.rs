//! The functions `validate` and `check` with their conditions (`spiff.md` 11.3).

use std::sync::Arc;

use groundwork_keys::{Certificate, PrivateKey, PublicKey};

use super::arguments::{count, go_type};
use super::calling::{Answer, Caller};
use super::lists::is_equal;
use super::patterns::compile;
use super::semver;
use crate::issue::{Issue, quote};
use crate::operators::address::{Address, Cidr};
use crate::operators::compare::order;
use crate::operators::concatenate::{lambda_text, short};
use crate::syntax::ast::Operator;
use crate::value::{Lambda, List, Map, Value};

/// The result of a condition for a value.
struct Verdict {
    holds: bool,
    message: String,
}

/// A verdict; `None` as with [`Caller::call`]. An error is a fault of the condition, not of the
/// value.
type Checked = Result<Option<Verdict>, Issue>;

/// `validate(v, cond…)`
pub(super) fn validate(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=usize::MAX, "at least two arguments required for validate")?;
    let Some(failed) = first_failure(caller, arguments)? else { return Ok(None) };
    match failed {
        None => Ok(Some(arguments[0].clone())),
        Some((position, message)) => Err(Issue::new(format!("condition {position} failed: {message}"))),
    }
}

/// `check(v, cond…)`
pub(super) fn check(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=usize::MAX, "at least two arguments required for check")?;
    let Some(failed) = first_failure(caller, arguments)? else { return Ok(None) };
    Ok(Some(Value::Bool(failed.is_none())))
}

/// Returns the number, from 1, and message of the first condition that is not met. The outer `None`
/// means pending.
fn first_failure(
    caller: &mut dyn Caller,
    arguments: &[Value],
) -> Result<Option<Option<(usize, String)>>, Issue> {
    for (position, condition) in (1..).zip(&arguments[1..]) {
        let checked = check_one(caller, &arguments[0], condition);
        let verdict =
            checked.map_err(|problem| Issue::new(format!("condition {position} has problem: {problem}")))?;
        match verdict {
            None => return Ok(None),
            Some(verdict) if !verdict.holds => return Ok(Some(Some((position, verdict.message)))),
            Some(_) => {}
        }
    }
    Ok(Some(None))
}

fn verdict(holds: bool, positive: &str, negative: &str) -> Checked {
    let message = if holds { positive } else { negative }.to_owned();
    Ok(Some(Verdict { holds, message }))
}

fn check_one(caller: &mut dyn Caller, value: &Value, condition: &Value) -> Checked {
    match condition {
        Value::Nil => verdict(true, "no condition", ""),
        Value::List(list) => {
            let values: Vec<Value> = List::values(list).cloned().collect();
            let Some((first, arguments)) = values.split_first() else {
                return Err("validation type missing".into());
            };
            check_head(first)?;
            stacker::maybe_grow(128 << 10, 1 << 20, || apply(caller, value, first, arguments))
        }
        condition => apply(caller, value, condition, &[]),
    }
}

fn apply(caller: &mut dyn Caller, value: &Value, condition: &Value, arguments: &[Value]) -> Checked {
    match condition {
        Value::Lambda(lambda) => by_lambda(caller, value, lambda, arguments),
        Value::String(text) => {
            let (negated, operator) = text.strip_prefix('!').map_or((false, &**text), |rest| (true, rest));
            if operator.is_empty() && !negated {
                return Err("empty validator type".into());
            }
            let negated = negated != (operator == "not");
            let verdict = named(caller, value, operator, arguments)?;
            Ok(verdict.map(|verdict| Verdict { holds: verdict.holds != negated, ..verdict }))
        }
        other => Err(Issue::new(format!("invalid validation check type: {}", other.type_name()))),
    }
}

/// Checks the first entry of a list condition.
fn check_head(first: &Value) -> Result<(), Issue> {
    match first {
        Value::Lambda(_) | Value::String(_) => Ok(()),
        other => Err(Issue::new(format!("unexpected validation type {}", quote(other.type_name())))),
    }
}

fn by_lambda(caller: &mut dyn Caller, value: &Value, lambda: &Arc<Lambda>, arguments: &[Value]) -> Checked {
    let (expected, found) = (lambda.expression.parameters.len(), arguments.len() + 1);
    if expected != found {
        let lambda = lambda_text(lambda);
        return Err(Issue::new(format!(
            "argument count mismatch for lambda {lambda}: expected {expected}, found {found}"
        )));
    }
    let all: Vec<Value> = std::iter::once(value).chain(arguments).cloned().collect();
    let Some(result) = caller.call(lambda, &all)? else { return Ok(None) };
    let text = lambda_text(lambda);
    let (positive, negative) = (format!("{text} succeeded"), format!("{text} failed"));
    let Value::List(list) = &result else { return verdict(result.is_truthy(), &positive, &negative) };
    let entries: Vec<&Value> = List::values(list).collect();
    let message = |at: usize| {
        entries[at].as_str().ok_or_else(|| {
            let kind = entries[at].type_name();
            Issue::new(format!(
                "lambda validator result index {}: lambda validator requires string, but got {kind}",
                at + 1
            ))
        })
    };
    match entries.len() {
        1 => verdict(entries[0].is_truthy(), &positive, &negative),
        2 => verdict(entries[0].is_truthy(), message(1)?, message(1)?),
        3 => verdict(entries[0].is_truthy(), message(1)?, message(2)?),
        length => Err(Issue::new(format!("invalid result length of validator {text}, got {length}"))),
    }
}

/// Returns the text that most operators check.
fn text<'a>(operator: &str, value: &'a Value) -> Result<&'a str, Issue> {
    value.as_str().ok_or_else(|| {
        Issue::new(format!("{operator}: {operator} requires string, but got {}", value.type_name()))
    })
}

fn named(caller: &mut dyn Caller, value: &Value, operator: &str, arguments: &[Value]) -> Checked {
    match operator {
        "and" | "not" | "" => all(caller, value, arguments),
        "or" => any(caller, value, arguments),
        "list" => match value {
            Value::List(list) => entries(caller, list, arguments),
            _ => verdict(false, "", "is no list"),
        },
        "map" => match value {
            Value::Map(map) => fields(caller, map, arguments),
            _ => verdict(false, "", "is no map"),
        },
        "mapfield" | "optionalfield" => match value {
            Value::Map(map) => field(caller, map, operator, arguments),
            _ => verdict(false, "", "is no map"),
        },
        "type" => kind(value, arguments),
        "valueset" => value_set(value, arguments),
        "value" | "=" | "gt" | ">" | "ge" | ">=" | "lt" | "<" | "le" | "<=" => {
            comparison(value, operator, arguments)
        }
        "match" | "~=" => pattern(caller, value, arguments),
        "empty" => {
            let is_empty = match value {
                Value::String(text) => text.is_empty(),
                Value::List(list) => list.is_empty(),
                Value::Map(map) => map.is_empty(),
                other => return Err(Issue::new(format!("invalid type for empty: {}", other.type_name()))),
            };
            verdict(is_empty, "is empty", "is not empty")
        }
        "semver" => semver(value, arguments),
        "privatekey" | "publickey" | "certificate" | "ca" => key(value, operator),
        _ => name_or_address(value, operator),
    }
}

fn required(arguments: &[Value]) -> Result<(), Issue> {
    if arguments.is_empty() { Err("validator argument required".into()) } else { Ok(()) }
}

fn all(caller: &mut dyn Caller, value: &Value, conditions: &[Value]) -> Checked {
    required(conditions)?;
    let mut messages = Vec::new();
    for condition in conditions {
        match check_one(caller, value, condition)? {
            Some(verdict) if verdict.holds => messages.push(verdict.message),
            other => return Ok(other),
        }
    }
    verdict(true, &joined(&messages), "")
}

fn any(caller: &mut dyn Caller, value: &Value, conditions: &[Value]) -> Checked {
    required(conditions)?;
    let mut messages = Vec::new();
    for condition in conditions {
        match check_one(caller, value, condition)? {
            Some(verdict) if !verdict.holds => messages.push(verdict.message),
            other => return Ok(other),
        }
    }
    // As in spiff++, an `or` of a single condition is never reported as failed.
    verdict(conditions.len() == 1, &joined(&messages), &joined(&messages))
}

fn joined(messages: &[String]) -> String {
    match messages {
        [message] => message.clone(),
        messages => format!("({})", messages.join(" and ")),
    }
}

fn entries(caller: &mut dyn Caller, list: &List, conditions: &[Value]) -> Checked {
    if conditions.is_empty() {
        return verdict(true, "is a list", "");
    }
    for (at, entry) in list.values().enumerate() {
        for (number, condition) in conditions.iter().enumerate() {
            let checked = check_one(caller, entry, condition)
                .map_err(|problem| Issue::new(format!("list entry {at} condition {number}: {problem}")))?;
            let Some(found) = checked else { return Ok(None) };
            if !found.holds {
                return verdict(false, "", &format!("entry {at} condition {number} {}", found.message));
            }
        }
    }
    verdict(true, "all entries match all conditions", "")
}

fn fields(caller: &mut dyn Caller, map: &Map, conditions: &[Value]) -> Checked {
    let (of_key, of_value) = match conditions {
        [] => return verdict(true, "is a map", ""),
        [value] => (None, value),
        [key, value] => (Some(key), value),
        more => {
            let count = more.len();
            return Err(Issue::new(format!("map validator takes a maximum of two arguments, got {count}")));
        }
    };
    for (key, node) in map {
        if let Some(condition) = of_key {
            let name = Value::String(Arc::clone(key));
            let checked = check_one(caller, &name, condition)
                .map_err(|problem| Issue::new(format!("map key {key:?} {problem}")))?;
            let Some(found) = checked else { return Ok(None) };
            if !found.holds {
                return verdict(false, "", &format!("map key {key:?} {}", found.message));
            }
        }
        let checked = check_one(caller, &node.value, of_value)
            .map_err(|problem| Issue::new(format!("map entry {key:?}: {problem}")))?;
        let Some(found) = checked else { return Ok(None) };
        if !found.holds {
            return verdict(false, "", &format!("map entry {key:?} {}", found.message));
        }
    }
    verdict(true, "all map entries and keys match", "")
}

fn field(caller: &mut dyn Caller, map: &Map, operator: &str, arguments: &[Value]) -> Checked {
    let (name, condition) = match arguments {
        [name] => (name, None),
        [name, condition] => (name, Some(condition)),
        _ => return Err(Issue::new(format!("{operator} reqires one or two arguments"))),
    };
    let name = name.as_str().ok_or("field name must be string")?;
    let Some(node) = map.get(name) else {
        let optional = operator == "optionalfield";
        return verdict(
            optional,
            &format!("has no optional field {name:?}"),
            &format!("has no field {name:?}"),
        );
    };
    let Some(condition) = condition else {
        return verdict(true, &format!("map entry {name:?} exists"), "");
    };
    let checked = check_one(caller, &node.value, condition)
        .map_err(|problem| Issue::new(format!("map entry {name:?} {problem}")))?;
    Ok(checked.map(|found| Verdict { message: format!("map entry {name:?} {}", found.message), ..found }))
}

fn kind(value: &Value, types: &[Value]) -> Checked {
    let own = value.type_name();
    let mut messages = Vec::new();
    for wanted in types {
        let wanted = wanted.as_str().ok_or_else(|| {
            Issue::new(format!("type: type arg requires string, but got {}", wanted.type_name()))
        })?;
        // A data number counts as an int, too.
        if wanted == own || wanted == "int" && value.as_int().is_some() {
            return verdict(true, &format!("is of type {wanted}"), "");
        }
        messages.push(format!("is not of type {wanted}"));
    }
    verdict(false, "", &joined(&messages))
}

fn value_set(value: &Value, arguments: &[Value]) -> Checked {
    let [Value::List(list)] = arguments else {
        return Err("valueset requires a list argument with possible values".into());
    };
    let negative = match value {
        Value::String(text) => format!("invalid value {text:?}"),
        Value::Int(number) | Value::Data(number) => format!("invalid value {number}"),
        _ => "invalid value".to_owned(),
    };
    verdict(list.values().any(|allowed| is_equal(value, allowed)), "matches valueset", &negative)
}

fn comparison(value: &Value, operator: &str, arguments: &[Value]) -> Checked {
    // spiff++ swaps the messages of `lt` and `le`, and so does this function.
    let (name, operation, positive, negative) = match operator {
        "gt" | ">" => ("gt", Operator::Greater, "greater than", "less or equal to"),
        "ge" | ">=" => ("ge", Operator::GreaterEqual, "greater or equal to", "less than"),
        "lt" | "<" => ("lt", Operator::Less, "less or equal to", "greater than"),
        "le" | "<=" => ("lt", Operator::LessEqual, "less than", "greater or equal to"),
        _ => return same(value, arguments),
    };
    let [limit] = arguments else { return Err(Issue::new(format!("{name} requires a value argument"))) };
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Data(_) | Value::Float(_));
    match limit {
        Value::String(_) if value.as_str().is_none() => {
            return Err("must be string to compare to string".into());
        }
        limit if is_number(limit) && !is_number(value) => {
            return Err("must be number to compare to number".into());
        }
        Value::String(_) => {}
        limit if is_number(limit) => {}
        other => return Err(Issue::new(format!("invalid type {}", go_type(other)))),
    }
    let limit_text = short(limit);
    let say = |relation: &str| format!("{relation} {limit_text}");
    verdict(order(operation, value, limit)?, &say(positive), &say(negative))
}

/// Runs `value` and `=`.
fn same(value: &Value, arguments: &[Value]) -> Checked {
    let [wanted] = arguments else { return Err("value requires a value argument".into()) };
    let text = value.as_str().map(|text| format!(" {}", quote(text))).unwrap_or_default();
    verdict(is_equal(wanted, value), &format!("valid value{text}"), &format!("invalid value{text}"))
}

fn pattern(caller: &mut dyn Caller, value: &Value, arguments: &[Value]) -> Checked {
    let [Value::String(pattern)] = arguments else { return Err("match requires a regexp argument".into()) };
    caller.pattern(pattern, value.as_str().map_or(0, str::len))?;
    let regex = compile(pattern).map_err(|issue| Issue::new(format!("regexp {pattern}: {issue}")))?;
    let text = value.as_str().ok_or("no string to match regexp")?;
    verdict(
        regex.regex().is_match(text),
        &format!("valid value {text:?}"),
        &format!("invalid value {text:?}"),
    )
}

fn semver(value: &Value, constraints: &[Value]) -> Checked {
    let version = match semver::parse("semver", value) {
        Ok(version) => version,
        Err(issue) => return verdict(false, "", &issue.to_string()),
    };
    if let Some(reasons) = semver::violated("semver", &version, constraints)? {
        return verdict(false, "", &reasons);
    }
    let positive = if constraints.is_empty() { "is semantic version" } else { "matches contraint" };
    verdict(true, positive, "")
}

/// Runs `privatekey`, `publickey`, `certificate` and `ca`.
fn key(value: &Value, operator: &str) -> Checked {
    let text = value
        .as_str()
        .ok_or_else(|| Issue::new(format!("{operator} requires string, but got {}", value.type_name())))?;
    let (what, checked) = match operator {
        "privatekey" => ("private key", PrivateKey::parse(text).map(|_| true)),
        "publickey" => ("public key", PublicKey::parse(text).map(|_| true)),
        "certificate" => ("certificate", Certificate::parse(text).map(|_| true)),
        _ => ("certificate", Certificate::parse(text).map(|certificate| certificate.is_authority)),
    };
    match checked {
        Ok(true) => verdict(true, &format!("is {}", if operator == "ca" { "ca" } else { what }), ""),
        Ok(false) => verdict(false, "", "is no ca certificate"),
        Err(why) => verdict(false, "", &format!("is no {what}: {why}")),
    }
}

fn name_or_address(value: &Value, operator: &str) -> Checked {
    let what = match operator {
        "ip" => "ip address",
        "cidr" => "CIDR",
        "dnslabel" => "dns label",
        "dnsdomain" => "dns domain",
        "wildcarddnsdomain" => "wildcard dns domain",
        "dnsname" => "dns name",
        _ => return Err(Issue::new(format!("unknown validation operator {operator:?}"))),
    };
    let text = text(operator, value)?;
    let reasons = match operator {
        "ip" => Address::parse(text).is_none().then(|| text.to_owned()),
        "cidr" => Cidr::parse(text).is_none().then(|| format!("invalid CIDR address: {text}")),
        "dnslabel" => refused(text, 63, is_named_like_a_label, LABEL),
        "dnsdomain" => refused(text, 253, is_domain, DOMAIN),
        "wildcarddnsdomain" => refused(text, 253, is_wildcard_domain, WILDCARD),
        // `dnsname` accepts a domain and a wildcard domain. For other texts, the reasons are those
        // why the text is not a domain.
        _ => refused(text, 253, is_domain, DOMAIN)
            .filter(|_| refused(text, 253, is_wildcard_domain, WILDCARD).is_some()),
    };
    let negative = format!("is no {what}: {}", reasons.as_deref().unwrap_or_default());
    verdict(reasons.is_none(), &format!("is {what}"), &negative)
}

/// Messages about names from Kubernetes' validation, which spiff++ calls.
const LABEL: &str = "a DNS-1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DOMAIN: &str = "a DNS-1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns the reasons against a name, in brackets.
fn refused(text: &str, longest: usize, fits: fn(&str) -> bool, pattern: &str) -> Option<String> {
    let length = (text.len() > longest).then(|| format!("must be no more than {longest} characters"));
    let form = (!fits(text)).then(|| pattern.to_owned());
    let reasons: Vec<_> = length.into_iter().chain(form).collect();
    (!reasons.is_empty()).then(|| format!("[{}]", reasons.join(" ")))
}

/// Reports whether a text has only lower-case letters and digits, with hyphens inside.
fn is_named_like_a_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Reports whether a text consists of labels with dots between. Unlike a label alone, each may have
/// more than 63 characters.
fn is_domain(text: &str) -> bool {
    text.split('.').all(is_named_like_a_label)
}

fn is_wildcard_domain(text: &str) -> bool {
    text.strip_prefix("*.").is_some_and(is_domain)
}
