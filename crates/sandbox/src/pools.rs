//! The pools of a service. Calls and the service's own work have separate pools, so that neither
//! uses up the workers of the other.

use std::path::PathBuf;
use std::time::Duration;

use groundwork_telemetry::Metrics;

use crate::arguments::WorkerArguments;
use crate::ceiling::Ceiling;
use crate::error::StartError;
use crate::pool::{Options, Pool};

/// Default time limit of a piece of work.
pub const WALL_TIME: Duration = Duration::from_secs(30);

/// Number of workers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Workers that are kept ready without work.
    pub ahead: usize,
    /// Maximum number of workers; further work waits.
    pub most: usize,
}

impl Count {
    /// Returns one worker kept ready, and as many as there are processors at most: for occasional
    /// work.
    pub fn on_demand() -> Self {
        Self { ahead: 1, most: processors() }
    }

    /// Returns as many workers as there are processors, all of them kept ready.
    pub fn of_processors() -> Self {
        Self { ahead: processors(), most: processors() }
    }

    /// Returns the same number kept ready, with another maximum.
    #[must_use]
    pub fn with_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts pools of one kind of worker, which share their limits and a total memory limit.
#[derive(Debug)]
pub struct Pools<'a> {
    worker: &'static str,
    limits: WorkerArguments,
    ceiling: Ceiling,
    metrics: &'a Metrics,
}

impl<'a> Pools<'a> {
    /// Creates the pools of a service. `worker` is the kind of workers, as [`enter`](crate::enter)
    /// knows it.
    pub fn new(worker: &'static str, limits: WorkerArguments, metrics: &'a Metrics) -> Self {
        Self { worker, limits, ceiling: limits.ceiling(), metrics }
    }

    /// Starts a pool. `pool` is its name in metrics and logs.
    ///
    /// # Errors
    ///
    /// No worker could be started.
    pub async fn start(
        &self,
        pool: &'static str,
        count: Count,
        wall_time: Duration,
    ) -> Result<Pool, StartError> {
        Pool::start(self.options(pool, count, wall_time), self.metrics).await
    }

    /// Starts a pool for calls. Its workers have a lower priority than jobs and than other
    /// processes of the machine.
    ///
    /// # Errors
    ///
    /// No worker could be started.
    pub async fn start_for_calls(&self, pool: &'static str) -> Result<Pool, StartError> {
        let options = self.options(pool, Count::on_demand(), WALL_TIME);
        Pool::start(Options { yields: true, ..options }, self.metrics).await
    }

    fn options(&self, pool: &'static str, Count { ahead, most }: Count, wall_time: Duration) -> Options {
        Options {
            pool,
            name: self.worker,
            program: self.limits.worker_program.map(PathBuf::from),
            ahead,
            most,
            limits: self.limits,
            ceiling: self.ceiling.clone(),
            wall_time,
            yields: false,
        }
    }
}
