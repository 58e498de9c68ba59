//! Graph of data flow in a blueprint, including the inline blueprints of its children.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::InstallationTemplate;

use super::graph::{Graph, Node, quoted};
use crate::filesystem::Filesystem;
use crate::load::Blueprint;

/// Maximum depth of nested inline blueprints that are shown.
const DEEPEST: usize = 16;

/// Graph of a blueprint, with the graphs of its children that have inline blueprints. Other
/// blueprints are unknown without their components.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphTree {
    pub graph: Graph,
    /// Nested graphs, by the index of the child among the nodes.
    pub nested: BTreeMap<usize, GraphTree>,
}

impl GraphTree {
    /// Creates the graphs of a blueprint with these static templates. A child with an invalid
    /// blueprint appears without its inside.
    pub fn new(blueprint: &Blueprint, templates: &[InstallationTemplate]) -> Self {
        Self::below(blueprint, templates, 0)
    }

    fn below(blueprint: &Blueprint, templates: &[InstallationTemplate], depth: usize) -> Self {
        let graph = Graph::new(&blueprint.definition, templates);
        let children = graph.nodes.iter().enumerate();
        let children = children.filter(|(_, node)| matches!(node, Node::Child { .. }));
        let nested = children.zip(templates).filter_map(|((position, _), template)| {
            let tree = template.blueprint.as_ref()?.filesystem.get().filter(|_| depth < DEEPEST)?;
            let blueprint = Blueprint::load(Filesystem::from_inline(tree).ok()?).ok()?;
            let tree = Self::below(&blueprint, &blueprint.static_templates().ok()?, depth + 1);
            (!tree.graph.nodes.is_empty()).then_some((position, tree))
        });
        let nested = nested.collect();
        Self { graph, nested }
    }

    /// Formats the tree as [`Graph::to_text`] does. The inside of a child follows under its name,
    /// indented.
    pub fn to_text(&self) -> String {
        let mut text = self.graph.to_text();
        for (position, tree) in &self.nested {
            let name = self.graph.nodes.get(*position).map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("\ninside {name}\n"));
            for line in tree.to_text().lines() {
                text.push_str(if line.is_empty() { "" } else { "  " });
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    /// Formats the tree as [`Graph::to_dot`] does. Children with a known inside are clusters, and
    /// edges lead to the imports and exports inside.
    pub fn to_dot(&self) -> String {
        let mut lines = Vec::new();
        self.statements("n", &mut lines);
        let body: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        format!("digraph blueprint {{\n  rankdir=LR;\n{body}}}\n")
    }

    fn statements(&self, prefix: &str, lines: &mut Vec<String>) {
        let mut edges = Vec::new();
        // Children with an edge for a name that their blueprint does not declare. They need a node
        // outside their cluster.
        let mut outside = BTreeSet::new();
        for edge in &self.graph.edges {
            let from = self.inside(edge.from, prefix, |node| match node {
                Node::Export { name, .. } => Some(name) == edge.export.as_ref(),
                _ => false,
            });
            let to = self.inside(edge.to, prefix, |node| match node {
                Node::Import { name, .. } => Some(name) == edge.import.as_ref(),
                _ => false,
            });
            outside.extend(from.is_none().then_some(edge.from));
            outside.extend(to.is_none().then_some(edge.to));
            let [from, to] = [(from, edge.from), (to, edge.to)]
                .map(|(id, position)| id.unwrap_or_else(|| format!("{prefix}{position}")));
            edges.push(format!("{from} -> {to} [label={}];", quoted(&edge.label())));
        }
        for (position, node) in self.graph.nodes.iter().enumerate() {
            let id = format!("{prefix}{position}");
            let Some(tree) = self.nested.get(&position) else {
                lines.push(node.to_dot(&id));
                continue;
            };
            lines.push(format!("subgraph cluster_{id} {{"));
            lines.push(format!("  label={};", quoted(&node.to_string())));
            if outside.contains(&position) {
                lines.push(format!("  {}", node.to_dot(&id)));
            }
            let mut inner = Vec::new();
            tree.statements(&format!("{id}_"), &mut inner);
            lines.extend(inner.iter().map(|line| format!("  {line}")));
            lines.push("}".to_owned());
        }
        lines.extend(edges);
    }

    /// Returns the node inside a child that an edge leads to.
    fn inside(&self, child: usize, prefix: &str, is_meant: impl Fn(&Node) -> bool) -> Option<String> {
        let nodes = &self.nested.get(&child)?.graph.nodes;
        let node = nodes.iter().position(is_meant)?;
        Some(format!("{prefix}{child}_{node}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::load;

    #[test]
    fn insides_are_clusters() {
        let blueprint = load(
            "
imports: [{name: zone, schema: {}}, {name: c, targetType: t}]
exports: [{name: url, schema: {}}]
subinstallations:
- name: web
  imports: {data: [{name: z, dataRef: zone}, {name: lost, dataRef: zone}], targets: [{name: t, target: c}]}
  exports: {data: [{name: u, dataRef: url}]}
  blueprint:
    filesystem:
      blueprint.yaml: |
        imports: [{name: z, schema: {}}, {name: t, targetType: t}]
        exports: [{name: u, schema: {}}]
        subinstallations:
        - {name: in, blueprint: {ref: x}, imports: {data: [{name: i, dataRef: z}]}}
- {name: far, blueprint: {ref: 'cd://resources/x'}, imports: {data: [{name: u, dataRef: url}]}}
- {name: broken, blueprint: {filesystem: {}}}
- {name: empty, blueprint: {filesystem: {blueprint.yaml: ''}}}
",
            &[],
        )
        .unwrap();
        let tree = GraphTree::new(&blueprint, &blueprint.static_templates().unwrap());
        assert_eq!(
            tree.to_text(),
            "\
import zone (data)
  data zone -> child web, import lost
  data zone -> child web, import z
import c (target)
  target c -> child web, import t
child web
  data u as url -> child far, import u
  data u as url -> export url (data)
child far
child broken
child empty
export url (data)

inside child web
  import z (data)
    data z -> child in, import i
  import t (target)
  child in
  export u (data)
"
        );
        assert_eq!(
            tree.to_dot(),
            r#"digraph blueprint {
  rankdir=LR;
  n0 [shape=ellipse, label="import zone (data)"];
  n1 [shape=ellipse, label="import c (target)"];
  subgraph cluster_n2 {
    label="child web";
    n2 [shape=box, label="child web"];
    n2_0 [shape=ellipse, label="import z (data)"];
    n2_1 [shape=ellipse, label="import t (target)"];
    n2_2 [shape=box, label="child in"];
    n2_3 [shape=ellipse, label="export u (data)"];
    n2_0 -> n2_2 [label="data z"];
  }
  n3 [shape=box, label="child far"];
  n4 [shape=box, label="child broken"];
  n5 [shape=box, label="child empty"];
  n6 [shape=ellipse, label="export url (data)"];
  n0 -> n2 [label="data zone"];
  n0 -> n2_0 [label="data zone"];
  n1 -> n2_1 [label="target c"];
  n2_3 -> n3 [label="data u as url"];
  n2_3 -> n6 [label="data u as url"];
}
"#
        );
    }
}
