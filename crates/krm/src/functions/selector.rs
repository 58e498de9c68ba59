//! Selectors as in kustomize: exact for sources, regular expressions for targets.

use groundwork_yaml::tree::Node;
use regex::Regex;

use super::{group, text};

/// Fields by which objects are selected; an empty field matches any value.
pub(super) struct Exact<'a> {
    fields: [&'a str; 5],
}

impl<'a> Exact<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        Self { fields: ["group", "version", "kind", "name", "namespace"].map(|key| text(node, &[key])) }
    }

    pub(super) fn selects(&self, root: &Node) -> bool {
        self.fields.iter().zip(fields_of(root)).all(|(wanted, found)| wanted.is_empty() || *wanted == found)
    }
}

/// Writes the notation of kustomize: `Deployment.v1.apps/name.namespace`.
impl std::fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [group, version, kind, name, namespace] = self.fields;
        let or = |text: &'static str, found: &str| {
            if found.is_empty() { text.to_owned() } else { found.to_owned() }
        };
        let (kind, version, group) = (or("[noKind]", kind), or("[noVer]", version), or("[noGrp]", group));
        let (name, namespace) = (or("[noName]", name), or("[noNs]", namespace));
        write!(f, "{kind}.{version}.{group}/{name}.{namespace}")
    }
}

fn fields_of(root: &Node) -> [&str; 5] {
    let api_version = text(root, &["apiVersion"]);
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let metadata = |key: &str| text(root, &["metadata", key]);
    [group(root), version, text(root, &["kind"]), metadata("name"), metadata("namespace")]
}

/// Selector of targets.
pub(super) struct Pattern {
    fields: [Option<Regex>; 5],
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
}

impl Pattern {
    /// Parses a selector.
    ///
    /// # Errors
    /// A text that is not a regular expression, or not a label selector.
    pub(super) fn of(node: &Node) -> Result<Self, String> {
        let mut fields = [const { None }; 5];
        for (field, key) in fields.iter_mut().zip(["group", "version", "kind", "name", "namespace"]) {
            let pattern = text(node, &[key]);
            if !pattern.is_empty() {
                let regex = Regex::new(&format!("^(?:{pattern})$"));
                *field = Some(regex.map_err(|_| {
                    format!("{key} {pattern:?} of a selector is not a valid regular expression")
                })?);
            }
        }
        let requirements = |key: &str| {
            requirements(text(node, &[key]))
                .map_err(|word| format!("{key}: unable to parse requirement: {word}"))
        };
        Ok(Self {
            fields,
            labels: requirements("labelSelector")?,
            annotations: requirements("annotationSelector")?,
        })
    }

    pub(super) fn selects(&self, root: &Node) -> bool {
        let fits = |(wanted, found): (&Option<Regex>, &str)| {
            wanted.as_ref().is_none_or(|regex| regex.is_match(found))
        };
        let meets = |wanted: &[Requirement], name: &str| {
            wanted.iter().all(|requirement| {
                requirement.is_met(root.at(&["metadata", name, &requirement.key]).and_then(Node::text))
            })
        };
        self.fields.iter().zip(fields_of(root)).all(fits)
            && meets(&self.labels, "labels")
            && meets(&self.annotations, "annotations")
    }

    /// Reports whether the selector has no fields.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.iter().all(Option::is_none) && self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// One requirement of a label selector.
struct Requirement {
    key: String,
    test: Test,
}

enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Requirement {
    fn is_met(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::Absent, value) => value.is_none(),
            (Test::In(values), value) => {
                value.is_some_and(|value| values.iter().any(|wanted| wanted == value))
            }
            (Test::NotIn(values), value) => {
                value.is_none_or(|value| values.iter().all(|wanted| wanted != value))
            }
        }
    }
}

fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parts = Vec::new();
    let (mut begin, mut depth) = (0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).map(requirement).collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let new = |key: &str, test: Test| {
        let key = key.trim();
        let is_key = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "=!()".contains(c));
        if is_key { Ok(Requirement { key: key.to_owned(), test }) } else { Err(part.to_owned()) }
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return new(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return new(key, Test::In(one(value)));
    }
    if let Some(key) = part.strip_prefix('!') {
        return new(key, Test::Absent);
    }
    let Some((head, list)) = part.split_once('(') else { return new(part, Test::Exists) };
    let list = list.trim_end().strip_suffix(')').ok_or_else(|| part.to_owned())?;
    let values = list.split(',').map(|value| value.trim().to_owned()).collect();
    match head.trim().rsplit_once(char::is_whitespace) {
        Some((key, "in")) => new(key, Test::In(values)),
        Some((key, "notin")) => new(key, Test::NotIn(values)),
        _ => Err(part.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn node(text: &str) -> Node {
        File::read(text).unwrap().documents[0].root.clone()
    }

    #[test]
    fn patterns() {
        let object = node(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-1, labels: {app: web, tier: x}}\n",
        );
        for (selector, expected) in [
            ("kind: Deploy.*", true),
            ("kind: Deploy", false),
            ("name: web-[0-9]", true),
            ("group: apps\nversion: v1", true),
            ("namespace: x", false),
            ("labelSelector: app=web", true),
            ("labelSelector: 'app==web,tier!=y'", true),
            ("labelSelector: 'app in (a, web), tier'", true),
            ("labelSelector: 'app notin (web)'", false),
            ("labelSelector: '!app'", false),
            ("annotationSelector: x", false),
        ] {
            assert_eq!(
                Pattern::of(&node(&format!("{selector}\n"))).unwrap().selects(&object),
                expected,
                "{selector}"
            );
        }
        for wrong in ["name: 'a('", "labelSelector: 'a b'", "labelSelector: 'a in x'", "labelSelector: '(a)'"]
        {
            assert!(Pattern::of(&node(&format!("{wrong}\n"))).is_err(), "{wrong}");
        }
    }
}
