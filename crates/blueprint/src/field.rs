//! Validation findings: place, rule and reason (`blueprints.md` 1.7).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use groundwork_yaml::{Node, Position, Step};
use serde_json::Value;

/// Place in a document: as messages show it, and as steps from the root.
///
/// Checks create many paths and show few. Therefore a path shares its prefix with others, and its
/// text is built on request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldPath {
    last: Option<Arc<Link>>,
    /// Text that messages show instead of the steps.
    text: Option<String>,
}

/// Part of a path, linked to the part before.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    before: FieldPath,
    part: Part,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    /// Member that messages show under another name.
    RenamedKey {
        shown: String,
        key: String,
    },
    Index(usize),
    /// Element that messages show by its name.
    RenamedIndex {
        shown: String,
        index: usize,
    },
    /// Key of a map with arbitrary keys.
    Entry(String),
    /// Name of the preceding element, shown to readers only.
    Name(String),
}

impl FieldPath {
    /// Creates a path that begins at a member of the root.
    pub fn root(key: &str) -> Self {
        Self::default().key(key)
    }

    /// Appends a member.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(Part::Key(key.to_owned()))
    }

    /// Appends a member that messages show under another name.
    #[must_use]
    pub fn renamed_key(&self, shown: &str, key: &str) -> Self {
        self.with(Part::RenamedKey { shown: shown.to_owned(), key: key.to_owned() })
    }

    /// Appends an element of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Part::Index(index))
    }

    /// Appends a key of a map with arbitrary keys, which messages show in brackets.
    #[must_use]
    pub fn entry(&self, key: &str) -> Self {
        self.with(Part::Entry(key.to_owned()))
    }

    /// Adds the name of the element, if it has one, for readers. The place stays the same.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        if name.is_empty() { self.clone() } else { self.with(Part::Name(name.to_owned())) }
    }

    /// Appends an element of a list that messages show by its name.
    #[must_use]
    pub(crate) fn renamed_index(&self, shown: &str, index: usize) -> Self {
        self.with(Part::RenamedIndex { shown: shown.to_owned(), index })
    }

    fn with(&self, part: Part) -> Self {
        Self { last: Some(Arc::new(Link { before: self.clone(), part })), text: None }
    }

    /// Returns the parts from the root on.
    fn parts(&self) -> Vec<&Part> {
        let mut parts = Vec::new();
        let mut path = self;
        while let Some(link) = &path.last {
            parts.push(&link.part);
            path = &link.before;
        }
        parts.reverse();
        parts
    }

    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.parts().into_iter().filter_map(|part| match part {
            Part::Key(key) | Part::RenamedKey { key, .. } | Part::Entry(key) => Some(Step::Key(key)),
            Part::Index(index) | Part::RenamedIndex { index, .. } => Some(Step::Index(*index)),
            Part::Name(_) => None,
        })
    }

    /// Returns the position in the source of the document.
    pub fn locate(&self, document: &Node) -> Position {
        self.locate_below(document, 0)
    }

    /// Returns the position in the source of a part of the document. The first `steps` of the path
    /// lead to that part.
    pub(crate) fn locate_below(&self, part: &Node, steps: usize) -> Position {
        part.locate(self.steps().skip(steps))
    }

    /// Returns the list index of a step, counted from 0.
    pub(crate) fn index_at(&self, step: usize) -> Option<usize> {
        match self.steps().nth(step)? {
            Step::Index(index) => Some(index),
            Step::Key(_) => None,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        for (position, part) in self.parts().into_iter().enumerate() {
            match part {
                Part::Key(shown) | Part::RenamedKey { shown, .. } => {
                    f.write_str(if position == 0 { "" } else { "." })?;
                    f.write_str(shown)?;
                }
                Part::RenamedIndex { shown, .. } => write!(f, ".{shown}")?,
                Part::Index(index) => write!(f, "[{index}]")?,
                Part::Entry(key) => write!(f, "[{key}]")?,
                Part::Name(name) => write!(f, "[{name}]")?,
            }
        }
        Ok(())
    }
}

/// Kind of a violated rule. The texts equal those of Kubernetes' field errors.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    Required,
    Invalid(Value),
    Duplicate(Value),
    NotSupported(Value, &'static [&'static str]),
    /// The object that the field names does not exist.
    NotFound(Value),
    Forbidden,
}

/// Finding of a validation.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub path: FieldPath,
    pub violation: Violation,
    pub detail: String,
}

impl FieldError {
    pub(crate) fn new(path: FieldPath, violation: Violation, detail: impl Into<String>) -> Self {
        Self { path, violation, detail: detail.into() }
    }

