//! The compiled form: a flat arena of nodes.
//!
//! Nodes refer to each other by index, so neither dropping nor sharing a tree recurses. Variables
//! are resolved to slots of the frame, functions to indexes of the registry, names are interned,
//! and texts are ranges of the source.

use super::literal::NumberLiteral;
use crate::functions::FunctionId;
use crate::value::Str;

/// Index of a node in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

#[derive(Debug)]
pub(crate) struct Node {
    /// Byte offset in the source that error positions show (`gotemplate.md` 9).
    pub(crate) pos: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    List(Box<[NodeId]>),
    /// Source bytes from the node's position to `end`, already trimmed.
    Text {
        end: usize,
    },
    Action {
        pipe: NodeId,
    },
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        name: Str,
        pipe: Option<NodeId>,
    },
    Break,
    Continue,
    Pipe(Pipe),
    Command(Box<[NodeId]>),
    Field(Box<[Str]>),
    Variable {
        name: Str,
        slot: Slot,
        path: Box<[Str]>,
    },
    Chain {
        operand: NodeId,
        path: Box<[Str]>,
    },
    Function {
        name: Str,
        id: FunctionId,
    },
    Dot,
    Nil,
    Bool(bool),
    Number {
        end: usize,
        literal: NumberLiteral,
    },
    String {
        end: usize,
        value: Str,
    },
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: NodeId,
    pub(crate) body: NodeId,
    pub(crate) otherwise: Option<NodeId>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) variables: Box<[Target]>,
    /// True for `=`, false for `:=`.
    pub(crate) assigns: bool,
    pub(crate) commands: Box<[NodeId]>,
}

/// A variable that a pipeline declares or assigns.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: Str,
    pub(crate) slot: Slot,
}

/// Place of a variable in the frame of its template. The parser accepts names without a live
/// declaration (`{{$x = 1}}`, or a use in an else branch). They have no slot, and evaluating them
/// fails (`gotemplate.md` 3).
pub(crate) type Slot = Option<u32>;

/// The slot of `$`.
pub(crate) const ROOT_SLOT: u32 = 0;

/// One named body.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) root: NodeId,
    /// Number of variable slots in its frame.
    pub(crate) slots: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// Creates a tree with room for the nodes of a typical source of this many bytes.
    pub(crate) fn for_source(bytes: usize) -> Tree {
        Tree { nodes: Vec::with_capacity(bytes / 12) }
    }

    pub(crate) fn add(&mut self, pos: usize, kind: Kind) -> NodeId {
        // The conversion cannot fail: sources are limited to 4 GiB, and every node takes at least
        // one byte of them.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { pos, kind });
        id
    }

    /// Returns all nodes. Their order has no meaning.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn kind(&self, id: NodeId) -> &Kind {
        &self.node(id).kind
    }
}
