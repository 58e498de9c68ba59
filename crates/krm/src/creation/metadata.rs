//! Metadata and readiness gates of a new revision (`packagevariants.md` 6.6, after the task).

use std::collections::BTreeMap;

use groundwork_api::ReadinessGate;
use groundwork_yaml::tree::{Content, Node, Pair};

use super::{CreationError, edit_kptfile, metadata_of, section, set_string};
use crate::package::Package;

/// Merges labels and annotations into those of the root Kptfile. Messages contain `package`.
///
/// # Errors
/// The root Kptfile is missing or cannot be parsed; see [`CreationError`].
pub fn set_package_metadata(
    files: &mut Package,
    package: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), CreationError> {
    edit_kptfile(files, package, |root| {
        for (name, values) in [("labels", labels), ("annotations", annotations)] {
            if values.is_empty() {
                continue;
            }
            let Some(map) = metadata_of(root).and_then(|metadata| section(metadata, name, &[])) else {
                continue;
            };
            for (key, value) in values {
                set_string(map, key, value);
            }
        }
    })
}

/// Replaces the gates of the root Kptfile. Messages contain `package`.
///
/// # Errors
/// The root Kptfile is missing or cannot be parsed; see [`CreationError`].
pub fn set_readiness_gates(
    files: &mut Package,
    package: &str,
    gates: &[ReadinessGate],
) -> Result<(), CreationError> {
    let types: Vec<&str> = gates.iter().filter_map(|gate| gate.condition_type.as_deref()).collect();
    edit_kptfile(files, package, |root| set_gates(root, &types))
}

fn set_gates(root: &mut Node, types: &[&str]) {
    if types.is_empty() {
        let Some(info) = root.get_mut("info").and_then(Node::as_mapping_mut) else { return };
        let had = info.remove("readinessGates").is_some();
        if let (true, true, Some(mapping)) = (had, info.pairs.is_empty(), root.as_mapping_mut()) {
            mapping.remove("info");
        }
        return;
    }
    let Some(info) = section(root, "info", &["metadata", "upstream", "upstreamLock"]) else { return };
    let Some(info) = info.as_mapping_mut() else { return };
    let old = info.get("readinessGates").and_then(Node::as_sequence);
    let gate = |wanted: &&str| {
        let known =
            old.and_then(|old| old.items.iter().find(|gate| gate.str_at(&["conditionType"]) == Some(wanted)));
        // Present gates keep their comments.
        known
            .cloned()
            .unwrap_or_else(|| Node::mapping(vec![Pair::new("conditionType", Node::string(wanted))]))
    };
    let items: Vec<Node> = types.iter().map(gate).collect();
    match info.get_mut("readinessGates") {
        Some(Node { content: Content::Sequence(list), .. }) => list.items = items,
        Some(other) => other.content = Node::sequence(items).content,
        None => info.pairs.push(Pair::new("readinessGates", Node::sequence(items))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KPTFILE: &str = "kind: Kptfile\nmetadata:\n  name: a # n\n";

    fn check(before: &str, edit: impl Fn(&mut Package) -> Result<(), CreationError>, expected: &str) {
        let mut files: Package = [("Kptfile".to_owned(), before.to_owned())].into();
        edit(&mut files).unwrap();
        assert_eq!(files["Kptfile"], expected);
        edit(&mut files).unwrap();
        assert_eq!(files["Kptfile"], expected);
    }

    /// Labels and annotations are merged (`packagevariants.md` 6.6), and the written maps contain
    /// strings (`packagevariants.md` 1.7).
    #[test]
    fn labels_and_annotations() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let none = map(&[]);
        check(KPTFILE, |files| set_package_metadata(files, "p", &none, &none), KPTFILE);
        check(
            &format!("{KPTFILE}  labels: {{app: x, n: 5}}\n"),
            |files| set_package_metadata(files, "p", &map(&[("app", "dns")]), &map(&[("a", "1")])),
            &format!("{KPTFILE}  labels: {{app: dns, n: \"5\"}}\n  annotations:\n    a: \"1\"\n"),
        );
        let mut missing = Package::new();
        let error = set_package_metadata(&mut missing, "p", &none, &none).unwrap_err();
        assert_eq!(error.to_string(), "package \"p\" is missing Kptfile");
    }

    /// The Kptfile gets exactly the given gates (`packagevariants.md` 6.6).
    #[test]
    fn gates() {
        let gates = |types: &[&str]| -> Vec<ReadinessGate> {
            let gate = |name: &&str| ReadinessGate {
                condition_type: Some((*name).to_owned()),
                ..ReadinessGate::default()
            };
            types.iter().map(gate).collect()
        };
        let body = |gates: &str| format!("{KPTFILE}info:\n  readinessGates:\n{gates}");
        check(
            KPTFILE,
            |files| set_readiness_gates(files, "p", &gates(&["a", "b"])),
            &body("  - conditionType: a\n  - conditionType: b\n"),
        );
        check(
            &body("  - conditionType: old\n  - conditionType: a # why\n"),
            |files| set_readiness_gates(files, "p", &gates(&["a", "b"])),
            &body("  - conditionType: a # why\n  - conditionType: b\n"),
        );
        check(&body("  - conditionType: old\n"), |files| set_readiness_gates(files, "p", &[]), KPTFILE);
        check(KPTFILE, |files| set_readiness_gates(files, "p", &[]), KPTFILE);
    }
}
