//! Merge of files with resources, object by object (`packagevariants.md` 7.3, 7.4).

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use groundwork_yaml::tree::Node;

use super::fields::{Fields, Rules, Sides};
use super::{Merge, MergeError, TREES, kind};
use crate::file::{Document, File};
use crate::identity::{Identity, drop_annotation, without_merge_keys};
use crate::schema::Schema;

/// Names of the versions in messages about duplicates.
const SOURCES: [&str; 3] = ["original", "updated", "dest"];

/// Versions of a file: original, updated, local. Versions with the same text share one parsed file.
type Versions = [Option<Rc<File>>; 3];

/// Merges the files at some paths. Returns the paths that have to be merged as whole files instead.
pub(super) fn merge_files<'a>(merge: &mut Merge<'_>, paths: &[&'a str]) -> Result<Vec<&'a str>, MergeError> {
    let mut read: BTreeMap<&str, Versions> = paths.iter().map(|path| (*path, [const { None }; 3])).collect();
    for (at, tree) in TREES.into_iter().enumerate() {
        for (path, versions) in &mut read {
            let texts = merge.trees.texts(path);
            let Some(text) = texts[at] else { continue };
            // Parsing is the larger part of a merge, and most files have at most one version that
            // differs. So equal texts are parsed once.
            if let Some(same) = texts[..at].iter().position(|former| *former == Some(text)) {
                versions[at] = versions[same].clone();
                continue;
            }
            let file = File::read(text).map_err(|cause| MergeError::Syntax {
                tree,
                path: (*path).to_owned(),
                cause,
            })?;
            versions[at] = Some(Rc::new(file));
        }
    }
    let mut whole = Vec::new();
    read.retain(|path, versions| {
        let is_whole =
            versions.iter().flatten().any(|file| file.documents.is_empty() || has_anonymous_twins(file));
        if is_whole {
            whole.push(*path);
        }
        !is_whole
    });
    for (at, source_name) in SOURCES.into_iter().enumerate() {
        for (path, versions) in &read {
            if versions[at].as_ref().is_some_and(|file| has_duplicates(file)) {
                return Err(MergeError::Duplicate { source_name, path: (*path).to_owned() });
            }
        }
    }
    for (path, versions) in read {
        if let Some(text) = merge_file(merge, path, &versions)? {
            merge.merged.files.insert(path.to_owned(), text);
        }
    }
    Ok(whole)
}

fn has_duplicates(file: &File) -> bool {
    let mut known = HashSet::new();
    file.documents.iter().any(|document| !known.insert(Identity::of(&document.root)))
}

/// Reports whether two documents without a type have the same identity.
fn has_anonymous_twins(file: &File) -> bool {
    let mut known = HashSet::new();
    let anonymous =
        file.documents.iter().map(|document| &document.root).filter(|root| Identity::is_anonymous(root));
    anonymous.into_iter().any(|root| !known.insert(Identity::of(root)))
}

/// A document with its position in its file.
type Place<'a> = (usize, &'a Document);

fn find<'a>(file: Option<&'a File>, identity: &Identity) -> Option<Place<'a>> {
    let mut documents = file?.documents.iter().enumerate();
    documents.find(|(_, document)| Identity::of(&document.root) == *identity)
}

/// Document of the result, with its position and the file whose layout it has.
struct Found {
    position: usize,
    document: Document,
    is_local: bool,
}

/// Returns the new text; `None` if no document is left.
fn merge_file(merge: &mut Merge<'_>, path: &str, versions: &Versions) -> Result<Option<String>, MergeError> {
    let [original, updated, local] = versions;
    let files = [original, updated, local].map(Option::as_deref);
    let mut known = HashSet::new();
    let documents = files.into_iter().flatten().flat_map(|file| &file.documents);
    let identities: Vec<Identity> = documents
        .map(|document| Identity::of(&document.root))
        .filter(|identity| known.insert(identity.clone()))
        .collect();
    let mut found = Vec::new();
    for identity in identities {
        let [original, updated, local] = files.map(|file| find(file, &identity));
        found.extend(merge_object(merge, path, original, updated, local)?);
    }
    found.sort_by_key(|found| found.position);
    let (Some(file), false) = (local.as_deref().or(updated.as_deref()), found.is_empty()) else {
        return Ok(None);
    };
    let other = updated.as_deref().unwrap_or(file);
    let documents: Vec<(&Document, &File)> =
        found.iter().map(|found| (&found.document, if found.is_local { file } else { other })).collect();
    Ok(Some(file.with(&documents)))
}

fn merge_object(
    merge: &mut Merge<'_>,
    path: &str,
    original: Option<Place<'_>>,
    updated: Option<Place<'_>>,
    local: Option<Place<'_>>,
) -> Result<Option<Found>, MergeError> {
    let moved = match (&original, &updated) {
        (Some((before, _)), Some((after, _))) => before != after,
        (None, Some(_)) => true,
        _ => false,
    };
    let (position, mut document, is_local) = match (original, updated, local) {
        (None, Some((position, document)), None) => {
            merge.brings_objects = true;
            (position, document.clone(), false)
        }
        (_, _, None) => return Ok(None),
        (Some((_, original)), None, Some((_, local)))
            if is_same(&original.root, &local.root) || merge.has_made(path, &local.root) =>
        {
            return Ok(None);
        }
        (Some(_), None, Some((position, local))) => {
            let name = Identity::of(&local.root).shown().unwrap_or_else(|| "an object".to_owned());
            let text = format!("the upstream has deleted {name}; it stays, since it was changed here");
            merge.warn(path, vec![text]);
            (position, local.clone(), true)
        }
        (_, None, Some((position, local))) => (position, local.clone(), true),
        (_, Some((new, _)), Some((old, local))) => (if moved { new } else { old }, local.clone(), true),
    };
    if let (Some((_, updated)), true) = (updated, is_local) {
        let stripped =
            |place: Option<Place<'_>>| place.map(|(_, document)| without_annotation(&document.root));
        let (original, updated) = (stripped(original), Some(without_annotation(&updated.root)));
        let sides = Sides::new(Some(&document.root), original.as_ref(), updated.as_ref());
        let crds = &merge.crds;
        let schema = Schema::of([Some(&document.root), original.as_ref(), updated.as_ref()], crds);
        let mut fields = Fields { rules: Rules::Object, crds, warnings: Vec::new() };
        let merged = fields.merge(sides, &schema, "").map_err(|cause| kind(path, cause))?;
        let warnings = fields.warnings;
        merge.warn(path, warnings);
        let Some(merged) = merged else { return Ok(None) };
        document.root = merged;
    }
    Ok(Some(Found { position, document, is_local }))
}

impl Merge<'_> {
    /// Reports whether the store itself has made this object of a file at the last clone or
    /// upgrade.
    fn has_made(&self, path: &str, root: &Node) -> bool {
        let text = self.made.and_then(|made| made.get(path));
        let Some(Ok(file)) = text.map(|text| File::read(text)) else { return false };
        find(Some(&file), &Identity::of(root)).is_some_and(|(_, made)| is_same(&made.root, root))
    }
}

/// Reports whether two documents are the same data, apart from merge keys.
fn is_same(left: &Node, right: &Node) -> bool {
    without_merge_keys(left).equals(&without_merge_keys(right))
}

/// Returns a document without the annotation with the upstream name (`packagevariants.md` 6.8).
/// The merge leaves the annotation out: the local one stays.
fn without_annotation(root: &Node) -> Node {
    let mut root = root.clone();
    drop_annotation(&mut root);
    root
}
