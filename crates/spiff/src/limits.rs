use std::time::Duration;

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
