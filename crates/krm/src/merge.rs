//! Three-way merge of packages (`packagevariants.md` 7).
//!
//! ```text
//! strategy ──> packages, root first ──> Kptfile ──> files of resources, object by object ──> other files
//! ```
//!
//! Fields have no conflicts: if both sides have changed a field, the upstream wins. The first error
//! ends the merge.

mod compare;
mod fields;
mod functions;
mod kptfile;
mod list;
mod objects;
#[cfg(test)]
mod tests;
mod twins;

use std::collections::{BTreeMap, BTreeSet};

use groundwork_yaml::tree::Node;

use crate::crd::Schemas;
use crate::file::{File, ReadError};
use crate::ignore::Ignored;
use crate::kptfile::{KptfileError, read};
use crate::package::{KPTFILE, Package, is_kptfile, is_of_git, is_yaml, join, owner, subpackages};
use fields::KindMismatch;
pub(crate) use kptfile::drop_rendering;

/// Strategy by which an update is merged into a package (`packagevariants.md` 7.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    #[default]
    ResourceMerge,
    FastForward,
    ForceDeleteReplace,
    CopyMerge,
}

impl Strategy {
    const ALL: [Self; 4] =
        [Self::ResourceMerge, Self::FastForward, Self::ForceDeleteReplace, Self::CopyMerge];

    /// Returns the names in manifests.
    pub fn names() -> [&'static str; 4] {
        Self::ALL.map(Self::as_str)
    }

    /// Returns the name in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResourceMerge => "resource-merge",
            Self::FastForward => "fast-forward",
            Self::ForceDeleteReplace => "force-delete-replace",
            Self::CopyMerge => "copy-merge",
        }
    }
}

impl std::str::FromStr for Strategy {
    type Err = MergeError;

    fn from_str(name: &str) -> Result<Self, MergeError> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.as_str() == name);
        found.ok_or_else(|| MergeError::Strategy(name.to_owned()))
    }
}

/// Merged package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    pub files: Package,
    /// Warnings for users: the path of a file, and a sentence.
    pub warnings: Vec<(String, String)>,
}

/// Reason why an update cannot be merged (`packagevariants.md` 7, the table at the head).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("unrecognized update strategy {0}")]
    Strategy(String),
    /// A `fast-forward` is refused because the package has local changes.
    #[error("local package files have been modified: [{}].\n  use a different update --strategy.", .0.join(" "))]
    Modified(Vec<String>),
    #[error("subpackage {0:?} added in both upstream and local")]
    AddedTwice(String),
    #[error("error reading Kptfile at \"{tree}/{path}\": {cause}")]
    Kptfile { tree: &'static str, path: String, cause: KptfileError },
    #[error("{tree}/{path}: {cause}")]
    Syntax { tree: &'static str, path: String, cause: ReadError },
    #[error(
        "found duplicate {source_name:?} resources in file {path:?}, please refer to \"update\" documentation for the fix"
    )]
    Duplicate { source_name: &'static str, path: String },
    #[error("{path}: {cause}")]
    Kind { path: String, cause: WrongKind },
}

/// Field whose versions have different types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct WrongKind(#[from] KindMismatch);

/// Versions of a package, each with all files of the root package and its subpackages.
#[derive(Debug, Clone, Copy)]
pub struct Versions<'a> {
    pub original: &'a Package,
    pub updated: &'a Package,
    pub local: &'a Package,
    /// Content that the store itself made at the last clone or upgrade, after the functions had
    /// run. A file or object that still equals it has no local changes (`packagevariants.md` 7.4).
    pub made: Option<&'a Package>,
}

impl<'a> Versions<'a> {
    /// Creates versions without the content that the store made.
    pub fn new(original: &'a Package, updated: &'a Package, local: &'a Package) -> Self {
        Self { original, updated, local, made: None }
    }
}

/// Merges the change from `original` to `updated` into `local`.
///
/// # Errors
/// See [`MergeError`]; no file is merged then.
pub fn merge(strategy: Strategy, versions: Versions<'_>) -> Result<Merged, MergeError> {
    let Versions { original, updated, local, made } = versions;
    let trees = Trees { original, updated, local };
    let mut merge = Merge {
        trees,
        made,
        brings_objects: false,
        ignored: [Ignored::of(local), Ignored::of(updated)],
        crds: trees.crds(),
        merged: Merged::default(),
    };
    match strategy {
        Strategy::ResourceMerge => {
            merge.resources()?;
            if merge.brings_objects {
                merge.merged.warnings.extend(twins::doubled(local, &merge.merged.files));
            }
        }
        Strategy::ForceDeleteReplace => merge.replace()?,
        Strategy::CopyMerge => merge.copy()?,
        Strategy::FastForward => {
            let changed = compare::changed(original, local);
            let is_made = || made.is_some_and(|made| compare::changed(made, local).is_empty());
            if !changed.is_empty() && !is_made() {
                return Err(MergeError::Modified(changed));
            }
            merge.replace()?;
            merge.forget_rendering();
        }
    }
    Ok(merge.merged)
}

