//! Errors of work in worker processes.

use std::io;
use std::time::Duration;

/// Reason why one piece of work failed. Other work is not affected.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The work exceeds its memory limit, `limit` in bytes.
    #[error(
        "it needs more than the {} MiB of memory that it may use (--worker-memory); reduce the work, or divide it",
        .limit >> 20
    )]
    Memory { limit: u64 },
    /// All work together exceeds the limit, `limit` in bytes, and this work uses the most.
    #[error(
        "all work together needs more than {} MiB of memory (--worker-memory-total), and this work needs the most; \
         reduce it, or raise the limit", .limit >> 20
    )]
    MemoryTotal { limit: u64 },
    #[error(
        "it needs more than the {} s of processor time that it may use (--worker-cpu-seconds); reduce the work, or \
         divide it", .limit.as_secs()
    )]
    CpuTime { limit: Duration },
    /// The work exceeds its time limit. Waits for answers have a separate limit of twice that time.
    #[error("it took longer than {} s and was abandoned", .limit.as_secs())]
    WallTime { limit: Duration },
    /// Calls are nested too deeply for the stack.
    #[error("it is nested too deeply for the stack of a process; nest it less deeply")]
    Stack,
    /// The answer exceeds the limit, `limit` in bytes.
    #[error("it returns or requests more than {} MiB at once; reduce its output, or divide it", .limit >> 20)]
    Output { limit: usize },
    /// A bug in the program. `place` is a line of its source.
    #[error(
        "the work failed because of a bug in Groundwork at {place}; report it with the input of the work"
    )]
    Panicked { place: String },
    /// A signal from the kernel or another process ended the worker. None of the limits sends this
    /// signal.
    #[error(
        "the worker process ended ({how}); if the container ran out of memory, give it more, or reduce the work"
    )]
    Died { how: String },
    #[error("cannot start a worker process: {0}")]
    NotStarted(#[from] StartError),
}

impl WorkError {
    /// Reports whether the work exceeded a limit; otherwise the cause lies outside the work.
    pub fn is_limit(&self) -> bool {
        match self {
            Self::Memory { .. }
            | Self::MemoryTotal { .. }
            | Self::CpuTime { .. }
            | Self::WallTime { .. }
            | Self::Stack
            | Self::Output { .. } => true,
            Self::Panicked { .. } | Self::Died { .. } | Self::NotStarted(_) => false,
        }
    }

    /// Returns the label for metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::MemoryTotal { .. } => "memory_total",
            Self::CpuTime { .. } => "cpu_time",
            Self::WallTime { .. } => "wall_time",
            Self::Stack => "stack",
            Self::Output { .. } => "output",
            Self::Panicked { .. } => "panicked",
            Self::Died { .. } => "died",
            Self::NotStarted(_) => "not_started",
        }
    }
}

/// Reason why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot run the program of the service as a worker: {0}")]
    Spawn(#[source] io::Error),
    #[error("a worker process did not report that it is ready: {0}")]
    Hello(#[source] io::Error),
}

/// Reason why a message cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[error("a message has an invalid format")]
pub struct FormError;

/// Reason why a task has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(
        "the input cannot be sent to a worker process: a value is nested more than a hundred levels deep; nest it less \
         deeply"
    )]
    Task,
    #[error(
        "the result cannot be returned by the worker process: a value is nested more than a hundred levels deep; nest \
         it less deeply"
    )]
    Answer,
}

impl ExchangeError {
    /// Reports whether the work exceeded a limit; otherwise the cause lies outside the work.
    pub fn is_limit(&self) -> bool {
        match self {
            Self::Work(error) => error.is_limit(),
            Self::Task | Self::Answer => true,
        }
    }
}
