use std::time::Duration;

use thiserror::Error;

/// What one run may use; whatever reaches a limit ends in a typed error (sections 1.3 and 17).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Passes over one document; `None`: its nodes plus 100, which no document that resolves can reach.
    pub passes: Option<usize>,
    /// Nodes of one document, results included.
    pub nodes: usize,
    /// Bytes of one string, also of one that is only made on the way.
    pub string_bytes: usize,
    /// Levels of lists and maps in each other, of the input and of values.
    pub nesting: usize,
    /// Calls of lambdas and templates in each other.
    pub calls: usize,
    /// Evaluations of expressions and applications of functions, in all.
    pub steps: u64,
    /// Wall time from the start of the run.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passes: None,
            nodes: 2_000_000,
            string_bytes: 16 << 20,
            nesting: 500,
            calls: 1_000,
            steps: 200_000_000,
            time: Duration::from_secs(60),
        }
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
    /// [`Limits::steps`].
    #[error("more than {0} evaluations")]
    Steps(u64),
    /// [`Limits::time`].
    #[error("the evaluation takes longer than {} s", .0.as_secs_f64())]
    Time(Duration),
}
