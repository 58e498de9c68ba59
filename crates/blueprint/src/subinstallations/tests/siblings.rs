//! Tests of `blueprints.md` 9.6.

use groundwork_api::InstallationTemplate;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::cycle::shortest_cycle;
use super::super::{SiblingError, SiblingGraph, remove_unsatisfied, validate};
use super::{decoded, definition, templates};

/// Name of a child, with the names that it needs.
type Needs<'a> = (&'a str, &'a [&'a str]);

/// Returns children that export their own name as data and import the given names.
fn chain(children: &[Needs<'_>]) -> Vec<InstallationTemplate> {
    let child = |(name, needs): &Needs<'_>| {
        let imports: Vec<Value> = needs.iter().map(|need| json!({"name": need, "dataRef": need})).collect();
        json!({"name": name, "blueprint": {"ref": "x"}, "imports": {"data": imports},
            "exports": {"data": [{"name": "out", "dataRef": name}]}})
    };
    decoded(&children.iter().map(child).collect())
}

/// `blueprints.md` 9.6: references that create edges, with the names of the edges.
#[test]
fn edges() {
    let list = templates(
        "
- name: a
  imports:
    data: [{name: i, dataRef: d}, {name: j, dataRef: e}, {name: k, dataRef: parent}]
    targets: [{name: l, target: t}, {name: m, targets: [u, t]}, {name: o, targetMap: {k: v}}]
- {name: b, exports: {data: [{name: x, dataRef: d}, {name: w, dataRef: e}], targets: [{name: z, target: t}]}}
- {name: c, exports: {targets: [{name: x, target: u}]}}
- {name: d, exports: {targets: [{name: x, target: v}, {name: w, target: d}]}}
- name: e
  imports: {targets: [{name: i, targetListRef: t}, {name: j, targetMapRef: u}, {name: k, target: '#t'}]}
",
    );
    let graph = SiblingGraph::new(&list);
    let names =
        |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    let edges: Vec<_> = graph
        .edges()
        .iter()
        .map(|edge| (edge.from, edge.to, names(&edge.data), names(&edge.targets)))
        .collect();
    let edge = |to: usize, data: &str, targets: &str| (0, to, data.to_owned(), targets.to_owned());
    assert_eq!(edges, [edge(1, "d e", "t"), edge(2, "", "u"), edge(3, "", "v")]);
    assert_eq!(graph.order(), Ok(vec![1, 2, 3, 0, 4]));
}

/// `blueprints.md` 9.6: several exporters, sorted by name.
#[test]
fn several_exporters() {
    let list = templates(
        "
- {name: b, exports: {data: [{name: i, dataRef: w}, {name: j, dataRef: x}], targets: [{name: k, target: t}]}}
- {name: a, exports: {data: [{name: i, dataRef: x}, {name: j, dataRef: w}], targets: [{name: k, target: t}]}}
- {name: c, imports: {data: [{name: i, dataRef: x}]}, exports: {data: [{name: e, dataRef: alone}, {name: f, dataRef: alone}]}}
",
    );
    let text = "the following exports are exported by multiple nested installations:
  data exports:
    'w' is exported by [b, a]
    'x' is exported by [b, a]
  target exports:
    't' is exported by [b, a]";
    let error = SiblingGraph::new(&list).order().unwrap_err();
    assert!(
        error
            .of_roots()
            .starts_with("the following exports are exported by multiple installations:\n  data exports:")
    );
    assert!(matches!(error, SiblingError::MultipleExporters(_)));
    assert_eq!(error.to_string(), text);
    let only_data = SiblingGraph::new(&templates(
        "[{name: a, exports: {data: [{name: i, dataRef: x}]}}, {name: b, exports: {data: [{name: i, dataRef: x}]}}]",
    ));
    assert_eq!(
        only_data.multiple_exporters().unwrap().to_string(),
        "the following exports are exported by multiple nested installations:\n  data exports:\n    'x' is exported by [a, b]"
    );
}

/// `blueprints.md` 9.6, acceptance item 9 of `blueprints.md` 12: one shortest cycle, beginning with
/// its smallest member.
#[test]
fn cycles() {
    let cases: &[(&[Needs<'_>], &str)] = &[
        // Example of the chapter: `a` leads to the cycle but is not part of it.
        (&[("a", &["d"]), ("d", &["c"]), ("e", &["d"]), ("c", &["e"])], "c e d c"),
        (&[("a", &["b"]), ("b", &["a"])], "a b a"),
        // The shortest cycle takes precedence over the one with the smallest name.
        (&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("y", &["z"]), ("z", &["y"])], "y z y"),
        // Among equally short cycles, the one with the smaller names is reported.
        (&[("d", &["c"]), ("c", &["d"]), ("b", &["a"]), ("a", &["b"])], "a b a"),
        (&[("a", &["c", "b"]), ("b", &["a"]), ("c", &["a"])], "a b a"),
        // A child between two cycles.
        (&[("a", &["b"]), ("b", &["a", "c"]), ("c", &["d"]), ("d", &["e"]), ("e", &["d"])], "a b a"),
        // A child that only its own export satisfies (`blueprints.md` 9.3).
        (&[("a", &["b"]), ("b", &["a"]), ("c", &["c"])], "c c"),
    ];
    for (children, expected) in cases {
        let error = SiblingGraph::new(&chain(children)).order().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the subinstallations have a cycle: {}", expected.replace(' ', " -{depends_on}-> ")),
        );
        assert_eq!(error.of_roots(), error.to_string().replace("the subinstallations", "the installations"));
    }
}

