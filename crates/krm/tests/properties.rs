//! Properties of every merge, with generated files.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use groundwork_krm::{MergeError, Merged, Package};
use groundwork_yaml::tree::{Node, compose};
use proptest::prelude::*;

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\n";

/// Generates scalars, maps and lists without null, since a null deletes values.
fn value(depth: u32) -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z]{1,4}".prop_map(|text| text),
        Just("true".to_owned()),
        (0_u32..100).prop_map(|number| number.to_string()),
        Just("'quoted text'".to_owned()),
    ];
    scalar.prop_recursive(depth, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::btree_map("[a-e]", inner, 1..4).prop_map(|map| {
                let pairs: Vec<String> =
                    map.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", pairs.join(", "))
            }),
        ]
    })
}

fn merge(original: &Package, updated: &Package, local: &Package) -> Result<Merged, MergeError> {
    let versions = groundwork_krm::Versions::new(original, updated, local);
    groundwork_krm::merge(groundwork_krm::Strategy::ResourceMerge, versions)
}

fn package() -> impl Strategy<Value = Package> {
    let fields = prop::collection::btree_map("[a-e]", value(3), 0..4);
    let object = fields.prop_map(|fields| {
        let lines: String =
            fields.into_iter().map(|(key, value)| format!("{key}: {value} # {key}\n")).collect();
        format!(
            "# above\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\nspec:\n  nested: {{}}\n{lines}"
        )
    });
    object.prop_map(|text| [("Kptfile".to_owned(), KPTFILE.to_owned()), ("a.yaml".to_owned(), text)].into())
}

/// Returns the object without empty maps: if the upstream removes all fields of a map, `{}` stays.
fn root(package: &Package) -> Node {
    let mut root = compose(&package["a.yaml"]).unwrap().root.unwrap();
    prune(&mut root);
    root
}

fn prune(node: &mut Node) {
    let Some(mapping) = node.as_mapping_mut() else { return };
    mapping.pairs.iter_mut().for_each(|pair| prune(&mut pair.value));
    mapping.pairs.retain(|pair| pair.value.as_mapping().is_none_or(|inner| !inner.pairs.is_empty()));
}

proptest! {
    /// Without a change in the upstream, the merge changes nothing.
    #[test]
    fn without_a_change_upstream_nothing_changes(original in package(), local in package()) {
        match merge(&original, &original, &local) {
            Ok(merged) => prop_assert_eq!(merged.files, local.clone()),
            Err(error) => prop_assert!(error.to_string().contains("wrong node kind"), "{}", error),
        }
        prop_assert_eq!(merge(&local, &local, &local).unwrap().files, local);
    }

    /// Without local changes, the result is the upstream's objects.
    #[test]
    fn without_local_changes_upstream_comes_out(original in package(), updated in package()) {
        match merge(&original, &updated, &original) {
            Ok(merged) => {
                let (found, wanted) = (root(&merged.files), root(&updated));
                prop_assert!(found.equals(&wanted), "{}\n{}", merged.files["a.yaml"], updated["a.yaml"]);
            }
            Err(error) => prop_assert!(error.to_string().contains("wrong node kind"), "{}", error),
        }
    }

    /// A merge is deterministic, and no text makes it panic.
    #[test]
    fn any_text_has_one_answer(original in "[a-z:#\\-\\[\\]{} \n'\"|>&*!%]{0,40}", updated in "[a-z:#\\- \n'\"]{0,40}", local in "[a-z:#\\- \n\\[\\]]{0,40}") {
        let package = |text: String| -> Package { [("Kptfile".to_owned(), KPTFILE.to_owned()), ("a.yaml".to_owned(), text)].into() };
        let (original, updated, local) = (package(original), package(updated), package(local));
        let merged = || merge(&original, &updated, &local);
        prop_assert_eq!(merged(), merged());
    }
}
