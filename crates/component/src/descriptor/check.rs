//! Defaults and checks of descriptors (`components.md` 4.4, 5.3, 5.4).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::{Descriptor, ElementKind, SchemaVersion, extra_identity, text};

/// Strictness of the check of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leniency {
    /// Rules for stored descriptors.
    Strict,
    /// Rules for descriptors in an Installation, which authors keep short: provider, relation and
    /// resource version are optional (`components.md` 4.4).
    Inline,
}

const LONGEST_NAME: usize = 255;

/// Pattern of a component name that can be the path of a repository. The stricter pattern of
/// `components.md` 5.3 requires a leading domain, but the design document for overwrites uses a
/// component without one, which must be readable.
static COMPONENT_NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[a-z0-9][-_a-z0-9]*([./][a-z0-9][-_a-z0-9]*)*$"));
static ELEMENT_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-z0-9]([-_+a-z0-9]*[a-z0-9])?$"));
/// Relaxed semantic version: minor and patch may be missing, and a leading `v` is allowed.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    const NUMBER: &str = "(0|[1-9][0-9]*)";
    const WORDS: &str = "[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*";
    pattern(&format!("^v?{NUMBER}(\\.{NUMBER})?(\\.{NUMBER})?(-{WORDS})?(\\+{WORDS})?$"))
});

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this module are constants and valid")
}

/// Reports whether `version` is a (relaxed) semantic version, as required for component versions.
pub fn valid_version(version: &str) -> bool {
    let leading_zero = |identifier: &str| {
        identifier.len() > 1
            && identifier.starts_with('0')
            && identifier.bytes().all(|byte| byte.is_ascii_digit())
    };
    let core = version.split('+').next().unwrap_or_default();
    let prerelease = core.split_once('-').map_or("", |(_, prerelease)| prerelease);
    VERSION.is_match(version) && !prerelease.split('.').any(leading_zero)
}

/// Fills in members that readers rely on: lists that are absent or null, and members that authors
/// of inline descriptors omit.
pub(super) fn fill_defaults(schema: SchemaVersion, document: &mut Value, leniency: Leniency) {
    if schema == SchemaVersion::V2
        && let Some(component) = document.get_mut("component").and_then(Value::as_object_mut)
    {
        let lists = ["repositoryContexts", "sources", "componentReferences", "resources"];
        for list in lists {
            // In a stored descriptor, a missing list is an error, but null is not.
            if component.get(list).map_or(leniency == Leniency::Inline, Value::is_null) {
                component.insert(list.to_owned(), Value::Array(Vec::new()));
            }
        }
        if leniency == Leniency::Inline && component.get("provider").is_none_or(Value::is_null) {
            component.insert("provider".to_owned(), Value::from(""));
        }
    }
    if leniency == Leniency::Strict {
        return;
    }
    if schema == SchemaVersion::V3
        && let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.retain(|_, list| !list.is_null());
    }
    let version = match schema {
        SchemaVersion::V2 => document.pointer("/component/version"),
        SchemaVersion::V3 => document.pointer("/metadata/version"),
    };
    let version = version.cloned().unwrap_or_default();
    let resources = document.pointer_mut(ElementKind::Resource.pointer(schema)).and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten().filter_map(Value::as_object_mut) {
        default_text(resource, "relation", &Value::from("external"));
        default_text(resource, "version", &version);
    }
}

fn default_text(object: &mut Map<String, Value>, member: &str, value: &Value) {
    if object.get(member).and_then(Value::as_str).is_none_or(str::is_empty) {
        object.insert(member.to_owned(), value.clone());
    }
}

/// Returns the identities of all elements of a list as JSON text: extra identity and name, and the
/// version if these two are not unique (`components.md` 4.7).
pub(super) fn identities(elements: &[Value]) -> Vec<String> {
    let bases: Vec<Map<String, Value>> = elements
        .iter()
        .map(|element| {
            let mut identity = extra_identity(element).cloned().unwrap_or_default();
            identity.insert("name".to_owned(), Value::from(text(element, "name")));
            identity
        })
        .collect();
    let shown = |identity: &Map<String, Value>| Value::Object(identity.clone()).to_string();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for base in &bases {
        *counts.entry(shown(base)).or_default() += 1;
    }
    bases
        .into_iter()
        .zip(elements)
        .map(|(mut identity, element)| {
            if counts.get(&shown(&identity)).is_some_and(|count| *count > 1) {
                identity.insert("version".to_owned(), Value::from(text(element, "version")));
            }
            shown(&identity)
        })
        .collect()
}

/// Returns every problem of the document, each with its field path.
pub(super) fn problems(descriptor: &Descriptor, leniency: Leniency) -> Vec<String> {
    let mut problems = Problems { list: Vec::new() };
    problems.header(descriptor, leniency);
    for kind in ElementKind::ALL {
        problems.elements(descriptor, kind, leniency);
    }
    problems.list
}

struct Problems {
    list: Vec<String>,
}

impl Problems {
    fn add(&mut self, path: &str, problem: impl std::fmt::Display) {
        self.list.push(format!("{path}: {problem}"));
    }

