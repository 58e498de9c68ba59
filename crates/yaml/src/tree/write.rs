//! Writer from a tree to text, in the layout of Go's YAML library.

use super::{Content, Mapping, Node, Notation, Pair, Scalar, Sequence};
use crate::emit::{push_double_quoted, style_of};
use crate::style::{Style, push_literal};

/// Layout of the whole text, which nodes do not store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// True if lists are indented below their key.
    pub indents_lists: bool,
}

/// Writes a value; the text ends with a line break.
pub fn write(node: &Node, layout: Layout) -> String {
    let mut writer = Writer { out: String::new(), layout, after_foot: None };
    match &node.content {
        Content::Mapping(mapping) if is_block(node) && node.tag.is_none() => {
            writer.mapping(mapping, 0, false);
        }
        Content::Sequence(sequence) if is_block(node) && node.tag.is_none() => {
            writer.sequence(sequence, 0, false);
        }
        _ => {
            let value = writer.inline(node, 0);
            writer.out.push_str(&value);
            writer.end_line(&node.comments.line);
        }
    }
    writer.out
}

/// Reports whether a value takes lines of its own.
fn is_block(node: &Node) -> bool {
    match &node.content {
        Content::Mapping(mapping) => !mapping.is_flow && !mapping.pairs.is_empty(),
        Content::Sequence(sequence) => !sequence.is_flow && !sequence.items.is_empty(),
        Content::Scalar(_) => false,
    }
}

struct Writer {
    out: String,
    layout: Layout,
    /// Indentation of the foot that was written last. An empty line separates it from the next
    /// entry at the same indentation.
    after_foot: Option<usize>,
}

