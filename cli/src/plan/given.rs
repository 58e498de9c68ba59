//! Objects of files, as a plan takes them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use groundwork_api::{DeployItem, Execution, Kind as _};
use groundwork_plan::Landscape;

use crate::diagnostic::Diagnostic;
use crate::input::{self, Document, Schemas};
use crate::inventory::{Inventory, Key, Loaded};

/// What there is.
pub(super) fn present(paths: &[PathBuf], namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Landscape {
    let documents = input::read(paths, diagnostics);
    let (executions, documents) = take(documents, Execution::API_VERSION, Execution::KIND);
    let (items, documents) = take(documents, DeployItem::API_VERSION, DeployItem::KIND);
    let mut landscape = landscape(documents, namespace, diagnostics);
    let schemas = Schemas::new();
    let mut inventory = Inventory::default();
    for document in executions.into_iter().chain(items) {
        inventory.add_below(document, namespace, &schemas, diagnostics);
    }
    landscape.executions = objects(inventory.executions);
    landscape.items = objects(inventory.items);
    landscape
}

/// What would be applied.
pub(super) fn applied(paths: &[PathBuf], namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Landscape {
    let documents = input::read(paths, diagnostics);
    for document in &documents {
        let is_below = [Execution::KIND, DeployItem::KIND].contains(&document.text("kind"));
        if is_below {
            let message = format!("{}: jobs make these, nobody applies them", document.title());
            diagnostics.push(document.error(message));
        }
    }
    let is_applied =
        |document: &Document| ![Execution::KIND, DeployItem::KIND].contains(&document.text("kind"));
    let documents = documents.into_iter().filter(is_applied).collect();
    landscape(documents, namespace, diagnostics)
}

fn take(documents: Vec<Document>, api_version: &str, kind: &str) -> (Vec<Document>, Vec<Document>) {
    documents
        .into_iter()
        .partition(|document| document.text("apiVersion") == api_version && document.text("kind") == kind)
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
