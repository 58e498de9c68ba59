//! Tests of `blueprints.md` 9.2.

use std::collections::BTreeSet;

use groundwork_api::InstallationTemplate;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::wiring;
use super::super::{Removal, remove_unsatisfied, validate};
use super::{IMPORTS, decoded, definition, templates, values};

/// Returns the remaining imports, by child.
fn left(removal: &Removal) -> Vec<String> {
    let names = |template: &InstallationTemplate| {
        wiring::imports(template).map(|import| import.name.to_owned()).collect::<Vec<_>>().join(" ")
    };
    removal.templates.iter().map(names).collect()
}

/// Cases C-16, C-18, C-19, C-23 (`blueprints.md` 9.2): for every form, the remaining import of the
/// only child without the named values, and with them.
#[test]
fn forms() {
    for (import, wanted, without, with) in [
        ("data: [{name: x, dataRef: may}]", "may", "", "x"),
        // A required import without a value is an error of an earlier check, so the removal must
        // not hide it.
        ("data: [{name: x, dataRef: must}]", "must", "x", "x"),
        // Nested imports are conditional, even if they are marked as required.
        ("data: [{name: x, dataRef: inner}]", "inner", "", "x"),
        ("targets: [{name: x, target: deep}]", "deep", "", "x"),
        ("targets: [{name: x, target: edge}]", "edge", "", "x"),
        ("targets: [{name: x, target: cluster}]", "cluster", "x", "x"),
        ("targets: [{name: x, target: 'list[0]'}]", "list", "", "x"),
        ("targets: [{name: x, target: 'map[red]'}]", "map", "", "x"),
        ("targets: [{name: x, targetListRef: list}]", "list", "", "x"),
        ("targets: [{name: x, targetMapRef: map}]", "map", "", "x"),
        // Lists and maps are removed as a whole.
        ("targets: [{name: x, targets: [cluster, edge]}]", "edge", "", "x"),
        ("targets: [{name: x, targets: [cluster, 'map[a]']}]", "map", "", "x"),
        ("targets: [{name: x, targetMap: {a: cluster, b: edge}}]", "edge", "", "x"),
        ("targets: [{name: x, targetMaps: {a: cluster, b: 'list[1]'}}]", "list", "", "x"),
        ("targets: [{name: x, targets: [{a: edge}]}]", "edge", "", "x"),
        ("targets: [{name: x, targets: []}]", "", "x", "x"),
        // Imports wired to an unknown name or to another kind stay, and V43 rejects them.
        ("data: [{name: x, dataRef: nowhere}]", "", "x", "x"),
        ("data: [{name: x, dataRef: edge}]", "", "x", "x"),
        ("targets: [{name: x, target: may}]", "", "x", "x"),
        ("targets: [{name: x, targetMapRef: list}]", "", "x", "x"),
    ] {
        let templates = templates(&format!("[{{name: c, imports: {{{import}}}}}]"));
        let definition = definition(IMPORTS);
        let none = remove_unsatisfied(&templates, &definition, &Map::new());
        assert_eq!(left(&none), [without], "{import}");
        assert_eq!(none.dropped.len(), usize::from(without.is_empty()), "{import}");
        let some = remove_unsatisfied(&templates, &definition, &values(&[wanted]));
        assert_eq!((left(&some), some.dropped.len()), (vec![with.to_owned()], 0), "{import}");
    }
}

/// Case C-12: a template may be wired to an optional import of the parent. It passes the checks
/// with and without a value.
#[test]
fn optional_imports_of_the_parent_can_be_wired() {
    let definition = definition(IMPORTS);
    for (import, wanted) in [
        ("data: [{name: x, dataRef: may}]", &["may"][..]),
        ("data: [{name: x, dataRef: inner}]", &["owner", "inner"]),
        ("targets: [{name: x, target: deep}]", &["owner", "middle", "deep"]),
        ("targets: [{name: x, targetMapRef: map}]", &["map"]),
    ] {
        let templates = templates(&format!("[{{name: c, blueprint: {{ref: x}}, imports: {{{import}}}}}]"));
        for present in [&[][..], wanted] {
            let present = values(present);
            let removal = remove_unsatisfied(&templates, &definition, &present);
            assert_eq!(validate(&removal.templates, &definition, &present), [], "{import}");
        }
    }
}

