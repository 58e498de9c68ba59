use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// A position in a source text. Line and column count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// A value together with the position where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub position: Position,
    pub content: Content,
}

/// The content of a [`Node`]: a JSON value with positions inside.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Sequence(Vec<Node>),
    /// Entries in document order; keys are unique.
    Mapping(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub key_position: Position,
    pub value: Node,
}

/// One step of a path into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Node {
    /// Returns the plain JSON value.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(value) => Value::Number(value.clone()),
            Content::String(value) => Value::String(value.clone()),
            Content::Sequence(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Content::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Converts to the plain JSON value, without copying texts.
    pub fn into_value(self) -> Value {
        match self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(value),
            Content::Number(value) => Value::Number(value),
            Content::String(value) => Value::String(value),
            Content::Sequence(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Content::Mapping(entries) => Value::Object(
                entries.into_iter().map(|entry| (entry.key, entry.value.into_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the value under `key`, if this is a mapping with the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Returns the text of a string node.
    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::String(text) => Some(text),
            _ => None,
        }
    }

    /// Reports whether the document is empty or an explicit null.
    pub fn is_null(&self) -> bool {
        self.content == Content::Null
    }

    /// Returns the position of the value at `path`.
    ///
    /// A path that leaves the document ends at the deepest value that exists: a missing member is
    /// reported at the object that should have it. For the last key of a path the position is that
    /// of the key itself, which is where a reader looks.
    pub fn locate<'a>(&self, path: impl IntoIterator<Item = Step<'a>>) -> Position {
        let mut node = self;
        let mut position = self.position;
        for step in path {
            let next = match (step, &node.content) {
                (Step::Key(key), Content::Mapping(_)) => {
                    node.entry(key).map(|entry| (&entry.value, entry.key_position))
                }
                (Step::Index(index), Content::Sequence(items)) => {
                    items.get(index).map(|item| (item, item.position))
                }
                _ => None,
            };
            let Some((value, place)) = next else { break };
            (node, position) = (value, place);
        }
        position
    }
}
