//! Turns documents into typed objects, by kind, namespace and name.

mod core;

use std::collections::BTreeMap;

use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind, ResourceExt,
    Target,
};
use groundwork_lifecycle::{Entries, ImportedObjects};
use groundwork_yaml::Step;
use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::input::{Document, Schemas};

/// Namespace and name.
pub(crate) type Key = (String, String);

pub(crate) fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Object and the document that it was read from.
#[derive(Debug)]
pub(crate) struct Loaded<T> {
    pub(crate) object: T,
    pub(crate) document: Document,
}

/// All objects of the input.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) installations: BTreeMap<Key, Loaded<Installation>>,
    pub(crate) contexts: BTreeMap<Key, Loaded<Context>>,
    pub(crate) overwrites: BTreeMap<Key, Loaded<ComponentVersionOverwrites>>,
    pub(crate) data_objects: BTreeMap<Key, Loaded<DataObject>>,
    pub(crate) targets: BTreeMap<Key, Loaded<Target>>,
    pub(crate) secrets: BTreeMap<Key, Loaded<Entries>>,
    pub(crate) config_maps: BTreeMap<Key, Loaded<Entries>>,
    /// Executions that earlier jobs made; empty unless the command asks for them.
    pub(crate) executions: BTreeMap<Key, Loaded<Execution>>,
    pub(crate) items: BTreeMap<Key, Loaded<DeployItem>>,
}

impl Inventory {
    /// Sorts documents by kind. Problems of a document go to `diagnostics`.
    pub(crate) fn new(documents: Vec<Document>, namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let schemas = Schemas::new();
        let mut inventory = Self::default();
        for document in documents {
            inventory.add(document, namespace, &schemas, diagnostics);
        }
        inventory
    }

    fn add(
        &mut self,
        document: Document,
        namespace: &str,
        schemas: &Schemas,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(key) = checked(&document, namespace, schemas, diagnostics) else { return };
        let (api_version, kind) = (document.text("apiVersion").to_owned(), document.text("kind").to_owned());
        match (api_version.as_str(), kind.as_str()) {
            (Installation::API_VERSION, Installation::KIND) => {
                insert_typed(&mut self.installations, key, document, diagnostics);
            }
            (Context::API_VERSION, Context::KIND) => {
                insert_typed(&mut self.contexts, key, document, diagnostics);
            }
            (ComponentVersionOverwrites::API_VERSION, ComponentVersionOverwrites::KIND) => {
                insert_typed(&mut self.overwrites, key, document, diagnostics);
            }
            (DataObject::API_VERSION, DataObject::KIND) => {
                insert_typed(&mut self.data_objects, key, document, diagnostics);
            }
            (Target::API_VERSION, Target::KIND) => {
                insert_typed(&mut self.targets, key, document, diagnostics);
            }
            ("v1", "Secret") => {
                let entries = core::secret(&document, diagnostics);
                insert(&mut self.secrets, key, entries, document, diagnostics);
            }
            ("v1", "ConfigMap") => {
                let entries = core::config_map(&document, diagnostics);
                insert(&mut self.config_maps, key, entries, document, diagnostics);
            }
            // Users apply these together with Installations, but rendering does not depend on them.
            ("v1", "Namespace" | "ServiceAccount") => {}
            _ => diagnostics.push(unknown_kind(&document, schemas, &api_version, &kind)),
        }
    }

    /// Adds an Execution or a DeployItem.
    pub(crate) fn add_below(
        &mut self,
        document: Document,
        namespace: &str,
        schemas: &Schemas,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(key) = checked(&document, namespace, schemas, diagnostics) else { return };
        match document.text("kind") {
            Execution::KIND => insert_typed(&mut self.executions, key, document, diagnostics),
            _ => insert_typed(&mut self.items, key, document, diagnostics),
        }
    }

    /// Returns the objects that Installations of a namespace may import.
    pub(crate) fn imported(&self, namespace: &str) -> NamespaceObjects<'_> {
        NamespaceObjects { inventory: self, namespace: namespace.to_owned() }
    }
}

