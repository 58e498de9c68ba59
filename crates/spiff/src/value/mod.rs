//! The data model (`spiff.md` 2): values, and the annotations that nodes carry besides them.

mod collections;
mod node;

use std::sync::{Arc, OnceLock};

pub use collections::{List, Map};
pub use node::Node;
pub(crate) use node::{Flags, Notes, Origin, TagMark};

use crate::scope::ScopeRef;
use crate::syntax::ast::{Expr, LambdaExpr};

/// A value. Cloning it copies no content.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// YAML `null`.
    #[default]
    Nil,
    Bool(bool),
    /// An integer that was written in a document or made by an expression.
    Int(i64),
    /// A number that is not an integer, or one beyond 64 bits.
    Float(f64),
    /// An integral number that came through bindings: a float to spiff++, an integer wherever one
    /// is asked for (`spiff.md` 14.2).
    Data(i64),
    String(Arc<str>),
    /// `!!binary`.
    Binary(Arc<[u8]>),
    List(Arc<List>),
    Map(Arc<Map>),
    /// An expression that has no value yet.
    Expression(Pending),
    /// A function value.
    Lambda(Arc<Lambda>),
    /// Content that is evaluated where it is used.
    Template(Arc<Template>),
}

/// An expression in the tree; opaque outside of the crate.
#[derive(Debug, Clone)]
pub struct Pending(pub(crate) Arc<Expr>);

/// A lambda with the names that it captured at its definition.
#[derive(Debug)]
pub struct Lambda {
    pub(crate) expression: Arc<LambdaExpr>,
    /// Default values, evaluated at definition, one for each parameter.
    pub(crate) defaults: Vec<Option<Value>>,
    /// Local scopes around the definition, innermost last: parameters of enclosing lambdas, scope
    /// assignments.
    pub(crate) statics: Vec<(Arc<str>, Value)>,
    /// Scope of the definition, from which `_.name` starts.
    pub(crate) scope: Option<ScopeRef>,
}

/// A template, with the path and scope of its definition.
#[derive(Debug)]
pub struct Template {
    /// The content as it was written, without the marker.
    pub(crate) content: Node,
    /// The node as it was written, with the marker. An output shows it, so that the output can be a
    /// stub.
    pub(crate) original: Value,
    /// Path of the node with the template, for messages.
    pub(crate) path: Arc<str>,
    /// Scope of the definition, from which `_.name` starts.
    pub(crate) scope: Option<ScopeRef>,
    /// The content after the first pass of an instance, if that is the same for all instances.
    pub(crate) parsed: OnceLock<Option<Node>>,
}

impl Value {
    /// Creates a string value.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Creates a list of values without annotations.
    pub fn list(values: impl IntoIterator<Item = Value>) -> Self {
        Self::List(Arc::new(values.into_iter().map(Node::new).collect()))
    }

    /// Creates a map of values without annotations. Of two equal keys the last one wins.
    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Map(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), Node::new(value))).collect()))
    }

    /// Converts named values for a run. Their integral numbers become data numbers (`spiff.md`
    /// 14.2).
    pub fn from_bindings(json: &serde_json::Value) -> Self {
        crate::yaml::from_json(json, true)
    }

    /// Converts JSON as if it had been read from a document.
    pub fn from_json(json: &serde_json::Value) -> Self {
        crate::yaml::from_json(json, false)
    }

    /// Converts to JSON. Lambdas and templates become the texts that they are written as.
    pub fn to_json(&self) -> serde_json::Value {
        crate::yaml::to_json_value(self)
    }

    /// Returns the result of the function `type` (`spiff.md` 11.1); `undef` is not the type of a
    /// value.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) | Self::Data(_) => "float",
            Self::String(_) => "string",
            Self::Binary(_) => "binary",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Expression(_) => "expression",
            Self::Lambda(_) => "lambda",
            Self::Template(_) => "template",
        }
    }

    /// Reports whether the value is true (`spiff.md` 7.2): `false`, nil, `""`, the int 0 and empty
    /// collections are false.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(flag) => *flag,
            Self::Int(number) | Self::Data(number) => *number != 0,
            Self::String(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Float(_) | Self::Binary(_) | Self::Expression(_) | Self::Lambda(_) | Self::Template(_) => {
                true
            }
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer of an int or a data number.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) | Self::Data(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number of nodes of the value as it would be written out. A shared part counts
    /// each time, and 32 bytes of text count as a node. Work on a whole value is charged in
    /// proportion to this.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Self::List(list) => list.size(),
            Self::Map(map) => map.size(),
            Self::String(text) => u32::try_from(1 + text.len() / 32).unwrap_or(u32::MAX),
            Self::Binary(bytes) => u32::try_from(1 + bytes.len() / 32).unwrap_or(u32::MAX),
            Self::Template(template) => template.original.size(),
            _ => 1,
        }
    }

    /// Returns the levels of nested collections: 0 for scalars.
    pub(crate) fn nesting(&self) -> u32 {
        match self {
            Self::List(list) => list.nesting(),
            Self::Map(map) => map.nesting(),
            _ => 0,
        }
    }
}
