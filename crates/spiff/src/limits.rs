use groundwork_budget::{ExceededError, TemplateLimits};
use thiserror::Error;

/// Units of work that the evaluation of an expression is accounted for, besides what it looks at.
pub(crate) const EVALUATION: u64 = 16;

/// What one run may use; whatever reaches a limit ends in a typed error (sections 1.3 and 17).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Passes over one document; `None`: its nodes plus 100, which no document that resolves can reach.
    pub passes: Option<usize>,
    /// Nodes of one document or value, written out: what is shared counts as often as it is met, and so does every 32 bytes of text.
    pub nodes: usize,
    /// Bytes of one string, also of one that is only made on the way.
    pub string_bytes: usize,
    /// Levels of lists and maps in each other, of the input and of values.
    pub nesting: usize,
    /// Calls of lambdas and templates in each other.
    pub calls: usize,
    /// Units of work in all: an evaluation is 16 of them, and what looks at more takes more.
    pub work: u64,
    /// Largest memory that all lists and maps of the run hold at a time, in bytes.
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
            work: groundwork_budget::DEFAULT_WORK,
            value_bytes: 128 << 20,
        }
    }
}

impl From<TemplateLimits> for Limits {
    fn from(limits: TemplateLimits) -> Self {
        Self { work: limits.work(), value_bytes: limits.memory_of_spiff(), ..Self::default() }
    }
}

/// A limit that was reached.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// [`Limits::passes`].
    #[error("no fixed point after {0} passes")]
    Passes(usize),
    /// [`Limits::nodes`].
    #[error("a value has more than {0} entries; a template must not make it grow without end")]
    Nodes(usize),
    /// [`Limits::string_bytes`].
    #[error("a string is longer than {0} bytes; a template must not make it grow without end")]
    StringBytes(usize),
    /// [`Limits::nesting`].
    #[error("lists and maps are more than {0} levels deep")]
    Nesting(usize),
    /// [`Limits::calls`].
    #[error("more than {0} calls of lambdas and templates in each other; a recursion has no end")]
    Calls(usize),
    /// [`Limits::work`].
    #[error("the evaluation takes more than {0} units of work; a template must not work without end")]
    Work(u64),
    /// What the run shares with others is spent.
    #[error(transparent)]
    Budget(ExceededError),
    /// [`Limits::value_bytes`].
    #[error(
        "lists and maps hold more than {0} bytes at a time; a template must not make them grow without end"
    )]
    Held(usize),
    /// The host's time is over.
    #[error("the evaluation exceeds its time limit")]
    Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody gets other limits by setting what is the default.
    #[test]
    fn defaults_of_operators_are_those_of_the_engine() {
        let (own, given) = (Limits::default(), Limits::from(TemplateLimits::default()));
        assert_eq!((given.work, given.value_bytes), (own.work, own.value_bytes));
    }
}
