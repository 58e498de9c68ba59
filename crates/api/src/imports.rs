//! Imports and exports of Installations and installation templates (`installations.md` 1.1,
//! `blueprints.md` 1.5).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{LocalConfigMapReference, LocalSecretReference};
use crate::json::{List, Map};
use crate::object::part;

part! {
    /// Values for the imports of a blueprint.
    pub struct InstallationImports {
        /// Imports of data.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub data: List<DataImport>,
        /// Imports of Targets.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub targets: List<TargetImport>,
    }
}

part! {
    /// Import of data from a DataObject, a Secret or a ConfigMap.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name"], "x-kubernetes-validations" = [{
        "rule": "[has(self.dataRef) && self.dataRef != '', has(self.secretRef), has(self.configMapRef)].exists_one(set, set)",
        "message": "exactly one of dataRef, secretRef and configMapRef must be set",
    }]))]
    pub struct DataImport {
        /// Name of the import.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Name of a DataObject in the scope of the Installation, or `#` and the name of one in the
        /// namespace.
        pub data_ref: Option<String>,
        /// Secret that holds the value.
        pub secret_ref: Option<LocalSecretReference>,
        /// ConfigMap that holds the value.
        pub config_map_ref: Option<LocalConfigMapReference>,
        /// Without effect.
        pub version: Option<String>,
    }
}

part! {
    /// Import of a Target, or of several ones as a list or as a map.
    #[schemars(extend("required" = ["name"], "oneOf" = [
        {"required": ["target"], "properties": {"target": {"minLength": 1}}},
        {"required": ["targets"]},
        {"required": ["targetMap"]},
        {"required": ["targetMaps"]},
        {"required": ["targetMapRef"], "properties": {"targetMapRef": {"minLength": 1}}},
        {"required": ["targetListRef"], "properties": {"targetListRef": {"minLength": 1}}},
    ]))]
    pub struct TargetImport {
        /// Name of the import.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Name of a Target in the scope of the Installation, or `#` and the name of one in the
        /// namespace.
        pub target: Option<String>,
        /// Names of Targets, in order; the list may be empty. Entries that are objects with one
        /// member each are read as `targetMap`.
        pub targets: List<Value>,
        /// Names of Targets by key.
        pub target_map: Map<String>,
        /// Another spelling of `targetMap`.
        pub target_maps: Map<String>,
        /// Name of a target map import of the parent that is passed on.
        pub target_map_ref: Option<String>,
        /// Name of a target list import of the parent that is passed on.
        pub target_list_ref: Option<String>,
    }
}

/// Source of the Targets of an import, the same for all spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSource<'a> {
    /// One Target.
    Single(&'a str),
    /// Several Targets in order, possibly none.
    List(Vec<&'a str>),
    /// Several Targets by key, possibly none.
    Map(BTreeMap<&'a str, &'a str>),
    /// A target list import of the parent.
    ListRef(&'a str),
    /// A target map import of the parent.
    MapRef(&'a str),
}

/// Reason that a target import has no valid source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetSourceError {
    /// The import sets none of the alternatives, or several.
    #[error(
        "exactly one of [target, targets, targetMap, targetMapRef, targetListRef] must be set (currently set: {})",
        if .0.is_empty() { "none".to_owned() } else { format!("[{}]", .0.join(", ")) }
    )]
    NotExactlyOne(Vec<&'static str>),
    /// The entries of `targets` are neither all texts nor all objects.
    #[error(
        "targets[{index}]: {found} is not allowed here; write the names of Targets, or `key: name` in every entry"
    )]
    Entry {
        /// Position of the entry.
        index: usize,
        /// Type of the entry.
        found: &'static str,
    },
    /// An object under `targets` has no member, or more than one.
    #[error("targets[{index}]: an entry of a target map must be one `key: name`, found {members}")]
    Members {
        /// Position of the entry.
        index: usize,
        /// Number of members.
        members: usize,
    },
    /// A key occurs twice under `targets`.
    #[error("targets[{index}]: the key {key:?} is used twice")]
    RepeatedKey {
        /// Position of the second entry.
        index: usize,
        /// The key.
        key: String,
    },
}

