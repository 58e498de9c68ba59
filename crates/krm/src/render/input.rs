//! Input of functions (`packagevariants.md` 8.2): the objects that are read, and those that a
//! function gets.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{Function, Map, Selector};
use groundwork_yaml::tree::Node;

use super::list::{Item, Source};
use crate::file::File;
use crate::ignore::Ignored;
use crate::package::{Package, base_name, directory, is_kptfile, is_of_git, is_yaml, owner};

/// Parsed files, by path.
pub(super) type Files = BTreeMap<String, File>;

/// Returns the directories of packages without the root. Ignored ones do not count.
pub(super) fn boundaries<'a>(files: &'a Package, ignored: &Ignored) -> BTreeSet<&'a str> {
    let kptfiles = files.keys().filter(|path| is_kptfile(path) && !is_of_git(path) && !ignored.holds(path));
    kptfiles.map(|path| directory(path)).filter(|directory| !directory.is_empty()).collect()
}

/// Parses all files with objects.
///
/// # Errors
/// The path of a file that is not YAML, and the reason.
pub(super) fn read(files: &Package, ignored: &Ignored) -> Result<Files, String> {
    let mut read = Files::new();
    for (path, text) in files {
        let holds = is_yaml(path) || base_name(path).ends_with(".json") || is_kptfile(path);
        if !holds || is_of_git(path) || ignored.holds(path) {
            continue;
        }
        let file = File::read(text).map_err(|error| crate::file::unreadable(path, &error))?;
        read.insert(path.clone(), file);
    }
    Ok(read)
}

/// Returns the objects of all files, by the package that owns them, in the order of paths.
pub(super) fn items(files: &Files, boundaries: &BTreeSet<&str>) -> BTreeMap<String, Vec<Item>> {
    let mut pools: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    let mut next = 0;
    for (path, file) in files {
        let package = owner(path, boundaries);
        let inner = if package.is_empty() { path } else { path.get(package.len() + 1..).unwrap_or(path) };
        for (index, document) in file.documents.iter().enumerate() {
            pools.entry(package.to_owned()).or_default().push(Item {
                root: document.root.clone(),
                package: package.to_owned(),
                path: Some(inner.to_owned()),
                source: Some(Source { file: path.clone(), index }),
                id: Some(next),
                index: None,
            });
            next += 1;
        }
    }
    pools
}

/// Returns the first required field of a Kubernetes object that is missing.
pub(super) fn krm(root: &Node) -> Result<(), &'static str> {
    let has = |path: &[&str]| {
        root.at(path).is_some_and(|node| !node.is_null() && node.text().is_some_and(|text| !text.is_empty()))
    };
    match (has(&["apiVersion"]), has(&["kind"]), has(&["metadata", "name"])) {
        (false, ..) => Err("apiVersion"),
        (_, false, _) => Err("kind"),
        (.., false) => Err("metadata.name"),
        _ => Ok(()),
    }
}

/// Checks that all items are Kubernetes objects. `side` is `input` or `output`.
pub(super) fn check(items: &[Item], side: &str) -> Result<(), String> {
    for item in items.iter().filter(|item| !item.is_kustomization()) {
        krm(&item.root).map_err(|field| {
            let path = item.full_path().unwrap_or_default();
            format!(
                "{side} resource list must contain only KRM resources: {path}: resource must have `{field}`"
            )
        })?;
    }
    Ok(())
}

/// Reports whether a function has selectors or exclusions.
pub(super) fn is_selective(function: &Function) -> bool {
    !function.selectors.is_empty() || !function.exclude.is_empty()
}

/// Reports whether a function gets an item.
pub(super) fn is_selected(item: &Item, function: &Function) -> bool {
    let is_in =
        function.selectors.is_empty() || function.selectors.iter().any(|selector| fits(item, selector));
    let is_out =
        function.exclude.iter().any(|selector| *selector != Selector::default() && fits(item, selector));
    is_in && !is_out
}

fn fits(item: &Item, selector: &Selector) -> bool {
    let is = |wanted: &Option<String>, path: &[&str]| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || item.text(path) == wanted)
    };
    let has = |wanted: &Map<String>, name: &str| {
        wanted
            .iter()
            .all(|(key, value)| item.root.at(&["metadata", name, key]).and_then(Node::text) == Some(value))
    };
    is(&selector.api_version, &["apiVersion"])
        && is(&selector.kind, &["kind"])
        && is(&selector.name, &["metadata", "name"])
        && is(&selector.namespace, &["metadata", "namespace"])
        && has(&selector.labels, "labels")
        && has(&selector.annotations, "annotations")
}
