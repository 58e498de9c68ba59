//! Items keep their type (`installations.md` 1.3).
//!
//! After a change of type, the deployer of the old type would never remove the objects that it has
//! deployed.

use std::fmt::{self, Display, Formatter};

/// Item whose template has another type than the existing item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeChange<'a> {
    /// Name of the template.
    pub item: &'a str,
    pub from: &'a str,
    pub to: &'a str,
}

impl<'a> TypeChange<'a> {
    /// Returns the change, or `None` if the type stays the same.
    pub fn new(item: &'a str, from: &'a str, to: &'a str) -> Option<Self> {
        (from != to).then_some(Self { item, from, to })
    }
}

impl Display for TypeChange<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { item, from, to } = self;
        write!(f, "item {item} was a {from} and cannot become a {to}; give it another name")
    }
}

/// Returns the message of an Execution that fails before its first write, or `None` if no type
/// changes.
pub fn refused_types<'a>(changes: impl IntoIterator<Item = TypeChange<'a>>) -> Option<String> {
    let changes: Vec<String> = changes.into_iter().map(|change| change.to_string()).collect();
    (!changes.is_empty()).then(|| changes.join("; "))
}
