//! `upsert-resource` (`packagevariants.md` 8.5): the config is the object to add or replace.

use groundwork_yaml::tree::{Layout, Node, write};

use super::{group, text};
use crate::render::{Item, ResourceList};
use crate::value::assign;

const TARGET: &str = "config.kubernetes.io/target-path";

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let Some(config) = &list.config else {
        return Err("functionConfig must be the resource to upsert".to_owned());
    };
    let wanted = match (text(config, &["kind"]), config.get("items").and_then(Node::as_sequence)) {
        ("List", items) => items.map(|items| items.items.clone()).unwrap_or_default(),
        _ => vec![config.clone()],
    };
    for mut object in wanted {
        let path = take_target(&mut object);
        if !list.meter.parts(list.items.len()) {
            break;
        }
        let size = write(&object, Layout::default()).len();
        let mut is_there = false;
        for item in &mut list.items {
            let is_placed = path
                .as_ref()
                .is_none_or(|path| item.package == list.package && item.path.as_ref() == Some(path));
            if is_placed && key(&item.root) == key(&object) && list.meter.bytes(size) {
                assign(&mut item.root, &object);
                is_there = true;
            }
        }
        if !is_there {
            list.items.push(Item::new(object, path));
        }
    }
    Ok(())
}

/// Returns the fields that identify an object.
fn key(root: &Node) -> [&str; 4] {
    [
        group(root),
        text(root, &["kind"]),
        text(root, &["metadata", "namespace"]),
        text(root, &["metadata", "name"]),
    ]
}

/// Removes the annotation with the path, and returns the path.
fn take_target(object: &mut Node) -> Option<String> {
    let metadata = object.get_mut("metadata").and_then(Node::as_mapping_mut)?;
    let annotations = metadata.get_mut("annotations").and_then(Node::as_mapping_mut)?;
    let path = annotations.remove(TARGET)?;
    if annotations.pairs.is_empty() {
        metadata.remove("annotations");
    }
    let path = path.text().unwrap_or_default();
    Some(path.strip_prefix("./").unwrap_or(path).to_owned()).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error};
    use crate::{Package, RenderOptions, render};

    const A: &str =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\ndata:\n  b: c # keep\n  d: e\n";

    /// A present object is replaced in place, a new one is appended (`packagevariants.md` 8.5).
    #[test]
    fn objects() {
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: x}\n";
        check("upsert-resource", config, A, &A.replace("b: c", "b: x").replace("  d: e\n", ""));
        let other = config.replace("name: a", "name: b");
        check("upsert-resource", &other, A, &format!("{A}---\n{other}"));
        let both = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v2, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: \
                    B, metadata: {name: b}}\n";
        check(
            "upsert-resource",
            both,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}\n---\n{apiVersion: v1, kind: B, metadata: {name: b}}\n",
        );
        check_error("upsert-resource", "", A, "functionConfig must be the resource to upsert");
    }

    /// The config comes from `configPath`, with a path annotation (`packagevariants.md` 8.5).
    #[test]
    fn target_paths() {
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - {image: upsert-resource, \
                       configPath: c.yaml}\n";
        let config = |path: &str| {
            format!(
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: n\n  annotations: {{config.kubernetes.io/target-path: {path}}}\n"
            )
        };
        let run = |path: &str| {
            let files: Package = [("Kptfile", kptfile.to_owned()), ("c.yaml", config(path))]
                .map(|(path, text)| (path.to_owned(), text))
                .into();
            render(&files, &RenderOptions::default())
        };
        let found = run("d/n.yaml");
        assert_eq!(found.error, None);
        assert_eq!(found.files["d/n.yaml"], "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: n\n");
        assert_eq!(found.files["c.yaml"], config("d/n.yaml"));
        assert_eq!(render(&found.files, &RenderOptions::default()).files, found.files);
        assert!(
            run("../n.yaml").error.unwrap().ends_with(
                "function must not modify resources outside of package: resource has path ../n.yaml"
            )
        );
    }
}
