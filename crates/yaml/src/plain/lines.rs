//! Lines, spaces, comments and positions of the plain reader.

use super::{Line, Reader};
use crate::node::Position;

impl Reader<'_> {
    pub(super) fn position(&self, at: usize) -> Position {
        let column = match self.is_ascii {
            true => at - self.line_start,
            false => self.text.get(self.line_start..at).map_or(0, |before| before.chars().count()),
        };
        Position { line: self.line, column: column + 1 }
    }

    pub(super) fn skip_spaces(&mut self) {
        while self.bytes.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    /// Reports whether the rest of the line is empty or a comment. Spaces must have been skipped.
    pub(super) fn is_end_of_line(&self) -> bool {
        match self.bytes.get(self.at) {
            None | Some(b'\n') => true,
            Some(b'#') => self.is_behind_space(),
            Some(_) => false,
        }
    }

    fn is_behind_space(&self) -> bool {
        self.at.checked_sub(1).and_then(|before| self.bytes.get(before)).is_none_or(|byte| *byte == b' ')
    }

    /// Goes to the start of the next line, if the rest of this one is empty or a comment.
    pub(super) fn end_of_line(&mut self) -> Option<()> {
        self.skip_spaces();
        if !self.is_end_of_line() {
            return None;
        }
        self.pass_line();
        Some(())
    }

    /// Goes to the start of the next line, ignoring the rest of this one.
    pub(super) fn pass_line(&mut self) {
        self.at = self.line_end();
        if self.at < self.bytes.len() {
            self.at += 1;
            self.line += 1;
            self.line_start = self.at;
        }
    }

    /// Returns the end of the line: its break, or the end of the text.
    pub(super) fn line_end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
    }

    /// Skips empty lines and comments, from the start of a line.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        loop {
            self.skip_spaces();
            let indent = self.at - self.line_start;
            match self.bytes.get(self.at) {
                None => return Some(Line::End),
                Some(b'\n' | b'#') => self.pass_line(),
                Some(b'\t') => return None,
                Some(b'%') if indent == 0 => return None,
                Some(b'.') if indent == 0 && self.is_marker(b"...") => return None,
                Some(b'-') if indent == 0 && self.is_marker(b"---") => return Some(Line::Marker),
                Some(_) => return Some(Line::Content(indent)),
            }
        }
    }

    pub(super) fn is_marker(&self, marker: &[u8]) -> bool {
        self.bytes.get(self.at..).is_some_and(|rest| {
            rest.strip_prefix(marker)
                .is_some_and(|behind| matches!(behind.first(), None | Some(b' ' | b'\n' | b'\t')))
        })
    }

    /// Reports whether an item of a sequence begins here.
    pub(super) fn is_dash(&self) -> bool {
        self.bytes.get(self.at) == Some(&b'-')
            && matches!(self.bytes.get(self.at + 1), None | Some(b' ' | b'\n'))
    }
}
