//! Semantic versions (section 11.2), read as leniently as the original reads them.

mod constraint;
mod version;

use std::cmp::Ordering;

use super::Outcome;
use super::arguments::{count, int, text};
use super::text::strings;
use crate::issue::Issue;
use crate::value::{List, Value};

pub(super) use constraint::Constraint;
pub(super) use version::Version;

/// The function `name` on versions.
pub(super) fn find(name: &str) -> Option<fn(&[Value]) -> Outcome> {
    Some(match name {
        "semver" => |arguments| {
            let version = one("semver", arguments, 1)?;
            Ok(Value::string(version.to_string()))
        },
        "semvermajor" => |arguments| number("semvermajor", arguments, |version| &mut version.major),
        "semverminor" => |arguments| number("semverminor", arguments, |version| &mut version.minor),
        "semverpatch" => |arguments| number("semverpatch", arguments, |version| &mut version.patch),
        "semverprerelease" => prerelease,
        "semvermetadata" => metadata,
        "semverrelease" => release,
        "semverincmajor" => |arguments| increased("semverincmajor", arguments, Version::next_major),
        "semverincminor" => |arguments| increased("semverincminor", arguments, Version::next_minor),
        "semverincpatch" => |arguments| increased("semverincpatch", arguments, Version::next_patch),
        "semvercmp" => compare,
        "semvermatch" => matches,
        "semversort" => sort,
        "semvervalidate" => validate,
        _ => return None,
    })
}

fn parse(function: &str, value: &Value) -> Result<Version, Issue> {
    let text = text(value, &format!("{function}: version must be a string"))?;
    Version::parse(text).ok_or_else(|| Issue::new(format!("{function}: Invalid Semantic Version: {text}")))
}

fn one(function: &str, arguments: &[Value], most: usize) -> Result<Version, Issue> {
    let wanted = if most == 1 { "exactly one argument" } else { "one or two arguments" };
    count(arguments, 1..=most, &format!("{function} takes {wanted}"))?;
    parse(function, &arguments[0])
}

fn number(function: &str, arguments: &[Value], part: fn(&mut Version) -> &mut u64) -> Outcome {
    let mut version = one(function, arguments, 2)?;
    let slot = part(&mut version);
    let Some(new) = arguments.get(1) else {
        return Ok(Value::Int(i64::try_from(*slot).unwrap_or(i64::MAX)));
    };
    let new = int(new, &format!("{function}: new value must be an integer"))?;
    *slot =
        u64::try_from(new).map_err(|_| Issue::new(format!("{function}: new value must not be negative")))?;
    Ok(Value::string(version.to_string()))
}

fn prerelease(arguments: &[Value]) -> Outcome {
    let version = one("semverprerelease", arguments, 2)?;
    let Some(new) = arguments.get(1) else { return Ok(Value::string(version.prerelease)) };
    let new = text(new, "semverprerelease: new value must be a string")?;
    let changed = version.with_prerelease(new).ok_or("semverprerelease: Invalid Prerelease string")?;
    Ok(Value::string(changed.to_string()))
}

fn metadata(arguments: &[Value]) -> Outcome {
    let version = one("semvermetadata", arguments, 2)?;
    let Some(new) = arguments.get(1) else { return Ok(Value::string(version.metadata)) };
    let new = text(new, "semvermetadata: new value must be a string")?;
    let changed = version.with_metadata(new).ok_or("semvermetadata: Invalid Metadata string")?;
    Ok(Value::string(changed.to_string()))
}

fn release(arguments: &[Value]) -> Outcome {
    let version = one("semverrelease", arguments, 2)?;
    let Some(new) = arguments.get(1) else { return Ok(Value::string(version.release().to_string())) };
    let new = parse("semverrelease", new)?;
    let Version { prerelease, metadata, .. } = version;
    Ok(Value::string(Version { prerelease, metadata, ..new }.to_string()))
}

fn increased(function: &str, arguments: &[Value], next: fn(&Version) -> Version) -> Outcome {
    let version = one(function, arguments, 1)?;
    let prefix = if arguments[0].as_str().is_some_and(|text| text.starts_with('v')) { "v" } else { "" };
    Ok(Value::string(format!("{prefix}{}", next(&version))))
}

fn compare(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "semvercmp takes exactly two arguments")?;
    let order = parse("semvercmp", &arguments[0])?.cmp(&parse("semvercmp", &arguments[1])?);
    Ok(Value::Int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// The first constraint that does not hold.
fn violated<'a>(
    function: &str,
    version: &Version,
    constraints: &'a [Value],
) -> Result<Option<&'a str>, Issue> {
    for constraint in constraints {
        let text = text(constraint, &format!("{function}: constraint must be a string"))?;
        let constraint = Constraint::parse(text)
            .ok_or_else(|| Issue::new(format!("{function}: improper constraint: {text}")))?;
        if !constraint.accepts(version) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn matches(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=usize::MAX, "semvermatch takes at least two arguments")?;
    let version = parse("semvermatch", &arguments[0])?;
    Ok(Value::Bool(violated("semvermatch", &version, &arguments[1..])?.is_none()))
}

fn validate(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=usize::MAX, "semvervalidate takes at least two arguments")?;
    let version = parse("semvervalidate", &arguments[0])?;
    match violated("semvervalidate", &version, &arguments[1..])? {
        None => Ok(arguments[0].clone()),
        Some(constraint) => Err(Issue::new(format!("semvervalidate: {version} does not match {constraint}"))),
    }
}

fn sort(arguments: &[Value]) -> Outcome {
    let values: Vec<&Value> = match arguments {
        [Value::List(list)] => List::values(list).collect(),
        arguments => arguments.iter().collect(),
    };
    let mut versions = Vec::with_capacity(values.len());
    for value in values {
        versions.push((parse("semversort", value)?, value.as_str().unwrap_or_default()));
    }
    versions.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(strings(versions.into_iter().map(|(_, text)| text)))
}
