//! Objects that an Installation imports, and their values (`installations.md` 4.4, `blueprints.md`
//! 3.2, 3.5).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::label;
use groundwork_api::{
    DataImport, DataObject, Installation, ObjectReference, ResourceExt, Target, TargetImport, TargetSource,
};
use groundwork_blueprint::{ImportedTarget, Supplied, TargetValue};
use groundwork_yaml as yaml;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::SOURCE_TYPE_IMPORT;
use crate::names::{ROOT_SCOPE, object_name};

/// Entries of a Secret (decoded) or of a ConfigMap (`data` and `binaryData` merged).
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Objects of one namespace that Installations may import, by name.
pub trait ImportedObjects {
    fn data_object(&self, name: &str) -> Option<DataObject>;
    fn target(&self, name: &str) -> Option<Target>;
    fn secret(&self, name: &str) -> Option<Entries>;
    fn config_map(&self, name: &str) -> Option<Entries>;
    /// Returns the elements of a list or map of Targets, as copies in `scope`. The Installation
    /// that opens this scope has imported them as `import`. They may be in any order.
    fn imported_targets(&self, scope: &str, import: &str) -> Vec<Target>;
}

/// Objects of one namespace, in memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ObjectSet {
    pub data_objects: BTreeMap<String, DataObject>,
    pub targets: BTreeMap<String, Target>,
    #[serde(with = "base64")]
    pub secrets: BTreeMap<String, Entries>,
    #[serde(with = "base64")]
    pub config_maps: BTreeMap<String, Entries>,
}

/// Serializes entries as base64: as lists of numbers, bytes would take four times the space.
mod base64 {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Entries;

    type Objects<T> = BTreeMap<String, BTreeMap<String, T>>;

    pub(super) fn serialize<S: Serializer>(
        objects: &BTreeMap<String, Entries>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let entry = |(key, value): (&String, &Vec<u8>)| (key.clone(), ByteString(value.clone()));
        let entries = |entries: &Entries| entries.iter().map(entry).collect();
        let objects: Objects<ByteString> =
            objects.iter().map(|(name, object)| (name.clone(), entries(object))).collect();
        objects.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Entries>, D::Error> {
        let objects = Objects::<ByteString>::deserialize(deserializer)?;
        let entries = |entries: BTreeMap<String, ByteString>| {
            entries.into_iter().map(|(key, value)| (key, value.0)).collect()
        };
        Ok(objects.into_iter().map(|(name, object)| (name, entries(object))).collect())
    }
}

impl ObjectSet {
    /// Adds a Secret in the form in which the API server returns it.
    pub fn add_secret(&mut self, secret: Secret) {
        let name = secret.name_any();
        let text =
            secret.string_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        self.secrets.insert(name, data.chain(text).collect());
    }

    /// Adds a ConfigMap.
    pub fn add_config_map(&mut self, map: ConfigMap) {
        let name = map.name_any();
        let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        self.config_maps.insert(name, text.chain(binary).collect());
    }
}

impl ImportedObjects for ObjectSet {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        self.data_objects.get(name).cloned()
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.targets.get(name).cloned()
    }

    fn secret(&self, name: &str) -> Option<Entries> {
        self.secrets.get(name).cloned()
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        self.config_maps.get(name).cloned()
    }

    fn imported_targets(&self, scope: &str, import: &str) -> Vec<Target> {
        self.targets.values().filter(|target| is_import_of(target, scope, import)).cloned().collect()
    }
}

/// Reports whether a Target is the copy of an import in a scope, alone or as an element of a list
/// or map.
pub fn is_import_of(target: &Target, scope: &str, import: &str) -> bool {
    let labels = target.metadata.labels.as_ref();
    let is = |name: &str, value: &str| {
        labels.and_then(|labels| labels.get(name)).is_some_and(|found| found == value)
    };
    is(label::DATA_CONTEXT, scope)
        && is(label::DATA_KEY, import)
        && is(label::DATA_SOURCE_TYPE, SOURCE_TYPE_IMPORT)
}

/// Names of the objects that an Installation imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedNames {
    pub data_objects: BTreeSet<String>,
    pub targets: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
    pub config_maps: BTreeSet<String>,
    /// Imports of the parent that are lists or maps of Targets.
    pub parent_targets: BTreeSet<String>,
}

