//! Bounds on what answers of clusters take in a process.

use std::time::Duration;

use groundwork_client::answer::Memory;

use crate::identity::Server;

/// Time for one request with its answer; a cluster that hangs is noticed after it.
const REQUEST: Duration = Duration::from_secs(30);
/// The memory of all answers of clusters together, and of one piece of work. With the worker processes that belongs to 512 MiB.
const ANSWERS: usize = 96 << 20;
const ANSWERS_OF_ONE: usize = 64 << 20;
/// How long a piece of work waits for others to give something back.
const PATIENCE: Duration = Duration::from_secs(10);
/// The memory for kinds of all clusters together, and of one. Kinds that find no room are asked for again each time.
const KNOWLEDGE: usize = 32 << 20;
const KNOWLEDGE_OF_ONE: usize = 4 << 20;

/// The bounds of answers of clusters in a process: memory and time.
#[derive(Debug, Clone)]
pub struct Answers {
    pub(crate) memory: Memory,
    pub(crate) knowledge: Memory,
    /// Of each request, with its answer.
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
    /// The same with another time for a request.
    #[must_use]
    pub fn within(self, request: Duration) -> Self {
        Self { request, ..self }
    }

    /// Bytes that answers take now.
    pub fn in_use(&self) -> usize {
        self.memory.in_use()
    }
}

/// The server of a cluster, and what its answers may take.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) server: Server,
    pub(crate) answers: Answers,
}
