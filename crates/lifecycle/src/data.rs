//! DataObjects and Targets that a job writes, and fingerprints of those that a job reads
//! (`installations.md` 4.2, 4.3, 5.4).

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{
    DataObject, Execution, ImportStatus, Installation, IntOrString, Kind, KubeResource, ObjectMeta,
    OwnerReference, Target, TargetSource,
};
use groundwork_blueprint::{ExportValues, Exports, Imports, TargetTemplate, TargetValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};

use crate::imports::{Entries, ImportedObjects};
use crate::names::{SOURCE_TYPE_EXPORT, SOURCE_TYPE_IMPORT, object_name, scope_name};
use crate::write::{Change, Write};

/// Returns the DataObject that stores the exports of an Execution's items, by item name.
pub(crate) fn export_holder(execution: &Execution, values: Value) -> DataObject {
    let scope = format!("Exec.{}", execution.metadata.name.as_deref().unwrap_or_default());
    let labels = [(label::DATA_CONTEXT, scope.clone()), (label::DATA_SOURCE, scope.clone())];
    DataObject {
        metadata: ObjectMeta {
            name: Some(object_name(&scope, "")),
            namespace: execution.metadata.namespace.clone(),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            annotations: Some([(annotation::DATA_HASH.to_owned(), data_hash(&values))].into()),
            owner_references: Some(vec![owner(execution)]),
            ..ObjectMeta::default()
        },
        data: values.into(),
    }
}

/// DataObject or Target that stores a value in a scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ScopedObject {
    Data(DataObject),
    Target(Target),
}

impl ScopedObject {
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Data(object) => &object.metadata,
            Self::Target(target) => &target.metadata,
        }
    }

    /// Returns the kind as messages name it.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Data(_) => "data object",
            Self::Target(_) => "target",
        }
    }
}

impl From<ScopedObject> for Write {
    fn from(object: ScopedObject) -> Self {
        match object {
            ScopedObject::Data(object) => Self::DataObject(Change::Ensure(object)),
            ScopedObject::Target(target) => Self::Target(Change::Ensure(target)),
        }
    }
}

/// Returns the objects that an Installation publishes in its own scope (`installations.md` 4.3,
/// 6.1): DataObjects first, then Targets.
pub fn export_objects(
    installation: &Installation,
    scope: &str,
    job: &str,
    exports: &Exports,
) -> Vec<ScopedObject> {
    let publisher = Publisher { source: Copier::new(installation, job), scope };
    let data = exports.data.iter().map(|(key, value)| {
        let metadata = publisher.metadata(key, data_hash(value));
        ScopedObject::Data(DataObject { metadata, data: value.clone().into() })
    });
    let targets = exports.targets.iter().map(|(key, template)| publisher.target(key, template));
    data.chain(targets).collect()
}

/// Returns the objects that export templates of an Installation see (`blueprints.md` 4.2): copies
/// of its imports, and exports of its children.
///
/// All elements of a list or map share one key, so templates see none of them.
pub fn export_values<'a>(
    installation: &Installation,
    deploy_items: Map<String, Value>,
    data: impl IntoIterator<Item = &'a DataObject>,
    targets: impl IntoIterator<Item = &'a Target>,
) -> ExportValues {
    let scope = Copier::new(installation, "").scope;
    let key = |metadata: &ObjectMeta| {
        let labels = metadata.labels.as_ref()?;
        let is_element =
            [label::DATA_INDEX, label::DATA_TARGET_MAP_KEY].iter().any(|name| labels.contains_key(*name));
        let is_own = labels.get(label::DATA_CONTEXT) == Some(&scope) && !is_element;
        is_own.then(|| labels.get(label::DATA_KEY).cloned()).flatten()
    };
    let data = data
        .into_iter()
        .filter_map(|object| Some((key(&object.metadata)?, object.data.get().cloned().unwrap_or_default())));
    let targets = targets.into_iter().filter_map(|target| {
        Some((key(&target.metadata)?, serde_json::to_value(target).unwrap_or_default()))
    });
    ExportValues {
        deploy_items: Value::Object(deploy_items),
        data_objects: Value::Object(data.collect()),
        targets: Value::Object(targets.collect()),
    }
}

