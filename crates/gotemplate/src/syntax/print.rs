//! Printer of the canonical source of a node, as error messages show it (`gotemplate.md` 9).

use super::tree::{Branch, Kind, NodeId, Tree};
use crate::stack;
use crate::text;
use crate::value::Str;

/// Returns the node's source in canonical spacing, without comments and trim markers.
pub(crate) fn canonical(tree: &Tree, source: &[u8], node: NodeId) -> Vec<u8> {
    let mut printer = Printer { tree, source, keeps_braces_apart: false, out: Vec::new() };
    printer.node(node);
    printer.out
}

/// Returns the canonical source in a form that parses to the same template. If a text ends with `{`
/// and the next node begins with `{`, only a trim marker or comment kept them apart in the source,
/// so the printer puts one between them. Messages show them together, as Go's do.
pub(crate) fn readable(tree: &Tree, source: &[u8], node: NodeId) -> Vec<u8> {
    let mut printer = Printer { tree, source, keeps_braces_apart: true, out: Vec::new() };
    printer.node(node);
    printer.out
}

struct Printer<'t> {
    tree: &'t Tree,
    source: &'t [u8],
    keeps_braces_apart: bool,
    out: Vec<u8>,
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn follows_brace(&self) -> bool {
        self.keeps_braces_apart && self.out.ends_with(b"{")
    }

    fn open(&mut self) {
        self.push(if self.follows_brace() { " {{- " } else { "{{" });
    }

    fn node(&mut self, id: NodeId) {
        stack::guarded(|| self.print(id));
    }

    fn print(&mut self, id: NodeId) {
        let tree = self.tree;
        let node = tree.node(id);
        match &node.kind {
            Kind::List(items) => items.iter().for_each(|&item| self.node(item)),
            Kind::Text { end } => {
                let text = &self.source[node.pos..*end];
                if text.starts_with(b"{") && self.follows_brace() {
                    self.push(" {{- /* */ -}} ");
                }
                self.out.extend_from_slice(text);
            }
            Kind::Number { end, .. } | Kind::String { end, .. } => {
                self.out.extend_from_slice(&self.source[node.pos..*end]);
            }
            Kind::Action { pipe } => {
                self.open();
                self.node(*pipe);
                self.push("}}");
            }
            Kind::If(branch) => self.branch("if", branch),
            Kind::With(branch) => self.branch("with", branch),
            Kind::Range(branch) => self.branch("range", branch),
            Kind::Template { name, pipe } => {
                self.open();
                self.push("template ");
                text::quote_into(&mut self.out, name, false);
                if let Some(pipe) = pipe {
                    self.push(" ");
                    self.node(*pipe);
                }
                self.push("}}");
            }
            Kind::Break => self.bare("break"),
            Kind::Continue => self.bare("continue"),
            Kind::Pipe(pipe) => {
                for (index, target) in pipe.variables.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.out.extend_from_slice(&target.name);
                }
                if !pipe.variables.is_empty() {
                    self.push(if pipe.assigns { " = " } else { " := " });
                }
                self.separated(&pipe.commands, " | ");
            }
            Kind::Command(operands) => self.separated(operands, " "),
            Kind::Field(path) => self.path(path),
            Kind::Variable { name, path, .. } => {
                self.out.extend_from_slice(name);
                self.path(path);
            }
            Kind::Chain { operand, path } => {
                self.operand(*operand);
                self.path(path);
            }
            Kind::Function { name, .. } => self.out.extend_from_slice(name),
            Kind::Dot => self.push("."),
            Kind::Nil => self.push("nil"),
            Kind::Bool(value) => self.push(if *value { "true" } else { "false" }),
        }
    }

    /// Prints an action of one word.
    fn bare(&mut self, keyword: &str) {
        self.open();
        self.push(keyword);
        self.push("}}");
    }

    fn branch(&mut self, keyword: &str, branch: &Branch) {
        self.open();
        self.push(keyword);
        self.push(" ");
        self.node(branch.pipe);
        self.push("}}");
        self.node(branch.body);
        if let Some(otherwise) = branch.otherwise {
            self.bare("else");
            self.node(otherwise);
        }
        self.bare("end");
    }

    fn separated(&mut self, nodes: &[NodeId], separator: &str) {
        for (index, &node) in nodes.iter().enumerate() {
            self.push(if index > 0 { separator } else { "" });
            self.operand(node);
        }
    }

    /// Prints an operand. A pipeline as operand was in parentheses in the source, so it is printed
    /// in parentheses.
    fn operand(&mut self, node: NodeId) {
        if matches!(self.tree.kind(node), Kind::Pipe(_)) {
            self.push("(");
            self.node(node);
            self.push(")");
        } else {
            self.node(node);
        }
    }

    fn path(&mut self, path: &[Str]) {
        for name in path {
            self.out.push(b'.');
            self.out.extend_from_slice(name);
        }
    }
}