impl ImportedNames {
    /// Returns the names of the objects that a job of an Installation reads from this scope.
    pub fn of(installation: &Installation, scope: &str) -> Self {
        let mut names = Self::default();
        for import in installation.spec.data_imports() {
            if let Some(name) = import.data_ref.as_deref().filter(|name| !name.is_empty()) {
                names.data_objects.insert(object_name(scope, name));
            }
            names.secrets.extend(import.secret_ref.as_ref().map(|reference| reference.name.clone()));
            names.config_maps.extend(import.config_map_ref.as_ref().map(|reference| reference.name.clone()));
        }
        for import in installation.spec.target_imports() {
            let targets = match import.source() {
                Ok(TargetSource::Single(name)) => vec![name],
                Ok(TargetSource::List(names)) => names,
                Ok(TargetSource::Map(names)) => names.into_values().collect(),
                Ok(TargetSource::ListRef(name) | TargetSource::MapRef(name)) => {
                    // A root Installation has no parent. Loading rejects such a reference later.
                    names.parent_targets.extend((scope != ROOT_SCOPE).then(|| name.to_owned()));
                    Vec::new()
                }
                Err(_) => Vec::new(),
            };
            names.targets.extend(targets.into_iter().map(|name| object_name(scope, name)));
        }
        names
    }
}

/// Reads all objects that an Installation in a scope names. Given values replace the data that
/// would be read.
///
/// Every problem is reported, and no message shows a value (`installations.md` 5.3, check 3).
/// `warnings` receives sentences about texts that YAML reads differently.
pub(crate) fn load(
    installation: &Installation,
    scope: &str,
    objects: &dyn ImportedObjects,
    given: &BTreeMap<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<Supplied, Vec<String>> {
    let namespace = installation.namespace().unwrap_or_default();
    let loader = Loader { objects, namespace, scope };
    let mut supplied = Supplied { data: given.clone(), ..Supplied::default() };
    let mut problems = Vec::new();
    for import in installation.spec.data_imports().iter().filter(|import| !given.contains_key(&import.name)) {
        match loader.data(import) {
            Ok(Read { value, changed }) => {
                warnings.extend(changed.map(|changed| format!("data import {:?}: {changed}", import.name)));
                supplied.data.insert(import.name.clone(), value);
            }
            Err(problem) => problems.push(format!("data import {:?}: {problem}", import.name)),
        }
    }
    for import in installation.spec.target_imports() {
        match loader.target(import) {
            Ok(value) => {
                supplied.targets.insert(import.name.clone(), value);
            }
            Err(problem) => problems.push(format!("target import {:?}: {problem}", import.name)),
        }
    }
    if problems.is_empty() { Ok(supplied) } else { Err(problems) }
}

struct Loader<'a> {
    objects: &'a dyn ImportedObjects,
    namespace: String,
    /// Scope that contains the Installation.
    scope: &'a str,
}

impl Loader<'_> {
    fn data(&self, import: &DataImport) -> Result<Read, String> {
        if let Some(data_ref) = import.data_ref.as_deref().filter(|name| !name.is_empty()) {
            let name = object_name(self.scope, data_ref);
            let object = self.objects.data_object(&name);
            let value = object.map(|object| object.data.into_value().unwrap_or_default());
            return value.map(|value| Read { value, changed: None }).ok_or_else(|| {
                format!(
                    "unable to fetch data object {name} ({data_ref}): not found in namespace {}",
                    self.namespace
                )
            });
        }
        if let Some(reference) = &import.secret_ref {
            let place = format!("secret {}/{}", self.namespace, reference.name);
            let entries = self.objects.secret(&reference.name).ok_or_else(|| format!("{place} not found"))?;
            return value_of(&entries, reference.entry(), &place);
        }
        if let Some(reference) = &import.config_map_ref {
            let place = format!("configmap {}/{}", self.namespace, reference.name);
            let entries =
                self.objects.config_map(&reference.name).ok_or_else(|| format!("{place} not found"))?;
            return value_of(&entries, reference.entry(), &place);
        }
        Err("it has no dataRef, secretRef or configMapRef".to_owned())
    }

    fn target(&self, import: &TargetImport) -> Result<TargetValue, String> {
        match import.source().map_err(|error| error.to_string())? {
            TargetSource::Single(name) => self.one_target(name).map(TargetValue::Single),
            TargetSource::List(names) => names
                .iter()
                .map(|name| self.one_target(name))
                .collect::<Result<_, _>>()
                .map(TargetValue::List),
            TargetSource::Map(names) => names
                .iter()
                .map(|(key, name)| Ok(((*key).to_owned(), self.one_target(name)?)))
                .collect::<Result<_, _>>()
                .map(TargetValue::Map),
            TargetSource::ListRef(name) | TargetSource::MapRef(name) if self.scope == ROOT_SCOPE => {
                Err(format!(
                    "ImportNotFound: it refers to the import {name:?} of a parent, which a root installation does not have"
                ))
            }
            TargetSource::ListRef(name) => self.target_list(name).map(TargetValue::List),
            TargetSource::MapRef(name) => self.target_map(name).map(TargetValue::Map),
        }
    }

    /// Returns the elements of a list that the parent imports, in the order of the list.
    fn target_list(&self, name: &str) -> Result<Vec<ImportedTarget>, String> {
        let index = |target: &Target| {
            let index = label_of(target, label::DATA_INDEX).and_then(|index| index.parse::<usize>().ok());
            index.ok_or_else(|| "missing label for target list index".to_owned())
        };
        let targets = self.objects.imported_targets(self.scope, name);
        let mut elements: Vec<(usize, Target)> =
            targets.into_iter().map(|target| Ok((index(&target)?, target))).collect::<Result<_, String>>()?;
        elements.sort_by_key(|(index, _)| *index);
        elements.iter().map(|(_, target)| self.imported(target)).collect()
    }

    /// Returns the elements of a map that the parent imports, by key.
    fn target_map(&self, name: &str) -> Result<BTreeMap<String, ImportedTarget>, String> {
        let entry = |target: &Target| {
            let key =
                label_of(target, label::DATA_TARGET_MAP_KEY).ok_or("missing label for target map key")?;
            Ok((key.to_owned(), self.imported(target)?))
        };
        self.objects.imported_targets(self.scope, name).iter().map(entry).collect()
    }

    fn one_target(&self, name: &str) -> Result<ImportedTarget, String> {
        let object_name = object_name(self.scope, name);
        let target = self
            .objects
            .target(&object_name)
            .ok_or_else(|| format!("target {}/{object_name} not found", self.namespace))?;
        self.imported(&target)
    }

    fn imported(&self, target: &Target) -> Result<ImportedTarget, String> {
        let reference = ObjectReference { name: target.name_any(), namespace: Some(self.namespace.clone()) };
        let object = serde_json::to_value(target).map_err(|error| error.to_string())?;
        Ok(ImportedTarget { reference, object })
    }
}

