//! YAML as users wrote it: order, comments, quotes and forms are kept, so that a program may change
//! one value in a file.
//!
//! ```text
//! text of one document --compose--> Tree (nodes with comments) --edits--> Tree --write--> text
//! ```
//!
//! The assignment of comments to nodes follows Go's YAML library, and so does the output: one blank
//! before a comment, no blank lines but those around comments, two columns for each level. Types
//! are those of the core schema of YAML 1.2 ([`Node::kind`]), not those of [`crate::Node`].

mod compose;
mod scalar;
mod write;

use std::collections::HashMap;

pub use compose::{Limits, Tree, compose, compose_within};
pub use scalar::Kind;
pub use write::{Layout, write};

/// A value with its comments, tag and position.
#[derive(Debug, Clone)]
pub struct Node {
    pub content: Content,
    pub comments: Comments,
    /// The tag as it is written, such as `!!str`.
    pub tag: Option<String>,
    /// Line where it begins, counted from 1; 0 for a node that comes from no text.
    pub line: usize,
}

/// Comments of a node, with their `#`; empty if there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comments {
    /// Lines above. Groups of them are separated by an empty line.
    pub head: String,
    /// Comment behind the value, on the same line.
    pub line: String,
    /// Lines below that belong to the node above them.
    pub foot: String,
}

/// The content of a [`Node`].
#[derive(Debug, Clone)]
pub enum Content {
    Scalar(Scalar),
    Mapping(Mapping),
    Sequence(Sequence),
}

/// A text, and the notation, which makes it a string or leaves its type open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    pub text: String,
    pub notation: Notation,
}

/// The notations of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

/// Pairs in the order of the text. Keys are unique.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    pub pairs: Vec<Pair>,
    /// True if the mapping is written in flow form, `{a: b}`.
    pub is_flow: bool,
}

/// A key with its value. The key is a scalar. It has the comments above, and those behind a key
/// whose value begins on a later line.
#[derive(Debug, Clone)]
pub struct Pair {
    pub key: Node,
    pub value: Node,
}

/// Items of a list.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    pub items: Vec<Node>,
    /// True if the list is written in flow form, `[a, b]`.
    pub is_flow: bool,
}

impl From<Content> for Node {
    fn from(content: Content) -> Self {
        Self { content, comments: Comments::default(), tag: None, line: 0 }
    }
}

impl Node {
    /// Creates a string, quoted if a reader of YAML 1.1 or 1.2 would read the plain text as another
    /// type.
    pub fn string(text: &str) -> Self {
        Content::Scalar(Scalar { text: text.to_owned(), notation: scalar::notation_of(text) }).into()
    }

    /// Creates a scalar without quotes: a number, `true`, `null`.
    pub fn plain(text: &str) -> Self {
        Content::Scalar(Scalar { text: text.to_owned(), notation: Notation::Plain }).into()
    }

    /// Creates a map on lines of its own.
    pub fn mapping(pairs: Vec<Pair>) -> Self {
        Content::Mapping(Mapping { pairs, is_flow: false }).into()
    }

    /// Creates a list on lines of its own.
    pub fn sequence(items: Vec<Self>) -> Self {
        Content::Sequence(Sequence { items, is_flow: false }).into()
    }

    /// Converts a JSON value, with the members of objects in byte order.
    pub fn from_json(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::plain("null"),
            Value::Bool(truth) => Self::plain(if *truth { "true" } else { "false" }),
            Value::Number(number) => Self::plain(&number.to_string()),
            Value::String(text) => Self::string(text),
            Value::Array(items) => Self::sequence(items.iter().map(Self::from_json).collect()),
            Value::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let pairs = sorted.into_iter().map(|(key, value)| Pair::new(key, Self::from_json(value)));
                Self::mapping(pairs.collect())
            }
        }
    }

    /// Returns the text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        self.text().filter(|_| self.kind() == Kind::String)
    }

    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.content {
            Content::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    pub fn as_mapping_mut(&mut self) -> Option<&mut Mapping> {
        match &mut self.content {
            Content::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    pub fn as_sequence(&self) -> Option<&Sequence> {
        match &self.content {
            Content::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    pub fn as_sequence_mut(&mut self) -> Option<&mut Sequence> {
        match &mut self.content {
            Content::Sequence(sequence) => Some(sequence),
            _ => None,
        }
    }

    /// Returns the value of a key, if this is a map with the key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_mapping()?.get(key)
    }

    /// Returns the value of a key for changes, if this is a map with the key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.as_mapping_mut()?.get_mut(key)
    }

    /// Returns the value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns the string at a path of keys.
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }

    /// Replaces the value by a string. Quotes and comments are kept, a tag is removed.
    pub fn set_text(&mut self, text: &str) {
        let keeps_quotes = matches!(
            &self.content,
            Content::Scalar(Scalar { notation: Notation::SingleQuoted | Notation::DoubleQuoted, .. })
        ) && !text.contains('\n');
        if let (true, Content::Scalar(scalar)) = (keeps_quotes, &mut self.content) {
            text.clone_into(&mut scalar.text);
        } else {
            self.content = Self::string(text).content;
        }
        self.tag = None;
    }

    /// Reports whether both are the same data: scalars of the same type and value, lists in order,
    /// maps in any order. Comments, quotes and forms do not count.
    pub fn equals(&self, other: &Self) -> bool {
        match (&self.content, &other.content) {
            (Content::Scalar(_), Content::Scalar(_)) => scalar::equal(self, other),
            (Content::Mapping(left), Content::Mapping(right)) => {
                let values: HashMap<&str, &Self> =
                    right.pairs.iter().map(|pair| (pair.name(), &pair.value)).collect();
                left.pairs.len() == right.pairs.len()
                    && left
                        .pairs
                        .iter()
                        .all(|pair| values.get(pair.name()).is_some_and(|value| pair.value.equals(value)))
            }
            (Content::Sequence(left), Content::Sequence(right)) => {
                left.items.len() == right.items.len()
                    && left.items.iter().zip(&right.items).all(|(left, right)| left.equals(right))
            }
            _ => false,
        }
    }
}

impl Mapping {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.pair(key).map(|pair| &pair.value)
    }

    /// Returns the value of a key for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.pairs.iter_mut().find(|pair| pair.name() == key).map(|pair| &mut pair.value)
    }

    /// Returns a key with its value.
    pub fn pair(&self, key: &str) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.name() == key)
    }

    /// Sets a value; a new key comes last.
    pub fn set(&mut self, key: &str, value: Node) {
        match self.get_mut(key) {
            Some(place) => *place = value,
            None => self.pairs.push(Pair::new(key, value)),
        }
    }

    /// Removes a key, with its comments.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.pairs.iter().position(|pair| pair.name() == key)?;
        Some(self.pairs.remove(at).value)
    }
}

impl Pair {
    /// Creates a pair without comments.
    pub fn new(key: &str, value: Node) -> Self {
        Self { key: Node::string(key), value }
    }

    /// Returns the text of the key.
    pub fn name(&self) -> &str {
        self.key.text().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
