use std::cmp::Ordering;

use super::version::Version;

/// Alternatives, each of conditions that must all hold: `>= 1.2, < 2 || ~3.1`.
#[derive(Debug)]
pub(in crate::functions) struct Constraint(Vec<Vec<Condition>>);

#[derive(Debug)]
struct Condition {
    operator: Operator,
    version: Version,
    /// How many of its numbers were given; those behind are wildcards.
    given: usize,
    /// The version as it was written.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Tilde,
    Caret,
}

impl Constraint {
    /// The error is the alternative that is none.
    pub(in crate::functions) fn parse(text: &str) -> Result<Self, &str> {
        text.split("||").map(|part| conditions(part).ok_or(part)).collect::<Result<_, _>>().map(Self)
    }

    /// The error is what each alternative that does not hold has against the version.
    pub(in crate::functions) fn check(&self, version: &Version) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        let mut told = false;
        for conditions in &self.0 {
            let names_prerelease =
                conditions.iter().any(|condition| !condition.version.prerelease.is_empty());
            let mut holds = true;
            for condition in conditions {
                if condition.accepts(version) {
                    continue;
                }
                holds = false;
                if !version.prerelease.is_empty() && !names_prerelease {
                    if !told {
                        reasons.push(format!(
                            "{version} is a prerelease version and the constraint is only looking for release versions"
                        ));
                    }
                    told = true;
                } else {
                    reasons.push(condition.reason(version));
                }
            }
            if holds {
                return Ok(());
            }
        }
        Err(reasons)
    }
}

