//! Writer from JSON values to YAML text, byte for byte as the Go tools write it (`blueprints.md`
//! 5.5.1).
//!
//! Templates hash this text, so layout, key order, quoting and folding are part of the contract.

mod dialect;
mod keys;

use serde_json::{Map, Number, Value};

use crate::number::format_g64;
use crate::style::{Style, choose_style, is_unicode_break, push_escape, push_literal};
use dialect::GoTools;

/// Characters of a scalar line after which a blank in it becomes a line break.
const BEST_WIDTH: usize = 80;
/// Longest key in bytes with the simple form `key: value`. Longer keys are written in the explicit
/// form `? key`.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Returns the notation of a string.
pub(crate) fn style_of(text: &str) -> Style {
    choose_style::<GoTools>(text)
}

/// Appends the content of a double-quoted text, on one line.
pub(crate) fn push_double_quoted(out: &mut String, text: &str) {
    let escape_all = text.starts_with('\u{feff}');
    for c in text.chars() {
        if !push_escape::<GoTools>(out, c, escape_all) {
            out.push(c);
        }
    }
}

/// Writes `value` as one YAML document that ends with a line break.
pub fn to_string(value: &Value) -> String {
    Emitter::new(Layout::Compact).document(value)
}

/// Writes `value` as version 3 of the library does with an indentation of two: sequences in
/// mappings are indented, lines are not folded, and whole floats have an exponent where `%g` gives
/// them one (`helm.md` 6.5, `toYamlPretty`).
pub fn to_string_pretty(value: &Value) -> String {
    Emitter::new(Layout::Pretty).document(value)
}

/// Writes `value` by way of JSON text, as the templates' `toYaml` does it. Returns `None` if that
/// way fails.
///
/// The JSON text is read as YAML there. That reader refuses control characters that JSON does not
/// escape, and reads U+0085 as a line break (`blueprints.md` 5.5.1, "through JSON first").
pub fn to_string_through_json(value: &Value) -> Option<String> {
    Some(to_string(&through_json(value)?))
}

/// Runs one level of a recursion, on another piece of stack if the current one is nearly used up:
/// templates make values of ten thousand levels.
fn deeper<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(64 << 10, 1 << 20, level)
}

