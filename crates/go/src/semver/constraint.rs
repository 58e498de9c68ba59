use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use super::version::{Version, compare_prerelease};

/// White space as Go's `\s` matches it.
const SPACE: &str = r"[\t\n\f\r ]";
/// Operators. The empty one is second, so that it is preferred to the longer ones, as in
/// Masterminds/semver.
const OPERATOR: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
/// A version whose numbers may be wildcards.
const VERSION: &str = concat!(
    r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?",
    r"(-(?:[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    r"(?:\+(?:[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
);

struct Patterns {
    range: Regex,
    group: Regex,
    part: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let part = format!("({OPERATOR}){SPACE}*({VERSION})");
    // The patterns are constants that the tests compile, so they are valid.
    let compile = |pattern: String| Regex::new(&pattern).expect("the constraint patterns are valid");
    Patterns {
        range: compile(format!("{SPACE}*({VERSION}){SPACE}+-{SPACE}+({VERSION}){SPACE}*")),
        group: compile(format!("^{SPACE}*{part}{SPACE}*(?:(?:{SPACE}+|,{SPACE}*){part}{SPACE}*)*$")),
        part: compile(part),
    }
});

/// A constraint: alternatives, each with parts that must all be satisfied, as in `>= 1.2, < 2 ||
/// ~3.1`.
#[derive(Debug)]
pub struct Constraint {
    alternatives: Vec<Alternative>,
}

/// The reason why a text is not a constraint, in the words of Masterminds/semver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// An invalid alternative; its ranges are already rewritten.
    #[error("improper constraint: {0}")]
    Improper(String),
    /// The text has the form of a constraint, but a version in it is invalid.
    #[error("constraint parser error")]
    Version,
}

#[derive(Debug)]
struct Alternative {
    parts: Vec<Part>,
    /// True if a part names a pre-release; only then are pre-releases accepted.
    names_prerelease: bool,
}

#[derive(Debug)]
struct Part {
    operator: Operator,
    version: Version,
    /// The last number that was given; the numbers behind it are wildcards.
    precision: Precision,
    /// The version as it was written.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    Any,
    Major,
    Minor,
    Patch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

impl Constraint {
    /// Parses a constraint.
    ///
    /// # Errors
    ///
    /// An alternative is invalid.
    pub fn parse(text: &str) -> Result<Constraint, ConstraintError> {
        let ranges = rewrite_ranges(text);
        let alternatives: Result<_, _> = ranges.split("||").map(parse_group).collect();
        Ok(Constraint { alternatives: alternatives? })
    }

    /// Reports whether the version satisfies an alternative.
    pub fn accepts(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|alternative| {
            let eligible = version.prerelease.is_empty() || alternative.names_prerelease;
            eligible && alternative.parts.iter().all(|part| part.objection(version).is_none())
        })
    }

    /// Checks the version like [`Constraint::accepts`], with reasons.
    ///
    /// # Errors
    ///
    /// The reasons of all alternatives why the version is not accepted.
    pub fn check(&self, version: &Version) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        // Masterminds/semver reports this reason only once, even if several alternatives have it.
        let mut told = false;
        for Alternative { parts, names_prerelease } in &self.alternatives {
            let is_eligible = version.prerelease.is_empty() || *names_prerelease;
            if !is_eligible {
                if !std::mem::replace(&mut told, true) {
                    reasons.push(format!(
                        "{version} is a prerelease version and the constraint is only looking for release versions"
                    ));
                }
                continue;
            }
            let before = reasons.len();
            reasons.extend(parts.iter().filter_map(|part| part.reason(version)));
            if reasons.len() == before {
                return Ok(());
            }
        }
        Err(reasons)
    }
}

/// Rewrites `a - b` to a range from a to b, both included.
fn rewrite_ranges(text: &str) -> String {
    let mut rewritten = text.to_string();
    for found in PATTERNS.range.captures_iter(text) {
        // The groups of the second version follow the five groups of the first.
        if let (Some(whole), Some(low), Some(high)) = (found.get(0), found.get(1), found.get(6)) {
            let replacement = format!(">= {}, <= {} ", low.as_str(), high.as_str());
            rewritten = rewritten.replacen(whole.as_str(), &replacement, 1);
        }
    }
    rewritten
}

fn parse_group(text: &str) -> Result<Alternative, ConstraintError> {
    if !PATTERNS.group.is_match(text) {
        return Err(ConstraintError::Improper(text.to_string()));
    }
    let parts: Vec<Part> =
        PATTERNS.part.captures_iter(text).map(|found| parse_part(&found)).collect::<Result<_, _>>()?;
    let names_prerelease = parts.iter().any(|part| !part.version.prerelease.is_empty());
    Ok(Alternative { parts, names_prerelease })
}

