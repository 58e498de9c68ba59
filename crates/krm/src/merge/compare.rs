//! Detection of local changes to a package (`packagevariants.md` 7.1, 7.2).

use std::collections::BTreeSet;

use groundwork_yaml::tree::Node;

use crate::file::File;
use crate::identity::without_merge_keys;
use crate::package::{KPTFILE, Package, is_kptfile, is_of_git, is_yaml, owner, subpackages};
use crate::value::{canonical, canonical_with_comments};

/// Returns the differences between a package and its original: subpackages that one side lacks,
/// then files.
pub(super) fn changed(original: &Package, local: &Package) -> Vec<String> {
    let (in_original, in_local) = (subpackages([original]), subpackages([local]));
    let lacking: BTreeSet<&str> = in_original.symmetric_difference(&in_local).copied().collect();
    let all: BTreeSet<&str> = in_original.union(&in_local).copied().collect();
    let mut changed: Vec<String> = lacking.iter().map(|path| format!("{path} (Package)")).collect();
    let paths: BTreeSet<&String> =
        original.keys().chain(local.keys()).filter(|path| !is_of_git(path)).collect();
    let differs = |path: &&&String| {
        !lacking.contains(owner(path, &all)) && !is_unchanged(path, original.get(**path), local.get(**path))
    };
    changed.extend(paths.iter().filter(differs).map(|path| (**path).clone()));
    changed
}

fn is_unchanged(path: &str, original: Option<&String>, local: Option<&String>) -> bool {
    match (original, local) {
        (Some(original), Some(local)) if original == local => true,
        (Some(original), Some(local)) if is_kptfile(path) => same_kptfile(path, original, local),
        (Some(original), Some(local)) if is_yaml(path) => same_documents(original, local, true),
        // A clone adds a Kptfile to every package, so a new one without other content is not a
        // change.
        (None, Some(local)) if path == KPTFILE => says_nothing(local),
        _ => false,
    }
}

/// Reports whether all files of a package are the same data (`packagevariants.md` 7.4), so that the
/// local ones may be deleted.
pub(super) fn is_same(original: &Package, local: &Package, paths: &[&str]) -> bool {
    paths.iter().all(|path| match (original.get(*path), local.get(*path)) {
        (None, None) => true,
        (Some(original), Some(local)) if original == local => true,
        (Some(original), Some(local)) if is_kptfile(path) => same_kptfile(path, original, local),
        (Some(original), Some(local)) if is_yaml(path) => same_documents(original, local, false),
        _ => false,
    })
}

fn same_documents(original: &str, local: &str, with_comments: bool) -> bool {
    let (Ok(original), Ok(local)) = (File::read(original), File::read(local)) else { return false };
    let shown = |file: &File| -> Vec<(String, Vec<String>)> {
        let documents = file.documents.iter().map(|document| {
            let root = without_merge_keys(&document.root);
            if with_comments {
                let around = document.comments_around().into_iter().map(str::to_owned).collect();
                (canonical_with_comments(&root), around)
            } else {
                (canonical(&root), Vec::new())
            }
        });
        documents.collect()
    };
    shown(&original) == shown(&local)
}

fn same_kptfile(path: &str, original: &str, local: &str) -> bool {
    let shown = |text: &str| -> Option<Vec<String>> {
        let file = File::read(text).ok()?;
        Some(
            file.documents
                .iter()
                .map(|document| canonical(&essence(&document.root, path == KPTFILE)))
                .collect(),
        )
    };
    matches!((shown(original), shown(local)), (Some(original), Some(local)) if original == local)
}

/// Returns a Kptfile without the fields that stores and renderings write, and with sorted gates and
/// conditions.
fn essence(root: &Node, is_root: bool) -> Node {
    let mut root = root.clone();
    super::kptfile::drop_rendering(&mut root);
    if let Some(mapping) = root.as_mapping_mut() {
        mapping.remove("upstream");
        mapping.remove("upstreamLock");
        if let (true, Some(metadata)) = (is_root, mapping.get_mut("metadata").and_then(Node::as_mapping_mut))
        {
            metadata.remove("name");
        }
    }
    for path in [["info", "readinessGates"], ["status", "conditions"]] {
        let list =
            root.get_mut(path[0]).and_then(|part| part.get_mut(path[1])).and_then(Node::as_sequence_mut);
        if let Some(list) = list {
            list.items.sort_by_cached_key(canonical);
        }
    }
    root
}

/// Reports whether a Kptfile contains only generated fields.
fn says_nothing(text: &str) -> bool {
    let Ok(file) = File::read(text) else { return false };
    let [document] = file.documents.as_slice() else { return false };
    let root = essence(&document.root, true);
    root.as_mapping().is_some_and(|mapping| {
        mapping.pairs.iter().all(|pair| match pair.name() {
            "apiVersion" | "kind" => true,
            "metadata" => {
                pair.value.is_null()
                    || pair.value.as_mapping().is_some_and(|metadata| metadata.pairs.is_empty())
            }
            _ => false,
        })
    })
}

/// Reports whether the user has changed the upstream of a subpackage (`packagevariants.md` 7.2).
pub(super) fn is_repointed(kptfile: &str, original: &Package, local: &Package) -> bool {
    let root = |tree: &Package| -> Option<Node> {
        let file = File::read(tree.get(kptfile)?).ok()?;
        Some(file.documents.first()?.root.clone())
    };
    let upstream = |root: &Node| root.get("upstream").filter(|upstream| !upstream.is_null()).cloned();
    let Some(before) = root(original).as_ref().and_then(upstream) else { return false };
    // Without a Kptfile there is no upstream to change.
    let Some(now) = root(local) else { return false };
    match upstream(&now) {
        None => true,
        Some(now) => match (before.get("git"), now.get("git")) {
            (Some(before), Some(now)) => !before.equals(now),
            (None, None) => false,
            _ => true,
        },
    }
}
