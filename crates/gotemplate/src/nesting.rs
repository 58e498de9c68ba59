//! The limit on how deep values may nest.

/// Levels of nesting that a walk over a value accepts; Go's JSON decoder has the same limit.
pub(crate) const MAX_DEPTH: usize = 10_000;

/// A value nests deeper than 10,000 levels, usually because a map contains itself.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("value is nested deeper than {MAX_DEPTH} levels (does a map contain itself?)")]
pub struct TooDeep;