/// Local, original and updated version of the package.
#[derive(Debug, Clone, Copy)]
struct Trees<'a> {
    original: &'a Package,
    updated: &'a Package,
    local: &'a Package,
}

impl<'a> Trees<'a> {
    /// Returns original, updated and local text of a file.
    fn texts(&self, path: &str) -> [Option<&'a str>; 3] {
        [self.original, self.updated, self.local].map(|tree| tree.get(path).map(String::as_str))
    }

    fn paths(&self) -> BTreeSet<&'a str> {
        let keys = [self.original, self.updated, self.local].into_iter().flat_map(BTreeMap::keys);
        keys.map(String::as_str).filter(|path| !is_of_git(path)).collect()
    }

    /// Returns the schemas in the packages; local ones take precedence. A file that cannot be
    /// parsed is reported by its merge.
    fn crds(&self) -> Schemas {
        let mut schemas = Schemas::new();
        for tree in [self.updated, self.local] {
            for text in tree.iter().filter(|(path, _)| is_yaml(path)).map(|(_, text)| text) {
                if !text.contains("CustomResourceDefinition") {
                    continue;
                }
                for document in File::read(text).map(|file| file.documents).unwrap_or_default() {
                    crate::crd::add(&document.root, &mut schemas);
                }
            }
        }
        schemas
    }
}

/// Names of the versions in messages about files.
const TREES: [&str; 3] = ["original", "updated", "local"];

struct Merge<'a> {
    trees: Trees<'a>,
    made: Option<&'a Package>,
    /// True if the upstream has added an object. Only then two files may have the same one, and all
    /// files are read again to find it.
    brings_objects: bool,
    ignored: [Ignored; 2],
    crds: Schemas,
    merged: Merged,
}

impl<'a> Merge<'a> {
    /// `force-delete-replace`: replaces everything but the root Kptfile with the upstream's files.
    fn replace(&mut self) -> Result<(), MergeError> {
        self.merged.files = self.trees.updated.clone();
        self.merged.files.remove(KPTFILE);
        self.root_kptfile()
    }

    /// `copy-merge`: copies the upstream's files over local ones, and deletes files that the
    /// upstream has deleted.
    fn copy(&mut self) -> Result<(), MergeError> {
        let Trees { original, updated, local } = self.trees;
        let is_kept = |path: &&String| updated.contains_key(*path) || !original.contains_key(*path);
        let mut files: Package = local
            .iter()
            .filter(|(path, _)| is_kept(path))
            .map(|(path, text)| (path.clone(), text.clone()))
            .collect();
        files.extend(updated.iter().map(|(path, text)| (path.clone(), text.clone())));
        files.remove(KPTFILE);
        self.merged.files = files;
        self.root_kptfile()
    }

    fn root_kptfile(&mut self) -> Result<(), MergeError> {
        if let Some(text) = self.kptfile(KPTFILE, true, true)? {
            self.merged.files.insert(KPTFILE.to_owned(), text);
        }
        Ok(())
    }

    /// Removes the status of renderings from the root Kptfile after a `fast-forward`.
    fn forget_rendering(&mut self) {
        let Some(text) = self.merged.files.get_mut(KPTFILE) else { return };
        let Ok(mut file) = read(text) else { return };
        for document in &mut file.documents {
            kptfile::drop_rendering(&mut document.root);
        }
        if file.is_changed() {
            *text = file.text();
        }
    }

