//! Objects that a merge leaves in two files (`packagevariants.md` 7.4): the upstream has moved an
//! object that was changed here, or has renamed one.

use std::collections::BTreeMap;

use crate::file::File;
use crate::identity::Identity;
use crate::ignore::Ignored;
use crate::package::{Package, is_of_git, is_yaml};

/// Returns a warning for each object that two files of the merged package contain, and that the
/// local one contained at most once.
pub(super) fn doubled(local: &Package, merged: &Package) -> Vec<(String, String)> {
    let before = places(local);
    let warning = |(identity, paths): (Identity, Vec<&str>)| {
        let known = before.get(&identity).map_or(0, Vec::len);
        let (last, others) = paths.split_last().filter(|_| paths.len() > known)?;
        let name = identity.shown().filter(|_| !others.is_empty())?;
        let text = format!("{name} is in {} too: delete the one that you do not want", others.join(", "));
        Some(((*last).to_owned(), text))
    };
    places(merged).into_iter().filter_map(warning).collect()
}

/// Returns the files of each object. The upstream identity counts, since functions give namespaces
/// and names only later.
fn places(files: &Package) -> BTreeMap<Identity, Vec<&str>> {
    let ignored = Ignored::of(files);
    let mut places: BTreeMap<Identity, Vec<&str>> = BTreeMap::new();
    let is_read = |path: &str| is_yaml(path) && !is_of_git(path) && !ignored.holds(path);
    for (path, text) in files.iter().filter(|(path, _)| is_read(path)) {
        for document in File::read(text).map(|file| file.documents).unwrap_or_default() {
            let paths = places.entry(Identity::of(&document.root)).or_default();
            if paths.last() != Some(&path.as_str()) {
                paths.push(path);
            }
        }
    }
    places
}
