//! Graph of the data flow in a blueprint, for display.

use std::collections::HashMap;
use std::fmt;

use groundwork_api::{Blueprint, InstallationTemplate};

use super::declarations::{Declarations, Declared, walk};
use super::wiring::{self, Exporters, Form, Kind, Source};

/// Imports and exports of a blueprint, its children, and the data flow between them, without
/// values.
///
/// Results of executions are not included. The export executions decide how exports of children
/// become exports of the blueprint. The graph connects those with the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// Edges in the order of their source nodes.
    pub edges: Vec<Edge>,
}

/// Source or destination of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Import of the blueprint, with its type.
    Import { name: String, type_name: &'static str },
    /// Name that a child imports, without a known provider.
    Unknown { name: String },
    /// Nested Installation.
    Child { name: String },
    /// Export of the blueprint, with its type.
    Export { name: String, type_name: &'static str },
}

/// Data flow from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Index of the source node.
    pub from: usize,
    /// Index of the destination node.
    pub to: usize,
    /// Name in the scope of the children, as written in the import: `m[k]` for an element of `m`.
    pub name: String,
    /// `data` or `target`.
    pub kind: &'static str,
    /// Name of the export in the source child.
    pub export: Option<String>,
    /// Name of the import in the destination child.
    pub import: Option<String>,
}

impl Graph {
    /// Creates the graph of a defaulted blueprint with these static templates.
    pub fn new(definition: &Blueprint, templates: &[InstallationTemplate]) -> Self {
        let mut builder = Builder::new(definition, templates);
        for (child, template) in templates.iter().enumerate() {
            for import in wiring::imports(template) {
                for source in &import.sources {
                    builder.feed(child, import.name, source);
                }
            }
        }
        builder.publish(definition, templates);
        let mut graph = builder.graph;
        graph.edges.sort();
        graph
    }

    /// Formats the graph as text: one line for each node, followed by one for each of its edges.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut edges = self.edges.iter().peekable();
        for (position, node) in self.nodes.iter().enumerate() {
            text.push_str(&format!("{node}\n"));
            while let Some(edge) = edges.next_if(|edge| edge.from == position) {
                let target = self.nodes.get(edge.to).map(ToString::to_string).unwrap_or_default();
                text.push_str(&format!("  {} -> {target}", edge.label()));
                if let Some(import) = &edge.import {
                    text.push_str(&format!(", import {}", shown(import)));
                }
                text.push('\n');
            }
        }
        text
    }

    /// Formats the graph in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph blueprint {\n  rankdir=LR;\n");
        for (position, node) in self.nodes.iter().enumerate() {
            dot.push_str(&format!("  {}\n", node.to_dot(&format!("n{position}"))));
        }
        for edge in &self.edges {
            let label = quoted(&edge.label());
            dot.push_str(&format!("  n{} -> n{} [label={label}];\n", edge.from, edge.to));
        }
        dot.push_str("}\n");
        dot
    }
}

impl Node {
    /// Returns the Graphviz statement of the node.
    pub(super) fn to_dot(&self, id: &str) -> String {
        let shape = match self {
            Self::Import { .. } | Self::Export { .. } => "ellipse",
            Self::Unknown { .. } => "diamond",
            Self::Child { .. } => "box",
        };
        format!("{id} [shape={shape}, label={}];", quoted(&self.to_string()))
    }
}

impl Edge {
    /// Returns the name in the scope, with the name of the export if it differs.
    pub(super) fn label(&self) -> String {
        match &self.export {
            Some(export) if *export != self.name => {
                format!("{} {} as {}", self.kind, shown(export), shown(&self.name))
            }
            _ => format!("{} {}", self.kind, shown(&self.name)),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import { name, type_name } => write!(f, "import {} ({type_name})", shown(name)),
            Self::Unknown { name } => write!(f, "unknown {}", shown(name)),
            Self::Child { name } => write!(f, "child {}", shown(name)),
            Self::Export { name, type_name } => write!(f, "export {} ({type_name})", shown(name)),
        }
    }
}

/// Returns a name for a line of text, quoted if it could be misread.
fn shown(name: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "-_./[]#".contains(character);
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { format!("{name:?}") }
}

