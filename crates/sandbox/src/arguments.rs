//! Arguments of services about their workers.

use std::time::Duration;

use clap::Args;

use crate::ceiling::Ceiling;

/// Memory limit of a worker's work, in MiB.
const MEMORY: u64 = 256;
/// Memory limit of all workers together, in MiB: a container of 512 MiB has room for it beside the
/// service.
const MEMORY_TOTAL: u64 = 384;
/// Processor time limit of one piece of work, in seconds.
const CPU_SECONDS: u64 = 10;

/// Limits of worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[group(skip)]
pub struct WorkerArguments {
    /// Memory in MiB that the work on one object or call may take.
    #[arg(long, env = "GROUNDWORK_WORKER_MEMORY", default_value_t = MEMORY, value_name = "MEBIBYTES", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pub worker_memory: u64,
    /// Memory in MiB that the work on all objects and calls may take together; above it, the work
    /// that takes the most is ended.
    #[arg(long, env = "GROUNDWORK_WORKER_MEMORY_TOTAL", default_value_t = MEMORY_TOTAL, value_name = "MEBIBYTES", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pub worker_memory_total: u64,
    /// Processor time in seconds that the work on one object or call may take.
    #[arg(long, env = "GROUNDWORK_WORKER_CPU_SECONDS", default_value_t = CPU_SECONDS, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub worker_cpu_seconds: u64,
    /// Program that workers run; by default that of this process. For tests, whose own program is
    /// not a service.
    #[arg(skip)]
    pub worker_program: Option<&'static str>,
}

impl Default for WorkerArguments {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

impl WorkerArguments {
    /// Returns the memory limit in bytes.
    pub fn memory(&self) -> u64 {
        self.worker_memory.saturating_mul(1 << 20)
    }

    /// Returns the memory limit that all pools of a service share.
    pub fn ceiling(&self) -> Ceiling {
        Ceiling::new(self.worker_memory_total.saturating_mul(1 << 20))
    }

    /// Returns the limit of processor time.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_secs(self.worker_cpu_seconds)
    }
}