    /// `resource-merge` (`packagevariants.md` 7.2).
    fn resources(&mut self) -> Result<(), MergeError> {
        let Trees { original, updated, local } = self.trees;
        let boundaries = subpackages([updated, local]);
        let mut packages: BTreeMap<&str, Vec<&str>> =
            boundaries.iter().map(|path| (*path, Vec::new())).collect();
        for path in self.trees.paths() {
            packages.entry(owner(path, &boundaries)).or_default().push(path);
        }
        packages.entry("").or_default();
        let depth = |path: &str| if path.is_empty() { 0 } else { path.matches('/').count() + 1 };
        let mut ordered: Vec<(&str, Vec<&str>)> = packages.into_iter().collect();
        ordered.sort_by_key(|(path, _)| (depth(path), *path));
        for (path, files) in ordered {
            let has = |tree: &Package| files.iter().any(|file| tree.contains_key(*file));
            if path.is_empty() {
                self.package(path, &files)?;
                continue;
            }
            match (has(original), has(updated), has(local)) {
                (false, true, false) => {
                    self.take(updated, &files);
                    self.brings_objects = true;
                }
                (false, false, true) => self.take(local, &files),
                (true, _, false) | (false, false, false) => {}
                (true, false, true) => {
                    if !self.is_untouched(&files) {
                        self.take(local, &files);
                        let text =
                            "the upstream has deleted this package; it stays, since it was changed here";
                        self.warn(path, vec![text.to_owned()]);
                    }
                }
                (false, true, true) => {
                    let kptfile = join(path, KPTFILE);
                    if updated.contains_key(&kptfile) && local.contains_key(&kptfile) {
                        return Err(MergeError::AddedTwice(path.to_owned()));
                    }
                    self.package(path, &files)?;
                }
                (true, true, true) => {
                    if compare::is_repointed(&join(path, KPTFILE), original, local) {
                        self.take(local, &files);
                    } else {
                        self.package(path, &files)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports whether local files are those of the upstream, or those that the store made from
    /// them.
    fn is_untouched(&self, paths: &[&str]) -> bool {
        let is_same = |tree: &Package, path: &str| compare::is_same(tree, self.trees.local, &[path]);
        paths.iter().all(|path| {
            is_same(self.trees.original, path) || self.made.is_some_and(|made| is_same(made, path))
        })
    }

    fn take(&mut self, tree: &Package, paths: &[&str]) {
        for path in paths {
            if let Some(text) = tree.get(*path) {
                self.merged.files.insert((*path).to_owned(), text.clone());
            }
        }
    }

    /// Merges one package without its subpackages.
    fn package(&mut self, package: &str, paths: &[&'a str]) -> Result<(), MergeError> {
        let kptfile = join(package, KPTFILE);
        if let Some(text) = self.kptfile(&kptfile, package.is_empty(), !package.is_empty())? {
            self.merged.files.insert(kptfile.clone(), text);
        }
        let (mut resources, mut whole) = (Vec::new(), Vec::new());
        for path in paths.iter().filter(|path| **path != kptfile) {
            let is_ignored = self.ignored.iter().any(|ignored| ignored.holds(path));
            if is_yaml(path) && !is_ignored && !is_kptfile(path) {
                resources.push(*path);
            } else {
                whole.push(*path);
            }
        }
        whole.extend(objects::merge_files(self, &resources)?);
        for path in whole {
            let [original, updated, local] = self.trees.texts(path);
            let made = self.made.and_then(|made| made.get(path)).map(String::as_str);
            // A file that functions have written counts as unchanged, so a change of the original
            // wins.
            let is_made = made.is_some() && made == local && original != updated;
            let original = if is_made { local } else { original };
            if let Some(text) = whole_file([original, updated, local]) {
                self.merged.files.insert(path.to_owned(), text.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the new text of a Kptfile, if it stays (`packagevariants.md` 7.2).
    fn kptfile(
        &mut self,
        path: &str,
        is_root: bool,
        takes_upstream: bool,
    ) -> Result<Option<String>, MergeError> {
        let texts = self.trees.texts(path);
        let [original, updated, local] = texts;
        match (original, updated, local) {
            (_, Some(_), Some(_)) => {}
            (None, Some(updated), None) => return Ok(Some(updated.to_owned())),
            (Some(_), Some(updated), None) => return Ok(is_root.then(|| updated.to_owned())),
            (Some(_), None, Some(_)) if is_root => {}
            (Some(_), None, Some(local)) => {
                return Ok((!self.is_untouched(&[path])).then(|| local.to_owned()));
            }
            (None, None, local) => return Ok(local.map(str::to_owned)),
            (Some(_), None, None) => return Ok(None),
        }
        let mut files = [const { None }; 3];
        for ((tree, text), file) in TREES.into_iter().zip(texts).zip(&mut files) {
            let read = text.map(read).transpose();
            *file = read.map_err(|cause| MergeError::Kptfile { tree, path: path.to_owned(), cause })?;
        }
        let [original, updated, local] = files;
        let root =
            |file: &Option<File>| -> Option<Node> { Some(file.as_ref()?.documents.first()?.root.clone()) };
        let (original, updated) = (root(&original), root(&updated));
        let Some(mut file) = local else { return Ok(None) };
        let mut warnings = Vec::new();
        if let Some(document) = file.documents.first_mut() {
            let merged = kptfile::merge_kptfile(
                &document.root,
                original.as_ref(),
                updated.as_ref(),
                takes_upstream,
                &mut warnings,
            );
            document.root = merged.map_err(|cause| kind(path, cause))?;
        }
        self.warn(path, warnings);
        Ok(Some(file.text()))
    }

    fn warn(&mut self, path: &str, warnings: Vec<String>) {
        self.merged.warnings.extend(warnings.into_iter().map(|warning| (path.to_owned(), warning)));
    }
}

fn kind(path: &str, cause: KindMismatch) -> MergeError {
    MergeError::Kind { path: path.to_owned(), cause: WrongKind(cause) }
}

/// Merges a file as a whole (`packagevariants.md` 7.7).
fn whole_file([original, updated, local]: [Option<&str>; 3]) -> Option<&str> {
    match (original, local, updated) {
        (None, Some(local), _) => Some(local),
        (Some(original), Some(local), _) if original != local => Some(local),
        (Some(_), Some(_), updated) => updated,
        (None, None, updated) => updated,
        (Some(original), None, Some(updated)) => (original != updated).then_some(updated),
        (Some(_), None, None) => None,
    }
}
