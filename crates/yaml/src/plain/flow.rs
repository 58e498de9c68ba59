//! Flow collections of the plain reader: JSON, and the parts that YAML allows to leave out.

use granit_parser::{Event, ScalarStyle, StructureStyle};

use super::{MOST_DEPTH, MOST_KEY_BYTES, Reader};

impl Reader<'_> {
    /// Reads a flow collection. `indent` is the indentation of the collection around it, if there
    /// is one.
    pub(super) fn flow(&mut self, indent: Option<usize>) -> Option<()> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let start = self.at;
        if self.bytes.get(start) == Some(&b'[') {
            self.push_at(Event::SequenceStart(StructureStyle::Flow, 0, None), start);
            self.members(b']', indent, Self::flow_value)?;
            self.push(Event::SequenceEnd);
        } else {
            self.push_at(Event::MappingStart(StructureStyle::Flow, 0, None), start);
            self.members(b'}', indent, Self::pair)?;
            self.push(Event::MappingEnd);
        }
        self.depth -= 1;
        Some(())
    }

    /// Reads members up to the closing bracket. A comma before the bracket is left to the parser.
    fn members(
        &mut self,
        close: u8,
        indent: Option<usize>,
        member: fn(&mut Self, Option<usize>) -> Option<()>,
    ) -> Option<()> {
        self.at += 1;
        self.flow_space(indent)?;
        if self.bytes.get(self.at) == Some(&close) {
            self.at += 1;
            return Some(());
        }
        loop {
            member(self, indent)?;
            self.flow_space(indent)?;
            let next = *self.bytes.get(self.at)?;
            self.at += 1;
            match next {
                b',' => self.flow_space(indent)?,
                _ if next == close => return Some(()),
                _ => return None,
            }
        }
    }

    fn pair(&mut self, indent: Option<usize>) -> Option<()> {
        let key = self.scalar(true)?;
        let Event::Scalar(text, style, ..) = &key.0 else { return None };
        let is_quoted = *style != ScalarStyle::Plain;
        if text.len() > MOST_KEY_BYTES || self.bytes.get(self.at) != Some(&b':') {
            return None;
        }
        self.at += 1;
        if !is_quoted && !matches!(self.bytes.get(self.at), Some(b' ' | b'\n')) {
            return None;
        }
        self.events.push(key);
        self.flow_space(indent)?;
        self.flow_value(indent)
    }

    fn flow_value(&mut self, indent: Option<usize>) -> Option<()> {
        if matches!(self.bytes.get(self.at)?, b'[' | b'{') {
            return self.flow(indent);
        }
        let scalar = self.scalar(true)?;
        self.events.push(scalar);
        Some(())
    }

    /// Skips spaces and line breaks. Lines that are not indented more than the surroundings are
    /// left to the parser.
    fn flow_space(&mut self, indent: Option<usize>) -> Option<()> {
        loop {
            self.skip_spaces();
            if self.bytes.get(self.at) != Some(&b'\n') {
                return Some(());
            }
            self.pass_line();
            self.skip_spaces();
            let column = self.at - self.line_start;
            let is_out = indent.is_some_and(|indent| column <= indent);
            if is_out || column == 0 && (self.is_marker(b"---") || self.is_marker(b"...")) {
                return None;
            }
        }
    }
}