fn parse_part(found: &regex::Captures<'_>) -> Result<Part, ConstraintError> {
    let text = |index: usize| found.get(index).map_or("", |group| group.as_str());
    let is_wildcard = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
    let (major, minor, patch, prerelease) = (text(3), text(4), text(5), text(6));
    let (precision, version) = if is_wildcard(major) {
        (Precision::Any, format!("0.0.0{prerelease}"))
    } else if is_wildcard(minor) {
        (Precision::Major, format!("{major}.0.0{prerelease}"))
    } else if is_wildcard(patch) {
        (Precision::Minor, format!("{major}{minor}.0{prerelease}"))
    } else {
        (Precision::Patch, text(2).to_string())
    };
    let version = Version::parse(&version).map_err(|_| ConstraintError::Version)?;
    let operator = match text(1) {
        "" | "=" => Operator::Equal,
        "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        ">=" | "=>" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" | "=<" => Operator::LessOrEqual,
        "^" => Operator::Caret,
        _ => Operator::Tilde,
    };
    Ok(Part { operator, version, precision, text: text(2).to_string() })
}

/// The reason why a version does not satisfy a part, and the text behind both versions.
type Objection = (&'static str, &'static str);

const LESS: Objection = ("is less than", "");
const LESS_OR_EQUAL: Objection = ("is less than or equal to", "");
const GREATER: Objection = ("is greater than", "");
const EQUAL: Objection = ("is equal to", "");
const OTHER_MAJOR: Objection = ("does not have same major version as", "");
const OTHER_MINOR: Objection = ("does not have same minor version as", "");
const OTHER_MINOR_OF_ZERO: Objection =
    (OTHER_MINOR.0, ". Expected minor versions to match when constraint major version is 0");
const OTHER_PATCH_OF_ZERO: Objection =
    ("does not equal", ". Expect version and constraint to equal when major and minor versions are 0");

impl Part {
    /// Returns the reason why a version is not accepted.
    fn reason(&self, version: &Version) -> Option<String> {
        let (relation, hint) = self.objection(version)?;
        Some(format!("{version} {relation} {}{hint}", self.text))
    }

    /// Returns the objection to a version, or `None` if it is accepted.
    fn objection(&self, version: &Version) -> Option<Objection> {
        let wanted = &self.version;
        let order = version.compare(wanted);
        let is_partial = self.precision != Precision::Patch;
        let unless = |accepted: bool, objection: Objection| (!accepted).then_some(objection);
        match self.operator {
            Operator::Equal if is_partial => self.tilde(version),
            Operator::Equal => unless(order == Ordering::Equal, ("is not equal to", "")),
            Operator::NotEqual => unless(self.differs(version), EQUAL),
            Operator::Greater if is_partial => unless(self.exceeds(version), LESS_OR_EQUAL),
            Operator::Greater => unless(order == Ordering::Greater, LESS_OR_EQUAL),
            Operator::GreaterOrEqual => unless(order != Ordering::Less, LESS),
            Operator::Less => unless(order == Ordering::Less, ("is greater than or equal to", "")),
            Operator::LessOrEqual if is_partial => {
                let same_major = version.major == wanted.major;
                let minor_counts = self.precision != Precision::Major;
                let exceeds = version.major > wanted.major
                    || same_major && minor_counts && version.minor > wanted.minor;
                unless(!exceeds, GREATER)
            }
            Operator::LessOrEqual => unless(order != Ordering::Greater, GREATER),
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
        }
    }

    /// Checks `~`: the same major and, if given, minor number, and not below the wanted version.
    fn tilde(&self, version: &Version) -> Option<Objection> {
        let wanted = &self.version;
        let is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        if version.compare(wanted) == Ordering::Less {
            Some(LESS)
        } else if is_zero && !matches!(self.precision, Precision::Major | Precision::Minor) {
            // In Masterminds/semver `~0.0.0` accepts every version that is not below.
            None
        } else if version.major != wanted.major {
            Some(OTHER_MAJOR)
        } else if version.minor != wanted.minor && self.precision != Precision::Major {
            Some(("does not have same major and minor version as", ""))
        } else {
            None
        }
    }

