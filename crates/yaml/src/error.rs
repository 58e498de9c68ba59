use serde::{Deserialize, Serialize};

use crate::node::Position;

/// The reason why a text is not usable YAML, and its position.
///
/// The message never contains text of the document, so it can be shown for the content of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("line {}, column {}: {message}", position.line, position.column)]
pub struct Error {
    message: String,
    position: Position,
}

impl Error {
    pub(crate) fn new(position: Position, message: impl Into<String>) -> Self {
        Self { message: message.into(), position }
    }

    /// Returns the problem without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the position at which the parser noticed the problem.
    pub fn position(&self) -> Position {
        self.position
    }
}
