//! A fast reader of plain YAML: the texts that programs and templates print, and most texts of
//! users.
//!
//! The parser of [`crate::events`] knows all of YAML, which costs time for each token. Here one
//! pass over the bytes makes the same events for block mappings and sequences, texts on one line,
//! literal blocks and flow collections. At anything else (anchors, tags, texts over several lines,
//! tabs, directives, every mistake) it gives up, and the parser reads the text from its start. So
//! this module never refuses a text, and has no messages.

mod flow;
mod lines;
mod scalars;

use std::borrow::Cow;

use granit_parser::{Event, ScalarStyle, StructureStyle};

use crate::node::Position;

/// Largest text in bytes; larger ones are left to the parser, which keeps one event at a time in
/// memory.
const MOST_BYTES: usize = 1 << 20;
/// Limit for the levels of nesting. Deeper texts are left to the parser, which does not recurse.
const MOST_DEPTH: usize = 64;
/// Longest key in bytes; the parser may refuse longer ones.
const MOST_KEY_BYTES: usize = 1000;

pub(crate) type Positioned<'t> = (Event<'t>, Position);

/// Returns all events of a text, from the start of its first document to the end of the stream, or
/// `None` if it is not plain. The positions of end events have no meaning.
pub(crate) fn events(text: &str) -> Option<Vec<Positioned<'_>>> {
    if text.len() > MOST_BYTES || !is_printable(text) {
        return None;
    }
    let mut reader = Reader::new(text);
    reader.stream()?;
    Some(reader.events)
}

