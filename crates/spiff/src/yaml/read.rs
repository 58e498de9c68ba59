//! Reader from YAML text to nodes (`spiff.md` 14.1).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle, Tag};
use groundwork_yaml::events::Events;

use super::scalar::resolve;
use crate::limits::Limits;
use crate::syntax::ast::Name;
use crate::value::{List, Map, Node, Origin, Value};

/// The reason why a text is not a document. No message quotes the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is not YAML.
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: u32, column: u32, message: String },
    /// A key is a collection; keys must be text (`spiff.md` 14.1).
    #[error("line {line}, column {column}: map key must be a string, not a list or map")]
    Key { line: u32, column: u32 },
    /// The text has more levels than [`Limits::nesting`].
    #[error("line {line}, column {column}: lists and maps are nested more than {limit} levels deep")]
    TooDeep { line: u32, column: u32, limit: usize },
    /// The text has more nodes than [`Limits::nodes`], with all aliases expanded.
    #[error("line {line}, column {column}: the document has more than {limit} nodes, aliases expanded")]
    TooManyNodes { line: u32, column: u32, limit: usize },
    /// The text has more bytes than [`Limits::string_bytes`].
    #[error("the text has {bytes} bytes, more than the limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
}

/// Reads all documents of a text; an empty text is one nil document. `source` is their name in
/// messages.
///
/// # Errors
///
/// Malformed YAML, keys that are collections, or a text beyond the limits; see [`ReadError`].
pub(crate) fn read(text: &str, source: &Arc<str>, limits: &Limits) -> Result<Vec<Node>, ReadError> {
    let (bytes, limit) = (text.len(), limits.string_bytes);
    if bytes > limit {
        return Err(ReadError::TooLarge { bytes, limit });
    }
    refuse_nul(text)?;
    let mut reader = Reader::new(text, source, limits);
    let mut documents = Vec::new();
    let most = groundwork_yaml::Options::DEFAULT.most_documents;
    while let Some(document) = reader.document()? {
        if documents.len() == most {
            let Origin { line, column, .. } = document.origin;
            return Err(syntax(
                (line, column),
                format!("the text has more than {most} documents; divide it"),
            ));
        }
        documents.push(document);
    }
    if documents.is_empty() {
        documents.push(Node::at(Value::Nil, Origin { source: Arc::clone(source), line: 1, column: 1 }));
    }
    Ok(documents)
}

fn refuse_nul(text: &str) -> Result<(), ReadError> {
    let Some(at) = text.find('\0') else { return Ok(()) };
    let before = &text[..at];
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
    Err(syntax((narrow(line), narrow(column)), "a NUL character is not allowed"))
}

type Position = (u32, u32);

fn syntax((line, column): Position, message: impl Into<String>) -> ReadError {
    ReadError::Syntax { line, column, message: message.into() }
}

impl From<groundwork_yaml::Error> for ReadError {
    fn from(error: groundwork_yaml::Error) -> Self {
        syntax(narrowed(error.position()), error.message())
    }
}

struct Reader<'input> {
    events: Events<'input>,
    source: &'input Arc<str>,
    limits: &'input Limits,
    anchors: HashMap<usize, Anchor>,
    keys: HashSet<Name>,
    /// Nodes of the current document, with aliases expanded.
    nodes: usize,
    depth: usize,
}

struct Anchor {
    node: Node,
    nodes: usize,
}

impl<'input> Reader<'input> {
    fn new(text: &'input str, source: &'input Arc<str>, limits: &'input Limits) -> Self {
        Self {
            events: Events::new(text),
            source,
            limits,
            anchors: HashMap::new(),
            keys: HashSet::new(),
            nodes: 0,
            depth: 0,
        }
    }

    fn next(&mut self) -> Result<(Event<'input>, Position), ReadError> {
        let (event, position) = self.events.next_event()?;
        Ok((event, narrowed(position)))
    }

    /// Reads the next document, or returns `None` at the end of the stream.
    fn document(&mut self) -> Result<Option<Node>, ReadError> {
        if !self.events.begins_document()? {
            return Ok(None);
        }
        self.anchors.clear();
        self.nodes = 0;
        let (event, position) = self.next()?;
        if matches!(event, Event::DocumentEnd) {
            return Ok(Some(self.at(Value::Nil, position)));
        }
        let document = self.node(event, position)?;
        self.events.end_document()?;
        Ok(Some(document))
    }

    fn at(&self, value: Value, (line, column): Position) -> Node {
        Node::at(value, Origin { source: Arc::clone(self.source), line, column })
    }

