//! Tests of `blueprints.md` 9.3.

use serde_json::Map;

use super::super::{InvalidTemplates, validate};
use super::{IMPORTS, definition, templates, values};

/// Returns the findings about children, each with a blueprint, for a parent with [`IMPORTS`].
fn findings(children: &str, present: &[&str]) -> String {
    let list = templates(children);
    let findings = validate(&list, &definition(IMPORTS), &values(present));
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks children with a name and a blueprint, and the given members.
#[track_caller]
fn check(children: &[(&str, &str)], expected: &[&str]) {
    let child =
        |(name, members): &(&str, &str)| format!("{{name: {name}, blueprint: {{ref: x}}, {members}}}");
    let list = children.iter().map(child).collect::<Vec<_>>().join(", ");
    assert_eq!(findings(&format!("[{list}]"), &[]), expected.join("\n"), "{children:?}");
}

/// Rules V38 and V40: exports are unique.
#[test]
fn exports_are_unique() {
    let data = "exports: {data: [{name: e, dataRef: x}]}";
    check(
        &[("a", data), ("b", data), ("c", data)],
        &[
            "subinstallations.b.exports.data[0][e]: Forbidden: data export 'x' is already exported by subinstallations.a.exports.data[0][e]",
            "subinstallations.c.exports.data[0][e]: Forbidden: data export 'x' is already exported by subinstallations.a.exports.data[0][e]",
        ],
    );
    check(
        &[("a", "exports: {data: [{name: e, dataRef: x}, {name: f, dataRef: x}]}")],
        &[
            "subinstallations.a.exports.data[1][f]: Forbidden: data export 'x' is already exported by subinstallations.a.exports.data[0][e]",
        ],
    );
    let target = "exports: {targets: [{name: e, target: x}]}";
    check(
        &[("a", target), ("b", target)],
        &[
            "subinstallations.b.exports.targets[0][e]: Forbidden: target export 'x' is already exported by subinstallations.a.exports.targets[0][e]",
        ],
    );
    // Data and Targets have separate names.
    check(&[("a", target), ("b", data)], &[]);
}

/// Rules V39 and V41: an export has no name of a parent's import.
#[test]
fn exports_are_no_imports_of_the_parent() {
    let forbidden = |list: &str| {
        format!("subinstallations.a.exports.{list}[0][e]: Forbidden: export is imported by its parent")
    };
    for name in ["must", "may", "owner"] {
        let exports = format!("exports: {{data: [{{name: e, dataRef: {name}}}]}}");
        check(&[("a", &exports)], &[&forbidden("data")]);
    }
    for name in ["cluster", "edge", "list", "map"] {
        let exports = format!("exports: {{targets: [{{name: e, target: {name}}}]}}");
        check(&[("a", &exports)], &[&forbidden("targets")]);
    }
    // An import of another kind does not conflict, nor does a nested one whose owner has no value.
    for exports in [
        "data: [{name: e, dataRef: cluster}]",
        "targets: [{name: e, target: must}]",
        "data: [{name: e, dataRef: inner}]",
    ] {
        check(&[("a", &format!("exports: {{{exports}}}"))], &[]);
    }
    let nested = "[{name: a, blueprint: {ref: x}, exports: {data: [{name: e, dataRef: inner}]}}]";
    assert_eq!(findings(nested, &["owner"]), forbidden("data"));
}

/// Rule V42 (case B-105): names of children are unique.
#[test]
fn names_are_unique() {
    check(
        &[("a", ""), ("b", ""), ("a", "")],
        &["subinstallations.a: Duplicate value: \"duplicated subinstallation\""],
    );
    // Two templates without a name are two findings of V21, by index.
    assert_eq!(
        findings("[{blueprint: {ref: x}}, {blueprint: {ref: x}}]", &[]),
        "subinstallations[0].name: Required value: name must be defined\n\
         subinstallations[1].name: Required value: name must be defined"
    );
}

/// Rule V43 (cases B-99, B-107): satisfied imports.
#[test]
fn imports_are_satisfied() {
    let sibling = "exports: {data: [{name: e, dataRef: x}], targets: [{name: f, target: x}]}";
    let at = "subinstallations.a.imports";
    for (imports, places) in [
        // Satisfied by imports of the parent.
        ("data: [{name: i, dataRef: must}, {name: j, dataRef: may}]", &[][..]),
        ("targets: [{name: i, target: cluster}]", &[]),
        ("targets: [{name: i, targets: [cluster, 'list[0]', 'map[k]']}]", &[]),
        ("targets: [{name: i, targetMap: {k: cluster, l: 'map[k]'}}]", &[]),
        ("targets: [{name: i, targetMapRef: map}, {name: j, targetListRef: list}]", &[]),
        // Satisfied by siblings.
        ("data: [{name: i, dataRef: x}]", &[]),
        ("targets: [{name: i, target: x}, {name: j, targets: [x]}, {name: k, targetMap: {l: x}}]", &[]),
        // Not satisfied.
        ("data: [{name: i, dataRef: nope}]", &["data[0][i]"]),
        ("data: [{name: i, dataRef: cluster}]", &["data[0][i]"]),
        ("data: [{name: i, dataRef: '#must'}]", &["data[0][i]"]),
        ("data: [{name: i, dataRef: inner}]", &["data[0][i]"]),
        ("targets: [{name: i, target: must}]", &["targets[0][i]"]),
        ("targets: [{name: i, target: list}, {name: j, target: map}]", &["targets[0][i]", "targets[1][j]"]),
        ("targets: [{name: i, targets: [cluster, nope]}]", &["targets[0][i].targets[1]"]),
        ("targets: [{name: i, targetMap: {k: nope, l: cluster}}]", &["targets[0][i].targets[k]"]),
        ("targets: [{name: i, target: 'cluster[0]'}]", &["targets[0][i]"]),
        ("targets: [{name: i, target: 'x[0]'}]", &["targets[0][i]"]),
        ("targets: [{name: i, targetMapRef: list}]", &["targets[0][i]"]),
        ("targets: [{name: i, targetListRef: map}]", &["targets[0][i]"]),
        ("targets: [{name: i, targetMapRef: x}]", &["targets[0][i]"]),
        ("targets: [{name: i, targetListRef: x}]", &["targets[0][i]"]),
    ] {
        let expected: Vec<String> =
            places.iter().map(|place| format!("{at}.{place}: Not found: \"import not satisfied\"")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&[("a", &format!("imports: {{{imports}}}")), ("b", sibling)], &expected);
    }
    // If the owner has a value, its nested imports count. Imports nested one level deeper, below an
    // owner without a value, do not.
    let nested = "[{name: a, blueprint: {ref: x}, imports: {data: [{name: i, dataRef: inner}], targets: [{name: j, target: deep}]}}]";
    assert_eq!(
        findings(nested, &["owner"]),
        format!("{at}.targets[0][j]: Not found: \"import not satisfied\"")
    );
    assert_eq!(findings(nested, &["owner", "middle"]), "");
}

/// If the parent has no list or map, a plain name may have brackets, and a sibling can export it.
#[test]
fn brackets_without_lists() {
    let list = templates(
        "[{name: a, blueprint: {ref: x}, imports: {targets: [{name: i, target: 'x[0]'}]}},
          {name: b, blueprint: {ref: x}, exports: {targets: [{name: e, target: 'x[0]'}]}}]",
    );
    assert_eq!(validate(&list, &definition("{}"), &Map::new()), []);
}

