//! Members of an access, with names in any case (`components.md` 1.5).

use serde_json::Value;

/// Error of an access.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Error E13 (`components.md` 8): the access type is not supported.
    #[error("access method {type_name:?} not supported")]
    Unsupported { type_name: String },
    #[error("{member} is missing")]
    Incomplete { member: &'static str },
    /// A member has a value that cannot be used.
    #[error("{problem}")]
    Unusable { problem: String },
}

/// Access as written in a descriptor.
pub(super) struct Members<'a>(pub(super) &'a Value);

impl<'a> Members<'a> {
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        let members = self.0.as_object()?;
        let alias = || members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        members.get(name).or_else(alias).filter(|value| !value.is_null())
    }

    /// Returns a text that is not empty.
    pub(super) fn optional(&self, name: &str) -> Option<&'a str> {
        self.value(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns a text, which is empty if it is not given.
    pub(super) fn or_empty(&self, name: &str) -> String {
        self.optional(name).unwrap_or_default().to_owned()
    }

    pub(super) fn text(&self, name: &'static str) -> Result<String, AccessError> {
        self.optional(name).map(str::to_owned).ok_or(AccessError::Incomplete { member: name })
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or_default()
    }
}