    fn node(&mut self, event: Event<'input>, position: Position) -> Result<Node, ReadError> {
        let before = self.nodes;
        self.count(1, position)?;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (self.at(scalar(text, style, tag.as_deref(), position)?, position), anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let entries = self.nested(position, Self::entries)?;
                (self.at(Value::List(Arc::new(List::new(entries))), position), anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let fields = self.nested(position, Self::fields)?;
                (self.at(Value::Map(Arc::new(Map::new(fields))), position), anchor)
            }
            Event::Alias(id) => return self.alias(id, position),
            _ => return Err(syntax(position, "a value is expected here")),
        };
        if anchor != 0 {
            let nodes = self.nodes - before;
            self.anchors.insert(anchor, Anchor { node: node.clone(), nodes });
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, (line, column): Position) -> Result<(), ReadError> {
        self.nodes = self.nodes.saturating_add(nodes);
        let limit = self.limits.nodes;
        if self.nodes > limit {
            return Err(ReadError::TooManyNodes { line, column, limit });
        }
        Ok(())
    }

    fn nested<T>(
        &mut self,
        (line, column): Position,
        content: fn(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let limit = self.limits.nesting;
        if self.depth >= limit {
            return Err(ReadError::TooDeep { line, column, limit });
        }
        self.depth += 1;
        let result = stacker::maybe_grow(128 << 10, 1 << 20, || content(self));
        self.depth -= 1;
        result
    }

    /// Returns the node of an anchor. The content is shared, but is counted as if it were not.
    fn alias(&mut self, id: usize, position: Position) -> Result<Node, ReadError> {
        let Some(anchor) = self.anchors.get(&id) else {
            return Err(syntax(position, "an anchor contains an alias to itself"));
        };
        let node = anchor.node.clone();
        let (nodes, levels) = (anchor.nodes - 1, node.value.nesting() as usize);
        self.count(nodes, position)?;
        let ((line, column), limit) = (position, self.limits.nesting);
        if self.depth + levels > limit {
            return Err(ReadError::TooDeep { line, column, limit });
        }
        Ok(self.at(node.value, position))
    }

    fn entries(&mut self) -> Result<Vec<Node>, ReadError> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(entries),
                (event, position) => entries.push(self.node(event, position)?),
            }
        }
    }

    fn fields(&mut self) -> Result<Vec<(Name, Node)>, ReadError> {
        let mut fields = Vec::new();
        loop {
            let (event, position) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(fields);
            }
            let key = self.key(event, position)?;
            let (event, position) = self.next()?;
            fields.push((key, self.node(event, position)?));
        }
    }

    /// Returns the text of a key as it was written, even if it would be a number or boolean as a
    /// value **[D10]**.
    fn key(&mut self, event: Event<'input>, position: Position) -> Result<Name, ReadError> {
        let (line, column) = position;
        let text = match event {
            Event::Scalar(text, _, 0, _) => text,
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(text.clone(), style, tag.as_deref(), position)?;
                self.anchors.insert(anchor, Anchor { node: self.at(value, position), nodes: 1 });
                text
            }
            Event::Alias(id) => match self.alias(id, position)?.value {
                Value::String(text) => return Ok(text),
                _ => return Err(ReadError::Key { line, column }),
            },
            _ => return Err(ReadError::Key { line, column }),
        };
        if let Some(known) = self.keys.get(&*text) {
            return Ok(Arc::clone(known));
        }
        let key = Name::from(&*text);
        self.keys.insert(Arc::clone(&key));
        Ok(key)
    }
}

fn scalar(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    position: Position,
) -> Result<Value, ReadError> {
    let is_plain = style == ScalarStyle::Plain;
    let Some(tag) = tag else {
        let resolved = if is_plain { resolve(&text) } else { None };
        return Ok(resolved.unwrap_or_else(|| Value::String(text.into())));
    };
    if tag.handle() != "tag:yaml.org,2002:" {
        // A tag outside of YAML's own is ignored; only the lone `!` makes the value text.
        let is_lone = matches!(tag.suffix(), "" | "!");
        let resolved = if is_plain && !is_lone { resolve(&text) } else { None };
        return Ok(resolved.unwrap_or_else(|| Value::String(text.into())));
    }
    tagged(tag.suffix(), &text)
        .ok_or_else(|| syntax(position, format!("the value does not fit its tag !!{}", tag.suffix())))
}

/// Returns values with a tag of YAML itself **[D11]**.
fn tagged(suffix: &str, text: &str) -> Option<Value> {
    let resolved = resolve(text);
    match suffix {
        "null" => resolved.filter(|value| matches!(value, Value::Nil)),
        "bool" => resolved.filter(|value| matches!(value, Value::Bool(_))),
        "int" => resolved.filter(|value| matches!(value, Value::Int(_))),
        "float" => match resolved? {
            #[expect(clippy::cast_precision_loss, reason = "the tag asks for a double")]
            Value::Int(number) => Some(Value::Float(number as f64)),
            value @ Value::Float(_) => Some(value),
            _ => None,
        },
        "binary" => {
            let compact: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            data_encoding::BASE64.decode(&compact).ok().map(|bytes| Value::Binary(bytes.into()))
        }
        _ => Some(Value::string(text)),
    }
}

fn narrowed(position: groundwork_yaml::Position) -> Position {
    (narrow(position.line), narrow(position.column))
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