/// Case C-21 (`blueprints.md` 9.2, rule 4): an import of another child's export stays. An import of
/// the child's own export does not.
#[test]
fn siblings_win() {
    let importer =
        "{name: c, imports: {data: [{name: x, dataRef: inner}], targets: [{name: w, target: edge}]}";
    for (exporters, expected) in [
        ("", ""),
        (", {name: d, exports: {data: [{name: e, dataRef: inner}]}}", "x"),
        (", {name: d, exports: {targets: [{name: e, target: edge}]}}", "w"),
        // A Target of the same name does not count as data.
        (", {name: d, exports: {targets: [{name: e, target: inner}]}}", ""),
    ] {
        let templates = templates(&format!("[{importer}}}{exporters}]"));
        let removal = remove_unsatisfied(&templates, &definition(IMPORTS), &Map::new());
        assert_eq!(left(&removal)[0], expected, "{exporters}");
    }
    let own = templates(&format!("[{importer}, exports: {{data: [{{name: e, dataRef: inner}}]}}}}]"));
    assert_eq!(left(&remove_unsatisfied(&own, &definition(IMPORTS), &Map::new())), [""]);
}

/// If the parent imports no list or map, brackets are part of a plain name.
#[test]
fn brackets_without_lists() {
    let definition = definition("imports: [{name: 'a[b]', type: target, targetType: t, required: false}]");
    let templates = templates("[{name: c, imports: {targets: [{name: x, target: 'a[b]'}]}}]");
    assert_eq!(left(&remove_unsatisfied(&templates, &definition, &Map::new())), [""]);
    assert_eq!(left(&remove_unsatisfied(&templates, &definition, &values(&["a[b]"]))), ["x"]);
}

/// Messages about removed imports.
#[test]
fn reasons() {
    let templates = templates(
        "[{name: c, imports: {data: [{name: x, dataRef: may}, {name: w, dataRef: inner}], targets: [{name: z, targets: [middle, deep]}]}}]",
    );
    let texts = |present: &[&str]| -> Vec<String> {
        let removal = remove_unsatisfied(&templates, &definition(IMPORTS), &values(present));
        removal.dropped.iter().map(ToString::to_string).collect()
    };
    let start = "subinstallation \"c\": ";
    let parent = |name: &str| format!("import \"{name}\" of the parent has no value and is");
    assert_eq!(
        texts(&[]),
        [
            format!("{start}data import \"x\" is dropped: {} optional", parent("may")),
            format!("{start}data import \"w\" is dropped: {} conditional on \"owner\"", parent("inner")),
            format!("{start}target import \"z\" is dropped: {} conditional on \"owner\"", parent("middle")),
        ]
    );
    assert_eq!(
        texts(&["owner", "inner", "may"]),
        [format!("{start}target import \"z\" is dropped: {} optional", parent("middle"))]
    );
}

/// Acceptance item 10 of `blueprints.md` 12: the input is not changed, and mappings stay
/// (`blueprints.md` 9.2).
#[test]
fn only_copies_change() {
    let templates = templates(
        "[{name: c, imports: {data: [{name: x, dataRef: may}]}, importDataMappings: {m: (( x || ~~ ))}}, {name: d}]",
    );
    let before = templates.clone();
    let removal = remove_unsatisfied(&templates, &definition(IMPORTS), &Map::new());
    assert_eq!(templates, before);
    assert_eq!(removal.templates[0].import_data_mappings, before[0].import_data_mappings);
    // A template without removed imports stays as written.
    assert_eq!(removal.templates[1], before[1]);
    assert_eq!(left(&remove_unsatisfied(&templates, &definition(IMPORTS), &values(&["may"])))[0], "x");
}

