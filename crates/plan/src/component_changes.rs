//! References of a closure that lead to another version.

use std::collections::BTreeMap;

use groundwork_component::Reference;

use crate::change::Redirection;

/// Returns the differences, in the order of their paths. An entry consists of depth, local name and
/// effective reference, depth first, as in `groundwork_component::GraphEntry`.
pub fn redirections<'a>(
    before: impl Iterator<Item = (usize, &'a str, &'a Reference)>,
    after: impl Iterator<Item = (usize, &'a str, &'a Reference)>,
) -> Vec<Redirection> {
    let (mut before, after) = (by_path(before), by_path(after));
    let mut found: BTreeMap<String, Redirection> = BTreeMap::new();
    for (path, reference) in after {
        let former = before.remove(&path);
        if former.as_ref() != Some(&reference) {
            let place = Redirection { path: path.clone(), before: former, after: Some(reference) };
            found.insert(path, place);
        }
    }
    for (path, reference) in before {
        found.insert(path.clone(), Redirection { path, before: Some(reference), after: None });
    }
    found.into_values().collect()
}

/// Returns the effective references by path of local names. Of equal paths, the first one counts.
fn by_path<'a>(places: impl Iterator<Item = (usize, &'a str, &'a Reference)>) -> BTreeMap<String, Reference> {
    let mut names: Vec<&str> = Vec::new();
    let mut paths = BTreeMap::new();
    for (depth, name, reference) in places {
        names.truncate(depth);
        names.push(name);
        // The component itself has no name, so the path omits it.
        let path = names.get(1..).unwrap_or_default().join("/");
        paths.entry(path).or_insert_with(|| reference.clone());
    }
    paths
}
