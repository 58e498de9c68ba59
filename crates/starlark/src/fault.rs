//! Reason why a script ended early.

/// Bytes of a message that are kept; scripts put values into messages.
const MOST_MESSAGE: usize = 4 << 10;

/// Position in a script, counted from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Error of a script, or a limit that it exceeded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault(Box<Content>);

#[derive(Debug, Clone, PartialEq)]
struct Content {
    message: String,
    /// Innermost place in the script.
    place: Option<Position>,
    is_limit: bool,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Content { message: message.into(), place: None, is_limit: false }))
    }

    pub(crate) fn at(place: Position, message: impl Into<String>) -> Self {
        Self::new(message).within(place)
    }

    /// Creates the fault of a script whose steps or bytes are spent.
    pub(crate) fn limit() -> Self {
        Self(Box::new(Content { message: String::new(), place: None, is_limit: true }))
    }

    /// Adds a place to a fault without one.
    #[must_use]
    pub(crate) fn within(mut self, place: Position) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    /// Adds a name in front of the message, as built-in functions do.
    #[must_use]
    pub(crate) fn of(mut self, name: &str) -> Self {
        if !self.0.is_limit && self.0.place.is_none() {
            self.0.message = format!("{name}: {}", self.0.message);
        }
        self
    }

    pub(crate) fn is_limit(&self) -> bool {
        self.0.is_limit
    }

    /// Returns the message behind the name of the script, the line and the column.
    pub(crate) fn text(&self, script: &str) -> String {
        let message = &self.0.message;
        let end = message.floor_char_boundary(MOST_MESSAGE);
        let message = message.get(..end).unwrap_or_default();
        match self.0.place {
            Some(Position { line, column }) => format!("{script}:{line}:{column}: {message}"),
            None => format!("{script}: {message}"),
        }
    }
}
