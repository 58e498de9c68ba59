//! The package context (`packagevariants.md` 3.1).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::PackageContext;
use groundwork_yaml::tree::{Content, Kind, Mapping, Node};

use super::{Mutation, only};
use crate::file::File;
use crate::kptfile::make_strings;
use crate::package::{Package, is_yaml, owner, subpackages};

const FILE: &str = "package-context.yaml";
const NAME: &str = "kptfile.kpt.dev";

pub(super) fn apply(files: &mut Package, mutation: &Mutation<'_>) -> Result<(), String> {
    let Some(context) = &mutation.variant.spec.package_context else { return Ok(()) };
    if context.data.is_empty() && context.remove_keys.is_empty() {
        return Ok(());
    }
    let path = place(files).ok_or_else(|| mutation.not_found(FILE))?;
    let Some(text) = files.get_mut(&path) else { return Err(mutation.not_found(FILE)) };
    let mut file = mutation.single(&path, text)?;
    let Some(document) = only(&mut file) else { return Ok(()) };
    if document.root.str_at(&["kind"]) != Some("ConfigMap") {
        return Err(mutation.lacks(&path, "kind", "ConfigMap"));
    }
    if document.root.str_at(&["metadata", "name"]) != Some(NAME) {
        return Err(mutation.lacks(&path, "resource named", NAME));
    }
    let revision = format!("PackageRevisionResources {}/{}", mutation.namespace, mutation.revision);
    let Some(data) = document.root.get_mut("data") else {
        return Err(format!("{revision} PackageContext no data field found"));
    };
    if edit(data, context)
        .map_err(|cause| format!("{revision} PackageContext invalid data field: {cause}"))?
    {
        *text = file.text();
    }
    Ok(())
}

/// Returns the file of the context: the one with the usual name, or else the only other file of the
/// root package that contains a context.
fn place(files: &Package) -> Option<String> {
    if files.contains_key(FILE) {
        return Some(FILE.to_owned());
    }
    let subpackages = subpackages([files]);
    let holds = |text: &str| {
        let documents = File::read(text).map(|file| file.documents).unwrap_or_default();
        documents.iter().any(|document| {
            let text = |path: &[&str]| document.root.str_at(path);
            text(&["apiVersion"]) == Some("v1")
                && text(&["kind"]) == Some("ConfigMap")
                && text(&["metadata", "name"]) == Some(NAME)
        })
    };
    let own = files.iter().filter(|(path, _)| is_yaml(path) && owner(path, &subpackages).is_empty());
    let mut found = own.filter(|(_, text)| text.contains(NAME) && holds(text)).map(|(path, _)| path);
    match (found.next(), found.next()) {
        (Some(path), None) => Some(path.clone()),
        _ => None,
    }
}

/// Sets and removes keys. Returns true if the map has changed.
fn edit(data: &mut Node, context: &PackageContext) -> Result<bool, String> {
    let Some(mapping) = data.as_mapping_mut() else {
        return Err(
            "Resource(apiVersion=, kind=ConfigMap) has unmatched field type \"map[string]string\" in fieldpath .data".to_owned()
        );
    };
    let before = strings(mapping)?;
    let keys: BTreeSet<&String> = context.data.keys().collect();
    for key in keys {
        let Some(value) = context.data.get(key) else { continue };
        match mapping.get_mut(key) {
            Some(node) if text_of(node) == *value => {}
            Some(node) => node.set_text(value),
            None => mapping.set(key, Node::string(value)),
        }
    }
    for key in &*context.remove_keys {
        mapping.remove(key);
    }
    let after = strings(mapping)?;
    make_strings(data);
    Ok(before != after)
}

fn strings(mapping: &Mapping) -> Result<BTreeMap<String, String>, String> {
    let pairs = mapping.pairs.iter().map(|pair| match pair.value.content {
        Content::Scalar(_) => Ok((pair.name().to_owned(), text_of(&pair.value))),
        _ => Err(format!("the value of key {:?} is not a string", pair.name())),
    });
    pairs.collect()
}

/// Returns a scalar as text, whatever its type; null is the empty text.
fn text_of(node: &Node) -> String {
    if node.kind() == Kind::Null { String::new() } else { node.text().unwrap_or_default().to_owned() }
}
