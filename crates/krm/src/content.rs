//! Comparison of package contents (`packagevariants.md` 2.12).

use groundwork_yaml::tree::Node;

use crate::file::File;
use crate::merge::drop_rendering;
use crate::package::{KPTFILE, Package, is_yaml};
use crate::value::canonical;

/// Reports whether two versions count as the same content, so that a save is not needed.
///
/// The root Kptfile, the package context and files with injection points are compared as data, all
/// other files as bytes.
pub fn same_content(before: &Package, after: &Package) -> bool {
    before.len() == after.len()
        && before.iter().all(|(path, old)| {
            after
                .get(path)
                .is_some_and(|new| old == new || (is_data(path, old, new) && same_data(path, old, new)))
        })
}

fn is_data(path: &str, old: &str, new: &str) -> bool {
    let is_injected = || [old, new].iter().all(|text| text.contains("kpt.dev/config-injection"));
    let is_read = is_yaml(path) || path.ends_with(".json");
    path == KPTFILE || path == "package-context.yaml" || is_read && is_injected()
}

fn same_data(path: &str, old: &str, new: &str) -> bool {
    let shown = |text: &str| -> Option<Vec<String>> {
        let file = File::read(text).ok()?;
        let documents = file.documents.iter().map(|document| {
            if path == KPTFILE { canonical(&essence(&document.root)) } else { canonical(&document.root) }
        });
        Some(documents.collect())
    };
    matches!((shown(old), shown(new)), (Some(old), Some(new)) if old == new)
}

/// Returns a Kptfile without the fields that renderings write, and with sorted gates and
/// conditions.
fn essence(root: &Node) -> Node {
    let mut root = root.clone();
    drop_rendering(&mut root);
    for [section, name] in [["info", "readinessGates"], ["status", "conditions"]] {
        let list = root.get_mut(section).and_then(|part| part.get_mut(name)).and_then(Node::as_sequence_mut);
        if let Some(list) = list {
            list.items.sort_by_cached_key(canonical);
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, before: &str, after: &str, expected: bool) {
        let package = |text: &str| -> Package { [(path.to_owned(), text.to_owned())].into() };
        assert_eq!(same_content(&package(before), &package(after)), expected, "{path}: {before:?} {after:?}");
    }

    /// Differences that count as a change, and those that do not (`packagevariants.md` 2.12).
    #[test]
    fn what_counts_as_a_change() {
        check("a.yaml", "a: 1\n", "a:  1\n", false);
        check("Kptfile", "a: 1 # c\nb: {c: \"x\"}\n", "b:\n  c: x\na: 1\n", true);
        check("Kptfile", "a: 1\n", "a: \"1\"\n", false);
        check("Kptfile", "pipeline: {}\n", "{}\n", false);
        check(
            "Kptfile",
            "info: {readinessGates: [{a: b}, {c: d}]}\n",
            "info: {readinessGates: [{c: d}, {a: b}]}\n",
            true,
        );
        check("Kptfile", "info: {keywords: [a, b]}\n", "info: {keywords: [b, a]}\n", false);
        check(
            "Kptfile",
            "a: 1\n",
            "a: 1\nstatus: {conditions: [{type: Rendered, status: \"True\"}], renderStatus: {mutationSteps: []}}\n",
            true,
        );
        check("package-context.yaml", "data: {a: b}\n", "data:\n  a: b\n", true);
        check("package-context.yaml", "data: {a: b}\n", "data:\n  a: c\n", false);
        check("s.yaml", "a: {kpt.dev/config-injection: x}\n", "a: {kpt.dev/config-injection: 'x'}\n", true);
        check("Kptfile", "a: [\n", "a: [ \n", false);
    }

    #[test]
    fn files_that_come_and_go() {
        let one: Package = [("a".to_owned(), String::new())].into();
        let other: Package = [("b".to_owned(), String::new())].into();
        assert!(
            same_content(&one, &one) && !same_content(&one, &other) && !same_content(&one, &Package::new())
        );
    }
}