    /// Returns the texts that may contain imported values if the finding is about a rendered
    /// document.
    pub(crate) fn texts(&mut self) -> Vec<&mut String> {
        let path = self.path.to_string();
        let mut texts = vec![self.path.text.insert(path), &mut self.detail];
        match &mut self.violation {
            Violation::Invalid(value)
            | Violation::Duplicate(value)
            | Violation::NotSupported(value, _)
            | Violation::NotFound(value) => add_texts(value, &mut texts),
            Violation::Required | Violation::Forbidden => {}
        }
        texts
    }

    /// Returns the finding without its path.
    pub fn problem(&self) -> String {
        let text = match &self.violation {
            Violation::Required => "Required value".to_owned(),
            Violation::Invalid(value) => format!("Invalid value: {value}"),
            Violation::Duplicate(value) => format!("Duplicate value: {value}"),
            Violation::NotSupported(value, supported) => {
                let mut supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
                supported.sort();
                format!("Unsupported value: {value}: supported values: {}", supported.join(", "))
            }
            Violation::NotFound(value) => format!("Not found: {value}"),
            Violation::Forbidden => "Forbidden".to_owned(),
        };
        if self.detail.is_empty() { text } else { format!("{text}: {}", self.detail) }
    }
}

fn add_texts<'v>(value: &'v mut Value, texts: &mut Vec<&'v mut String>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter_mut().for_each(|item| add_texts(item, texts)),
        _ => {}
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem())
    }
}

/// Joins several findings without duplicates. A single one stands alone, several are put in
/// brackets.
pub fn aggregate(errors: &[impl fmt::Display]) -> String {
    // A set finds duplicates, because thousands of children can break the same rule.
    let mut known = HashSet::new();
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.retain(|text| known.insert(text.clone()));
    match &texts[..] {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Checks that exactly one of several fields is set, and returns an error otherwise.
pub fn exactly_one_of(path: &FieldPath, fields: &[(&str, bool)]) -> Option<FieldError> {
    let names = |fields: &mut dyn Iterator<Item = &(&str, bool)>| {
        fields.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let set = fields.iter().filter(|(_, set)| *set).count();
    let all = names(&mut fields.iter());
    let detail = |current: &str| format!("exactly one of [{all}] must be set (currently set: {current})");
    match set {
        1 => None,
        0 => Some(FieldError::new(path.clone(), Violation::Required, detail("none"))),
        _ => {
            let current = format!("[{}]", names(&mut fields.iter().filter(|(_, set)| *set)));
            Some(FieldError::new(path.clone(), Violation::Invalid(Value::Null), detail(&current)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts() {
        let path = FieldPath::root("imports").index(2).named("cluster");
        for (violation, detail, text) in [
            (Violation::Required, "d", "imports[2][cluster]: Required value: d"),
            (Violation::Invalid(json!("a\"b")), "d", "imports[2][cluster]: Invalid value: \"a\\\"b\": d"),
            (
                Violation::Invalid(json!({"a": [1]})),
                "d",
                "imports[2][cluster]: Invalid value: {\"a\":[1]}: d",
            ),
            (Violation::Duplicate(json!(5)), "", "imports[2][cluster]: Duplicate value: 5"),
            (
                Violation::NotSupported(json!("foo"), &["b", "a"]),
                "",
                "imports[2][cluster]: Unsupported value: \"foo\": supported values: \"a\", \"b\"",
            ),
            (Violation::NotFound(json!("/x")), "", "imports[2][cluster]: Not found: \"/x\""),
            (Violation::Forbidden, "no", "imports[2][cluster]: Forbidden: no"),
        ] {
            assert_eq!(FieldError::new(path.clone(), violation, detail).to_string(), text);
        }
    }

    #[test]
    fn aggregates() {
        let error = |name: &str| FieldError::new(FieldPath::root(name), Violation::Required, "");
        assert_eq!(aggregate(&[error("a")]), "a: Required value");
        assert_eq!(
            aggregate(&[error("a"), error("b"), error("a")]),
            "[a: Required value, b: Required value]"
        );
    }

    #[test]
    fn one_of() {
        let path = FieldPath::root("x");
        assert_eq!(exactly_one_of(&path, &[("a", true), ("b", false)]), None);
        assert_eq!(
            exactly_one_of(&path, &[("a", false), ("b", false)]).unwrap().to_string(),
            "x: Required value: exactly one of [a, b] must be set (currently set: none)"
        );
        assert_eq!(
            exactly_one_of(&path, &[("a", true), ("b", true)]).unwrap().to_string(),
            "x: Invalid value: null: exactly one of [a, b] must be set (currently set: [a, b])"
        );
    }
}