/// Reports whether the text has no characters that the parser treats specially: control characters,
/// and line breaks that only Unicode knows.
fn is_printable(text: &str) -> bool {
    let is_control = |byte: u8| byte < b' ' && byte != b'\n' && byte != b'\t' || byte == 0x7f;
    if text.bytes().any(is_control) {
        return false;
    }
    let is_odd = |c: char| {
        matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    text.is_ascii() || !text.chars().any(is_odd)
}

/// The beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Content, indented by this many spaces.
    Content(usize),
    /// `---`
    Marker,
    End,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    is_ascii: bool,
    /// Position of the next byte to read.
    at: usize,
    line_start: usize,
    line: usize,
    depth: usize,
    events: Vec<Positioned<'t>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let events = Vec::with_capacity(text.len() / 12);
        let (bytes, is_ascii) = (text.as_bytes(), text.is_ascii());
        Self { text, bytes, is_ascii, at: 0, line_start: 0, line: 1, depth: 0, events }
    }

    fn stream(&mut self) -> Option<()> {
        let mut line = self.next_line()?;
        let mut is_explicit = line == Line::Marker;
        loop {
            if line == Line::Marker {
                self.at += "---".len();
                self.end_of_line()?;
                line = self.next_line()?;
            }
            // Documents without content are left to the parser.
            let Line::Content(indent) = line else { return None };
            self.push(Event::DocumentStart(is_explicit, None));
            let rest = self.block(indent, None)?;
            self.push(Event::DocumentEnd);
            match rest {
                Line::End => return Some(()),
                Line::Marker => (line, is_explicit) = (rest, true),
                Line::Content(_) => return None,
            }
        }
    }

    /// Reads a node whose first line begins here; `parent` is the indentation of the collection
    /// around it. Returns the line behind the node.
    fn block(&mut self, indent: usize, parent: Option<usize>) -> Option<Line> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let rest = if self.is_dash() {
            self.push_at(Event::SequenceStart(StructureStyle::Block, 0, None), self.at);
            self.sequence(indent)?
        } else if matches!(self.bytes.get(self.at)?, b'|' | b'[' | b'{') {
            self.inline(parent)?
        } else {
            let scalar = self.scalar(false)?;
            if self.takes_colon(&scalar)? {
                self.mapping(indent, scalar)?
            } else {
                // A scalar at the root may continue on further lines, in ways that are left to the
                // parser.
                parent?;
                self.events.push(scalar);
                self.end_of_line()?;
                self.next_line()?
            }
        };
        self.depth -= 1;
        Some(rest)
    }

    /// Reads the entries of a mapping, from behind the colon of its first key.
    fn mapping(&mut self, indent: usize, first: Positioned<'t>) -> Option<Line> {
        self.events.push((Event::MappingStart(StructureStyle::Block, 0, None), first.1));
        let mut key = first;
        loop {
            self.events.push(key);
            let rest = self.value(indent)?;
            match rest {
                Line::Content(at) if at > indent => return None,
                Line::Content(at) if at == indent => {
                    key = self.scalar(false)?;
                    if !self.takes_colon(&key)? {
                        return None;
                    }
                }
                _ => {
                    self.push(Event::MappingEnd);
                    return Some(rest);
                }
            }
        }
    }

    /// Reads the text behind the colon of a key in a mapping with this indentation.
    fn value(&mut self, indent: usize) -> Option<Line> {
        // The parser places a missing value at the colon.
        let null = self.position(self.at - 1);
        self.skip_spaces();
        if !self.is_end_of_line() {
            return self.inline(Some(indent));
        }
        self.end_of_line()?;
        match self.next_line()? {
            Line::Content(at) if at > indent => self.block(at, Some(indent)),
            Line::Content(at) if at == indent && self.is_dash() => {
                // Without indentation the parser places the sequence at its first item. An empty
                // first item is left to the parser.
                let mut item = self.at + 1;
                while self.bytes.get(item) == Some(&b' ') {
                    item += 1;
                }
                if matches!(self.bytes.get(item), None | Some(b'\n' | b'#')) {
                    return None;
                }
                self.push_at(Event::SequenceStart(StructureStyle::Block, 0, None), item);
                self.depth += 1;
                let rest = self.sequence(indent)?;
                self.depth -= 1;
                Some(rest)
            }
            rest => {
                self.events.push((null_scalar(), null));
                Some(rest)
            }
        }
    }

    /// Reads the items of a sequence, from its first dash.
    fn sequence(&mut self, indent: usize) -> Option<Line> {
        loop {
            let rest = self.item(indent)?;
            match rest {
                Line::Content(at) if at > indent => return None,
                Line::Content(at) if at == indent && self.is_dash() => {}
                _ => {
                    self.push(Event::SequenceEnd);
                    return Some(rest);
                }
            }
        }
    }

    /// Reads an item. An empty one is left to the parser, which places it in its own way.
    fn item(&mut self, indent: usize) -> Option<Line> {
        self.at += 1;
        self.skip_spaces();
        if !self.is_end_of_line() {
            return self.block(self.at - self.line_start, Some(indent));
        }
        self.end_of_line()?;
        match self.next_line()? {
            Line::Content(at) if at > indent => self.block(at, Some(indent)),
            _ => None,
        }
    }

    /// Reads a scalar or a flow collection that ends with its line. `indent` is the indentation of
    /// the collection around it.
    fn inline(&mut self, indent: Option<usize>) -> Option<Line> {
        match self.bytes.get(self.at)? {
            b'|' => return self.literal(indent?),
            b'[' | b'{' => self.flow(indent)?,
            _ => {
                let scalar = self.scalar(false)?;
                self.events.push(scalar);
            }
        }
        self.end_of_line()?;
        self.next_line()
    }

    /// Skips the colon behind a key of a block mapping; returns false if there is none.
    fn takes_colon(&mut self, key: &Positioned<'t>) -> Option<bool> {
        if self.bytes.get(self.at) != Some(&b':') {
            return Some(false);
        }
        let is_short = matches!(&key.0, Event::Scalar(text, ..) if text.len() <= MOST_KEY_BYTES);
        if !is_short || !matches!(self.bytes.get(self.at + 1), None | Some(b' ' | b'\n')) {
            return None;
        }
        self.at += 1;
        Some(true)
    }

    fn push(&mut self, event: Event<'t>) {
        self.events.push((event, Position { line: self.line, column: 1 }));
    }

    fn push_at(&mut self, event: Event<'t>, at: usize) {
        let position = self.position(at);
        self.events.push((event, position));
    }
}

/// Returns the event of a missing value.
fn null_scalar() -> Event<'static> {
    Event::Scalar(Cow::Borrowed("~"), ScalarStyle::Plain, 0, None)
}

#[cfg(test)]
mod tests;
