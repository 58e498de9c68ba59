use serde::{Deserialize, Serialize};

use crate::node::Position;

/// Why a text is not usable YAML, and where.
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

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where the parser stood when it noticed.
    pub fn position(&self) -> Position {
        self.position
    }
}
