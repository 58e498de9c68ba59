use std::fmt;

/// Why an expression has no value (section 15): spiff++'s own word for what its reports tell, and its own sentences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Issue {
    /// The sentence; empty where spiff++ says nothing, too.
    pub message: String,
    /// What it was caused by: the failure in the body of a lambda, or the unresolved nodes of a template.
    pub nested: Vec<Issue>,
    /// Whether `nested` is one chain of causes (`... MESSAGE`) and not a list of nodes (section 15.3).
    pub sequence: bool,
}

impl Issue {
    /// An issue that says `message`, without causes.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Says `message`, because of `cause`.
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

/// A text as messages show it: a string literal of Go.
pub(crate) fn quote(text: &str) -> String {
    groundwork_go::text::quote(text.as_bytes())
}