impl TargetImport {
    /// Creates an import of one Target.
    pub fn single(name: impl Into<String>, target: impl Into<String>) -> Self {
        Self { name: name.into(), target: Some(target.into()), ..Self::default() }
    }

    /// Creates an import of several Targets in order.
    pub fn list<T: Into<String>>(name: impl Into<String>, targets: impl IntoIterator<Item = T>) -> Self {
        let targets = targets.into_iter().map(|target| Value::String(target.into())).collect();
        Self { name: name.into(), targets, ..Self::default() }
    }

    /// Creates an import of several Targets by key.
    pub fn map(name: impl Into<String>, targets: BTreeMap<String, String>) -> Self {
        Self { name: name.into(), target_map: targets.into(), ..Self::default() }
    }

    /// Returns the source of the Targets, in one form for all spellings (`installations.md` 1.1).
    ///
    /// # Errors
    /// Not exactly one alternative is set, or `targets` mixes forms or repeats a key.
    pub fn source(&self) -> Result<TargetSource<'_>, TargetSourceError> {
        let mut found = Vec::new();
        if let Some(target) = non_empty(self.target.as_ref()) {
            found.push(("target", TargetSource::Single(target)));
        }
        if let Some(entries) = self.targets.written() {
            found.push(("targets", list_or_map(entries)?));
        }
        for (field, map) in [("targetMap", &self.target_map), ("targetMaps", &self.target_maps)] {
            if let Some(entries) = map.written() {
                let entries = entries.iter().map(|(key, target)| (key.as_str(), target.as_str()));
                found.push((field, TargetSource::Map(entries.collect())));
            }
        }
        if let Some(import) = non_empty(self.target_map_ref.as_ref()) {
            found.push(("targetMapRef", TargetSource::MapRef(import)));
        }
        if let Some(import) = non_empty(self.target_list_ref.as_ref()) {
            found.push(("targetListRef", TargetSource::ListRef(import)));
        }
        match found.pop() {
            Some((_, source)) if found.is_empty() => Ok(source),
            last => Err(TargetSourceError::NotExactlyOne(
                found.into_iter().chain(last).map(|(field, _)| field).collect(),
            )),
        }
    }
}

fn non_empty(name: Option<&String>) -> Option<&str> {
    name.map(String::as_str).filter(|name| !name.is_empty())
}

/// Reads `targets`: texts form a list, and objects with one member each form a map
/// (`installations.md` 1.1).
fn list_or_map(entries: &[Value]) -> Result<TargetSource<'_>, TargetSourceError> {
    if matches!(entries.first(), Some(Value::Object(_))) {
        return target_map(entries).map(TargetSource::Map);
    }
    let names = entries.iter().enumerate().map(|(index, entry)| target_name(index, entry));
    names.collect::<Result<_, _>>().map(TargetSource::List)
}

fn target_name(index: usize, value: &Value) -> Result<&str, TargetSourceError> {
    value.as_str().ok_or(TargetSourceError::Entry { index, found: type_name(value) })
}

fn target_map(entries: &[Value]) -> Result<BTreeMap<&str, &str>, TargetSourceError> {
    let mut map = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let Value::Object(members) = entry else {
            return Err(TargetSourceError::Entry { index, found: type_name(entry) });
        };
        let mut iterator = members.iter();
        let (Some((key, target)), None) = (iterator.next(), iterator.next()) else {
            return Err(TargetSourceError::Members { index, members: members.len() });
        };
        if map.insert(key.as_str(), target_name(index, target)?).is_some() {
            return Err(TargetSourceError::RepeatedKey { index, key: key.clone() });
        }
    }
    Ok(map)
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

part! {
    /// Names under which the exports of a blueprint are published.
    #[derive(Eq)]
    pub struct InstallationExports {
        /// Exports of data.
        pub data: List<DataExport>,
        /// Exports of Targets.
        pub targets: List<TargetExport>,
    }
}

