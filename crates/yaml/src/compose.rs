//! Composer from parser events to [`Node`]s: anchors, tags, merge keys, duplicate keys.

mod continued;

use std::collections::HashMap;

use granit_parser::{Event, ScalarStyle, Tag};

use crate::error::Error;
use crate::events::Events;
use crate::node::{Content, Entry, Node, Position};
use crate::number::format_g32;
use crate::scalar::{Scalar, resolve_plain, resolve_tagged};

/// Size that aliases may add to one document, counted in nodes and in blocks of 64 bytes of text. A
/// text that multiplies itself beyond this is an attack, not a document.
const ALIAS_BUDGET: usize = 500_000;

/// Bytes of a node while a text is read and converted: the node with its position, and the value
/// made from it.
const NODE_BYTES: usize = size_of::<Node>() + size_of::<serde_json::Value>();
/// Bytes of an entry of a mapping besides its value: key, position of the key, and the key in the
/// value.
const ENTRY_BYTES: usize = size_of::<Entry>() - size_of::<Node>() + 2 * size_of::<String>();

/// Default of [`Options::most_bytes`]: more than a million nodes.
const MOST_BYTES: usize = 256 << 20;

/// Default of [`Options::most_documents`]. A document takes some time even if it is empty.
const MOST_DOCUMENTS: usize = 500_000;

/// Settings for reading a text.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// True if `<<` merges its maps. Template languages that give `<<` a meaning of their own
    /// switch it off and get the key as it is written.
    pub merge_keys: bool,
    /// True if a duplicate key in a mapping is an error; otherwise the last one wins.
    pub unique_keys: bool,
    /// Memory in bytes that all nodes of a text may take while it is read, including the copies for
    /// aliases.
    pub most_bytes: usize,
    /// Documents that [`parse_all`] reads from a text, empty ones included.
    pub most_documents: usize,
}

impl Options {
    /// The value of [`Options::default`], for constants.
    pub const DEFAULT: Self =
        Self { merge_keys: true, unique_keys: false, most_bytes: MOST_BYTES, most_documents: MOST_DOCUMENTS };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parses the first document. The text behind its end is not read. An empty text is a null
/// document.
///
/// # Errors
///
/// Malformed YAML up to the end of the first document; see [`Error`].
pub fn parse_first(text: &str, options: Options) -> Result<Node, Error> {
    continued::read(text, |text| {
        let mut composer = Composer::new(text, options);
        Ok(composer.document()?.unwrap_or_else(|| null_at(Position { line: 1, column: 1 })))
    })
}

/// The part of a value that a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// For a mapping, only the wanted parts of its members. For any other value, the whole.
    Members,
    Nothing,
}

/// Parses the wanted parts of the first document. `wanted` is called for each member of the
/// document's mapping with its key, and for members of members with the keys that lead there. The
/// rest of the text is read, but takes no memory.
///
/// # Errors
///
/// Fails as [`parse_first`] does. Faults of values that are not wanted are not errors, as long as
/// the values are YAML.
pub fn parse_parts(text: &str, options: Options, wanted: impl Fn(&[&str]) -> Part) -> Result<Node, Error> {
    continued::read(text, |text| {
        let mut composer = Composer::new(text, options);
        if !composer.begins_document()? {
            return Ok(null_at(Position { line: 1, column: 1 }));
        }
        let (event, position) = composer.events.next_event()?;
        if matches!(event, Event::DocumentEnd) {
            return Ok(null_at(position));
        }
        let document = composer.members(event, position, &[], &wanted)?;
        composer.events.end_document()?;
        Ok(document)
    })
}

/// Parses every document of a stream; empty documents between markers are null.
///
/// # Errors
///
/// Malformed YAML anywhere in the text; see [`Error`].
pub fn parse_all(text: &str, options: Options) -> Result<Vec<Node>, Error> {
    continued::read(text, |text| {
        let mut composer = Composer::new(text, options);
        let mut documents = Vec::new();
        while let Some(document) = composer.document()? {
            if documents.len() == options.most_documents {
                let problem = format!("the text has more than {} documents; divide it", documents.len());
                return Err(Error::new(document.position, problem));
            }
            documents.push(document);
        }
        Ok(documents)
    })
}

