//! What services can be told about their workers.

use std::time::Duration;

use clap::Args;

/// Memory that the work of a worker may take, in MiB.
const MEMORY: u64 = 256;
/// Processor time of one piece of work, in seconds.
const CPU_SECONDS: u64 = 10;

/// Limits of worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[group(skip)]
pub struct WorkerArguments {
    /// Memory in MiB that the work on one object or call may take.
    #[arg(long, env = "GROUNDWORK_WORKER_MEMORY", default_value_t = MEMORY, value_name = "MEBIBYTES", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pub worker_memory: u64,
    /// Processor time in seconds that the work on one object or call may take.
    #[arg(long, env = "GROUNDWORK_WORKER_CPU_SECONDS", default_value_t = CPU_SECONDS, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub worker_cpu_seconds: u64,
}

impl Default for WorkerArguments {
    fn default() -> Self {
        Self { worker_memory: MEMORY, worker_cpu_seconds: CPU_SECONDS }
    }
}

impl WorkerArguments {
    /// The limit of memory in bytes.
    pub fn memory(&self) -> u64 {
        self.worker_memory.saturating_mul(1 << 20)
    }

    /// The limit of processor time.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_secs(self.worker_cpu_seconds)
    }
}
