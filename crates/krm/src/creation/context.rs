//! Package context (`packagevariants.md` 6.7): a ConfigMap with the name and the path of the
//! package.

use groundwork_yaml::tree::{Node, Pair};

use super::{section, set_string};
use crate::file::File;
use crate::ignore::Ignored;
use crate::kptfile::make_strings;
use crate::merge::Strategy;
use crate::package::{Package, base_name, is_yaml, owner, subpackages};

/// File of a new context.
pub(super) const FILE: &str = "package-context.yaml";
/// Name of the ConfigMap.
const NAME: &str = "kptfile.kpt.dev";
/// Keys whose values the package store sets.
const RESERVED: [&str; 2] = ["name", "package-path"];

/// Creates the context of a package in a deployment repository, or sets `name` and `package-path`
/// in the present one.
///
/// A ConfigMap whose `data` is not a map is left alone: the mutations report it
/// (`packagevariants.md` 3.1).
pub fn set_context(files: &mut Package, package_path: &str) {
    let values = [base_name(package_path), package_path].map(Some);
    if let Some((path, at)) = place(files) {
        return set_values(files, &path, at, values);
    }
    let new = text(package_path);
    let text = match files.get(FILE) {
        // A file that cannot be parsed is not overwritten; the rendering reports it.
        Some(old) => appended(old, &new),
        None => Some(new),
    };
    if let Some(text) = text {
        files.insert(FILE.to_owned(), text);
    }
}

/// Repairs the context of the local package after a merge.
///
/// `force-delete-replace` and `fast-forward` may have dropped the context, so it is restored. If
/// the merge kept a context, `name` and `package-path` are set to the values of the local package
/// again.
pub fn restore_context(merged: &mut Package, local: &Package, strategy: Strategy) {
    let Some((local_path, local_at)) = place(local) else { return };
    let Some(local_text) = local.get(&local_path) else { return };
    let Ok(local_file) = File::read(local_text) else { return };
    let Some(document) = local_file.documents.get(local_at) else { return };
    if let Some((path, at)) = place(merged) {
        let value = |key: &str| document.root.at(&["data", key]).and_then(Node::text);
        return set_values(merged, &path, at, RESERVED.map(value));
    }
    if !matches!(strategy, Strategy::ForceDeleteReplace | Strategy::FastForward) {
        return;
    }
    let text = match merged.get(&local_path) {
        // The upstream has another file at this path, so the context becomes a further document of
        // it.
        Some(old) => appended(old, &local_file.with(&[(document, &local_file)])),
        None => Some(local_text.clone()),
    };
    if let Some(text) = text {
        merged.insert(local_path, text);
    }
}

/// Returns the file and the position of the context in the root package; the usual file comes
/// first.
fn place(files: &Package) -> Option<(String, usize)> {
    let (subpackages, ignored) = (subpackages([files]), Ignored::of(files));
    let mut own: Vec<(&String, &String)> = files
        .iter()
        .filter(|(path, text)| {
            is_yaml(path)
                && owner(path, &subpackages).is_empty()
                && !ignored.holds(path)
                && text.contains(NAME)
        })
        .collect();
    own.sort_by_key(|(path, _)| path.as_str() != FILE);
    own.into_iter().find_map(|(path, text)| {
        let file = File::read(text).ok()?;
        let at = file.documents.iter().position(|document| is_context(&document.root))?;
        Some((path.clone(), at))
    })
}

fn is_context(root: &Node) -> bool {
    root.str_at(&["apiVersion"]) == Some("v1")
        && root.str_at(&["kind"]) == Some("ConfigMap")
        && root.str_at(&["metadata", "name"]) == Some(NAME)
}

/// Sets the reserved keys that have a value.
fn set_values(files: &mut Package, path: &str, at: usize, values: [Option<&str>; 2]) {
    let Some(text) = files.get_mut(path) else { return };
    let Ok(mut file) = File::read(text) else { return };
    let Some(document) = file.documents.get_mut(at) else { return };
    let before = document.root.clone();
    let Some(data) = section(&mut document.root, "data", &["metadata"]) else { return };
    for (key, value) in RESERVED.into_iter().zip(values) {
        if let Some(value) = value {
            set_string(data, key, value);
        }
    }
    if data.as_mapping().is_some_and(|data| !data.pairs.is_empty()) {
        make_strings(data);
    }
    let is_same = RESERVED
        .iter()
        .zip(values)
        .all(|(key, value)| value.is_none() || before.str_at(&["data", key]) == value);
    if !is_same {
        *text = file.text();
    }
}

