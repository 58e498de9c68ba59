//! Extraction of members from a document, without reading the rest of it.
//!
//! Most documents are plain: blocks of keys with short values, as tools and templates write them.
//! For such a document a check line by line shows that the reader would accept it, many times as
//! fast as the reader. Other documents (with flow collections, anchors, tags, texts over several
//! lines, escapes, tabs) are left to the reader: `None` only means that the document has to be
//! read.

use crate::scalar::{Scalar, resolve_plain};

/// Levels of nested blocks; deeper documents are left to the reader, which has a limit of its own.
const DEEPEST: usize = 100;
const LONGEST_KEY: usize = 128;

/// Returns the members of a document's mapping whose keys are wanted, as the text that they have
/// there.
pub fn members(text: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
    if !is_plain_text(text) {
        return None;
    }
    let mut skimmer = Skimmer { text, at: 0, open: Vec::new(), waiting: None };
    let mut kept = String::new();
    let mut member: Option<usize> = None;
    while let Some(line) = skimmer.line() {
        let start = line.start;
        let key = skimmer.take(&line)?;
        if let Some(key) = key {
            if let Some(from) = member.take() {
                kept.push_str(&text[from..start]);
            }
            member = wanted(key).then_some(start);
        }
    }
    if let Some(from) = member {
        kept.push_str(&text[from..]);
    }
    Some(kept)
}

/// Reports whether the text has only characters without a special meaning.
fn is_plain_text(text: &str) -> bool {
    let is_plain_byte = |byte: u8| byte == b'\n' || (byte >= b' ' && byte != 0x7f);
    text.bytes().all(is_plain_byte)
        && (text.is_ascii()
            || !text.contains(|c: char| {
                matches!(
                    c,
                    '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
                )
            }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mapping,
    Sequence,
}

struct Line<'t> {
    start: usize,
    indent: usize,
    /// The line without indentation and trailing blanks.
    content: &'t str,
}

struct Skimmer<'t> {
    text: &'t str,
    at: usize,
    /// Open collections, with the columns of their entries.
    open: Vec<(usize, Kind)>,
    /// Column of the mapping whose last key has no value yet.
    waiting: Option<usize>,
}

/// The text behind a key or a dash.
enum Value {
    Complete,
    Nothing,
    Literal,
}

