//! Version constraints (section 12.11).

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use super::version::{Version, compare_prerelease};

/// White space as Go's `\s` reads it.
const SPACE: &str = r"[\t\n\f\r ]";
/// The empty operator stands second, so that it is preferred to the longer ones as in the original.
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
    // The patterns are constants that the tests compile.
    let compile = |pattern: String| Regex::new(&pattern).expect("the constraint patterns are valid");
    Patterns {
        range: compile(format!("{SPACE}*({VERSION}){SPACE}+-{SPACE}+({VERSION}){SPACE}*")),
        group: compile(format!("^{SPACE}*{part}{SPACE}*(?:(?:{SPACE}+|,{SPACE}*){part}{SPACE}*)*$")),
        part: compile(part),
    }
});

/// Alternatives, each of parts that must all hold.
#[derive(Debug)]
pub(super) struct Constraint {
    alternatives: Vec<Vec<Part>>,
}

#[derive(Debug)]
struct Part {
    operator: Operator,
    version: Version,
    /// The last number that was given; those behind it are wildcards.
    precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    pub(super) fn parse(text: &str) -> Result<Constraint, String> {
        let ranges = rewrite_ranges(text);
        let alternatives: Result<Vec<Vec<Part>>, String> = ranges.split("||").map(parse_group).collect();
        Ok(Constraint { alternatives: alternatives? })
    }

    pub(super) fn accepts(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|parts| {
            let names_prerelease = parts.iter().any(|part| !part.version.prerelease.is_empty());
            let eligible = version.prerelease.is_empty() || names_prerelease;
            eligible && parts.iter().all(|part| part.accepts(version))
        })
    }
}

/// `a - b` means from a to b, both included.
fn rewrite_ranges(text: &str) -> String {
    let mut rewritten = text.to_string();
    for found in PATTERNS.range.captures_iter(text) {
        // The second version's groups follow the five of the first.
        if let (Some(whole), Some(low), Some(high)) = (found.get(0), found.get(1), found.get(6)) {
            let replacement = format!(">= {}, <= {} ", low.as_str(), high.as_str());
            rewritten = rewritten.replacen(whole.as_str(), &replacement, 1);
        }
    }
    rewritten
}

fn parse_group(text: &str) -> Result<Vec<Part>, String> {
    if !PATTERNS.group.is_match(text) {
        return Err(format!("improper constraint: {text}"));
    }
    PATTERNS.part.captures_iter(text).map(|found| parse_part(&found)).collect()
}

fn parse_part(found: &regex::Captures<'_>) -> Result<Part, String> {
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
    let version = Version::parse(&version).map_err(|_| "constraint parser error".to_string())?;
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
    Ok(Part { operator, version, precision })
}

impl Part {
    fn accepts(&self, version: &Version) -> bool {
        let wanted = &self.version;
        let order = version.compare(wanted);
        let is_partial = self.precision != Precision::Patch;
        match self.operator {
            Operator::Equal if is_partial => self.accepts_tilde(version),
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => self.differs(version),
            Operator::Greater if is_partial => self.exceeds(version),
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual if is_partial => {
                let same_major = version.major == wanted.major;
                let minor_counts = self.precision != Precision::Major;
                version.major <= wanted.major && !(same_major && minor_counts && version.minor > wanted.minor)
            }
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Tilde => self.accepts_tilde(version),
            Operator::Caret => self.accepts_caret(version),
        }
    }

    /// The same major and, if given, minor number; not below.
    fn accepts_tilde(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        let is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        if is_zero && !matches!(self.precision, Precision::Major | Precision::Minor) {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || self.precision == Precision::Major)
    }

    /// The same leftmost number that is not zero; not below.
    fn accepts_caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less || version.major != wanted.major {
            return self.precision == Precision::Any
                && version.compare(wanted) != Ordering::Less
                && version.major == 0;
        }
        if wanted.major > 0 || self.precision == Precision::Major {
            return true;
        }
        if version.minor != wanted.minor {
            return false;
        }
        wanted.minor > 0 || self.precision == Precision::Minor || version.patch == wanted.patch
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

    /// Above everything that a partial version stands for.
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
