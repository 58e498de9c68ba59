//! Built-in functions (`packagevariants.md` 8.5).
//!
//! Each function changes the items in place, so that comments, order and layout of the rest stay.
//! An error is the message of the result that fails the function.

mod apply_replacements;
mod apply_setters;
mod config;
mod fields;
pub(crate) mod meter;
mod names;
mod remove;
mod scope;
mod search_replace;
mod selector;
mod set_annotations;
mod set_image;
mod set_labels;
mod set_namespace;
mod starlark;
#[cfg(test)]
mod testing;
mod upsert_resource;

use groundwork_yaml::tree::Node;

use crate::render::ResourceList;

/// Built-in function.
pub(crate) type Native = fn(&mut ResourceList) -> Result<(), String>;

/// Returns the function with this name.
pub(crate) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "apply-replacements" => apply_replacements::run,
        "apply-setters" => apply_setters::run,
        "delete-resource" => remove::delete_resource,
        "ensure-name-substring" => names::ensure_substring,
        "remove-local-config-resources" => remove::remove_local_config,
        "search-replace" => search_replace::run,
        "set-annotations" => set_annotations::run,
        "set-image" => set_image::run,
        "set-labels" => set_labels::run,
        "set-name-prefix" => names::prefix,
        "set-name-suffix" => names::suffix,
        "set-namespace" => set_namespace::run,
        "starlark" => starlark::run,
        "upsert-resource" => upsert_resource::run,
        _ => return None,
    })
}

/// Returns the API group of an object; the core group is empty.
fn group(root: &Node) -> &str {
    let api_version = root.at(&["apiVersion"]).and_then(Node::text).unwrap_or_default();
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the text at a path of keys, whatever its type; empty if it is missing.
fn text<'a>(root: &'a Node, path: &[&str]) -> &'a str {
    root.at(path).filter(|node| !node.is_null()).and_then(Node::text).unwrap_or_default()
}

/// Returns the kind and the apiVersion of a config.
fn type_of(config: &Node) -> (&str, &str) {
    (text(config, &["kind"]), text(config, &["apiVersion"]))
}

/// Returns the identifier of an object in messages, the `<id>` of `packagevariants.md` 8.5.
fn id(root: &Node) -> String {
    format!(
        "Resource(apiVersion={}, kind={}, namespace={}, name={})",
        text(root, &["apiVersion"]),
        text(root, &["kind"]),
        text(root, &["metadata", "namespace"]),
        text(root, &["metadata", "name"])
    )
}

/// Reports whether an object is only for local tools, and not for a cluster.
fn is_local_config(root: &Node) -> bool {
    let value = text(root, &["metadata", "annotations", "config.kubernetes.io/local-config"]);
    !value.is_empty() && value != "false"
}