/// Conditions with commas or blanks between; `a - b` is from a to b, both included.
fn conditions(text: &str) -> Option<Vec<Condition>> {
    let mut conditions = Vec::new();
    let mut rest = text.trim();
    loop {
        let (operator, behind) = operator(rest);
        let behind = behind.trim_start();
        let end = behind.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(behind.len());
        let (version, behind) = behind.split_at(end);
        if let Some((last, behind)) = upper_end(behind).filter(|_| operator == Operator::Equal) {
            conditions.push(Condition::parse(Operator::GreaterEqual, version)?);
            conditions.push(Condition::parse(Operator::LessEqual, last)?);
            rest = behind;
        } else {
            conditions.push(Condition::parse(operator, version)?);
            rest = behind;
        }
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(conditions);
        }
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

/// The version behind ` - `, and the rest.
fn upper_end(text: &str) -> Option<(&str, &str)> {
    let behind = text.trim_start().strip_prefix('-')?;
    let version = behind.trim_start();
    if behind.len() == version.len() {
        return None;
    }
    let end = version.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(version.len());
    Some(version.split_at(end))
}

fn operator(text: &str) -> (Operator, &str) {
    const OPERATORS: &[(&str, Operator)] = &[
        (">=", Operator::GreaterEqual),
        ("=>", Operator::GreaterEqual),
        ("<=", Operator::LessEqual),
        ("=<", Operator::LessEqual),
        ("!=", Operator::NotEqual),
        ("~>", Operator::Tilde),
        ("~", Operator::Tilde),
        ("^", Operator::Caret),
        ("=", Operator::Equal),
        (">", Operator::Greater),
        ("<", Operator::Less),
    ];
    for (symbol, operator) in OPERATORS {
        if let Some(rest) = text.strip_prefix(symbol) {
            return (*operator, rest);
        }
    }
    (Operator::Equal, text)
}

/// Where a wildcard alone does not stand for every version, it is read as 0.0.0: by `<=` up to the patch.
fn counted(operator: Operator, given: usize) -> usize {
    match operator {
        Operator::Caret | Operator::NotEqual | Operator::Greater if given == 0 => 3,
        Operator::LessEqual if given == 0 => 2,
        _ => given,
    }
}

impl Condition {
    fn parse(operator: Operator, text: &str) -> Option<Self> {
        let written = text.to_owned();
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(end);
        let is_wildcard = |part: &&str| matches!(*part, "x" | "X" | "*");
        let parts: Vec<&str> = numbers.split('.').collect();
        let given = parts.iter().position(is_wildcard).unwrap_or(parts.len());
        let known = |part: &&str| is_wildcard(part) || part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) || !parts.iter().all(known) {
            return None;
        }
        let filled: Vec<&str> =
            parts[..given].iter().copied().chain(std::iter::repeat("0")).take(3).collect();
        let version = Version::parse(&format!("{}{suffix}", filled.join("."))).ok()?;
        Some(Self { operator, version, given: counted(operator, given), text: written })
    }

    fn accepts(&self, version: &Version) -> bool {
        // Pre-releases are accepted only where one is named.
        if !version.prerelease.is_empty() && self.version.prerelease.is_empty() {
            return false;
        }
        let order = version.cmp(&self.version);
        let is_partial = self.given < 3;
        match self.operator {
            Operator::Equal if is_partial => self.within(version, self.given),
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual if is_partial => !self.within(version, self.given),
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Greater if is_partial => order != Ordering::Less && !self.within(version, self.given),
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessEqual if is_partial => order == Ordering::Less || self.within(version, self.given),
            Operator::LessEqual => order != Ordering::Greater,
            // Zeros alone fix nothing.
            Operator::Tilde if !is_partial && self.version.numbers() == (0, 0, 0) => order != Ordering::Less,
            Operator::Tilde => self.within(version, self.given.min(2)),
            Operator::Caret => self.within(version, self.caret()),
        }
    }

    /// Why a version is not accepted.
    fn reason(&self, version: &Version) -> String {
        let wanted = &self.text;
        let is_less = version.cmp(&self.version) == Ordering::Less;
        let relation = match self.operator {
            Operator::Equal if self.given >= 3 => "is not equal to",
            Operator::Equal | Operator::Tilde => self.outside(version, is_less),
            Operator::NotEqual => "is equal to",
            Operator::Greater => "is less than or equal to",
            Operator::Less => "is greater than or equal to",
            Operator::GreaterEqual => "is less than",
            Operator::LessEqual => "is greater than",
            Operator::Caret => return self.caret_reason(version, is_less),
        };
        format!("{version} {relation} {wanted}")
    }

    fn outside(&self, version: &Version, is_less: bool) -> &'static str {
        if is_less {
            "is less than"
        } else if version.major == self.version.major {
            "does not have same major and minor version as"
        } else {
            "does not have same major version as"
        }
    }

    fn caret_reason(&self, version: &Version, is_less: bool) -> String {
        let wanted = &self.text;
        let says = |relation: &str| format!("{version} {relation} {wanted}");
        if is_less {
            says("is less than")
        } else if version.major != self.version.major {
            says("does not have same major version as")
        } else if self.version.minor > 0 {
            let hint = "Expected minor versions to match when constraint major version is 0";
            format!("{}. {hint}", says("does not have same minor version as"))
        } else if version.minor != self.version.minor {
            says("does not have same minor version as")
        } else {
            let hint = "Expect version and constraint to equal when major and minor versions are 0";
            format!("{}. {hint}", says("does not equal"))
        }
    }

    /// Numbers that `^` fixes: up to the first that is not zero.
    fn caret(&self) -> usize {
        let (major, minor, _) = self.version.numbers();
        let leading = if major > 0 {
            1
        } else if minor > 0 {
            2
        } else {
            3
        };
        leading.min(self.given)
    }

    /// Whether the version is not below this one and has the same first `fixed` numbers.
    fn within(&self, version: &Version, fixed: usize) -> bool {
        let numbers = |version: &Version| {
            let (major, minor, patch) = version.numbers();
            [major, minor, patch]
        };
        version.cmp(&self.version) != Ordering::Less
            && numbers(version)[..fixed] == numbers(&self.version)[..fixed]
    }
}
