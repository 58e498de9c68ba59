//! Functions for semantic versions (`spiff.md` 11.2), read as leniently as spiff++ reads them.

use std::cmp::Ordering;

use groundwork_go::semver::{Constraint, Version, VersionError};

use super::arguments::{count, text};
use super::calling::Outcome;
use super::text::strings;
use crate::issue::{Issue, quote};
use crate::operators::concatenate::short;
use crate::value::{List, Value};

/// Returns the function `name` on versions.
pub(super) fn find(name: &str) -> Option<fn(&[Value]) -> Outcome> {
    Some(match name {
        // spiff++ reports an invalid text for `semver` under the name of this other function.
        "semver" => |arguments| Ok(Value::string(one("semverprerelease", arguments)?.to_string())),
        "semvermajor" => |arguments| number(one("semvermajor", arguments)?.major),
        "semverminor" => |arguments| number(one("semverminor", arguments)?.minor),
        "semverpatch" => |arguments| number(one("semverpatch", arguments)?.patch),
        "semverprerelease" => prerelease,
        "semvermetadata" => metadata,
        "semverrelease" => release,
        "semverincmajor" => |arguments| written(&one("semverincmajor", arguments)?.next_major()),
        "semverincminor" => |arguments| written(&one("semverincminor", arguments)?.next_minor()),
        "semverincpatch" => |arguments| written(&one("semverincpatch", arguments)?.next_patch()),
        "semvercmp" => compare,
        "semvermatch" => matches,
        "semversort" => sort,
        "semvervalidate" => validate,
        _ => return None,
    })
}

/// Parses a version. The error names the invalid text.
pub(super) fn parse(function: &str, value: &Value) -> Result<Version, Issue> {
    let text = version_text(function, value)?;
    Version::parse(text).map_err(|reason| Issue::new(format!("{function}: {}: {}", quote(text), reason)))
}

fn version_text<'a>(function: &str, value: &'a Value) -> Result<&'a str, Issue> {
    value.as_str().ok_or_else(|| {
        Issue::new(format!("{function} requires one string argument, but got {}", value.type_name()))
    })
}

fn one(function: &str, arguments: &[Value]) -> Result<Version, Issue> {
    count(arguments, 1..=1, &format!("{function} requires one semver argument"))?;
    parse(function, &arguments[0])
}

fn number(number: u64) -> Outcome {
    Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
}

/// Returns a changed version, with the `v` that it came with.
fn written(version: &Version) -> Outcome {
    Ok(Value::string(version.original.as_str()))
}

/// Returns the version, and the new content of a part of it.
fn part<'a>(function: &str, part: &str, arguments: &'a [Value]) -> Result<(Version, Option<&'a str>), Issue> {
    let [version, new] = arguments else {
        let most = if arguments.len() > 1 { " and an optional value" } else { "" };
        count(arguments, 1..=1, &format!("{function} requires one semver argument{most}"))?;
        return Ok((parse(function, &arguments[0])?, None));
    };
    let version = parse(function, version)?;
    let refusal = format!("{function}: {part} requires string, but got {}", new.type_name());
    Ok((version, Some(text(new, &refusal)?)))
}

fn replaced(function: &str, part: &str, new: &str, changed: Result<Version, VersionError>) -> Outcome {
    let refused =
        |reason: VersionError| Issue::new(format!("{function}: invalid {part} {}: {}", quote(new), reason));
    written(&changed.map_err(refused)?)
}

fn prerelease(arguments: &[Value]) -> Outcome {
    let (version, new) = part("semverprerelease", "prerelease", arguments)?;
    let Some(new) = new else { return Ok(Value::string(version.prerelease)) };
    replaced("semverprerelease", "prerelease", new, version.with_prerelease(new))
}

fn metadata(arguments: &[Value]) -> Outcome {
    let (version, new) = part("semvermetadata", "metadata", arguments)?;
    let Some(new) = new else { return Ok(Value::string(version.metadata)) };
    replaced("semvermetadata", "metadata", new, version.with_metadata(new))
}

fn release(arguments: &[Value]) -> Outcome {
    let (version, new) = part("semverrelease", "release", arguments)?;
    let Some(new) = new else { return written(&version.release()) };
    let Version { prerelease, metadata, .. } = version;
    let changed = Version::parse(new)
        .and_then(|release| release.with_prerelease(&prerelease)?.with_metadata(&metadata));
    replaced("semverrelease", "release", new, changed)
}

fn compare(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "semvercmp requires two arguments")?;
    let order = parse("semvercmp", &arguments[0])?.compare(&parse("semvercmp", &arguments[1])?);
    Ok(Value::Int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// Returns the reason why the first violated constraint is violated, in brackets.
pub(super) fn violated(
    function: &str,
    version: &Version,
    constraints: &[Value],
) -> Result<Option<String>, Issue> {
    for (position, constraint) in constraints.iter().enumerate() {
        let text = text(constraint, &format!("{function}: constraint argument {position} must be string"))?;
        let constraint = Constraint::parse(text).map_err(|invalid| {
            let place = format!("{}[{position}]", quote(text));
            Issue::new(format!("{function}: invalid constraint {place}: {invalid}"))
        })?;
        if let Err(reasons) = constraint.check(version) {
            return Ok(Some(format!("[{}]", reasons.join(" "))));
        }
    }
    Ok(None)
}

fn matches(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=usize::MAX, "semvermatch requires at least one arguments")?;
    let version = parse("semvermatch", &arguments[0])?;
    Ok(Value::Bool(violated("semvermatch", &version, &arguments[1..])?.is_none()))
}

fn validate(arguments: &[Value]) -> Outcome {
    const NAME: &str = "semvervalidate";
    count(arguments, 1..=usize::MAX, &format!("{NAME} requires at least one arguments"))?;
    let given = &arguments[0];
    let about = |reason: &str| {
        let value = given.as_str().map_or_else(|| short(given), quote);
        Issue::new(format!("{NAME}: {value}: {reason}"))
    };
    let version = parse(NAME, given).map_err(|issue| about(&issue.to_string()))?;
    let violated = violated(NAME, &version, &arguments[1..]).map_err(|issue| about(&issue.to_string()))?;
    match violated {
        None => Ok(given.clone()),
        Some(reasons) => Err(about(&reasons)),
    }
}

fn sort(arguments: &[Value]) -> Outcome {
    let values: Vec<&Value> = match arguments {
        [Value::List(list)] => List::values(list).collect(),
        arguments => arguments.iter().collect(),
    };
    let mut versions = Vec::with_capacity(values.len());
    for value in values {
        versions.push((parse("semvercmp", value)?, value.as_str().unwrap_or_default()));
    }
    versions.sort_by(|left, right| left.0.compare(&right.0));
    Ok(strings(versions.into_iter().map(|(_, text)| text)))
}
