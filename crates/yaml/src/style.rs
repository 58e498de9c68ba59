//! The choice between four notations of a string, and the writing of two of them.

use std::fmt::Write as _;

/// The rules of one YAML reader and writer about plain texts and characters.
pub trait Dialect {
    /// Reports whether the plain text would be read as another type than a string.
    fn reads_as_other_type(text: &str) -> bool;

    /// Reports whether a character can be written in double quotes only.
    fn is_special(c: char) -> bool;
}

/// The notations of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Returns the first notation that fits, in the order of `blueprints.md` 5.5.1 "Strings".
pub fn choose_style<D: Dialect>(text: &str) -> Style {
    if text.contains('\n') {
        return if fits_literal::<D>(text) { Style::Literal } else { Style::DoubleQuoted };
    }
    if D::reads_as_other_type(text) || text.contains(D::is_special) || has_blank_beside_break(text) {
        Style::DoubleQuoted
    } else if needs_quotes(text) {
        Style::SingleQuoted
    } else {
        Style::Plain
    }
}

fn fits_literal<D: Dialect>(text: &str) -> bool {
    let blank_before_break = [" \n", " \u{2028}", " \u{2029}"];
    !text.ends_with(' ')
        && !blank_before_break.iter().any(|pair| text.contains(pair))
        && !text.contains(D::is_special)
}

/// Appends a literal whose lines are indented by `indent` columns. Returns whether its last line is
/// already ended.
pub fn push_literal(out: &mut String, text: &str, indent: usize) -> bool {
    out.push('|');
    if text.starts_with(|c| c == ' ' || is_break(c)) {
        out.push('2');
    }
    out.push_str(chomping(text));
    out.push('\n');
    if has_unicode_break(text) {
        push_lines(out, text.split_inclusive(is_break), indent);
    } else {
        push_lines(out, text.split_inclusive('\n'), indent);
    }
    text.ends_with(is_break)
}

/// Appends lines with their breaks. Empty lines are not indented.
fn push_lines<'t>(out: &mut String, lines: impl Iterator<Item = &'t str>, indent: usize) {
    for line in lines {
        if !line.starts_with(is_break) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(line);
    }
}

/// Returns the chomping indicator of a literal, which describes the line breaks at its end.
fn chomping(text: &str) -> &'static str {
    let mut from_end = text.chars().rev();
    match (from_end.next(), from_end.next()) {
        (Some(last), Some(before)) if is_break(last) && !is_break(before) => "",
        (Some(last), _) if is_break(last) => "+",
        _ => "-",
    }
}

fn has_blank_beside_break(text: &str) -> bool {
    let mut neighbours = text.chars().zip(text.chars().skip(1));
    has_unicode_break(text)
        && neighbours
            .any(|(c, next)| c == ' ' && is_unicode_break(next) || is_unicode_break(c) && next == ' ')
}

/// Reports whether the text has a Unicode line break: a quick test, since nearly no text has one.
fn has_unicode_break(text: &str) -> bool {
    !text.is_ascii() && text.contains(is_unicode_break)
}

fn is_break(c: char) -> bool {
    c == '\n' || is_unicode_break(c)
}

/// Reports whether a character is a line or paragraph separator. YAML 1.1 counts them as line
/// breaks.
pub(crate) fn is_unicode_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

fn needs_quotes(text: &str) -> bool {
    let second_is_blank = || text[1..].is_empty() || text[1..].starts_with(' ');
    let first = match text.chars().next() {
        Some(
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
        ) => true,
        Some('-' | '?' | ':') => second_is_blank(),
        _ => false,
    };
    first
        || text.starts_with("---")
        || text.starts_with("...")
        || text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':')
        || text.starts_with(' ')
        || text.ends_with(' ')
        || has_unicode_break(text)
}

/// Appends the escape of `c` inside double quotes, if the character needs one. Returns whether it
/// does.
///
/// `all` reproduces a defect of the Go writer: in a text that begins with a byte order mark, it
/// escapes every character as if it were one.
pub fn push_escape<D: Dialect>(out: &mut String, c: char, all: bool) -> bool {
    let short = match c {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        '\u{a0}' if all => "\\_",
        _ if all || D::is_special(c) => {
            let code = u32::from(c);
            // Writing to a string cannot fail.
            let _ = match code {
                0..=0xff => write!(out, "\\x{code:02X}"),
                0x100..=0xffff => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
            return true;
        }
        _ => return false,
    };
    out.push_str(short);
    true
}
