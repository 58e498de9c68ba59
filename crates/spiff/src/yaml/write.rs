//! Writer from values to YAML text (`spiff.md` 14.3), in the layout of spiff++.

use std::fmt::Write as _;

use groundwork_go::strconv::format_g;
use groundwork_yaml::style::{Dialect, Style, choose_style, push_escape, push_literal};

use super::scalar::{is_timestamp, resolve};
use crate::value::{List, Map, Value};

/// Longest key in bytes with the simple form `key: value`. Longer ones are written as `? key`,
/// because readers look no further ahead for the colon.
const LONGEST_SIMPLE_KEY: usize = 128;

/// Writes `value` as one document that ends with a line break. Pending expressions and lambdas
/// become `(( … ))`, templates their content.
pub(crate) fn write(value: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    match content(value) {
        Value::Map(map) if !map.is_empty() => writer.map(map, 0, true),
        Value::List(list) if !list.is_empty() => writer.list(list, 0, true),
        value => writer.scalar(value, 0),
    }
    if !writer.out.ends_with('\n') {
        writer.out.push('\n');
    }
    writer.out
}

/// Returns the value that is written for a template: its content.
fn content(value: &Value) -> &Value {
    let mut value = value;
    while let Value::Template(template) = value {
        value = &template.original;
    }
    value
}

struct Writer {
    out: String,
}

impl Writer {
    /// Writes a map. `column` is the column of the keys; with `inline`, the first key follows the
    /// text that is already there.
    fn map(&mut self, map: &Map, column: usize, inline: bool) {
        for (at, (key, node)) in map.iter().enumerate() {
            if at > 0 || !inline {
                self.line(column);
            }
            let value = content(&node.value);
            if key.len() > LONGEST_SIMPLE_KEY {
                self.out.push_str("? ");
                self.key(key);
                self.line(column);
                self.out.push(':');
                self.behind_indicator(value, column);
                continue;
            }
            self.key(key);
            self.out.push(':');
            match value {
                Value::Map(map) if !map.is_empty() => {
                    self.nested(|writer| writer.map(map, column + 2, false));
                }
                Value::List(list) if !list.is_empty() => {
                    self.nested(|writer| writer.list(list, column, false));
                }
                value => {
                    self.out.push(' ');
                    self.scalar(value, column);
                }
            }
        }
    }

    fn list(&mut self, list: &List, column: usize, inline: bool) {
        for (at, node) in list.iter().enumerate() {
            if at > 0 || !inline {
                self.line(column);
            }
            self.out.push('-');
            self.behind_indicator(content(&node.value), column);
        }
    }

    /// Writes a value on the line of its `-` or `:`. Collections begin on the next line, two
    /// columns further right.
    fn behind_indicator(&mut self, value: &Value, column: usize) {
        self.out.push(' ');
        match value {
            Value::Map(map) if !map.is_empty() => {
                self.nested(|writer| writer.map(map, column + 2, true));
            }
            Value::List(list) if !list.is_empty() => {
                self.nested(|writer| writer.list(list, column + 2, true));
            }
            value => self.scalar(value, column),
        }
    }

    fn nested(&mut self, content: impl FnOnce(&mut Self)) {
        stacker::maybe_grow(128 << 10, 1 << 20, || content(self));
    }

    fn line(&mut self, column: usize) {
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', column));
    }

    fn key(&mut self, key: &str) {
        if key.contains('\n') { self.double_quoted(key) } else { self.text(key, 0) }
    }

    fn scalar(&mut self, value: &Value, column: usize) {
        match value {
            Value::Nil => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(number) | Value::Data(number) => {
                let _ = write!(self.out, "{number}");
            }
            Value::Float(number) => self.out.push_str(&float_text(*number)),
            Value::String(text) => self.text(text, column),
            Value::Binary(bytes) => {
                self.out.push_str("!!binary ");
                // An empty plain scalar would read as null, so it is quoted.
                let text = data_encoding::BASE64.encode(bytes);
                self.out.push_str(if text.is_empty() { "\"\"" } else { &text });
            }
            Value::Expression(pending) => self.text(&format!("(( {} ))", pending.0), column),
            Value::Lambda(lambda) => self.text(&format!("(( {} ))", lambda.expression), column),
            Value::List(_) => self.out.push_str("[]"),
            // `content` has already replaced templates.
            Value::Map(_) | Value::Template(_) => self.out.push_str("{}"),
        }
    }

    fn text(&mut self, text: &str, column: usize) {
        match choose_style::<Spiff>(text) {
            Style::Plain => self.out.push_str(text),
            Style::SingleQuoted => {
                self.out.push('\'');
                self.out.push_str(&text.replace('\'', "''"));
                self.out.push('\'');
            }
            Style::DoubleQuoted => self.double_quoted(text),
            Style::Literal => {
                push_literal(&mut self.out, text, column + 2);
            }
        }
    }

    fn double_quoted(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            if !push_escape::<Spiff>(&mut self.out, c, false) {
                self.out.push(c);
            }
        }
        self.out.push('"');
    }
}

/// Formats floats as spiff++ does: `3`, `0.1`, `1e+08`, `+.inf`.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        ".nan".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+.inf" } else { "-.inf" }.to_owned()
    } else {
        format_g(value)
    }
}

/// The YAML dialect of spiff++: it reads more plain texts as other types than other tools do, and
/// writes all of UTF-8 without escapes **[D2]**.
struct Spiff;

impl Dialect for Spiff {
    fn reads_as_other_type(text: &str) -> bool {
        resolve(text).is_some() || is_timestamp(text)
    }

    fn is_special(c: char) -> bool {
        let printable =
            matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{1_0000}'..);
        !printable || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
    }
}

#[cfg(test)]
mod tests;