part! {
    /// Export of data to a DataObject.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name", "dataRef"]))]
    pub struct DataExport {
        /// Name of the export.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Name of the DataObject in the scope of the Installation.
        #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
        pub data_ref: String,
    }
}

part! {
    /// Export of a Target.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name", "target"]))]
    pub struct TargetExport {
        /// Name of the export.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Name of the Target in the scope of the Installation.
        #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
        pub target: String,
    }
}

/// Pattern of an export's name, which becomes the value of a label (`installations.md` 1.1, rule
/// 8).
const LABEL_VALUE: &str = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, expected: &str) {
        let import: TargetImport = serde_json::from_str(written).unwrap();
        let outcome = match import.source() {
            Ok(source) => format!("{source:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected, "{written}");
        assert_eq!(serde_json::to_value(&import).unwrap(), serde_json::from_str::<Value>(written).unwrap());
    }

    #[test]
    fn one_source_in_any_spelling() {
        check(r##"{"name": "a", "target": "#x"}"##, r##"Single("#x")"##);
        check(r#"{"name": "a", "targets": ["x", "y", "x"]}"#, r#"List(["x", "y", "x"])"#);
        check(r#"{"name": "a", "targets": []}"#, "List([])");
        check(r#"{"name": "a", "targetMap": {"k": "x", "j": "y"}}"#, r#"Map({"j": "y", "k": "x"})"#);
        check(r#"{"name": "a", "targetMap": {}}"#, "Map({})");
        check(r#"{"name": "a", "targetMaps": {"k": "x"}}"#, r#"Map({"k": "x"})"#);
        check(r#"{"name": "a", "targets": [{"k": "x"}, {"j": "y"}]}"#, r#"Map({"j": "y", "k": "x"})"#);
        check(r#"{"name": "a", "targetMapRef": "m"}"#, r#"MapRef("m")"#);
        check(r#"{"name": "a", "targetListRef": "l"}"#, r#"ListRef("l")"#);
        // An empty text counts as absent, as in Landscaper.
        check(r#"{"name": "a", "target": "", "targetListRef": "l"}"#, r#"ListRef("l")"#);
    }

    #[test]
    fn no_source_or_several() {
        let exactly_one =
            "exactly one of [target, targets, targetMap, targetMapRef, targetListRef] must be set";
        check(r#"{"name": "a"}"#, &format!("{exactly_one} (currently set: none)"));
        check(r#"{"name": "a", "target": ""}"#, &format!("{exactly_one} (currently set: none)"));
        check(
            r#"{"name": "a", "target": "x", "targets": []}"#,
            &format!("{exactly_one} (currently set: [target, targets])"),
        );
        check(
            r#"{"name": "a", "targetMap": {}, "targetMaps": {}}"#,
            &format!("{exactly_one} (currently set: [targetMap, targetMaps])"),
        );
    }

    #[test]
    fn lists_that_are_neither_form() {
        let hint = "is not allowed here; write the names of Targets, or `key: name` in every entry";
        check(r#"{"name": "a", "targets": ["x", {"k": "y"}]}"#, &format!("targets[1]: an object {hint}"));
        check(r#"{"name": "a", "targets": [{"k": "y"}, "x"]}"#, &format!("targets[1]: a text {hint}"));
        check(r#"{"name": "a", "targets": [5]}"#, &format!("targets[0]: a number {hint}"));
        check(r#"{"name": "a", "targets": [{"k": 5}]}"#, &format!("targets[0]: a number {hint}"));
        check(
            r#"{"name": "a", "targets": [{"k": "x", "j": "y"}]}"#,
            "targets[0]: an entry of a target map must be one `key: name`, found 2",
        );
        check(
            r#"{"name": "a", "targets": [{"k": "x"}, {}]}"#,
            "targets[1]: an entry of a target map must be one `key: name`, found 0",
        );
        check(
            r#"{"name": "a", "targets": [{"k": "x"}, {"k": "y"}]}"#,
            r#"targets[1]: the key "k" is used twice"#,
        );
    }
}
