//! Tests of the graph output.

use proptest::prelude::*;
use serde_json::json;

use super::super::Graph;
use super::{IMPORTS, decoded, definition, templates};

/// Imports, siblings, exports, elements and names without a provider.
#[test]
fn text() {
    let definition = definition(&format!(
        "{IMPORTS}exports: [{{name: url, type: data, schema: {{}}}}, {{name: dev, type: target, targetType: t}}]"
    ));
    let list = templates(
        "
- name: web
  imports:
    data: [{name: zone, dataRef: must}, {name: token, dataRef: access}, {name: lost, dataRef: nope}]
    targets: [{name: where, targets: [cluster, 'map[red]']}, {name: all, targetListRef: list}]
  exports: {data: [{name: address, dataRef: url}]}
- name: db
  imports: {data: [{name: nested, dataRef: inner}]}
  exports: {data: [{name: login, dataRef: access}], targets: [{name: dev, target: dev}, {name: url, target: url}]}
- {name: loop, imports: {data: [{name: again, dataRef: round}]}, exports: {data: [{name: round, dataRef: round}]}}
",
    );
    let graph = Graph::new(&definition, &list);
    assert_eq!(
        graph.to_text(),
        "\
import must (data)
  data must -> child web, import zone
import may (data)
import owner (data)
import inner (data)
  data inner -> child db, import nested
import middle (target)
import deep (target)
import cluster (target)
  target cluster -> child web, import where
import edge (target)
import list (targetList)
  target list -> child web, import all
import map (targetMap)
  target map[red] -> child web, import where
child web
  data address as url -> export url (data)
child db
  data login as access -> child web, import token
  target dev -> export dev (target)
child loop
  data round -> child loop, import again
unknown nope
  data nope -> child web, import lost
export url (data)
export dev (target)
"
    );
}

#[test]
fn dot() {
    let definition = definition("imports: [{name: a, type: data, schema: {}}]");
    let list =
        templates("[{name: 'c\"\\d', imports: {data: [{name: i, dataRef: a}, {name: j, dataRef: b}]}}]");
    assert_eq!(
        Graph::new(&definition, &list).to_dot(),
        r#"digraph blueprint {
  rankdir=LR;
  n0 [shape=ellipse, label="import a (data)"];
  n1 [shape=box, label="child \"c\\\"\\\\d\""];
  n2 [shape=diamond, label="unknown b"];
  n0 -> n1 [label="data a"];
  n2 -> n1 [label="data b"];
}
"#
    );
    assert_eq!(Graph::default().to_dot(), "digraph blueprint {\n  rankdir=LR;\n}\n");
    assert_eq!(Graph::default().to_text(), "");
}

proptest! {
    /// For any names, each line is one statement, and each label is one closed string.
    #[test]
    fn dot_is_well_formed(names in prop::collection::vec("\\PC{0,6}|[\"\\\\\n\r\t\u{0}a]{0,6}", 1..5)) {
        let child = |name: &String| json!({"name": name, "imports": {"data": [{"name": name, "dataRef": name}]},
            "exports": {"data": [{"name": name, "dataRef": name}]}});
        let list = decoded(&names.iter().map(child).collect());
        let graph = Graph::new(&definition("{}"), &list);
        let dot = graph.to_dot();
        prop_assert_eq!(dot.lines().count(), graph.nodes.len() + graph.edges.len() + 3);
        prop_assert_eq!(graph.to_text().lines().count(), graph.nodes.len() + graph.edges.len());
        for line in dot.lines().filter(|line| line.contains("label=")) {
            let label = line.split_once("label=\"").unwrap().1.strip_suffix("\"];").unwrap();
            let mut characters = label.chars();
            while let Some(character) = characters.next() {
                prop_assert_ne!(character, '"');
                if character == '\\' {
                    prop_assert!(matches!(characters.next(), Some('"' | '\\')));
                }
            }
        }
    }
}