/// Reports whether the text continues after its first document, even with text that is not YAML.
pub fn has_several_documents(text: &str, options: Options) -> bool {
    let second = continued::read(text, |text| {
        let mut composer = Composer::new(text, options);
        Ok(composer.document()?.is_some() && composer.document()?.is_some())
    });
    second.unwrap_or(true)
}

struct Composer<'input> {
    events: Events<'input>,
    options: Options,
    anchors: HashMap<usize, Node>,
    /// True if an alias may refer to a node with an anchor.
    has_aliases: bool,
    alias_budget: usize,
    /// Remainder of [`Options::most_bytes`].
    bytes: usize,
}

impl<'input> Composer<'input> {
    fn new(text: &'input str, options: Options) -> Self {
        let events = Events::new(text);
        Self {
            events,
            options,
            anchors: HashMap::new(),
            // Copies of anchored nodes are needed only if there is an alias. A `*` with another
            // meaning costs memory, but is not an error.
            has_aliases: text.contains('*'),
            alias_budget: ALIAS_BUDGET,
            bytes: options.most_bytes,
        }
    }

    /// Reads the next document, or returns `None` at the end of the stream.
    fn document(&mut self) -> Result<Option<Node>, Error> {
        if !self.begins_document()? {
            return Ok(None);
        }
        let (event, position) = self.events.next_event()?;
        if matches!(event, Event::DocumentEnd) {
            return Ok(Some(null_at(position)));
        }
        let document = self.node(event, position)?;
        self.events.end_document()?;
        Ok(Some(document))
    }

    fn begins_document(&mut self) -> Result<bool, Error> {
        self.anchors.clear();
        self.alias_budget = ALIAS_BUDGET;
        self.events.begins_document()
    }

    /// Reads a value of which some members are wanted. `path` leads to the value.
    fn members(
        &mut self,
        event: Event<'input>,
        position: Position,
        path: &[&str],
        wanted: &impl Fn(&[&str]) -> Part,
    ) -> Result<Node, Error> {
        // An alias to the whole value needs all of it, so it is read as a whole.
        if !matches!(event, Event::MappingStart(_, 0, _)) {
            return self.node(event, position);
        }
        let (mut entries, mut index, mut merges) = (Vec::new(), Index::default(), Vec::new());
        loop {
            let (event, key_position) = self.events.next_event()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.key(event, key_position)?;
            let (event, position) = self.events.next_event()?;
            let Key::Text(key) = key else {
                merges.push(self.node(event, position)?);
                continue;
            };
            let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            let value = match wanted(&path) {
                Part::Nothing => {
                    self.skip(event, position)?;
                    continue;
                }
                Part::Whole => self.node(event, position)?,
                Part::Members => self.members(event, position, &path, wanted)?,
            };
            self.take(ENTRY_BYTES, key_position)?;
            self.put(Entry { key, key_position, value }, &mut entries, &mut index)?;
        }
        for source in merges {
            merge(source, &mut entries, &mut index)?;
        }
        Ok(Node { position, content: Content::Mapping(entries) })
    }