    /// Checks `^`: the same leftmost number that is not zero, and not below the wanted version.
    fn caret(&self, version: &Version) -> Option<Objection> {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            Some(LESS)
        } else if version.major != wanted.major {
            Some(OTHER_MAJOR)
        } else if wanted.major > 0 || self.precision == Precision::Major {
            None
        } else if wanted.minor > 0 || self.precision == Precision::Minor {
            (version.minor != wanted.minor).then_some(OTHER_MINOR_OF_ZERO)
        } else if version.minor != wanted.minor {
            Some(OTHER_MINOR)
        } else {
            (version.patch != wanted.patch).then_some(OTHER_PATCH_OF_ZERO)
        }
    }

    fn differs(&self, version: &Version) -> bool {
        let wanted = &self.version;
        let same_major = version.major == wanted.major;
        let same_minor = version.minor == wanted.minor;
        match self.precision {
            Precision::Major => !same_major,
            Precision::Minor => {
                let prereleases_differ =
                    compare_prerelease(&version.prerelease, &wanted.prerelease) != Ordering::Equal;
                !same_major || !same_minor || prereleases_differ
            }
            Precision::Any if !same_major || !same_minor || version.patch != wanted.patch => true,
            Precision::Any | Precision::Patch => version.compare(wanted) != Ordering::Equal,
        }
    }

    /// Reports whether a version is above all versions that match a partial one.
    fn exceeds(&self, version: &Version) -> bool {
        let wanted = &self.version;
        match version.major.cmp(&wanted.major) {
            Ordering::Equal => match self.precision {
                Precision::Major => false,
                Precision::Minor => version.minor > wanted.minor,
                Precision::Any | Precision::Patch => version.compare(wanted) == Ordering::Greater,
            },
            order => order == Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Masterminds/semver v3.4.0.
    #[test]
    fn constraints_are_those_of_the_original() {
        for (constraint, version, expected) in [
            // If one part names a pre-release, the parts beside it accept pre-releases, too.
            (">=1.0.0-0, <2.0.0", "1.5.0-a", "accepted"),
            (">=1.0.0-0 <2.0.0 || 3", "1.5.0-a", "accepted"),
            (">2.x-a, <3", "2.5.0-b", "2.5.0-b is less than or equal to 2.x-a"),
            ("1.x.3", "1.9.0", "accepted"),
            ("1 - 2", "1.5.0", "accepted"),
            ("1 2", "1.0.0", "1.0.0 is less than 2"),
            ("^1.2 <1.5", "1.6.0", "1.6.0 is greater than or equal to 1.5"),
            (">1.2.x", "1.2.5", "1.2.5 is less than or equal to 1.2.x"),
            ("!=1.x", "1.4.0", "1.4.0 is equal to 1.x"),
            ("^0.x", "1.0.0", "1.0.0 does not have same major version as 0.x"),
            ("~0.0.0-a", "1.0.0", "accepted"),
            ("1.0-2.0", "1.5.0", "1.5.0 does not have same major and minor version as 1.0-2.0"),
            (
                "^0.0",
                "0.1.0",
                "0.1.0 does not have same minor version as 0.0. Expected minor versions to match when constraint major version is 0",
            ),
            ("1.2|3", "1.2.0", "!constraint parser error"),
            (">=1.2-a.01", "1.2.0", "!constraint parser error"),
            ("x1", "1.0.0", "!constraint parser error"),
            // A range behind an operator is rewritten, which makes it invalid.
            (">=1.0.0 - 2.0", "1.0.0", "!improper constraint: >=>= 1.0.0, <= 2.0 "),
            ("1.2.3.4", "1.2.3", "!improper constraint: 1.2.3.4"),
            (">= 1.0.0,", "1.0.0", "!improper constraint: >= 1.0.0,"),
            ("~ >1", "1.0.0", "!improper constraint: ~ >1"),
            ("V1.2", "1.2.3", "!improper constraint: V1.2"),
            ("1\u{a0}", "1.0.0", "!improper constraint: 1\u{a0}"),
            ("", "1.0.0", "!improper constraint: "),
            ("<2-", "1.0.0", "!improper constraint: <2-"),
        ] {
            let version = Version::parse(version).unwrap();
            let answer = match Constraint::parse(constraint) {
                Err(invalid) => format!("!{invalid}"),
                Ok(constraint) => {
                    let checked = constraint.check(&version);
                    assert_eq!(constraint.accepts(&version), checked.is_ok());
                    checked.map_or_else(|reasons| reasons.join(" "), |()| "accepted".to_string())
                }
            };
            assert_eq!(answer, expected, "{constraint} {version}");
        }
    }
}
