//! Label and field selectors of lists and watches.

use std::collections::BTreeMap;

use crate::refusal::Refusal;

/// Values of the fields by which an object may be selected.
pub type Fields = BTreeMap<String, String>;

/// Condition of a list or a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    /// Paths of fields with the values that they must have.
    fields: Vec<(String, String)>,
}

/// Requirement for one label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    /// The label is absent, or has none of these values.
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Parses a label selector (`a=b,c in (d, e),!f`) and a field selector (`spec.a=b`).
    /// `is_known` tells the fields that can be selected.
    ///
    /// # Errors
    ///
    /// A selector is malformed, or names an unknown field.
    pub fn parse(labels: &str, fields: &str, is_known: impl Fn(&str) -> bool) -> Result<Self, Refusal> {
        let labels = terms(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let field = |term: &str| {
            let (path, value) = match term.split_once("==").or_else(|| term.split_once('=')) {
                Some((path, value)) if !path.ends_with('!') => (path.trim(), value.trim()),
                _ => {
                    let why = format!("unsupported fieldSelector {term:?}: only = and == are supported");
                    return Err(Refusal::bad_request(why));
                }
            };
            if !is_known(path) {
                return Err(Refusal::bad_request(format!("{path:?} is not a known field selector")));
            }
            if value.is_empty() {
                let why =
                    format!("unsupported fieldSelector value \"\" for field {path:?} with operator \"=\"");
                return Err(Refusal::bad_request(why));
            }
            Ok((path.to_owned(), value.to_owned()))
        };
        let fields = fields.split(',').map(str::trim).filter(|term| !term.is_empty()).map(field);
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    /// Reports whether an object fulfils the condition.
    pub fn matches(&self, labels: &BTreeMap<String, String>, fields: &Fields) -> bool {
        self.labels.iter().all(|requirement| requirement.is_met(labels))
            && self.fields.iter().all(|(path, value)| fields.get(path) == Some(value))
    }

    /// Returns the name that the condition requires, if it requires one.
    pub fn name(&self) -> Option<&str> {
        self.field("metadata.name")
    }

    /// Returns the value that the condition requires of a field.
    pub fn field(&self, path: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == path).map(|(_, value)| value.as_str())
    }
}

impl Requirement {
    fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
        }
    }
}

/// Splits a label selector at the commas outside of parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut begin, mut depth) = (0, 0_u32);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[begin..]);
    terms.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn requirement(term: &str) -> Result<Requirement, Refusal> {
    let malformed = || Refusal::bad_request(format!("unable to parse requirement: {term:?}"));
    let key = |text: &str| {
        let key = text.trim();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        is_key.then(|| key.to_owned()).ok_or_else(malformed)
    };
    if let Some(absent) = term.strip_prefix('!') {
        return Ok(Requirement::Absent(key(absent)?));
    }
    if let Some((left, rest)) = term.split_once(" in ").or_else(|| term.split_once(" in(")) {
        return Ok(Requirement::In(key(left)?, values(rest).ok_or_else(malformed)?));
    }
    if let Some((left, rest)) = term.split_once(" notin ").or_else(|| term.split_once(" notin(")) {
        return Ok(Requirement::NotIn(key(left)?, values(rest).ok_or_else(malformed)?));
    }
    let one = |text: &str| vec![text.trim().to_owned()];
    if let Some((left, right)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(key(left)?, one(right)));
    }
    if let Some((left, right)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(key(left)?, one(right)));
    }
    Ok(Requirement::Exists(key(term)?))
}

/// Returns the values in parentheses; the opening one may have been cut off already.
fn values(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let inner = text.strip_prefix('(').unwrap_or(text).strip_suffix(')')?;
    Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn parse(labels: &str, fields: &str) -> Result<Selector, Refusal> {
        Selector::parse(labels, fields, |path| path.starts_with("spec.") || path.starts_with("metadata."))
    }

    #[test]
    fn labels_select() {
        let object = pairs("a=b tier=edge example.org/x=");
        for (selector, expected) in [
            ("", true),
            ("a=b", true),
            ("a==b,tier=edge", true),
            ("a=c", false),
            ("a!=c,none!=x", true),
            ("a!=b", false),
            ("a in (b, c)", true),
            ("a in(c,d)", false),
            ("a notin (c),none notin (d)", true),
            ("a", true),
            ("example.org/x", true),
            ("example.org/x=", true),
            ("none", false),
            ("!none", true),
            ("!a", false),
        ] {
            let found = parse(selector, "").unwrap().matches(&object, &Fields::new());
            assert_eq!(found, expected, "{selector:?}");
        }
        for malformed in ["a b", "=b", "a in b", "a in (b", "!"] {
            assert_eq!(parse(malformed, "").unwrap_err().code, 400, "{malformed:?}");
        }
    }

    #[test]
    fn fields_select() {
        let fields = pairs("metadata.name=x spec.repository=edge");
        let none = BTreeMap::new();
        assert!(parse("", "spec.repository=edge,metadata.name==x").unwrap().matches(&none, &fields));
        assert!(!parse("", "spec.repository=core").unwrap().matches(&none, &fields));
        assert_eq!(parse("", "metadata.name=x").unwrap().name(), Some("x"));
        for (refused, why) in [
            ("spec.a!=b", "only = and =="),
            ("status.a=b", "is not a known field selector"),
            ("spec.a=", "unsupported fieldSelector value"),
            ("spec.a", "only = and =="),
        ] {
            let refusal = parse("", refused).unwrap_err();
            assert!(refusal.code == 400 && refusal.message.contains(why), "{refusal:?}");
        }
    }
}