    /// Reads a value without keeping it, except for values with an anchor.
    fn skip(&mut self, event: Event<'input>, position: Position) -> Result<(), Error> {
        let (mut next, mut depth) = ((event, position), 0_usize);
        loop {
            let (event, position) = next;
            match &event {
                Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _)
                    if *anchor == 0 || !self.has_aliases =>
                {
                    depth += 1;
                }
                Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
                Event::Scalar(_, _, 0, _) | Event::Alias(_) => {}
                _ => drop(self.node(event, position)?),
            }
            if depth == 0 {
                return Ok(());
            }
            next = self.events.next_event()?;
        }
    }

    /// Accounts for memory before it is allocated.
    fn take(&mut self, bytes: usize, position: Position) -> Result<(), Error> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| {
            let limit = self.options.most_bytes;
            Error::new(
                position,
                format!("the text takes more than the limit of {limit} bytes of memory; divide it"),
            )
        })?;
        Ok(())
    }

    fn node(&mut self, event: Event<'input>, position: Position) -> Result<Node, Error> {
        self.take(NODE_BYTES, position)?;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.take(text.len(), position)?;
                let node = scalar_node(&text, style, tag.as_deref(), position)?;
                self.remember(anchor, &node)?;
                Ok(node)
            }
            Event::SequenceStart(_, anchor, _) => {
                let node = Node { position, content: Content::Sequence(self.sequence()?) };
                self.remember(anchor, &node)?;
                Ok(node)
            }
            Event::MappingStart(_, anchor, _) => {
                let node = Node { position, content: Content::Mapping(self.mapping()?) };
                self.remember(anchor, &node)?;
                Ok(node)
            }
            Event::Alias(id) => self.alias(id, position),
            _ => Err(Error::new(position, "a value is expected here")),
        }
    }

    fn remember(&mut self, anchor: usize, node: &Node) -> Result<(), Error> {
        if anchor != 0 && self.has_aliases {
            self.take(size(node), node.position)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, position: Position) -> Result<Node, Error> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(Error::new(position, "an anchor contains an alias to itself"));
        };
        self.alias_budget = self
            .alias_budget
            .checked_sub(weight(target))
            .ok_or_else(|| Error::new(position, "the document contains excessive aliasing"))?;
        let target = target.clone();
        self.take(size(&target), position)?;
        Ok(target)
    }

    fn sequence(&mut self) -> Result<Vec<Node>, Error> {
        let mut items = Vec::new();
        loop {
            match self.events.next_event()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, position) => items.push(self.node(event, position)?),
            }
        }
    }

    fn mapping(&mut self) -> Result<Vec<Entry>, Error> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut index = Index::default();
        let mut merges = Vec::new();
        loop {
            let (event, key_position) = self.events.next_event()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.key(event, key_position)?;
            self.take(ENTRY_BYTES, key_position)?;
            let (event, position) = self.events.next_event()?;
            let value = self.node(event, position)?;
            match key {
                Key::Merge => merges.push(value),
                Key::Text(key) => self.put(Entry { key, key_position, value }, &mut entries, &mut index)?,
            }
        }
        for source in merges {
            merge(source, &mut entries, &mut index)?;
        }
        Ok(entries)
    }

    fn put(&self, entry: Entry, entries: &mut Vec<Entry>, index: &mut Index) -> Result<(), Error> {
        match index.position(entries, &entry.key) {
            Some(at) if self.options.unique_keys => {
                let line = entries[at].key_position.line;
                return Err(Error::new(
                    entry.key_position,
                    format!("the key is already used on line {line}"),
                ));
            }
            // The last of several equal keys wins.
            Some(at) => entries[at] = entry,
            None => entries.push(entry),
        }
        Ok(())
    }

    fn key(&mut self, event: Event<'input>, position: Position) -> Result<Key, Error> {
        if let Event::Scalar(text, ScalarStyle::Plain, 0, None) = &event {
            return plain_key(text, position, self.options.merge_keys);
        }
        let node = self.node(event, position)?;
        match node.content {
            Content::String(text) => Ok(Key::Text(text)),
            Content::Bool(value) => Ok(Key::Text(value.to_string())),
            Content::Number(number) => Ok(Key::Text(number_key(&number))),
            Content::Null => Err(Error::new(position, "null is not allowed as a key")),
            Content::Sequence(_) | Content::Mapping(_) => {
                Err(Error::new(position, "a list or a map is not allowed as a key"))
            }
        }
    }
}

/// Positions of the keys in the entries of a mapping.
#[derive(Default)]
struct Index {
    positions: HashMap<String, usize>,
    /// Number of entries that are in the index.
    known: usize,
}

impl Index {
    /// Largest number of entries without an index, because a linear search is quicker then.
    const FEW: usize = 12;

    fn position(&mut self, entries: &[Entry], key: &str) -> Option<usize> {
        if entries.len() <= Self::FEW {
            return entries.iter().position(|entry| entry.key == key);
        }
        for (position, entry) in entries.iter().enumerate().skip(self.known) {
            self.positions.insert(entry.key.clone(), position);
        }
        self.known = entries.len();
        self.positions.get(key).copied()
    }
}