impl<'t> Skimmer<'t> {
    /// Returns the next line that is neither empty nor a comment.
    fn line(&mut self) -> Option<Line<'t>> {
        loop {
            let line = self.raw_line()?;
            if !line.content.is_empty() && !line.content.starts_with('#') {
                return Some(line);
            }
        }
    }

    fn raw_line(&mut self) -> Option<Line<'t>> {
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let end = memchr(rest).unwrap_or(rest.len());
        self.at = start + end + 1;
        let line = &rest[..end];
        let content = line.trim_start_matches(' ');
        Some(Line { start, indent: line.len() - content.len(), content: content.trim_end_matches(' ') })
    }

    /// Processes a line. Returns the key of the document's own mapping, if the line begins one.
    /// `None` if the line is not plain.
    fn take(&mut self, line: &Line<'t>) -> Option<Option<&'t str>> {
        let Line { indent, content, .. } = *line;
        if indent == 0
            && (content.starts_with("---") || content.starts_with("...") || content.starts_with('%'))
        {
            return None;
        }
        let item = content.strip_prefix("- ");
        if item.is_none() && content == "-" {
            return None;
        }
        self.place(indent, if item.is_some() { Kind::Sequence } else { Kind::Mapping })?;
        let Some(item) = item else {
            let (key, value) = split_key(content)?;
            self.value(value, indent, true)?;
            return Some((self.open.len() == 1).then_some(key));
        };
        if item.starts_with([' ', '-', '#']) {
            return None;
        }
        match split_key(item) {
            Some((_, value)) => {
                let column = indent + 2;
                self.push(column, Kind::Mapping)?;
                self.value(value, column, true)?;
            }
            None => self.value(item, indent, false)?,
        }
        Some(None)
    }

    /// Finds the collection that an entry at this column belongs to, or opens it.
    fn place(&mut self, indent: usize, kind: Kind) -> Option<()> {
        if self.open.is_empty() {
            return (indent == 0 && kind == Kind::Mapping).then(|| self.push(0, kind)).flatten();
        }
        if let Some(column) = self.waiting.take() {
            if indent > column || (indent == column && kind == Kind::Sequence) {
                return self.push(indent, kind);
            }
        } else if self.open.last().is_some_and(|(column, _)| indent > *column) {
            // A deeper line continues the value before, which is not plain.
            return None;
        }
        while let Some((column, open)) = self.open.last() {
            let ends =
                *column > indent || (*column == indent && *open == Kind::Sequence && kind == Kind::Mapping);
            if !ends {
                break;
            }
            self.open.pop();
        }
        (self.open.last() == Some(&(indent, kind))).then_some(())
    }

    fn push(&mut self, column: usize, kind: Kind) -> Option<()> {
        if self.open.len() >= DEEPEST {
            return None;
        }
        self.open.push((column, kind));
        Some(())
    }

    /// Processes the text behind a key of a mapping, or a dash, at this column.
    fn value(&mut self, value: &str, column: usize, is_member: bool) -> Option<()> {
        match plain_value(value)? {
            Value::Complete => {}
            Value::Nothing if is_member => self.waiting = Some(column),
            Value::Nothing => return None,
            Value::Literal => self.literal(column)?,
        }
        Some(())
    }

    /// Skips the lines of a block text, which are indented deeper than its key or dash.
    fn literal(&mut self, column: usize) -> Option<()> {
        let mut deepest_blank = 0;
        let mut inside = None;
        loop {
            let before = self.at;
            let Some(Line { indent, content, .. }) = self.raw_line() else { return Some(()) };
            match inside {
                _ if content.is_empty() => {
                    if inside.is_none() {
                        deepest_blank = deepest_blank.max(indent);
                    }
                }
                None if indent > column => {
                    if deepest_blank > indent {
                        return None;
                    }
                    inside = Some(indent);
                }
                Some(inside) if indent >= inside => {}
                _ if indent <= column => {
                    self.at = before;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

fn memchr(text: &str) -> Option<usize> {
    text.as_bytes().iter().position(|&byte| byte == b'\n')
}

/// Splits a line into a key and the text behind its colon, if the key is a plain word or a quoted
/// text.
fn split_key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = match content.as_bytes().first()? {
        b'"' => {
            let end = content[1..].find('"')? + 1;
            let key = &content[1..end];
            if key.contains('\\') {
                return None;
            }
            (key, &content[end + 1..])
        }
        first if first.is_ascii_alphanumeric() => {
            let end = content.bytes().position(|byte| {
                !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-'))
            })?;
            let key = &content[..end];
            if first.is_ascii_digit() && !(key.len() < 15 && key.bytes().all(|byte| byte.is_ascii_digit())) {
                return None;
            }
            if key.eq_ignore_ascii_case("null") {
                return None;
            }
            (key, &content[end..])
        }
        _ => return None,
    };
    let value = rest.strip_prefix(':')?;
    let is_key = key.len() <= LONGEST_KEY && (value.is_empty() || value.starts_with(' '));
    is_key.then(|| (key, value.trim_start_matches(' ')))
}

fn plain_value(value: &str) -> Option<Value> {
    let bytes = value.as_bytes();
    let Some(&first) = bytes.first() else { return Some(Value::Nothing) };
    match first {
        b'"' | b'\'' => {
            let inside = value[1..].strip_suffix(char::from(first))?;
            let is_simple = !inside.as_bytes().contains(&first) && (first == b'\'' || !inside.contains('\\'));
            return is_simple.then_some(Value::Complete);
        }
        b'|' | b'>' => return matches!(&bytes[1..], [] | b"-" | b"+").then_some(Value::Literal),
        b'[' | b'{' => return flow(value, 0)?.is_empty().then_some(Value::Complete),
        b',' | b']' | b'}' | b'#' | b'&' | b'*' | b'!' | b'%' | b'@' | b'`' => return None,
        b'-' | b'?' | b':' if bytes.len() == 1 || bytes[1] == b' ' => return None,
        b'0'..=b'9' | b'+' | b'-' | b'.' => {
            if matches!(resolve_plain(value), Scalar::NotFinite(_)) {
                return None;
            }
        }
        _ => {}
    }
    let goes_on = value.ends_with(':') || value.contains(": ") || value.contains(" #");
    (!goes_on).then_some(Value::Complete)
}

/// Limit for the levels of nested flow collections on one line.
const DEEPEST_FLOW: usize = 16;

/// Skips a list or map in brackets, of words and quoted texts. Returns the text behind it.
fn flow(text: &str, depth: usize) -> Option<&str> {
    let close = match text.as_bytes().first()? {
        b'[' => ']',
        b'{' => '}',
        _ => return None,
    };
    let mut rest = text[1..].trim_start_matches(' ');
    if depth >= DEEPEST_FLOW {
        return None;
    }
    if let Some(rest) = rest.strip_prefix(close) {
        return Some(rest);
    }
    loop {
        if close == '}' {
            let (key, value) = split_key(rest)?;
            if key.is_empty() || value.is_empty() {
                return None;
            }
            rest = value;
        }
        rest = match rest.as_bytes().first()? {
            b'[' | b'{' => flow(rest, depth + 1)?,
            _ => flow_scalar(rest)?,
        };
        rest = rest.trim_start_matches(' ');
        match rest.strip_prefix(',') {
            Some(more) => rest = more.strip_prefix(' ')?.trim_start_matches(' '),
            None => return rest.strip_prefix(close),
        }
    }
}

fn flow_scalar(text: &str) -> Option<&str> {
    match text.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let end = text[1..].find(char::from(*quote))? + 1;
            let rest = &text[end + 1..];
            let is_simple = !text[1..end].contains('\\') && !rest.starts_with(char::from(*quote));
            is_simple.then_some(rest)
        }
        first if first.is_ascii_alphanumeric() || *first == b'/' => {
            let is_inside =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-' | b' ');
            let end = text.bytes().position(|byte| !is_inside(byte))?;
            let is_number = first.is_ascii_digit();
            let word = text[..end].trim_end_matches(' ');
            if is_number && matches!(resolve_plain(word), Scalar::NotFinite(_)) {
                return None;
            }
            Some(&text[end..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