/// Joins two texts to one file; `None` if the first cannot be parsed.
fn appended(old: &str, new: &str) -> Option<String> {
    let (old, new) = (File::read(old).ok()?, File::read(new).ok()?);
    let documents: Vec<_> = old
        .documents
        .iter()
        .map(|document| (document, &old))
        .chain(new.documents.iter().map(|document| (document, &new)))
        .collect();
    Some(old.with(&documents))
}

/// Returns the text of a new context (`packagevariants.md` 3.2).
pub(super) fn text(package_path: &str) -> String {
    let data = RESERVED.into_iter().zip([base_name(package_path), package_path]);
    let data = data.map(|(key, value)| Pair::new(key, Node::string(value))).collect();
    let head = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {NAME}\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"
    );
    let data = Node::mapping(vec![Pair::new("data", Node::mapping(data))]);
    head + &groundwork_yaml::tree::write(&data, groundwork_yaml::tree::Layout::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    \
                       config.kubernetes.io/local-config: \"true\"\ndata:\n  name: dns\n  package-path: net/dns\n";
    const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kptfile.kpt.dev}\n";

    fn package(files: &[(&str, &str)]) -> Package {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn check(files: &[(&str, &str)], expected: &[(&str, &str)]) {
        let mut found = package(files);
        set_context(&mut found, "net/dns");
        assert_eq!(found, package(expected));
        set_context(&mut found, "net/dns");
        assert_eq!(found, package(expected));
    }

    /// A context is created only if it is missing; other keys of a present one are kept
    /// (`packagevariants.md` 6.7).
    #[test]
    fn contexts() {
        let data = |data: &str| format!("{HEAD}{data}");
        check(&[], &[("package-context.yaml", NEW)]);
        check(
            &[("a/ctx.yaml", &data("data:\n  zone: 7 # z\n  name: coredns # n\n"))],
            &[("a/ctx.yaml", &data("data:\n  zone: \"7\" # z\n  name: dns # n\n  package-path: net/dns\n"))],
        );
        check(
            &[("package-context.yaml", HEAD)],
            &[("package-context.yaml", &data("data:\n  name: dns\n  package-path: net/dns\n"))],
        );
        let right = data("data: {n: 5, package-path: net/dns,   name: dns}\n");
        check(&[("c.yaml", &right)], &[("c.yaml", &right)]);
        check(
            &[("package-context.yaml", "kind: X\n")],
            &[("package-context.yaml", &format!("kind: X\n---\n{NEW}"))],
        );
    }

    #[test]
    fn files_that_cannot_be_read_stay() {
        let broken = [("package-context.yaml", "a: [\n")];
        check(&broken, &broken);
    }

    /// Only the context of the root package counts (`packagevariants.md` 6.7).
    #[test]
    fn subpackages_get_none() {
        let sub = [("s/Kptfile", "kind: Kptfile\n"), ("s/package-context.yaml", HEAD)];
        check(&sub, &[sub[0], sub[1], ("package-context.yaml", NEW)]);
    }

    /// Contexts after merges with each strategy (`packagevariants.md` 6.7).
    #[test]
    fn merges() {
        let renamed = NEW.replace("net/dns", "x").replace("name: dns", "name: x");
        for (strategy, merged, expected) in [
            (Strategy::FastForward, vec![], vec![("package-context.yaml", NEW)]),
            (
                Strategy::ForceDeleteReplace,
                vec![("a.yaml", "a: 1\n")],
                vec![("a.yaml", "a: 1\n"), ("package-context.yaml", NEW)],
            ),
            (Strategy::ResourceMerge, vec![], vec![]),
            (Strategy::ResourceMerge, vec![("c.yaml", renamed.as_str())], vec![("c.yaml", NEW)]),
            (Strategy::FastForward, vec![("c.yaml", renamed.as_str())], vec![("c.yaml", NEW)]),
        ] {
            let mut found = package(&merged);
            restore_context(&mut found, &package(&[("package-context.yaml", NEW)]), strategy);
            assert_eq!(found, package(&expected), "{strategy:?}");
            restore_context(&mut found, &package(&[("package-context.yaml", NEW)]), strategy);
            assert_eq!(found, package(&expected), "{strategy:?}");
        }
    }
}
