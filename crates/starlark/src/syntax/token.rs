//! Tokens of a script.

use std::rc::Rc;

use num_bigint::BigInt;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    End,
    Newline,
    Indent,
    Outdent,
    Name(Rc<str>),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    Int(BigInt),
    Float(f64),
    /// Keyword, or an operator or bracket.
    Mark(&'static str),
    /// Word that Python reserves, and that Starlark has no use for.
    Reserved,
}

impl Token {
    /// Returns the token as messages name it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::End => "end of file".to_owned(),
            Self::Newline => "newline".to_owned(),
            Self::Indent => "indent".to_owned(),
            Self::Outdent => "outdent".to_owned(),
            Self::Name(_) => "identifier".to_owned(),
            Self::Text(_) => "string literal".to_owned(),
            Self::Bytes(_) => "bytes literal".to_owned(),
            Self::Int(_) => "int literal".to_owned(),
            Self::Float(_) => "float literal".to_owned(),
            Self::Mark(mark) if mark.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                (*mark).to_owned()
            }
            Self::Mark(mark) => format!("'{mark}'"),
            Self::Reserved => "illegal token".to_owned(),
        }
    }

    pub(crate) fn is(&self, mark: &str) -> bool {
        matches!(self, Self::Mark(found) if *found == mark)
    }
}

pub(super) const KEYWORDS: &[&str] = &[
    "and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or",
    "pass", "return", "while",
];

pub(super) const RESERVED: &[&str] = &[
    "as", "async", "await", "class", "del", "except", "finally", "from", "global", "import", "is",
    "nonlocal", "raise", "try", "with", "yield",
];

/// Operators and brackets; longer ones come before their beginnings.
pub(super) const MARKS: &[&str] = &[
    "//=", "<<=", ">>=", "**", "+=", "-=", "*=", "//", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "==", "!=",
    "<=", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}",
    ",", ".", ":", ";",
];
