//! Units of work, each with one value that its user changes.

/// Something that users make, change and delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// One or two roots that deploy one object.
    Installation(usize),
    /// A PackageVariant.
    Variant(usize),
}

/// A value as it is written.
pub(crate) fn text(value: u32) -> String {
    format!("v{value}")
}