/// Returns namespace and name of an object if it fits its schema, or if its kind has none here.
fn checked(
    document: &Document,
    namespace: &str,
    schemas: &Schemas,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Key> {
    let (api_version, kind) = (document.text("apiVersion"), document.text("kind"));
    for (member, value) in [("apiVersion", api_version), ("kind", kind)] {
        if value.is_empty() {
            diagnostics.push(document.error(format!("the object has no {member}")));
            return None;
        }
    }
    let findings = schemas.check(api_version, kind, &document.node);
    let title = document.title();
    for (position, problem) in findings.iter().flatten() {
        diagnostics.push(Diagnostic::error(format!("{title}: {problem}")).at(&document.source, *position));
    }
    if findings.is_some_and(|findings| !findings.is_empty()) {
        return None;
    }
    let Some(name) = document.metadata("name").filter(|name| !name.is_empty()).map(str::to_owned) else {
        let message =
            format!("the {kind} has no metadata.name; without a cluster no name can be generated for it");
        diagnostics.push(document.error(message));
        return None;
    };
    let namespace = document.metadata("namespace").filter(|name| !name.is_empty()).unwrap_or(namespace);
    Some((namespace.to_owned(), name))
}

fn unknown_kind(document: &Document, schemas: &Schemas, api_version: &str, kind: &str) -> Diagnostic {
    let hint = match schemas.api_version_of(kind) {
        Some(known) if known != api_version => format!("the kind {kind} has apiVersion {known}"),
        _ => "rendering takes Installations, Contexts, ComponentVersionOverwrites, DataObjects, Targets, ConfigMaps and \
              Secrets"
            .to_owned(),
    };
    let position = document.node.locate([Step::Key("kind")]);
    let message = format!("unknown kind {kind:?} of apiVersion {api_version:?}; {hint}");
    Diagnostic::error(message).at(&document.source, position)
}

fn insert_typed<T: serde::de::DeserializeOwned + groundwork_api::KubeResource>(
    objects: &mut BTreeMap<Key, Loaded<T>>,
    key: Key,
    document: Document,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut value = document.node.to_value();
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.insert("namespace".to_owned(), Value::from(key.0.as_str()));
    }
    match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(object) => insert(objects, key, object, document, diagnostics),
        Err(error) => {
            let steps = error.path().iter().filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(Step::Index(*index)),
                serde_path_to_error::Segment::Map { key } => Some(Step::Key(key)),
                _ => None,
            });
            let position = document.node.locate(steps);
            let problem = without_values(error.inner());
            let message = format!("{}: {}: {problem}", document.title(), error.path());
            diagnostics.push(Diagnostic::error(message).at(&document.source, position));
        }
    }
}

/// Returns the decoder's message without the value that it quotes: a value of a Secret or
/// DataObject must not show.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(": ").next().unwrap_or_default().to_owned()
}

fn insert<T>(
    objects: &mut BTreeMap<Key, Loaded<T>>,
    key: Key,
    object: T,
    document: Document,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let Some(first) = objects.get(&key) {
        let place = format!("{}:{}", first.document.source.name, first.document.node.position.line);
        let message = format!(
            "{} of namespace {:?} is defined twice; the first one is at {place}",
            document.title(),
            key.0
        );
        return diagnostics.push(document.error(message));
    }
    objects.insert(key, Loaded { object, document });
}

/// Objects of one namespace.
#[derive(Debug)]
pub(crate) struct NamespaceObjects<'a> {
    inventory: &'a Inventory,
    namespace: String,
}

impl NamespaceObjects<'_> {
    fn get<T: Clone>(&self, objects: &BTreeMap<Key, Loaded<T>>, name: &str) -> Option<T> {
        objects.get(&(self.namespace.clone(), name.to_owned())).map(|loaded| loaded.object.clone())
    }
}

impl ImportedObjects for NamespaceObjects<'_> {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        self.get(&self.inventory.data_objects, name)
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.get(&self.inventory.targets, name)
    }

    fn secret(&self, name: &str) -> Option<Entries> {
        self.get(&self.inventory.secrets, name)
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        self.get(&self.inventory.config_maps, name)
    }

    fn imported_targets(&self, _: &str, _: &str) -> Vec<Target> {
        // Offline, copies of imports are outputs of the run, so the input never has any.
        Vec::new()
    }
}