/// `blueprints.md` 9.2: removal precedes validation.
#[test]
fn what_is_dropped_is_not_reported_as_unsatisfied() {
    let templates =
        templates("[{name: c, blueprint: {ref: x}, imports: {data: [{name: x, dataRef: inner}]}}]");
    let removal = remove_unsatisfied(&templates, &definition(IMPORTS), &Map::new());
    assert_eq!(validate(&removal.templates, &definition(IMPORTS), &Map::new()), []);
    assert_eq!(validate(&templates, &definition(IMPORTS), &Map::new()).len(), 1);
}

const NAMES: [&str; 10] =
    ["must", "may", "owner", "inner", "middle", "deep", "cluster", "edge", "list", "map"];

fn import() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(&NAMES[..]);
    prop_oneof![
        name().prop_map(|name| json!({"dataRef": name})),
        name().prop_map(|name| json!({"target": name})),
        name().prop_map(|name| json!({"target": format!("{name}[0]")})),
        name().prop_map(|name| json!({"targetListRef": name})),
        name().prop_map(|name| json!({"targetMapRef": name})),
        prop::collection::vec(name(), 0..3).prop_map(|names| json!({"targets": names})),
        (name(), name()).prop_map(|(a, b)| json!({"targetMap": {"a": a, "b": format!("{b}[k]")}})),
    ]
}

fn child() -> impl Strategy<Value = Value> {
    let exports = prop::collection::vec((any::<bool>(), prop::sample::select(&NAMES[..])), 0..2);
    (prop::collection::vec(import(), 0..5), exports).prop_map(|(imports, exports)| {
        let with_name = |(index, import): (usize, &Value)| {
            let mut import = import.clone();
            import["name"] = json!(format!("i{index}"));
            import
        };
        let (data, targets): (Vec<Value>, Vec<Value>) =
            imports.iter().enumerate().map(with_name).partition(|import| import.get("dataRef").is_some());
        let export = |wanted: bool, member: &str| -> Vec<Value> {
            let exports = exports.iter().filter(|(is_data, _)| *is_data == wanted);
            exports.map(|(_, name)| json!({"name": "e", member: name})).collect()
        };
        json!({"name": "c", "imports": {"data": data, "targets": targets},
            "exports": {"data": export(true, "dataRef"), "targets": export(false, "target")}})
    })
}

proptest! {
    /// An import is removed only if a name that it reads has no value. The rest keeps its order,
    /// and a second removal has no effect.
    #[test]
    fn nothing_with_a_value_is_removed(
        children in prop::collection::vec(child(), 0..5),
        present in prop::collection::btree_set(prop::sample::select(&NAMES[..]), 0..10),
    ) {
        let definition = definition(IMPORTS);
        let templates = decoded(&Value::from(children));
        let present: Vec<&str> = present.into_iter().collect();
        let imports = values(&present);
        let removal = remove_unsatisfied(&templates, &definition, &imports);
        for dropped in &removal.dropped {
            prop_assert!(!imports.contains_key(&dropped.parent_import));
            prop_assert!(!["must", "cluster"].contains(&dropped.parent_import.as_str()));
        }
        for (child, (before, after)) in templates.iter().zip(&removal.templates).enumerate() {
            let gone: BTreeSet<&str> = removal.dropped.iter().filter(|dropped| dropped.child == child)
                .map(|dropped| dropped.import.as_str()).collect();
            let expected: Vec<&str> =
                wiring::imports(before).map(|import| import.name).filter(|name| !gone.contains(name)).collect();
            let left: Vec<&str> = wiring::imports(after).map(|import| import.name).collect();
            prop_assert_eq!(left, expected);
            for import in wiring::imports(before).filter(|import| gone.contains(import.name)) {
                let has_value = |name: &str| imports.contains_key(name.split('[').next().unwrap());
                prop_assert!(import.sources.iter().any(|source| !has_value(source.name)));
            }
        }
        let again = remove_unsatisfied(&removal.templates, &definition, &imports);
        prop_assert_eq!(again.dropped, vec![]);
        prop_assert_eq!(again.templates, removal.templates);
    }
}