fn through_json(value: &Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => Value::String(text_through_json(text)?),
        Value::Array(items) => {
            Value::Array(deeper(|| items.iter().map(through_json).collect::<Option<_>>())?)
        }
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| Some((key_through_json(key)?, through_json(value)?));
            Value::Object(deeper(|| members.iter().map(member).collect::<Option<_>>())?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// Converts a key. A key in flow style must be on one line, and U+0085 ends a line.
fn key_through_json(key: &str) -> Option<String> {
    if key.contains('\u{85}') { None } else { text_through_json(key) }
}

fn text_through_json(text: &str) -> Option<String> {
    let refused = |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(refused) {
        return None;
    }
    if !text.contains('\u{85}') {
        return Some(text.to_owned());
    }
    let mut pieces = text.split('\u{85}');
    let mut folded = pieces.next().unwrap_or_default().to_owned();
    let mut breaks = 0;
    for piece in pieces {
        breaks += 1;
        folded.truncate(folded.trim_end_matches(' ').len());
        let piece = piece.trim_start_matches(' ');
        if !piece.is_empty() {
            push_folded_breaks(&mut folded, breaks);
            breaks = 0;
            folded.push_str(piece);
        }
    }
    push_folded_breaks(&mut folded, breaks);
    Some(folded)
}

/// Appends folded line breaks: one inside a quoted text becomes a blank, several become one fewer.
fn push_folded_breaks(text: &mut String, breaks: usize) {
    match breaks {
        0 => {}
        1 => text.push(' '),
        _ => text.extend(std::iter::repeat_n('\n', breaks - 1)),
    }
}

/// The two layouts, for the two versions of the library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Compact,
    Pretty,
}

struct Emitter {
    layout: Layout,
    out: String,
    /// Characters written to the current line.
    column: usize,
    /// True if a literal has already written the break behind its last line.
    line_ended: bool,
}

impl Emitter {
    fn new(layout: Layout) -> Emitter {
        Emitter { layout, out: String::new(), column: 0, line_ended: false }
    }

    fn document(mut self, value: &Value) -> String {
        self.top(value);
        self.line_break(0);
        self.out
    }

    fn top(&mut self, value: &Value) {
        match value {
            Value::Object(members) if !members.is_empty() => self.map(members, 0, true),
            Value::Array(items) if !items.is_empty() => self.list(items, 0, true),
            _ => self.scalar(value, 2),
        }
    }

    /// Writes a map. `column` is the column of the keys; with `inline`, the first key follows the
    /// text that is already there.
    fn map(&mut self, members: &Map<String, Value>, column: usize, inline: bool) {
        for (at, (key, value)) in keys::sorted(members).into_iter().enumerate() {
            if at > 0 || !inline {
                self.line_break(column);
            }
            if is_simple_key(key) {
                self.string(key, column + 2, false);
                self.push(":");
                self.member(value, column);
            } else {
                self.push("? ");
                self.string(key, column + 2, true);
                self.line_break(column);
                self.push(":");
                self.behind_indicator(value, column);
            }
        }
    }

    fn member(&mut self, value: &Value, column: usize) {
        match value {
            Value::Object(members) if !members.is_empty() => deeper(|| self.map(members, column + 2, false)),
            Value::Array(items) if !items.is_empty() => {
                let indent = if self.layout == Layout::Pretty { 2 } else { 0 };
                deeper(|| self.list(items, column + indent, false));
            }
            _ => {
                self.push(" ");
                self.scalar(value, column + 2);
            }
        }
    }

    fn list(&mut self, items: &[Value], column: usize, inline: bool) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !inline {
                self.line_break(column);
            }
            self.push("-");
            self.behind_indicator(item, column);
        }
    }

    /// Writes a value on the line of its `-` or `:`. Collections begin on the next line, two
    /// columns further right.
    fn behind_indicator(&mut self, value: &Value, column: usize) {
        self.push(" ");
        match value {
            Value::Object(members) if !members.is_empty() => deeper(|| self.map(members, column + 2, true)),
            Value::Array(items) if !items.is_empty() => deeper(|| self.list(items, column + 2, true)),
            _ => self.scalar(value, column + 2),
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.push("null"),
            Value::Bool(true) => self.push("true"),
            Value::Bool(false) => self.push("false"),
            Value::Number(number) => self.push(&match number.as_f64() {
                Some(float) if number.is_f64() && self.layout == Layout::Pretty => format_g64(float),
                _ => number_text(number),
            }),
            Value::String(text) => self.string(text, indent, true),
            Value::Array(_) => self.push("[]"),
            Value::Object(_) => self.push("{}"),
        }
    }

    fn string(&mut self, text: &str, indent: usize, may_fold: bool) {
        let may_fold = may_fold && self.layout == Layout::Compact;
        match choose_style::<GoTools>(text) {
            Style::Plain => self.unescaped(text, indent, may_fold, false),
            Style::SingleQuoted => {
                self.push("'");
                self.unescaped(text, indent, may_fold, true);
                self.push("'");
            }
            Style::DoubleQuoted => self.double_quoted(text, indent, may_fold),
            Style::Literal => self.line_ended = push_literal(&mut self.out, text, indent),
        }
    }

    /// Writes plain and single-quoted text. A single blank may become a line break once the line is
    /// long enough.
    fn unescaped(&mut self, text: &str, indent: usize, may_fold: bool, quoted: bool) {
        let chars: Vec<char> = text.chars().collect();
        for (at, &c) in chars.iter().enumerate() {
            let lone = at > 0 && chars[at - 1] != ' ' && chars.get(at + 1).is_some_and(|&next| next != ' ');
            if c == ' ' && may_fold && lone && self.column > BEST_WIDTH {
                self.line_break(indent);
                continue;
            }
            if at > 0 && is_unicode_break(chars[at - 1]) && !is_unicode_break(c) {
                self.spaces(indent);
            }
            if c == '\'' && quoted {
                self.push("''");
            } else {
                self.push_char(c);
            }
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, may_fold: bool) {
        let chars: Vec<char> = text.chars().collect();
        let escape_all = chars.first() == Some(&'\u{feff}');
        self.push("\"");
        for (at, &c) in chars.iter().enumerate() {
            let before = self.out.len();
            if push_escape::<GoTools>(&mut self.out, c, escape_all) {
                // An escape has only ASCII characters, so its bytes are its columns.
                self.column += self.out.len() - before;
            } else if c == ' '
                && may_fold
                && at > 0
                && chars[at - 1] != ' '
                && at + 1 < chars.len()
                && self.column > BEST_WIDTH
            {
                self.line_break(indent);
                if chars[at + 1] == ' ' {
                    self.push("\\");
                }
            } else {
                self.push_char(c);
            }
        }
        self.push("\"");
    }

    fn line_break(&mut self, indent: usize) {
        if !std::mem::take(&mut self.line_ended) {
            self.out.push('\n');
        }
        self.column = 0;
        self.spaces(indent);
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
        self.column += count;
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn push_char(&mut self, c: char) {
        self.out.push(c);
        // The Go writer starts a new line behind the Unicode separators too, and indents the text
        // behind them.
        self.column = if is_unicode_break(c) { 0 } else { self.column + 1 };
    }
}

fn is_simple_key(key: &str) -> bool {
    key.len() <= LONGEST_SIMPLE_KEY && !key.contains(['\n', '\r', '\u{2028}', '\u{2029}'])
}

fn number_text(number: &Number) -> String {
    const UPPER: f64 = 18_446_744_073_709_551_616.0;
    const LOWER: f64 = -9_223_372_036_854_775_808.0;
    match number.as_f64() {
        Some(value) if number.is_f64() => {
            // Negative zero is written without its sign, too.
            if value == 0.0 {
                "0".to_owned()
            } else if value.fract() == 0.0 && (LOWER..UPPER).contains(&value) {
                // Rust prints doubles without an exponent: the shortest digits, filled up with
                // zeros.
                format!("{value}")
            } else {
                format_g64(value)
            }
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests;
