use std::fmt;

/// The reason why an expression has no value (`spiff.md` 15). The name and the sentences follow
/// spiff++.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Issue {
    /// The sentence; empty where spiff++ gives no reason.
    pub message: String,
    /// The causes: the failure in the body of a lambda, or the unresolved nodes of a template.
    pub nested: Vec<Issue>,
    /// True if `nested` is one chain of causes (`... MESSAGE`), false if it is a list of nodes
    /// (`spiff.md` 15.3).
    pub sequence: bool,
}

impl Issue {
    /// Creates an issue with `message`, without causes.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Creates an issue with `message`, caused by `cause`.
    pub fn caused(message: impl Into<String>, cause: Issue) -> Self {
        Self { message: message.into(), nested: vec![cause], sequence: true }
    }
}

impl From<String> for Issue {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Issue {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Quotes a text for messages, as a string literal of Go.
pub(crate) fn quote(text: &str) -> String {
    groundwork_go::text::quote(text.as_bytes())
}