/// Returns the same values as [`export_values`], for mixed objects of both kinds.
pub(crate) fn values_of<'a>(
    installation: &Installation,
    deploy_items: Map<String, Value>,
    objects: impl Iterator<Item = &'a ScopedObject> + Clone,
) -> ExportValues {
    let data = objects.clone().filter_map(|object| match object {
        ScopedObject::Data(object) => Some(object),
        ScopedObject::Target(_) => None,
    });
    let targets = objects.filter_map(|object| match object {
        ScopedObject::Target(target) => Some(target),
        ScopedObject::Data(_) => None,
    });
    export_values(installation, deploy_items, data, targets)
}

struct Publisher<'a> {
    source: Copier<'a>,
    /// Scope of the written objects; empty for the scope of the namespace.
    scope: &'a str,
}

impl Publisher<'_> {
    fn metadata(&self, key: &str, hash: String) -> ObjectMeta {
        let mut metadata = self.source.metadata(key, key, hash);
        metadata.name = Some(object_name(self.scope, key));
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(label::DATA_SOURCE_TYPE.to_owned(), SOURCE_TYPE_EXPORT.to_owned());
        if self.scope.is_empty() {
            labels.remove(label::DATA_CONTEXT);
        } else {
            labels.insert(label::DATA_CONTEXT.to_owned(), self.scope.to_owned());
        }
        metadata
    }

    fn target(&self, key: &str, template: &TargetTemplate) -> ScopedObject {
        let spec =
            json!({"type": template.type_name, "config": template.config, "secretRef": template.secret_ref});
        // The conversion cannot fail: the parts have been checked before.
        let spec = serde_json::from_value(spec).unwrap_or_default();
        let mut target = Target { spec, ..Target::default() };
        let mut metadata = self.metadata(key, target_hash(&target));
        let mut labels = template.labels.clone();
        labels.extend(metadata.labels.take().unwrap_or_default());
        let mut annotations = template.annotations.clone();
        annotations.extend(metadata.annotations.take().unwrap_or_default());
        metadata.labels = Some(labels);
        metadata.annotations = Some(annotations);
        target.metadata = metadata;
        ScopedObject::Target(target)
    }
}

/// Returns copies of all imports that have a value, in the Installation's own scope.
pub fn import_copies(installation: &Installation, job: &str, imports: &Imports) -> Vec<ScopedObject> {
    let copier = Copier::new(installation, job);
    let mut copies = Vec::new();
    for (name, value) in imports.values.iter().filter(|(name, _)| !imports.added.contains(*name)) {
        match imports.targets.get(name) {
            None => copies.push(ScopedObject::Data(copier.data(name, value))),
            Some(TargetValue::Single(target)) => {
                copies.extend(copier.target(name, name, None, &target.object));
            }
            Some(TargetValue::List(targets)) => {
                for (index, target) in targets.iter().enumerate() {
                    let place = Some((label::DATA_INDEX, index.to_string()));
                    copies.extend(copier.target(name, &format!("{name}[{index}]"), place, &target.object));
                }
            }
            Some(TargetValue::Map(targets)) => {
                for (key, target) in targets {
                    let place = Some((label::DATA_TARGET_MAP_KEY, key.clone()));
                    copies.extend(copier.target(name, &format!("{name}[{key}]"), place, &target.object));
                }
            }
        }
    }
    copies
}

struct Copier<'a> {
    installation: &'a Installation,
    scope: String,
    job: &'a str,
}

impl<'a> Copier<'a> {
    fn new(installation: &'a Installation, job: &'a str) -> Self {
        let metadata = &installation.metadata;
        let part = |part: &'a Option<String>| part.as_deref().unwrap_or_default();
        Self { installation, scope: scope_name(part(&metadata.namespace), part(&metadata.name)), job }
    }

    fn metadata(&self, import: &str, key: &str, hash: String) -> ObjectMeta {
        let labels = [
            (label::DATA_CONTEXT, self.scope.as_str()),
            (label::DATA_KEY, import),
            (label::DATA_SOURCE, &self.scope),
            (label::DATA_SOURCE_TYPE, SOURCE_TYPE_IMPORT),
            (label::DATA_JOB_ID, self.job),
        ];
        ObjectMeta {
            name: Some(object_name(&self.scope, key)),
            namespace: self.installation.metadata.namespace.clone(),
            // Empty labels are left out (`installations.md` 4.3).
            labels: Some(
                labels
                    .into_iter()
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            ),
            annotations: Some([(annotation::DATA_HASH.to_owned(), hash)].into()),
            owner_references: Some(vec![owner(self.installation)]),
            ..ObjectMeta::default()
        }
    }

