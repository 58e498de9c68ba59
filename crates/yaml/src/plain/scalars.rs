//! Scalars of the plain reader: on one line, or literal blocks.

use std::borrow::Cow;

use granit_parser::{Event, ScalarStyle};

use super::{Line, Positioned, Reader};

impl<'t> Reader<'t> {
    /// Reads a scalar on this line.
    pub(super) fn scalar(&mut self, in_flow: bool) -> Option<Positioned<'t>> {
        let position = self.position(self.at);
        let (text, style) = match self.bytes.get(self.at)? {
            b'"' => (self.double_quoted()?, ScalarStyle::DoubleQuoted),
            b'\'' => (self.single_quoted()?, ScalarStyle::SingleQuoted),
            _ => (Cow::Borrowed(self.unquoted(in_flow)?), ScalarStyle::Plain),
        };
        Some((Event::Scalar(text, style, 0, None), position))
    }

    fn unquoted(&mut self, in_flow: bool) -> Option<&'t str> {
        let start = self.at;
        let (first, second) = (*self.bytes.get(start)?, self.bytes.get(start + 1).copied());
        let begins = match first {
            b'-' => {
                second.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
            }
            b'_' | b'/' | b'.' | b'$' | b'(' | b')' | b'+' | b'<' | b'~' | b'^' | b';' | b'=' | b'\\' => true,
            _ => first.is_ascii_alphanumeric() || !first.is_ascii(),
        };
        if !begins {
            return None;
        }
        // End of the scalar: behind the last byte that is not a space.
        let mut end = start;
        loop {
            let byte = self.bytes.get(self.at);
            match byte {
                None | Some(b'\n') => break,
                Some(b'\t') => return None,
                Some(b' ') => {
                    self.at += 1;
                    continue;
                }
                Some(b':') => match self.bytes.get(self.at + 1) {
                    None | Some(b' ' | b'\n') => break,
                    Some(b',' | b'[' | b']' | b'{' | b'}') if in_flow => return None,
                    Some(b'\t') => return None,
                    Some(_) => {}
                },
                Some(b'#') if end < self.at => break,
                Some(b',' | b']' | b'}') if in_flow => break,
                Some(b'[' | b'{') if in_flow => return None,
                Some(_) => {}
            }
            self.at += 1;
            end = self.at;
        }
        // A colon behind spaces is left to the parser, because its meaning depends on the context.
        if self.bytes.get(self.at) == Some(&b':') && end < self.at {
            return None;
        }
        self.text.get(start..end)
    }

    fn single_quoted(&mut self) -> Option<Cow<'t, str>> {
        self.at += 1;
        let start = self.at;
        let mut is_escaped = false;
        loop {
            match self.bytes.get(self.at)? {
                b'\n' | b'\t' => return None,
                b'\'' if self.bytes.get(self.at + 1) == Some(&b'\'') => {
                    is_escaped = true;
                    self.at += 2;
                }
                b'\'' => break,
                _ => self.at += 1,
            }
        }
        let text = self.text.get(start..self.at)?;
        self.at += 1;
        Some(if is_escaped { Cow::Owned(text.replace("''", "'")) } else { Cow::Borrowed(text) })
    }

    fn double_quoted(&mut self) -> Option<Cow<'t, str>> {
        self.at += 1;
        let mut start = self.at;
        let mut before = String::new();
        loop {
            match self.bytes.get(self.at)? {
                b'\n' | b'\t' => return None,
                b'"' => break,
                b'\\' => {
                    before.push_str(self.text.get(start..self.at)?);
                    before.push(self.escaped()?);
                    start = self.at;
                }
                _ => self.at += 1,
            }
        }
        let text = self.text.get(start..self.at)?;
        self.at += 1;
        if before.is_empty() {
            return Some(Cow::Borrowed(text));
        }
        before.push_str(text);
        Some(Cow::Owned(before))
    }

    /// Reads an escape that JSON has, too; other escapes are left to the parser.
    fn escaped(&mut self) -> Option<char> {
        let escape = *self.bytes.get(self.at + 1)?;
        self.at += 2;
        Some(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4)?;
                if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                self.at += 4;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        })
    }

    /// Reads a literal block (`|`, `|-`) whose first line has content. `indent` is the indentation
    /// of the collection around it.
    pub(super) fn literal(&mut self, indent: usize) -> Option<Line> {
        self.at += 1;
        let strips = self.bytes.get(self.at) == Some(&b'-');
        self.at += usize::from(strips);
        self.end_of_line()?;
        self.skip_spaces();
        let own = self.at - self.line_start;
        if own <= indent || matches!(self.bytes.get(self.at), None | Some(b'\n' | b'\t')) {
            return None;
        }
        let position = self.position(self.at);
        let mut text = String::new();
        while self.at < self.bytes.len() {
            let end = self.line_end();
            let begin = self.line_start + own;
            if self.at >= begin {
                text.push_str(self.text.get(begin..end)?);
            } else if self.at < end {
                break;
            }
            text.push('\n');
            self.at = end;
            self.pass_line();
            while self.at < self.line_start + own && self.bytes.get(self.at) == Some(&b' ') {
                self.at += 1;
            }
        }
        let content = text.trim_end_matches('\n').len();
        text.truncate(content + usize::from(!strips));
        self.events.push((Event::Scalar(Cow::Owned(text), ScalarStyle::Literal, 0, None), position));
        if self.at < self.bytes.len() {
            self.at = self.line_start;
        }
        self.next_line()
    }
}
