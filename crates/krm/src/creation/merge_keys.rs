//! Merge keys (`packagevariants.md` 6.8): the upstream name of an object, in a comment and in an
//! annotation.

use groundwork_yaml::tree::{Node, Pair};

use super::section;
use crate::file::File;
use crate::identity::{MERGE_COMMENT, UPSTREAM_IDENTIFIER, upstream_name};
use crate::ignore::Ignored;
use crate::package::{Package, is_of_git, is_yaml};

/// Adds the merge keys to every object. A file that cannot be parsed stays unchanged.
pub fn add_merge_keys(files: &mut Package) {
    let ignored = Ignored::of(files);
    for (path, text) in files.iter_mut() {
        if !is_yaml(path) || is_of_git(path) || ignored.holds(path) {
            continue;
        }
        let Ok(mut file) = File::read(text) else { continue };
        file.documents.iter_mut().for_each(|document| add(&mut document.root));
        if file.is_changed() {
            *text = file.text();
        }
    }
}

fn add(root: &mut Node) {
    // A mapping in flow form has no line of its own for the comment.
    if root.as_mapping().is_none_or(|mapping| mapping.is_flow) || !is_identified(root) {
        return;
    }
    let (namespace, name) = upstream_name(root).unwrap_or_else(|| add_comment(root));
    let text = |path: &[&str]| root.at(path).and_then(Node::text).unwrap_or_default();
    let group = text(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let namespace = if namespace.is_empty() { "default" } else { namespace.as_str() };
    let identifier = format!("{group}|{}|{namespace}|{name}", text(&["kind"]));
    let annotations = root.get_mut("metadata").and_then(|metadata| section(metadata, "annotations", &[]));
    let Some(annotations) = annotations.and_then(Node::as_mapping_mut) else { return };
    match annotations.get_mut(UPSTREAM_IDENTIFIER) {
        Some(found) if found.as_str() == Some(&identifier) => {}
        Some(found) => found.set_text(&identifier),
        None => annotations.pairs.push(Pair::new(UPSTREAM_IDENTIFIER, Node::string(&identifier))),
    }
}

/// Reports whether the object has a name, a namespace or labels.
fn is_identified(root: &Node) -> bool {
    let Some(metadata) = root.get("metadata") else { return false };
    let has_text = |key: &str| metadata.get(key).and_then(Node::text).is_some_and(|text| !text.is_empty());
    has_text("name")
        || has_text("namespace")
        || metadata.get("labels").and_then(Node::as_mapping).is_some_and(|labels| !labels.pairs.is_empty())
}

/// Adds the comment, and returns its namespace and name. A present comment moves above the key.
fn add_comment(root: &mut Node) -> (String, String) {
    let text = |key: &str| root.at(&["metadata", key]).and_then(Node::text).unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let pair = root
        .as_mapping_mut()
        .and_then(|mapping| mapping.pairs.iter_mut().find(|pair| pair.name() == "metadata"));
    if let Some(pair) = pair {
        let own = std::mem::take(&mut pair.key.comments.line);
        let of_value = std::mem::take(&mut pair.value.comments.line);
        for comment in [own, of_value] {
            let head = &mut pair.key.comments.head;
            if !comment.is_empty() {
                let gap = if head.is_empty() { "" } else { "\n" };
                *head = format!("{head}{gap}{comment}");
            }
        }
        pair.key.comments.line = format!("# {MERGE_COMMENT} {namespace}/{name}");
    }
    (namespace, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut files: Package = [("a.yaml".to_owned(), text.to_owned())].into();
        add_merge_keys(&mut files);
        assert_eq!(files["a.yaml"], expected);
        add_merge_keys(&mut files);
        assert_eq!(files["a.yaml"], expected);
    }

    /// The example of `packagevariants.md` 6.8, and its rules.
    #[test]
    fn keys() {
        let head = "apiVersion: v1\nkind: ConfigMap\n";
        check(
            &format!("{head}metadata:\n  name: corefile\n  namespace: dns-system\n"),
            &format!(
                "{head}metadata: # kpt-merge: dns-system/corefile\n  name: corefile\n  namespace: dns-system\n  annotations:\n    \
                 internal.kpt.dev/upstream-identifier: '|ConfigMap|dns-system|corefile'\n"
            ),
        );
        check(
            "apiVersion: apps/v1\nkind: D\nmetadata: # kpt-merge: old/first\n  name: second\n  annotations: {a: b}\n",
            "apiVersion: apps/v1\nkind: D\nmetadata: # kpt-merge: old/first\n  name: second\n  annotations: {a: b, \
             internal.kpt.dev/upstream-identifier: apps|D|old|first}\n",
        );
        check(
            "kind: N\nmetadata: # mine\n  name: n # kpt-merge: a/b\n",
            "kind: N\n# mine\nmetadata: # kpt-merge: /n\n  name: n # kpt-merge: a/b\n  annotations:\n    \
             internal.kpt.dev/upstream-identifier: '|N|default|n'\n",
        );
        check(
            "kind: N\nmetadata: {name: n}\n",
            "kind: N\nmetadata: {name: n, annotations: {internal.kpt.dev/upstream-identifier: '|N|default|n'}} # kpt-merge: /n\n",
        );
    }

    /// Objects and files without merge keys (`packagevariants.md` 6.8).
    #[test]
    fn what_gets_none() {
        for text in [
            "a: 1\n",
            "metadata: {}\n",
            "kind: [\n",
            "- a\n",
            "metadata: {name: \"\"}\n",
            "{metadata: {name: a}}\n",
        ] {
            check(text, text);
        }
        let files = [
            ("a.yaml", "kind: A\nmetadata: {name: a}\n"),
            (".krmignore", "a.yaml\n"),
            ("Kptfile", "metadata: {name: a}\n"),
        ];
        let mut files: Package = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let before = files.clone();
        add_merge_keys(&mut files);
        assert_eq!(files, before);
    }
}