/// Returns a double-quoted string of Graphviz, which uses the backslash for escapes. Control
/// characters in `text` are escaped already.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Builder<'a> {
    graph: Graph,
    declared: Declarations<'a>,
    exporters: Exporters<'a>,
    /// Node indexes: imports by name, children by the index of their template.
    imports: HashMap<&'a str, usize>,
    children: Vec<usize>,
    unknown: HashMap<(Kind, String), usize>,
    /// Name of the first export in a child, by the name in the scope.
    export_names: HashMap<(usize, Kind, &'a str), &'a str>,
}

impl<'a> Builder<'a> {
    fn new(definition: &'a Blueprint, templates: &'a [InstallationTemplate]) -> Self {
        let mut builder = Self {
            graph: Graph::default(),
            declared: Declarations::all(definition),
            exporters: Exporters::new(templates),
            imports: HashMap::new(),
            children: Vec::new(),
            unknown: HashMap::new(),
            export_names: HashMap::new(),
        };
        for import in walk(definition) {
            let type_name = import.type_.as_str();
            let node = builder.node(Node::Import { name: import.name().to_owned(), type_name });
            builder.imports.entry(import.name()).or_insert(node);
        }
        for (child, template) in templates.iter().enumerate() {
            let node = builder.node(Node::Child { name: template.name().to_owned() });
            builder.children.push(node);
            for export in wiring::exports(template) {
                builder.export_names.entry((child, export.kind, export.scope_name)).or_insert(export.name);
            }
        }
        builder
    }

    fn node(&mut self, node: Node) -> usize {
        self.graph.nodes.push(node);
        self.graph.nodes.len() - 1
    }

    /// Adds the edges to one source of an import: from the parent, from a sibling, or from an
    /// unknown node.
    fn feed(&mut self, child: usize, import: &str, source: &Source<'_>) {
        let kind = if source.form == Form::Data { Kind::Data } else { Kind::Target };
        let mut edge = Edge {
            from: 0,
            to: self.children[child],
            name: source.name.to_owned(),
            kind: kind.as_str(),
            export: None,
            import: Some(import.to_owned()),
        };
        let parent = self.declared.provider(source).map(Declared::name);
        if let Some(from) = parent.and_then(|name| self.imports.get(name)) {
            self.graph.edges.push(Edge { from: *from, ..edge });
            return;
        }
        // Validation rejects several exporters. The graph uses the first one.
        let sibling = source.form.sibling_kind().and_then(|kind| {
            let other = self.exporters.other(kind, source.name, child);
            other.or_else(|| self.exporters.of(kind, source.name).first().copied())
        });
        if let Some(exporter) = sibling {
            edge.from = self.children[exporter];
            edge.export =
                self.export_names.get(&(exporter, kind, source.name)).map(|name| (*name).to_owned());
        } else {
            let key = (kind, source.name.to_owned());
            edge.from = match self.unknown.get(&key) {
                Some(node) => *node,
                None => self.node(Node::Unknown { name: source.name.to_owned() }),
            };
            self.unknown.insert(key, edge.from);
        }
        self.graph.edges.push(edge);
    }

    /// Adds edges to the blueprint's exports from children that export the same name.
    fn publish(&mut self, definition: &Blueprint, templates: &[InstallationTemplate]) {
        let mut published: HashMap<(Kind, &str), usize> = HashMap::new();
        for export in &definition.exports {
            let kind = if export.type_.as_deref() == Some("data") { Kind::Data } else { Kind::Target };
            let node = self.node(Node::Export { name: export.name.clone(), type_name: kind.as_str() });
            published.entry((kind, &export.name)).or_insert(node);
        }
        for (child, template) in templates.iter().enumerate() {
            for export in wiring::exports(template) {
                let Some(to) = published.get(&(export.kind, export.scope_name)) else { continue };
                self.graph.edges.push(Edge {
                    from: self.children[child],
                    to: *to,
                    name: export.scope_name.to_owned(),
                    kind: export.kind.as_str(),
                    export: Some(export.name.to_owned()),
                    import: None,
                });
            }
        }
    }
}