    fn data(&self, import: &str, value: &Value) -> DataObject {
        DataObject { metadata: self.metadata(import, import, data_hash(value)), data: value.clone().into() }
    }

    /// Creates the copy of a Target, which keeps the labels and annotations of its source.
    fn target(
        &self,
        import: &str,
        key: &str,
        place: Option<(&str, String)>,
        source: &Value,
    ) -> Option<ScopedObject> {
        let source: Target = serde_json::from_value(source.clone()).ok()?;
        let mut metadata = self.metadata(import, key, target_hash(&source));
        let mut labels = source.metadata.labels.unwrap_or_default();
        for own in [label::DATA_INDEX, label::DATA_TARGET_MAP_KEY] {
            labels.remove(own);
        }
        labels.extend(metadata.labels.take().unwrap_or_default());
        labels.extend(place.map(|(name, value)| (name.to_owned(), value)));
        let mut annotations = source.metadata.annotations.unwrap_or_default();
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.extend(metadata.annotations.take().unwrap_or_default());
        metadata.labels = Some(labels);
        metadata.annotations = Some(annotations);
        Some(ScopedObject::Target(Target { metadata, spec: source.spec }))
    }
}

/// Returns an owner reference that does not mark the owner as controller.
fn owner<K: Kind + KubeResource>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

fn sha1(bytes: impl AsRef<[u8]>) -> String {
    data_encoding::HEXLOWER.encode(&Sha1::digest(bytes))
}

/// Returns the fingerprint of a value: the hash of its JSON with sorted keys and an indentation of
/// two spaces.
fn data_hash(value: &Value) -> String {
    sha1(serde_json::to_string_pretty(value).unwrap_or_default())
}

fn target_hash(target: &Target) -> String {
    match (target.spec.config.get(), &target.spec.secret_ref) {
        (Some(config), _) => sha1(config.to_string()),
        (None, Some(reference)) => {
            sha1(json!({"secretRef": {"name": reference.name, "key": reference.key}}).to_string())
        }
        (None, None) => sha1("null"),
    }
}

/// Returns the entries of `status.imports` and the hash over all imports (`installations.md` 5.4).
pub fn fingerprints(
    installation: &Installation,
    scope: &str,
    objects: &dyn ImportedObjects,
) -> (Vec<ImportStatus>, String) {
    let mut statuses = Vec::new();
    let (mut data, mut targets) = (Map::new(), Map::new());
    let (mut target_lists, mut target_maps) = (Map::new(), Map::new());
    for import in installation.spec.data_imports() {
        let (written, print, generation) = if let Some(name) =
            import.data_ref.as_deref().filter(|name| !name.is_empty())
        {
            let object = objects.data_object(&object_name(scope, name));
            let generation = object.as_ref().and_then(|object| object.metadata.generation);
            (name, object.map(|object| data_fingerprint(&object)), generation)
        } else if let Some(reference) = &import.secret_ref {
            (
                reference.name.as_str(),
                objects.secret(&reference.name).map(|entries| entries_hash(&entries, reference.entry())),
                None,
            )
        } else if let Some(reference) = &import.config_map_ref {
            (
                reference.name.as_str(),
                objects.config_map(&reference.name).map(|entries| entries_hash(&entries, reference.entry())),
                None,
            )
        } else {
            continue;
        };
        data.insert(import.name.clone(), Value::from(print.unwrap_or_default()));
        statuses.push(import_status(&import.name, "dataobject", Some(written), generation));
    }
    for import in installation.spec.target_imports() {
        let print = |name: &str| {
            let target = objects.target(&object_name(scope, name));
            target.map(|target| {
                (target_fingerprint(&target, objects), target.metadata.generation.unwrap_or_default())
            })
        };
        let (written, generation) = match import.source() {
            Ok(TargetSource::Single(name)) => {
                let print = print(name).unwrap_or_default();
                targets.insert(import.name.clone(), Value::from(print.0));
                (Some(name), print.1)
            }
            Ok(TargetSource::List(names)) => {
                let prints: Vec<(String, i64)> = names.iter().filter_map(|name| print(name)).collect();
                let text: Vec<&str> = prints.iter().map(|(print, _)| print.as_str()).collect();
                let text = if text.is_empty() { String::new() } else { json!(text).to_string() };
                target_lists.insert(import.name.clone(), Value::from(text));
                (None, prints.iter().map(|(_, generation)| *generation).max().unwrap_or_default())
            }
            Ok(TargetSource::Map(names)) => {
                let prints: Vec<(&str, (String, i64))> =
                    names.iter().filter_map(|(key, name)| Some((*key, print(name)?))).collect();
                let text: Map<String, Value> = prints
                    .iter()
                    .map(|(key, (print, _))| ((*key).to_owned(), Value::from(print.as_str())))
                    .collect();
                let text = if text.is_empty() { String::new() } else { Value::Object(text).to_string() };
                target_maps.insert(import.name.clone(), Value::from(text));
                (None, prints.iter().map(|(_, (_, generation))| *generation).max().unwrap_or_default())
            }
            Ok(TargetSource::ListRef(name)) => {
                let (prints, generation) = passed_on(objects, scope, name, label::DATA_INDEX);
                let mut prints: Vec<(usize, String)> = prints
                    .into_iter()
                    .map(|(index, print)| (index.parse().unwrap_or_default(), print))
                    .collect();
                prints.sort();
                let text: Vec<&str> = prints.iter().map(|(_, print)| print.as_str()).collect();
                let text = if text.is_empty() { String::new() } else { json!(text).to_string() };
                target_lists.insert(import.name.clone(), Value::from(text));
                (Some(name), generation)
            }
            Ok(TargetSource::MapRef(name)) => {
                let (prints, generation) = passed_on(objects, scope, name, label::DATA_TARGET_MAP_KEY);
                let text: Map<String, Value> =
                    prints.into_iter().map(|(key, print)| (key, Value::from(print))).collect();
                let text = if text.is_empty() { String::new() } else { Value::Object(text).to_string() };
                target_maps.insert(import.name.clone(), Value::from(text));
                (Some(name), generation)
            }
            Err(_) => continue,
        };
        statuses.push(import_status(&import.name, "target", written, Some(generation)));
    }
    let all = json!({"DataObjects": data, "Targets": targets, "TargetLists": target_lists, "TargetMaps": target_maps});
    (statuses, sha1(all.to_string()))
}

