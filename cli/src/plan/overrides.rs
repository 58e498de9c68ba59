//! Objects of files, in the form that a plan takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use groundwork_api::{DeployItem, Execution, Kind as _, PackageVariantSet};
use groundwork_plan::Landscape;

use crate::diagnostic::Diagnostic;
use crate::input::{self, Document, Schemas};
use crate::inventory::{Inventory, Key, Loaded};

/// Objects that would be applied.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) landscape: Landscape,
    /// PackageVariantSets among them.
    pub(super) sets: Vec<Document>,
}

/// Objects that exist before the change.
#[derive(Debug, Default)]
pub(super) struct Present {
    pub(super) landscape: Landscape,
    /// All objects, because a set may select objects of any kind.
    pub(super) all: Vec<Document>,
}

impl Applied {
    pub(super) fn read(paths: &[PathBuf], namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let documents = input::read(paths, diagnostics);
        let (sets, documents): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_set);
        let (below, documents): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_below);
        diagnostics.extend(below.iter().map(|document| {
            document.error(format!(
                "{}: jobs create objects of this kind; remove it from the input",
                document.title()
            ))
        }));
        Self { landscape: landscape(documents, namespace, diagnostics), sets }
    }
}

impl Present {
    /// Reads objects from files. `applied` are sets that replace those of the same name; if there
    /// are none, objects that only sets use are refused.
    pub(super) fn read(
        paths: &[PathBuf],
        namespace: &str,
        applied: &[Document],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut documents = input::read(paths, diagnostics);
        let mut all = Vec::new();
        if !applied.is_empty() {
            let names: BTreeSet<Key> = applied.iter().map(|document| key(document, namespace)).collect();
            let stays =
                |document: &&Document| !is_set(document) || !names.contains(&key(document, namespace));
            all.extend(documents.iter().filter(stays).chain(applied).cloned());
            documents.retain(is_known);
        }
        let (below, documents): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_below);
        let mut landscape = landscape(documents, namespace, diagnostics);
        let schemas = Schemas::new();
        let mut inventory = Inventory::default();
        for document in below {
            inventory.add_below(document, namespace, &schemas, diagnostics);
        }
        landscape.executions = objects(inventory.executions);
        landscape.items = objects(inventory.items);
        Self { landscape, all }
    }
}

fn is_set(document: &Document) -> bool {
    document.text("apiVersion") == PackageVariantSet::API_VERSION
        && document.text("kind") == PackageVariantSet::KIND
}

fn is_below(document: &Document) -> bool {
    document.text("apiVersion") == Execution::API_VERSION
        && [Execution::KIND, DeployItem::KIND].contains(&document.text("kind"))
}

/// Reports whether Installations use objects of this kind.
fn is_known(document: &Document) -> bool {
    match document.text("apiVersion") {
        Execution::API_VERSION => true,
        "v1" => ["Secret", "ConfigMap"].contains(&document.text("kind")),
        _ => false,
    }
}

fn key(document: &Document, namespace: &str) -> Key {
    let written = document.metadata("namespace").filter(|name| !name.is_empty());
    let name = document.metadata("name").unwrap_or_default();
    (written.unwrap_or(namespace).to_owned(), name.to_owned())
}

fn landscape(documents: Vec<Document>, namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Landscape {
    let inventory = Inventory::new(documents, namespace, diagnostics);
    Landscape {
        installations: objects(inventory.installations),
        contexts: objects(inventory.contexts),
        overwrites: objects(inventory.overwrites),
        data_objects: objects(inventory.data_objects),
        targets: objects(inventory.targets),
        secrets: objects(inventory.secrets),
        config_maps: objects(inventory.config_maps),
        ..Landscape::default()
    }
}

fn objects<T>(loaded: BTreeMap<Key, Loaded<T>>) -> BTreeMap<Key, T> {
    loaded.into_iter().map(|(key, loaded)| (key, loaded.object)).collect()
}