fn label_of<'t>(target: &'t Target, name: &str) -> Option<&'t str> {
    target.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Value of a data import.
struct Read {
    value: Value,
    /// Sentence about the entries that YAML reads differently from their text.
    changed: Option<String>,
}

/// Parses one entry as YAML, or all entries as a map of YAML values.
fn value_of(entries: &Entries, key: Option<&str>, place: &str) -> Result<Read, String> {
    let mut changed: Vec<String> = Vec::new();
    let mut parse = |key: &str, bytes: &[u8]| -> Result<Value, String> {
        // Bytes that are not UTF-8 are an error: a lossy conversion would change the value
        // silently.
        let text = std::str::from_utf8(bytes).map_err(|error| {
            format!(
                "key {key} in {place} is not UTF-8 text (byte {} is invalid); import another key of it",
                error.valid_up_to()
            )
        })?;
        let value = yaml::from_str(text)
            .map_err(|error| format!("key {key} in {place} is not valid YAML: {error}"))?;
        if reads_differently(&value, text) {
            changed.push(key.to_owned());
        }
        Ok(value)
    };
    let value = match key {
        Some(key) => {
            let bytes = entries.get(key).ok_or_else(|| format!("key {key} in {place} does not exist"))?;
            parse(key, bytes)?
        }
        None => {
            let entry = |(key, bytes): (&String, &Vec<u8>)| Ok((key.clone(), parse(key, bytes)?));
            Value::Object(entries.iter().map(entry).collect::<Result<Map<_, _>, String>>()?)
        }
    };
    let changed = (!changed.is_empty()).then(|| {
        format!(
            "{place} is read as YAML, which changes the text of {}: lines are joined, and numbers and words such as yes \
             become values; put the text into quotes to keep it",
            changed.join(", ")
        )
    });
    Ok(Read { value, changed })
}

/// Reports whether YAML reads an entry as something other than its text. Maps and lists are meant
/// as YAML, and so is a text in quotes.
fn reads_differently(value: &Value, text: &str) -> bool {
    let text = text.trim();
    match value {
        Value::Object(_) | Value::Array(_) => false,
        Value::String(read) => read.trim() != text && !text.starts_with(['"', '\'', '|', '>']),
        Value::Null => !["", "null", "~"].contains(&text),
        scalar => {
            let written = scalar.to_string();
            written != text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_yaml_changes() {
        let read = |text: &str| reads_differently(&yaml::from_str(text).unwrap(), text);
        for same in [
            "word",
            "two words\n",
            "42",
            "true",
            "{a: 1}",
            "- a\n- b",
            "'01234'",
            "|\n  a\n  b\n",
            "",
            "null",
        ] {
            assert!(!read(same), "{same}");
        }
        for changed in
            ["-----BEGIN KEY-----\nabc\n-----END KEY-----\n", "01234", "1e5", "yes", "1.10", "a # b", "# b"]
        {
            assert!(read(changed), "{changed}");
        }
    }
}