/// A child's own export counts only if no other child exports the name.
#[test]
fn own_exports_beside_others() {
    let list = templates(
        "
- {name: a, imports: {data: [{name: i, dataRef: x}]}, exports: {data: [{name: e, dataRef: x}]}}
- {name: b, exports: {data: [{name: e, dataRef: x}]}}
",
    );
    let graph = SiblingGraph::new(&list);
    assert_eq!(graph.edges().iter().map(|edge| (edge.from, edge.to)).collect::<Vec<_>>(), [(0, 1)]);
    assert_eq!(graph.shortest_cycle(), None);
}

/// Dependencies come first, otherwise the written order stays.
#[test]
fn order() {
    for (children, expected) in [
        (chain(&[]), vec![]),
        (chain(&[("c", &[]), ("b", &[]), ("a", &[])]), vec![0, 1, 2]),
        (chain(&[("c", &["a"]), ("b", &[]), ("a", &[])]), vec![1, 2, 0]),
        (chain(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[]), ("d", &["a"])]), vec![2, 1, 0, 3]),
    ] {
        assert_eq!(SiblingGraph::new(&children).order(), Ok(expected));
    }
}

/// Children without a name are identified by their index.
#[test]
fn nameless_children() {
    let mut list = chain(&[("a", &["b"]), ("b", &["a"])]);
    list[0].name = None;
    assert_eq!(SiblingGraph::new(&list).shortest_cycle().unwrap().join(" "), "[0] b [0]");
}

/// Five thousand children: in a row, in a ring, and all of them exporting and importing one name,
/// which would give 25 million pairs.
#[test]
fn many_children() {
    const CHILDREN: usize = 5_000;
    let name = |index: usize| format!("c{index:04}");
    let row = |closed: bool| -> Vec<InstallationTemplate> {
        let child = |index: usize| {
            let next = if index + 1 < CHILDREN { Some(index + 1) } else { closed.then_some(0) };
            let imports: Vec<Value> =
                next.iter().map(|next| json!({"name": "i", "dataRef": name(*next)})).collect();
            json!({"name": name(index), "blueprint": {"ref": "x"}, "imports": {"data": imports},
                "exports": {"data": [{"name": "e", "dataRef": name(index)}]}})
        };
        decoded(&(0..CHILDREN).map(child).collect())
    };
    let (row, ring) = (row(false), row(true));
    let same = json!({"name": "c", "imports": {"data": [{"name": "i", "dataRef": "x"}]},
        "exports": {"data": [{"name": "e", "dataRef": "x"}]}});
    let same = decoded(&Value::from(vec![same; CHILDREN]));
    let definition = definition("{}");
    assert_eq!(SiblingGraph::new(&row).order().unwrap()[0], CHILDREN - 1);
    assert_eq!(SiblingGraph::new(&ring).shortest_cycle().unwrap().len(), CHILDREN + 1);
    assert_eq!(SiblingGraph::new(&same).edges().len(), CHILDREN);
    assert_eq!(
        validate(&remove_unsatisfied(&row, &definition, &Map::new()).templates, &definition, &Map::new()),
        []
    );
}

/// Returns the length of the shortest cycle, from powers of the adjacency matrix.
fn girth(successors: &[Vec<usize>]) -> Option<usize> {
    let count = successors.len();
    let mut reached: Vec<Vec<bool>> =
        successors.iter().map(|targets| (0..count).map(|node| targets.contains(&node)).collect()).collect();
    for length in 1..=count {
        if (0..count).any(|node| reached[node][node]) {
            return Some(length);
        }
        reached = reached
            .iter()
            .map(|row| {
                (0..count)
                    .map(|node| (0..count).any(|via| row[via] && successors[via].contains(&node)))
                    .collect()
            })
            .collect();
    }
    None
}

proptest! {
    /// An order respects all edges, it is absent exactly if there is a cycle, and the reported
    /// cycle is a shortest one.
    #[test]
    fn orders_and_cycles(needs in (1_usize..9).prop_flat_map(|count| prop::collection::vec(prop::collection::btree_set(0..count, 0..3), count))) {
        let successors: Vec<Vec<usize>> = needs.iter().map(|needs| needs.iter().copied().collect()).collect();
        let name = |index: usize| format!("c{index}");
        let child = |(index, needs): (usize, &Vec<usize>)| json!({
            "name": name(index),
            "imports": {"targets": needs.iter().map(|need| json!({"name": "i", "target": name(*need)})).collect::<Vec<_>>()},
            "exports": {"targets": [{"name": "e", "target": name(index)}]},
        });
        let list = decoded(&successors.iter().enumerate().map(child).collect());
        let graph = SiblingGraph::new(&list);
        prop_assert_eq!(graph.edges().len(), successors.iter().map(Vec::len).sum::<usize>());
        match graph.order() {
            Ok(order) => {
                prop_assert_eq!(girth(&successors), None);
                let mut position = vec![usize::MAX; order.len()];
                order.iter().enumerate().for_each(|(at, child)| position[*child] = at);
                prop_assert_eq!(order.len(), list.len());
                for edge in graph.edges() {
                    prop_assert!(position[edge.to] < position[edge.from]);
                }
            }
            Err(_) => {
                let cycle = shortest_cycle(&successors).unwrap();
                prop_assert_eq!(Some(cycle.len()), girth(&successors));
                prop_assert_eq!(cycle.iter().min(), cycle.first());
                for (at, node) in cycle.iter().enumerate() {
                    prop_assert!(successors[*node].contains(&cycle[(at + 1) % cycle.len()]));
                }
            }
        }
    }
}
