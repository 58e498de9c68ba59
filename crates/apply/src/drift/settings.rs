//! Drift settings of an item: the reaction to changes that others make to its objects between two
//! jobs (`installations.md` 7.9, drift).

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::object::Reference;

/// Reaction to an object that differs from the state that the last job left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DriftMode {
    /// Objects are not checked.
    Ignore,
    /// Differences are reported.
    #[default]
    Report,
    /// Differences are reported, and the object is written again.
    Repair,
}

/// The member `drift` of a provider configuration: a mode alone, or a mode and rules.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drift {
    pub mode: DriftMode,
    pub ignore: Vec<IgnoreRule>,
}

/// Objects, or fields of objects, whose changes do not count. A missing member matches every
/// object.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoreRule {
    /// API group; the empty text is the core group.
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    name: Option<String>,
    /// Fields as JSON pointers (RFC 6901). Without any, the rule covers the whole object.
    #[serde(default)]
    json_pointers: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for Drift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Members {
            #[serde(default)]
            mode: DriftMode,
            #[serde(default)]
            ignore: Vec<IgnoreRule>,
        }
        let written = Value::deserialize(deserializer)?;
        let drift = match written {
            Value::String(_) => DriftMode::deserialize(written).map(|mode| Self { mode, ignore: Vec::new() }),
            _ => Members::deserialize(written).map(|Members { mode, ignore }| Self { mode, ignore }),
        };
        drift.map_err(serde::de::Error::custom)
    }
}

impl Drift {
    /// Returns all problems, each with the path of the member. The texts quote no value.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, rule) in self.ignore.iter().enumerate() {
            let path = format!("drift.ignore[{index}]");
            if rule.fits_all() && rule.json_pointers.is_none() {
                problems.push(format!("{path}: matches every object; set drift to ignore instead"));
            }
            let pointers = rule.json_pointers.as_deref().unwrap_or_default();
            if rule.json_pointers.is_some() && pointers.is_empty() {
                problems.push(format!("{path}.jsonPointers: must not be empty"));
            }
            for (place, pointer) in pointers.iter().enumerate() {
                if !is_pointer(pointer) {
                    problems.push(format!(
                        "{path}.jsonPointers[{place}]: must be a JSON pointer, such as /spec/replicas"
                    ));
                }
            }
        }
        problems
    }

    /// Reports whether the changes of an object do not count.
    pub(crate) fn ignores(&self, object: &Reference) -> bool {
        self.of(object).any(|rule| rule.json_pointers.is_none())
    }

    /// Returns the fields of an object whose changes do not count.
    pub(crate) fn pointers<'a>(&'a self, object: &'a Reference) -> impl Iterator<Item = &'a str> {
        self.of(object).flat_map(|rule| rule.json_pointers.iter().flatten().map(String::as_str))
    }

    fn of<'a>(&'a self, object: &'a Reference) -> impl Iterator<Item = &'a IgnoreRule> {
        self.ignore.iter().filter(|rule| rule.fits(object))
    }
}

impl IgnoreRule {
    fn fits_all(&self) -> bool {
        [&self.group, &self.kind, &self.namespace, &self.name].into_iter().all(Option::is_none)
    }

    fn fits(&self, object: &Reference) -> bool {
        let fits = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|one| one == found);
        fits(&self.group, object.group())
            && fits(&self.kind, &object.kind)
            && fits(&self.namespace, object.namespace.as_deref().unwrap_or_default())
            && fits(&self.name, &object.name)
    }
}

/// Checks that a text is a JSON pointer, in which a tilde begins one of two escapes.
fn is_pointer(text: &str) -> bool {
    let has_escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    text.starts_with('/') && has_escapes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drift(written: Value) -> Result<Drift, String> {
        serde_json::from_value(written).map_err(|error| error.to_string())
    }

    fn deployment(name: &str) -> Reference {
        Reference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    #[test]
    fn a_mode_or_a_mode_and_rules() {
        assert_eq!(drift(json!("repair")).unwrap().mode, DriftMode::Repair);
        assert_eq!(drift(json!({})).unwrap(), Drift::default());
        assert_eq!(Drift::default().mode, DriftMode::Report);
        assert!(drift(json!("always")).unwrap_err().contains("unknown variant"));
        // Unknown members are errors, because a rule with a misspelled member would match more
        // objects than intended.
        assert!(drift(json!({"ignore": [{"kind": "A", "jsonPointer": ["/a"]}]})).is_err());
        assert!(drift(json!({"every": "1h"})).is_err());
    }

    #[test]
    fn rules_fit_by_what_they_give() {
        let rules = json!({"ignore": [
            {"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]},
            {"name": "web", "jsonPointers": ["/a~1b"]},
            {"group": "", "kind": "Secret"},
        ]});
        let drift = drift(rules).unwrap();
        assert_eq!(drift.problems(), Vec::<String>::new());
        assert_eq!(drift.pointers(&deployment("web")).collect::<Vec<_>>(), ["/spec/replicas", "/a~1b"]);
        assert_eq!(drift.pointers(&deployment("db")).collect::<Vec<_>>(), ["/spec/replicas"]);
        let secret = Reference { api_version: "v1".into(), kind: "Secret".into(), ..deployment("web") };
        assert!(drift.ignores(&secret) && !drift.ignores(&deployment("web")));
    }

    #[test]
    fn what_is_wrong_is_named_without_values() {
        for (rule, part) in [
            (json!({}), "drift.ignore[0]: matches every object"),
            (json!({"kind": "canary", "jsonPointers": []}), "jsonPointers: must not be empty"),
            (json!({"jsonPointers": ["canary"]}), "jsonPointers[0]: must be a JSON pointer"),
            (json!({"jsonPointers": ["/a~2"]}), "jsonPointers[0]: must be a JSON pointer"),
        ] {
            let problems = drift(json!({"ignore": [rule]})).unwrap().problems();
            assert!(problems[0].contains(part) && !problems[0].contains("canary"), "{problems:?}");
        }
    }
}
