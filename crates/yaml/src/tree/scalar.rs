//! Types of scalars: the core schema of YAML 1.2, and the texts that readers of YAML 1.1 would read
//! as another type.

use super::{Content, Node, Notation};
use crate::emit::style_of;
use crate::style::Style;

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Int,
    Float,
    String,
    Mapping,
    Sequence,
}

impl Node {
    /// Returns the type of the node.
    pub fn kind(&self) -> Kind {
        let scalar = match &self.content {
            Content::Mapping(_) => return Kind::Mapping,
            Content::Sequence(_) => return Kind::Sequence,
            Content::Scalar(scalar) => scalar,
        };
        match (self.tag.as_deref(), scalar.notation) {
            (Some("!!null"), _) => Kind::Null,
            (Some("!!bool"), _) => Kind::Bool,
            (Some("!!int"), _) => Kind::Int,
            (Some("!!float"), _) => Kind::Float,
            (None, Notation::Plain) => kind_of(&scalar.text),
            _ => Kind::String,
        }
    }
}

/// Returns the type of a plain scalar.
fn kind_of(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Bool,
        ".nan" | ".NaN" | ".NAN" => Kind::Float,
        _ if is_int(text) => Kind::Int,
        _ if is_float(text) => Kind::Float,
        _ => Kind::String,
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn is_int(text: &str) -> bool {
    let all = |digits: &str, fits: fn(&u8) -> bool| !digits.is_empty() && digits.as_bytes().iter().all(fits);
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |byte| (b'0'..=b'7').contains(byte));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    all(unsigned(text), u8::is_ascii_digit)
}

fn is_float(text: &str) -> bool {
    let number = unsigned(text);
    if matches!(number, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match number.find(['e', 'E']) {
        Some(at) => (&number[..at], Some(unsigned(&number[at + 1..]))),
        None => (number, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// Reports whether two scalars have the same type and value.
pub(super) fn equal(left: &Node, right: &Node) -> bool {
    let (Some(a), Some(b)) = (left.text(), right.text()) else { return false };
    let kind = left.kind();
    if kind != right.kind() {
        return false;
    }
    match kind {
        Kind::Null => true,
        Kind::Bool => a.eq_ignore_ascii_case(b),
        Kind::Int => a == b || matches!((int(a), int(b)), (Some(a), Some(b)) if a == b),
        Kind::Float => {
            a == b
                || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a.to_bits() == b.to_bits())
        }
        _ => a == b,
    }
}

fn int(text: &str) -> Option<i128> {
    if let Some(digits) = text.strip_prefix("0o") {
        return i128::from_str_radix(digits, 8).ok();
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return i128::from_str_radix(digits, 16).ok();
    }
    text.parse().ok()
}

/// Returns the notation of a new string on a line of its own.
pub(super) fn notation_of(text: &str) -> Notation {
    if !text.contains('\n') && kind_of(text) != Kind::String {
        return Notation::DoubleQuoted;
    }
    match style_of(text) {
        Style::Plain => Notation::Plain,
        Style::SingleQuoted => Notation::SingleQuoted,
        Style::DoubleQuoted => Notation::DoubleQuoted,
        Style::Literal => Notation::Literal,
    }
}
