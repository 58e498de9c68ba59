use groundwork_budget::{ExceededError, TemplateLimits};
use thiserror::Error;

/// Steps for the evaluation of an expression, besides those for the size of its operands: it looks
/// names up, and records what it reads.
pub(crate) const EVALUATION: u64 = 4;

/// Bounds of one run. Exceeding one ends the run in a typed error (`spiff.md` 1.3 and 17).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Passes over one document. `None` means its number of nodes plus 100, which no document that
    /// resolves can reach.
    pub passes: Option<usize>,
    /// Nodes of one document or value as it would be written out. A shared part counts each time,
    /// and 32 bytes of text count as a node.
    pub nodes: usize,
    /// Size of one string in bytes, including strings that are only intermediate results.
    pub string_bytes: usize,
    /// Nested levels of lists and maps, of the input and of values.
    pub nesting: usize,
    /// Nested calls of lambdas and templates.
    pub calls: usize,
    /// Steps in total (`crates/budget`). An evaluation takes four, and more if it reads large
    /// values.
    pub steps: u64,
    /// Largest memory of all live lists and maps of the run, in bytes.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passes: None,
            nodes: 2_000_000,
            string_bytes: 16 << 20,
            nesting: 500,
            calls: 1_000,
            steps: groundwork_budget::DEFAULT_STEPS,
            value_bytes: 128 << 20,
        }
    }
}

impl From<TemplateLimits> for Limits {
    fn from(limits: TemplateLimits) -> Self {
        Self { steps: limits.steps(), value_bytes: limits.memory_of_spiff(), ..Self::default() }
    }
}

/// A limit was exceeded.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The run exceeds [`Limits::passes`].
    #[error("no fixed point after {0} passes")]
    Passes(usize),
    /// The run exceeds [`Limits::nodes`].
    #[error("a value has more than {0} entries; a template must not make it grow without end")]
    Nodes(usize),
    /// The run exceeds [`Limits::string_bytes`].
    #[error("a string is longer than {0} bytes; a template must not make it grow without end")]
    StringBytes(usize),
    /// The run exceeds [`Limits::nesting`].
    #[error("lists and maps are more than {0} levels deep")]
    Nesting(usize),
    /// The run exceeds [`Limits::calls`].
    #[error("more than {0} calls of lambdas and templates in each other; a recursion has no end")]
    Calls(usize),
    /// The run exceeds [`Limits::steps`].
    #[error("the evaluation takes more than {0} steps; a template must not work without end")]
    Steps(u64),
    /// The budget that the run shares with others is spent.
    #[error(transparent)]
    Budget(ExceededError),
    /// The run exceeds [`Limits::value_bytes`].
    #[error(
        "lists and maps hold more than {0} bytes at a time; a template must not make them grow without end"
    )]
    Held(usize),
    /// The deadline of the host is over.
    #[error("the evaluation exceeds its time limit")]
    Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator who sets the documented default must not get other limits than with no setting.
    #[test]
    fn defaults_of_operators_are_those_of_the_engine() {
        let (own, given) = (Limits::default(), Limits::from(TemplateLimits::default()));
        assert_eq!((given.steps, given.value_bytes), (own.steps, own.value_bytes));
    }
}