    fn header(&mut self, descriptor: &Descriptor, leniency: Leniency) {
        let holder = match descriptor.schema {
            SchemaVersion::V2 => "component",
            SchemaVersion::V3 => "metadata",
        };
        if !descriptor.document.get(holder).is_some_and(Value::is_object) {
            self.add(holder, "must be set");
            return;
        }
        let (name, version) = (descriptor.name(), descriptor.version());
        if name.len() > LONGEST_NAME || !COMPONENT_NAME.is_match(name) {
            self.add(
                &format!("{holder}.name"),
                format_args!("{name:?} is not a component name such as example.org/shop/frontend"),
            );
        }
        if !valid_version(version) {
            self.add(&format!("{holder}.version"), format_args!("{version:?} is not a semantic version"));
        }
        if leniency == Leniency::Strict {
            self.provider(descriptor, holder);
        }
        self.labels(holder, descriptor.identity());
        if descriptor.schema == SchemaVersion::V3
            && descriptor.document.get("kind").and_then(Value::as_str) != Some("ComponentVersion")
        {
            self.add("kind", "must be ComponentVersion");
        }
    }

    fn provider(&mut self, descriptor: &Descriptor, holder: &str) {
        let name = match descriptor.schema {
            SchemaVersion::V2 => descriptor.document.pointer("/component/provider"),
            SchemaVersion::V3 => descriptor.document.pointer("/metadata/provider/name"),
        };
        let path = format!("{holder}.provider");
        match name {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => self.add(&path, "must be set"),
            Some(_) => {
                self.add(&path, "must be a text in schema version v2; v3alpha1 has an object with a name");
            }
        }
    }

    fn elements(&mut self, descriptor: &Descriptor, kind: ElementKind, leniency: Leniency) {
        let pointer = kind.pointer(descriptor.schema);
        let path = pointer[1..].replace('/', ".");
        match descriptor.document.pointer(pointer) {
            Some(Value::Array(_)) => {}
            None if descriptor.schema == SchemaVersion::V3 => return,
            None if leniency == Leniency::Strict => return self.add(&path, "must be set (it may be null)"),
            None => return,
            Some(_) => return self.add(&path, "must be a list"),
        }
        let elements = descriptor.elements(kind);
        let identities = identities(elements);
        let mut seen: HashSet<&str> = HashSet::new();
        for (index, (element, identity)) in elements.iter().zip(&identities).enumerate() {
            let path = format!("{path}[{index}]");
            if !element.is_object() {
                self.add(&path, "must be a map");
                continue;
            }
            self.element(&path, element, kind);
            if !seen.insert(identity) {
                self.add(&path, format_args!("duplicate {} {identity}", kind.singular()));
            }
        }
    }

    fn element(&mut self, path: &str, element: &Value, kind: ElementKind) {
        let name = text(element, "name");
        if name.len() < 2 || !ELEMENT_NAME.is_match(&name) {
            self.add(
                &format!("{path}.name"),
                format_args!("{name:?} is not a name (at least two of a-z, 0-9, -, _, +)"),
            );
        }
        self.required(path, element, "version");
        match kind {
            ElementKind::Source => self.required(path, element, "type"),
            ElementKind::Reference => self.required(path, element, "componentName"),
            ElementKind::Resource => self.resource(path, element),
        }
        for key in extra_identity(element).into_iter().flat_map(Map::keys) {
            if key == "name" || key.len() < 2 || !ELEMENT_NAME.is_match(key) {
                self.add(&format!("{path}.extraIdentity"), format_args!("{key:?} is not allowed as a key"));
            }
        }
        self.labels(path, element);
    }

    fn resource(&mut self, path: &str, element: &Value) {
        self.required(path, element, "type");
        let relation = text(element, "relation");
        if !matches!(relation.as_str(), "local" | "external") {
            self.add(&format!("{path}.relation"), format_args!("{relation:?} is neither local nor external"));
        }
        if !element.get("access").is_some_and(Value::is_object) {
            self.add(&format!("{path}.access"), "must specify a access");
        }
    }

    fn labels(&mut self, path: &str, element: &Value) {
        let labels = element.get("labels").and_then(Value::as_array);
        let mut seen = HashSet::new();
        for label in labels.into_iter().flatten() {
            let name = text(label, "name");
            if name.is_empty() || !seen.insert(name.clone()) {
                self.add(
                    &format!("{path}.labels"),
                    format_args!("label names must be set and unique, found {name:?}"),
                );
            }
        }
    }

    fn required(&mut self, path: &str, element: &Value, member: &str) {
        if text(element, member).is_empty() {
            self.add(&format!("{path}.{member}"), "must be set");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions() {
        for version in ["1", "v1.2", "1.2.3", "v0.2.0", "1.2.3-rc.1", "1.2.3-rc.1+build.5", "1.0.0+7", "v1-a"]
        {
            assert!(valid_version(version), "{version}");
        }
        for version in ["", "v", "01.2.3", "1.02", "1.2.3.4", "1.2.3-01", "1.2-", "latest", "1.2.3+"] {
            assert!(!valid_version(version), "{version}");
        }
    }

    #[test]
    fn identity_takes_the_version_in_when_needed() {
        let all = [
            json!({"name": "aa", "version": "1"}),
            json!({"name": "aa", "version": "2"}),
            json!({"name": "aa", "version": "3", "extraIdentity": {"arch": "arm"}}),
        ];
        assert_eq!(
            identities(&all),
            [
                r#"{"name":"aa","version":"1"}"#,
                r#"{"name":"aa","version":"2"}"#,
                r#"{"arch":"arm","name":"aa"}"#
            ]
        );
    }
}
