//! Files of a package: what each of them is, and where subpackages begin (`packagevariants.md` 7.2, 7.3).

use std::collections::{BTreeMap, BTreeSet};

/// Paths, with `/` between their parts, to texts.
pub type Package = BTreeMap<String, String>;

/// The file that makes a directory a package.
pub(crate) const KPTFILE: &str = "Kptfile";

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The directory of a path; that of the root is empty.
pub(crate) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// A file of a directory.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

pub(crate) fn is_kptfile(path: &str) -> bool {
    base_name(path) == KPTFILE
}

/// Whether the name is that of a file of resources that merges look into.
pub(crate) fn is_yaml(path: &str) -> bool {
    let name = base_name(path);
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Files of git itself are not looked at.
pub(crate) fn is_of_git(path: &str) -> bool {
    path.split('/').any(|part| part == ".git")
}

/// Directories of subpackages: those with a Kptfile in any of the packages, the root excepted.
pub(crate) fn subpackages<'a>(packages: impl IntoIterator<Item = &'a Package>) -> BTreeSet<&'a str> {
    let paths = packages.into_iter().flat_map(BTreeMap::keys);
    let kptfiles = paths.filter(|path| is_kptfile(path) && !is_of_git(path));
    kptfiles.map(|path| directory(path)).filter(|directory| !directory.is_empty()).collect()
}

/// The nearest of the directories that a path lies in; the root, if it lies in none.
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
