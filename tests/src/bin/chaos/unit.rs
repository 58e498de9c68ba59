//! Units of work. Each unit has one value that its user changes.

/// Object or group of objects that a user creates, changes and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// One or two root Installations that deploy one object.
    Installation(usize),
    /// A PackageVariant.
    Variant(usize),
}

/// Formats a value as the objects contain it.
pub(crate) fn text(value: u32) -> String {
    format!("v{value}")
}
