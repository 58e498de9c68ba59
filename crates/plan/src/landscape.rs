//! Objects of a cluster, before and after a change.

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{
    AnyJson, ComponentVersionOverwrites, Context, DEFAULT_CONTEXT, DataObject, DeployItem, Execution,
    Installation, KubeResource, ObjectMeta, ResourceExt as _, Target,
};
use groundwork_blueprint::other_value;
use groundwork_lifecycle::{Entries, parent_name};
use groundwork_yaml as yaml;
use serde_json::Value;

/// Namespace and name.
pub type Key = (String, String);

/// All objects of some namespaces, or the objects to apply.
#[derive(Debug, Clone, Default)]
pub struct Landscape {
    pub installations: BTreeMap<Key, Installation>,
    pub executions: BTreeMap<Key, Execution>,
    pub items: BTreeMap<Key, DeployItem>,
    pub contexts: BTreeMap<Key, Context>,
    pub overwrites: BTreeMap<Key, ComponentVersionOverwrites>,
    pub data_objects: BTreeMap<Key, DataObject>,
    pub targets: BTreeMap<Key, Target>,
    /// Secrets, including those that store states of executions.
    pub secrets: BTreeMap<Key, Entries>,
    pub config_maps: BTreeMap<Key, Entries>,
}

impl Landscape {
    /// Returns the landscape after `applied`, whose objects must have a namespace. The specified
    /// content of an object is replaced. Identity, status, and labels and annotations of other
    /// clients stay.
    pub(crate) fn after(&self, applied: &Self) -> Self {
        let mut after = self.clone();
        merge(&mut after.installations, &applied.installations, |found, wanted| {
            found.spec = wanted.spec.clone();
        });
        merge(&mut after.contexts, &applied.contexts, |found, wanted| {
            *found = Context { metadata: found.metadata.clone(), ..wanted.clone() };
        });
        merge(&mut after.overwrites, &applied.overwrites, |found, wanted| {
            *found = ComponentVersionOverwrites { metadata: found.metadata.clone(), ..wanted.clone() };
        });
        merge(&mut after.data_objects, &applied.data_objects, |found, wanted| {
            found.data = wanted.data.clone();
        });
        merge(&mut after.targets, &applied.targets, |found, wanted| found.spec = wanted.spec.clone());
        after.secrets.extend(applied.secrets.clone());
        after.config_maps.extend(applied.config_maps.clone());
        after.fill_in();
        after
    }

    /// Sets the defaults that the API server would set.
    pub(crate) fn fill_in(&mut self) {
        for installation in self.installations.values_mut() {
            installation.spec.context.get_or_insert_with(|| DEFAULT_CONTEXT.to_owned());
        }
    }

    /// Returns the landscape with substituted values in all places that may contain secrets:
    /// Secrets, objects that Installations and deployers have published, and Targets. A result that
    /// stays equal does not depend on these values.
    pub(crate) fn disguised(&self) -> Self {
        let mut other = self.clone();
        for entries in other.secrets.values_mut() {
            entries.values_mut().for_each(|bytes| *bytes = disguised_bytes(bytes));
        }
        for object in other.data_objects.values_mut().filter(|object| is_published(&object.metadata)) {
            object.data = disguised(&object.data);
        }
        for target in other.targets.values_mut() {
            target.spec.config = disguised(&target.spec.config);
        }
        other
    }
}

/// Reports whether a job or a deployer has created the object, not a user.
pub(crate) fn is_published(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::DATA_SOURCE))
}

fn disguised(value: &AnyJson) -> AnyJson {
    value.get().map_or_else(AnyJson::default, |value| other_value(value).into())
}

/// Substitutes an entry, which an import parses as YAML. Bytes that are not UTF-8 text cannot be
/// imported and stay.
fn disguised_bytes(bytes: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(bytes).ok().and_then(|text| yaml::from_str(text).ok()) {
        Some(value @ Value::String(_)) => match other_value(&value) {
            // The text is written without quotes, like the original one. With quotes it would be
            // parsed differently.
            Value::String(other) => other.into_bytes(),
            other => other.to_string().into_bytes(),
        },
        Some(value) => other_value(&value).to_string().into_bytes(),
        None => bytes.to_vec(),
    }
}

fn merge<K: KubeResource + Clone>(
    objects: &mut BTreeMap<Key, K>,
    applied: &BTreeMap<Key, K>,
    replace: impl Fn(&mut K, &K),
) {
    for (key, wanted) in applied {
        match objects.get_mut(key) {
            Some(found) => {
                replace(found, wanted);
                let metadata = found.meta_mut();
                for (of_object, of_wanted) in [
                    (&mut metadata.labels, &wanted.meta().labels),
                    (&mut metadata.annotations, &wanted.meta().annotations),
                ] {
                    if let Some(wanted) = of_wanted.as_ref().filter(|wanted| !wanted.is_empty()) {
                        of_object.get_or_insert_default().extend(wanted.clone());
                    }
                }
            }
            None => {
                objects.insert(key.clone(), wanted.clone());
            }
        }
    }
}

/// Objects below the Installations and Executions of the cluster.
#[derive(Debug)]
pub(crate) struct Below<'a> {
    children: BTreeMap<Key, Vec<&'a Installation>>,
    items: BTreeMap<Key, Vec<&'a DeployItem>>,
}

impl<'a> Below<'a> {
    pub(crate) fn of(landscape: &'a Landscape) -> Self {
        let mut below = Self { children: BTreeMap::new(), items: BTreeMap::new() };
        for ((namespace, _), installation) in &landscape.installations {
            if let Some(parent) = parent_name(installation) {
                let key = (namespace.clone(), parent.to_owned());
                below.children.entry(key).or_default().push(installation);
            }
        }
        for ((namespace, _), item) in &landscape.items {
            if let Some(execution) = item.labels().get(label::MANAGED_BY) {
                let key = (namespace.clone(), execution.clone());
                below.items.entry(key).or_default().push(item);
            }
        }
        below
    }

    pub(crate) fn children(&self, parent: &Key) -> &[&'a Installation] {
        self.children.get(parent).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn items(&self, execution: &Key) -> &[&'a DeployItem] {
        self.items.get(execution).map_or(&[], Vec::as_slice)
    }
}

pub(crate) fn key(metadata: &ObjectMeta) -> Key {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (part(&metadata.namespace), part(&metadata.name))
}
