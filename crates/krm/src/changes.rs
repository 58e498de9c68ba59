//! Changes between two contents of a package, by file, object and field.

use std::collections::BTreeMap;

use groundwork_yaml::tree::{Node, Pair};
use serde::{Deserialize, Serialize};

use crate::file::File;
use crate::identity::{Identity, without_merge_keys};
use crate::ignore::Ignored;
use crate::merge::drop_rendering;
use crate::package::{Package, is_kptfile, is_of_git, is_yaml};
use crate::value::canonical;

/// Changes between two contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Files whose bytes differ, by path.
    pub files: Vec<FileChange>,
    /// Objects whose data differ. Comments and merge keys do not count, and neither do the fields
    /// of a Kptfile that clones, upgrades and renderings write.
    pub objects: Vec<ObjectChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    pub change: Change,
}

/// Change of an object. It keeps its identity when it moves to another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub change: Change,
    /// Paths of changed fields, such as `spec.replicas` or `spec.containers[0].image`; empty if the
    /// object was added or removed.
    pub fields: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Added,
    Changed,
    Removed,
}

impl Change {
    fn of<T>(before: Option<T>, after: Option<T>) -> Self {
        match (before, after) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Changed,
        }
    }
}

/// Returns the changes from one content to another. Files that cannot be parsed have no objects.
pub fn changes(before: &Package, after: &Package) -> Changes {
    let files = keys(before, after).into_iter().filter(|path| before.get(*path) != after.get(*path));
    let files = files
        .map(|path| FileChange { path: path.clone(), change: Change::of(before.get(path), after.get(path)) });
    let (old, new) = (objects(before), objects(after));
    let objects = keys(&old, &new).into_iter().filter_map(|identity| {
        let (old, new) = (old.get(identity), new.get(identity));
        if old.map(canonical) == new.map(canonical) {
            return None;
        }
        let mut fields = Vec::new();
        if old.is_some() && new.is_some() {
            compare(String::new(), old, new, &mut fields);
        }
        Some(described(new.or(old)?, Change::of(old, new), fields))
    });
    Changes { files: files.collect(), objects: objects.collect() }
}

fn described(object: &Node, change: Change, fields: Vec<String>) -> ObjectChange {
    let text = |path: &[&str]| object.at(path).and_then(Node::text).unwrap_or_default().to_owned();
    ObjectChange {
        api_version: text(&["apiVersion"]),
        kind: text(&["kind"]),
        namespace: text(&["metadata", "namespace"]),
        name: text(&["metadata", "name"]),
        change,
        fields,
    }
}

/// Returns the keys of both maps in their order.
fn keys<'a, K: Ord, V>(one: &'a BTreeMap<K, V>, other: &'a BTreeMap<K, V>) -> Vec<&'a K> {
    let mut keys: Vec<&K> = one.keys().chain(other.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns the objects of a package. If several have one identity, their number tells them apart.
fn objects(files: &Package) -> BTreeMap<(Identity, usize), Node> {
    let ignored = Ignored::of(files);
    let is_read = |path: &str| is_yaml(path) && !is_of_git(path) && !ignored.holds(path);
    let mut objects = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| is_read(path)) {
        for document in File::read(text).map(|file| file.documents).unwrap_or_default() {
            let mut root = document.root.clone();
            if is_kptfile(path) {
                drop_records(&mut root);
            }
            let identity = Identity::of(&root);
            let mut at = 0;
            while objects.contains_key(&(identity.clone(), at)) {
                at += 1;
            }
            objects.insert((identity, at), without_merge_keys(&root));
        }
    }
    objects
}

/// Removes the fields of a Kptfile that clones, upgrades and renderings write.
fn drop_records(root: &mut Node) {
    drop_rendering(root);
    if let Some(mapping) = root.as_mapping_mut() {
        mapping.remove("upstream");
        mapping.remove("upstreamLock");
    }
}

fn compare(path: String, old: Option<&Node>, new: Option<&Node>, fields: &mut Vec<String>) {
    let both = |of: fn(&Node) -> bool| old.is_some_and(of) && new.is_some_and(of);
    if both(|node| node.as_mapping().is_some()) {
        let pairs = [old, new].into_iter().flatten().filter_map(Node::as_mapping).flat_map(|map| &map.pairs);
        let mut names: Vec<&str> = pairs.map(Pair::name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            compare(path, old, new, fields);
        }
        return;
    }
    if both(|node| node.as_sequence().is_some()) {
        let items = |node: Option<&Node>| -> Vec<Node> {
            node.and_then(Node::as_sequence).map(|list| list.items.clone()).unwrap_or_default()
        };
        let (old, new) = (items(old), items(new));
        for at in 0..old.len().max(new.len()) {
            compare(format!("{path}[{at}]"), old.get(at), new.get(at), fields);
        }
        return;
    }
    if old.map(canonical) != new.map(canonical) {
        fields.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> Package {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn files_objects_and_fields() {
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: p}\n";
        let before = package(&[
            ("Kptfile", &format!("{kptfile}upstream: {{git: {{ref: v1}}}}\n")),
            ("moved.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\n"),
            ("gone.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: gone, namespace: n}\n"),
            (
                "app.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec: {replicas: 1, containers: [{image: a}]}\n",
            ),
            ("README.md", "old\n"),
        ]);
        let after = package(&[
            ("Kptfile", &format!("{kptfile}upstream: {{git: {{ref: v2}}}}\n")),
            ("sub/moved.yaml", "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\n"),
            (
                "app.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec: {replicas: 2, containers: [{image: b}, {image: c}]}\n",
            ),
            ("README.md", "new\n"),
        ]);
        let found = changes(&before, &after);
        let files: Vec<_> = found.files.iter().map(|file| (file.path.as_str(), file.change)).collect();
        assert_eq!(
            files,
            [
                ("Kptfile", Change::Changed),
                ("README.md", Change::Changed),
                ("app.yaml", Change::Changed),
                ("gone.yaml", Change::Removed),
                ("moved.yaml", Change::Removed),
                ("sub/moved.yaml", Change::Added),
            ]
        );
        let object =
            |api_version: &str, kind: &str, place: (&str, &str), change, fields: &[&str]| ObjectChange {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: place.0.to_owned(),
                name: place.1.to_owned(),
                change,
                fields: fields.iter().map(|&field| field.to_owned()).collect(),
            };
        let fields = ["spec.containers[0].image", "spec.containers[1]", "spec.replicas"];
        assert_eq!(
            found.objects,
            [
                object("v1", "Secret", ("n", "gone"), Change::Removed, &[]),
                object("apps/v1", "Deployment", ("", "app"), Change::Changed, &fields),
            ]
        );
        assert_eq!(changes(&after, &after), Changes::default());
    }
}