enum Key {
    Text(String),
    Merge,
}

/// Reads an unquoted key. Booleans and numbers become the text of their value, timestamps stay as
/// written.
fn plain_key(text: &str, position: Position, merge_keys: bool) -> Result<Key, Error> {
    Ok(match resolve_plain(text) {
        Scalar::Merge if merge_keys => Key::Merge,
        Scalar::Merge | Scalar::Text => Key::Text(text.to_owned()),
        Scalar::Bool(value) => Key::Text(value.to_string()),
        Scalar::Number(number) => Key::Text(number_key(&number)),
        Scalar::NotFinite(value) => Key::Text(format_g32(value)),
        Scalar::Null => return Err(Error::new(position, "null is not allowed as a key")),
    })
}

fn number_key(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => format_g32(value),
        _ => number.to_string(),
    }
}

/// Adds the members of the map or maps under a `<<`, except for keys that the mapping has itself.
fn merge(source: Node, entries: &mut Vec<Entry>, index: &mut Index) -> Result<(), Error> {
    let position = source.position;
    let not_mergeable = || Error::new(position, "the merge key << needs a map or a list of maps");
    let maps = match source.content {
        Content::Mapping(map) => vec![map],
        Content::Sequence(items) => items
            .into_iter()
            .map(|item| match item.content {
                Content::Mapping(map) => Ok(map),
                _ => Err(not_mergeable()),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(not_mergeable()),
    };
    for entry in maps.into_iter().flatten() {
        if index.position(entries, &entry.key).is_none() {
            entries.push(entry);
        }
    }
    Ok(())
}

fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, position: Position) -> Result<Node, Error> {
    let content = match tag {
        Some(tag) if tag.handle() == "tag:yaml.org,2002:" => tagged_content(tag.suffix(), text, position)?,
        // A tag outside of YAML's own, or the lone "!", leaves the text a string.
        Some(_) => Content::String(text.to_owned()),
        None if style != ScalarStyle::Plain => Content::String(text.to_owned()),
        None => match resolve_plain(text) {
            Scalar::Null => Content::Null,
            Scalar::Bool(value) => Content::Bool(value),
            Scalar::Number(number) => Content::Number(number),
            Scalar::Merge | Scalar::Text => Content::String(text.to_owned()),
            Scalar::NotFinite(_) => {
                return Err(Error::new(position, "infinity and not-a-number cannot be expressed in JSON"));
            }
        },
    };
    Ok(Node { position, content })
}

fn tagged_content(suffix: &str, text: &str, position: Position) -> Result<Content, Error> {
    match suffix {
        "null" | "bool" | "int" | "float" => resolve_tagged(suffix, text)
            .ok_or_else(|| Error::new(position, format!("the value does not fit its tag !!{suffix}"))),
        "binary" => {
            let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let bytes = data_encoding::BASE64
                .decode(compact.as_bytes())
                .map_err(|_| Error::new(position, "!!binary needs base64 text"))?;
            Ok(Content::String(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Ok(Content::String(text.to_owned())),
    }
}

fn weight(node: &Node) -> usize {
    let text = |text: &str| text.len() / 64;
    1 + match &node.content {
        Content::Null | Content::Bool(_) | Content::Number(_) => 0,
        Content::String(value) => text(value),
        Content::Sequence(items) => items.iter().map(weight).sum(),
        Content::Mapping(entries) => {
            entries.iter().map(|entry| text(&entry.key) + weight(&entry.value)).sum()
        }
    }
}

/// Returns the bytes of a copy.
fn size(node: &Node) -> usize {
    NODE_BYTES
        + match &node.content {
            Content::Null | Content::Bool(_) | Content::Number(_) => 0,
            Content::String(text) => text.len(),
            Content::Sequence(items) => items.iter().map(size).sum(),
            Content::Mapping(entries) => {
                entries.iter().map(|entry| ENTRY_BYTES + entry.key.len() + size(&entry.value)).sum()
            }
        }
}

fn null_at(position: Position) -> Node {
    Node { position, content: Content::Null }
}

#[cfg(test)]
mod tests;
