//! Files of a package: their types, and the directories of subpackages (`packagevariants.md` 7.2,
//! 7.3).

use std::collections::{BTreeMap, BTreeSet};

/// Texts by path, with `/` as separator.
pub type Package = BTreeMap<String, String>;

/// File that makes a directory a package.
pub(crate) const KPTFILE: &str = "Kptfile";

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the directory of a path; empty for the root.
pub(crate) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns the path of a file in a directory.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

pub(crate) fn is_kptfile(path: &str) -> bool {
    base_name(path) == KPTFILE
}

/// Reports whether a file contains resources that are merged object by object.
pub(crate) fn is_yaml(path: &str) -> bool {
    let name = base_name(path);
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Reports whether a file belongs to git; merges skip these.
pub(crate) fn is_of_git(path: &str) -> bool {
    path.split('/').any(|part| part == ".git")
}

/// Returns the directories of subpackages: those with a Kptfile in any of the packages, without the
/// root.
pub(crate) fn subpackages<'a>(packages: impl IntoIterator<Item = &'a Package>) -> BTreeSet<&'a str> {
    let paths = packages.into_iter().flat_map(BTreeMap::keys);
    let kptfiles = paths.filter(|path| is_kptfile(path) && !is_of_git(path));
    kptfiles.map(|path| directory(path)).filter(|directory| !directory.is_empty()).collect()
}

/// Returns the nearest subpackage that contains a path, or the root.
pub(crate) fn owner<'a>(path: &str, subpackages: &BTreeSet<&'a str>) -> &'a str {
    let mut directory = directory(path);
    while !directory.is_empty() {
        if let Some(found) = subpackages.get(directory) {
            return found;
        }
        directory = self::directory(directory);
    }
    ""
}