impl Writer {
    fn indent(&mut self, column: usize) {
        if self.after_foot.take() == Some(column) {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', column));
    }

    fn comment_lines(&mut self, comment: &str, column: usize) {
        for (at, line) in comment.lines().enumerate() {
            if line.is_empty() {
                self.out.push('\n');
                continue;
            }
            if at == 0 {
                self.indent(column);
            } else {
                self.out.extend(std::iter::repeat_n(' ', column));
            }
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    fn foot(&mut self, comment: &str, column: usize) {
        if !comment.is_empty() {
            self.comment_lines(comment, column);
            self.after_foot = Some(column);
        }
    }

    fn end_line(&mut self, comment: &str) {
        if !comment.is_empty() {
            if !self.out.ends_with(' ') && !self.out.is_empty() {
                self.out.push(' ');
            }
            self.out.push_str(comment);
        }
        if !self.out.ends_with('\n') || !comment.is_empty() {
            self.out.push('\n');
        }
    }

    /// Writes a mapping. `is_begun`: the first key follows text on the same line.
    fn mapping(&mut self, mapping: &Mapping, column: usize, is_begun: bool) {
        for (at, pair) in mapping.pairs.iter().enumerate() {
            if at > 0 || !is_begun {
                self.comment_lines(&pair.key.comments.head, column);
                self.indent(column);
            }
            self.pair(pair, column);
            self.foot(&pair.key.comments.foot, column);
        }
    }

    fn pair(&mut self, pair: &Pair, column: usize) {
        let key = self.inline(&pair.key, column);
        self.out.push_str(&key);
        self.out.push(':');
        let value = &pair.value;
        if let Some(tag) = value.tag.as_ref().filter(|_| is_block(value)) {
            self.out.push(' ');
            self.out.push_str(tag);
        }
        match &value.content {
            Content::Mapping(mapping) if is_block(value) => {
                self.end_line(line_comment(pair));
                self.comment_lines(&value.comments.head, column + 2);
                self.mapping(mapping, column + 2, false);
            }
            Content::Sequence(sequence) if is_block(value) => {
                self.end_line(line_comment(pair));
                let column = if self.layout.indents_lists { column + 2 } else { column };
                self.sequence(sequence, column, false);
            }
            _ => {
                let comment = if value.comments.line.is_empty() {
                    &pair.key.comments.line
                } else {
                    &value.comments.line
                };
                self.behind(value, comment, column + 2);
            }
        }
        self.foot(&value.comments.foot, column);
    }

    /// Writes a value on the line of its key or dash.
    fn behind(&mut self, value: &Node, comment: &str, column: usize) {
        if let Content::Scalar(scalar) = &value.content {
            match block_notation(scalar) {
                Some(Notation::Literal) => return self.block_scalar(value, scalar, comment, column, false),
                Some(_) => return self.block_scalar(value, scalar, comment, column, true),
                None => {}
            }
        }
        let text = self.inline(value, column);
        if !text.is_empty() {
            self.out.push(' ');
            self.out.push_str(&text);
        }
        self.end_line(comment);
    }

    fn block_scalar(&mut self, value: &Node, scalar: &Scalar, comment: &str, column: usize, is_folded: bool) {
        self.out.push(' ');
        if let Some(tag) = &value.tag {
            self.out.push_str(tag);
            self.out.push(' ');
        }
        let mut body = String::new();
        let text = if is_folded { unfolded(&scalar.text) } else { scalar.text.clone() };
        let ended = push_literal(&mut body, &text, column);
        let (header, lines) = body.split_once('\n').unwrap_or((body.as_str(), ""));
        if is_folded {
            self.out.push('>');
            self.out.push_str(header.strip_prefix('|').unwrap_or(header));
        } else {
            self.out.push_str(header);
        }
        self.end_line(comment);
        self.out.push_str(lines);
        if !ended {
            self.out.push('\n');
        }
    }

    fn sequence(&mut self, sequence: &Sequence, column: usize, is_begun: bool) {
        for (at, item) in sequence.items.iter().enumerate() {
            if at > 0 || !is_begun {
                self.comment_lines(&item.comments.head, column);
                self.indent(column);
            }
            self.out.push('-');
            match &item.content {
                Content::Mapping(mapping) if is_block(item) && item.tag.is_none() => {
                    self.out.push(' ');
                    self.mapping(mapping, column + 2, true);
                }
                Content::Sequence(inner) if is_block(item) && item.tag.is_none() => {
                    self.out.push(' ');
                    self.sequence(inner, column + 2, true);
                }
                _ => self.behind(item, &item.comments.line, column + 2),
            }
            self.foot(&item.comments.foot, column);
        }
    }

    /// Returns a scalar or a flow collection as text, on one line as far as its texts allow that.
    fn inline(&self, node: &Node, column: usize) -> String {
        let mut out = String::new();
        if let Some(tag) = &node.tag {
            out.push_str(tag);
        }
        let value = match &node.content {
            Content::Scalar(scalar) => inline_scalar(scalar),
            Content::Mapping(mapping) => self.flow(
                mapping.pairs.iter().map(|pair| {
                    let (key, value) = (self.inline(&pair.key, column), self.inline(&pair.value, column));
                    let gap = if value.is_empty() { "" } else { " " };
                    (format!("{key}:{gap}{value}"), &pair.value.comments.line)
                }),
                ['{', '}'],
                column,
            ),
            Content::Sequence(sequence) => self.flow(
                sequence.items.iter().map(|item| (self.inline(item, column), &item.comments.line)),
                ['[', ']'],
                column,
            ),
        };
        if !out.is_empty() && !value.is_empty() {
            out.push(' ');
        }
        out.push_str(&value);
        out
    }

    /// Writes a flow collection on one line, or on a line for each entry if entries have comments.
    fn flow<'a>(
        &self,
        entries: impl Iterator<Item = (String, &'a String)>,
        [open, close]: [char; 2],
        column: usize,
    ) -> String {
        let entries: Vec<(String, &String)> = entries.collect();
        let mut out = String::from(open);
        if entries.iter().all(|(_, comment)| comment.is_empty()) {
            let texts: Vec<String> = entries.into_iter().map(|(text, _)| text).collect();
            out.push_str(&texts.join(", "));
            out.push(close);
            return out;
        }
        for (text, comment) in entries {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', column));
            out.push_str(&text);
            out.push(',');
            if !comment.is_empty() {
                out.push(' ');
                out.push_str(comment);
            }
        }
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', column.saturating_sub(2)));
        out.push(close);
        out
    }
}

/// Returns the comment on the line of a key: the key's, or else that of its value.
fn line_comment(pair: &Pair) -> &str {
    let (key, value) = (&pair.key.comments.line, &pair.value.comments.line);
    let is_first = if is_block(&pair.value) { !key.is_empty() } else { value.is_empty() };
    if is_first { key } else { value }
}

/// Returns the notation of a scalar that is written on lines of its own.
fn block_notation(scalar: &Scalar) -> Option<Notation> {
    let is_printable = matches!(style_of(&scalar.text), Style::Literal) || !scalar.text.contains('\n');
    let wants = match scalar.notation {
        Notation::Literal | Notation::Folded => scalar.notation,
        _ => return None,
    };
    (is_printable && !scalar.text.is_empty()).then_some(wants)
}

/// Doubles line breaks, because folding would turn single ones into blanks.
fn unfolded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    let mut is_indented = false;
    while let Some(line) = lines.next() {
        let begins_blank = line.starts_with([' ', '\t']);
        out.push_str(line);
        let Some(next) = lines.peek() else { break };
        out.push('\n');
        is_indented = if line.is_empty() { is_indented } else { begins_blank };
        let next_is_text = !next.is_empty() && !next.starts_with([' ', '\t']);
        if !line.is_empty() && !is_indented && next_is_text {
            out.push('\n');
        }
    }
    out
}

fn inline_scalar(scalar: &Scalar) -> String {
    let text = &scalar.text;
    let notation = match scalar.notation {
        Notation::Literal | Notation::Folded => Notation::DoubleQuoted,
        // These notations would need several lines, which are not possible inside a line.
        Notation::Plain if text.contains('\n') => Notation::DoubleQuoted,
        Notation::SingleQuoted
            if text.contains('\n') || style_of(text) == Style::DoubleQuoted && !is_safe(text) =>
        {
            Notation::DoubleQuoted
        }
        notation => notation,
    };
    match notation {
        Notation::Plain => text.clone(),
        Notation::SingleQuoted => format!("'{}'", text.replace('\'', "''")),
        _ => {
            let mut out = String::from("\"");
            push_double_quoted(&mut out, text);
            out.push('"');
            out
        }
    }
}

/// Reports whether a text can be written in single quotes.
fn is_safe(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
}