/// Returns places and fingerprints of the elements of a list or map that the parent passes on, and
/// their largest generation.
fn passed_on(
    objects: &dyn ImportedObjects,
    scope: &str,
    import: &str,
    place: &str,
) -> (Vec<(String, String)>, i64) {
    let targets = objects.imported_targets(scope, import);
    let element = |target: &Target| {
        let place = target.metadata.labels.as_ref().and_then(|labels| labels.get(place)).cloned();
        (place.unwrap_or_default(), target_fingerprint(target, objects))
    };
    let generation = targets.iter().filter_map(|target| target.metadata.generation).max();
    (targets.iter().map(element).collect(), generation.unwrap_or_default())
}

fn import_status(name: &str, type_: &str, written: Option<&str>, generation: Option<i64>) -> ImportStatus {
    ImportStatus {
        name: name.to_owned(),
        type_: type_.to_owned(),
        data_ref: written.map(str::to_owned),
        config_generation: Some(IntOrString::from(generation.unwrap_or_default())),
        ..ImportStatus::default()
    }
}

fn data_fingerprint(object: &DataObject) -> String {
    let annotated = object.metadata.annotations.as_ref().and_then(|all| all.get(annotation::DATA_HASH));
    annotated.cloned().unwrap_or_else(|| data_hash(object.data.get().unwrap_or(&Value::Null)))
}

/// Returns the fingerprint of the content of a Target, including the content of its Secret.
fn target_fingerprint(target: &Target, objects: &dyn ImportedObjects) -> String {
    let own = target_hash(target);
    let secret = target.spec.secret_ref.as_ref().and_then(|reference| {
        let entries = objects.secret(&reference.name)?;
        Some(entries_hash(&entries, reference.entry()))
    });
    secret.map_or(own.clone(), |secret| sha1(format!("{own}/{secret}")))
}

fn entries_hash(entries: &Entries, key: Option<&str>) -> String {
    let mut digest = Sha1::new();
    for (name, bytes) in entries.iter().filter(|(name, _)| key.is_none_or(|key| key == name.as_str())) {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    data_encoding::HEXLOWER.encode(&digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes match the vectors of `installations.md` 4.3.
    #[test]
    fn hashes_of_values() {
        assert_eq!(data_hash(&json!("hello")), "a1f2fbfe2c4ad81749cd0380b735295d06f9d0c4");
        assert_eq!(data_hash(&json!({"a": 1})), "db32fafe3c5e8462997cae69ce5a990864a0a0e1");
    }
}
