//! How deep values may nest.

/// Values nested deeper than this are refused wherever a value is walked.
pub(crate) const MAX_DEPTH: usize = 10_000;

/// A value nests deeper than the engine walks, usually because a map contains itself.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("value is nested deeper than {MAX_DEPTH} levels (does a map contain itself?)")]
pub struct TooDeep;
