use std::fmt;

/// The reason why a text is not an expression (`spiff.md` 15.4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    /// The text does not follow the grammar.
    #[error("{0}")]
    Syntax(Excerpt),
    /// A token that the grammar allows has no value: a number out of range, a broken escape.
    #[error("{0}: {1}")]
    Token(Excerpt, String),
    /// Brackets, operators or lambdas are nested deeper than the evaluator allows.
    #[error("the expression is nested more than {limit} levels deep; split it into several fields")]
    TooDeep { limit: u32 },
}

/// The token that was matched furthest, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    text: String,
    /// True if the expression has several lines; only then the message names the line.
    several_lines: bool,
    start: Position,
    end: Position,
}

/// Line and symbol, both from 1. A line break itself is symbol 0 of the line that it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    line: usize,
    symbol: usize,
}

impl Excerpt {
    /// Cuts the bytes `start..end` out of `text`; both must be at borders of characters.
    pub(crate) fn new(text: &str, start: usize, end: usize) -> Self {
        Self {
            text: text.get(start..end).unwrap_or_default().to_owned(),
            several_lines: text.contains('\n'),
            start: Position::of(text, start),
            end: Position::of(text, end),
        }
    }
}

impl Position {
    fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = 1 + before.matches('\n').count();
        let in_line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        let at_break = text.get(offset..).is_some_and(|rest| rest.starts_with('\n'));
        if at_break {
            return Self { line: line + 1, symbol: 0 };
        }
        Self { line, symbol: 1 + in_line.chars().count() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, several_lines, start, end } = self;
        if *several_lines {
            let (from, to) = (start.line, end.line);
            write!(formatter, "parse error near line {from} symbol {}", start.symbol)?;
            write!(formatter, " - line {to} symbol {}: '{text}'", end.symbol)
        } else {
            write!(formatter, "parse error near symbol {} - symbol {}: '{text}'", start.symbol, end.symbol)
        }
    }
}
