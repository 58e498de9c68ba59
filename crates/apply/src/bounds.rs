//! Memory and time limits for answers of clusters.

use std::time::Duration;

use groundwork_client::answer::Memory;

use crate::identity::Server;

/// Time limit of one request including its answer, after which a cluster counts as hanging.
const REQUEST: Duration = Duration::from_secs(30);
/// Memory limits for all answers of clusters together, and for those of one piece of work. Together
/// with the worker processes they fit into 512 MiB.
const ANSWERS: usize = 96 << 20;
const ANSWERS_OF_ONE: usize = 64 << 20;
/// Time that a piece of work waits for memory that other work uses.
const PATIENCE: Duration = Duration::from_secs(10);
/// Memory limits for the cached kinds of all clusters together, and of one cluster. Kinds that do
/// not fit are not cached, and are requested each time.
const KNOWLEDGE: usize = 32 << 20;
const KNOWLEDGE_OF_ONE: usize = 4 << 20;

/// Limits for the answers of clusters in a process: memory and time.
#[derive(Debug, Clone)]
pub struct Answers {
    pub(crate) memory: Memory,
    pub(crate) knowledge: Memory,
    /// Time limit of each request, including its answer.
    pub(crate) request: Duration,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            memory: Memory::new(ANSWERS, ANSWERS_OF_ONE, PATIENCE),
            knowledge: Memory::new(KNOWLEDGE, KNOWLEDGE_OF_ONE, Duration::ZERO),
            request: REQUEST,
        }
    }
}

impl Answers {
    /// Returns the same limits with another time limit for a request.
    #[must_use]
    pub fn within(self, request: Duration) -> Self {
        Self { request, ..self }
    }

    /// Returns the bytes that answers use now.
    pub fn in_use(&self) -> usize {
        self.memory.in_use()
    }
}

/// The server of a cluster, and the limits for its answers.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) server: Server,
    pub(crate) answers: Answers,
}