/// Rules V21 to V37 at the same root, and both kinds of blueprint at once (`blueprints.md` 9.4).
#[test]
fn rules_of_single_templates() {
    check(
        &[("a", "imports: {data: [{name: i, secretRef: {name: s}}]}")],
        &[
            "subinstallations.a.imports.data[0].secretRef: Forbidden: secret references are not allowed in a installation template",
            "subinstallations.a.imports.data[0].dataRef: Required value: dataRef must not be empty",
        ],
    );
    check(
        &[("a", "exports: {data: [{name: e}], targets: [{name: e, target: t}]}")],
        &[
            "subinstallations.a.exports.data[0].dataRef: Required value: dataRef must not be empty",
            "subinstallations.a.exports.targets[0]: Duplicate value: \"e\"",
        ],
    );
    assert_eq!(
        findings("[{name: a}]", &[]),
        "subinstallations.a.blueprint: Required value: a blueprint must be defined"
    );
    assert_eq!(
        findings("[{name: a, blueprint: {ref: x, filesystem: {}}}]", &[]),
        "subinstallations.a.blueprint: Invalid value: null: exactly one of [ref, filesystem] must be set (currently set: [ref, filesystem])"
    );
    assert_eq!(
        findings("[null]", &[]),
        "subinstallations[0].name: Required value: name must be defined\n\
         subinstallations[0].blueprint: Required value: a blueprint must be defined"
    );
}

/// A child that only its own export satisfies passes here. The sibling graph rejects it
/// (`blueprints.md` 9.3).
#[test]
fn own_exports_satisfy() {
    check(
        &[("a", "imports: {data: [{name: i, dataRef: x}]}, exports: {data: [{name: e, dataRef: x}]}")],
        &[],
    );
}

/// Error SUB-002 (`blueprints.md` 10): all findings as one text, without duplicates.
#[test]
fn aggregated() {
    let list = templates(
        "[{name: a, blueprint: {ref: x}}, {name: a, blueprint: {ref: x}}, {name: a, blueprint: {ref: x}}, {name: b}]",
    );
    let findings = validate(&list, &definition("{}"), &Map::new());
    assert_eq!(findings.len(), 3);
    assert_eq!(
        InvalidTemplates { findings }.to_string(),
        "[subinstallations.a: Duplicate value: \"duplicated subinstallation\", \
         subinstallations.b.blueprint: Required value: a blueprint must be defined]"
    );
}
