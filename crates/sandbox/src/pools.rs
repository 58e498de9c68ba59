//! The pools of a service: others for calls than for its own work, so that neither takes the turn of the other.

use std::path::PathBuf;
use std::time::Duration;

use groundwork_telemetry::Metrics;

use crate::arguments::WorkerArguments;
use crate::ceiling::Ceiling;
use crate::error::StartError;
use crate::pool::{Options, Pool};

/// How long a piece of work may take, with what it waits for, where a service is not told otherwise.
pub const WALL_TIME: Duration = Duration::from_secs(30);

/// How many workers a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// There even if there is nothing to do.
    pub ahead: usize,
    /// At the most; work beyond waits.
    pub most: usize,
}

impl Count {
    /// One ahead, and as many as there are processors: for what comes or does not come.
    pub fn on_demand() -> Self {
        Self { ahead: 1, most: processors() }
    }

    /// As many as there are processors, all of them ahead.
    pub fn of_processors() -> Self {
        Self { ahead: processors(), most: processors() }
    }

    /// The same ahead, and so many at the most.
    #[must_use]
    pub fn with_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts pools of one kind of workers, which share limits, and the memory that all of them may take together.
#[derive(Debug)]
pub struct Pools<'a> {
    worker: &'static str,
    limits: WorkerArguments,
    ceiling: Ceiling,
    metrics: &'a Metrics,
}

impl<'a> Pools<'a> {
    /// `worker` is the kind of workers, as [`enter`](crate::enter) knows it.
    pub fn new(worker: &'static str, limits: WorkerArguments, metrics: &'a Metrics) -> Self {
        Self { worker, limits, ceiling: limits.ceiling(), metrics }
    }

    /// Starts a pool. `pool` is the label of metrics and the word of logs.
    ///
    /// # Errors
    ///
    /// Not one worker begins.
    pub async fn start(
        &self,
        pool: &'static str,
        count: Count,
        wall_time: Duration,
    ) -> Result<Pool, StartError> {
        Pool::start(self.options(pool, count, wall_time), self.metrics).await
    }

    /// Starts a pool for calls. Jobs, and whatever else works on the machine, go before them.
    ///
    /// # Errors
    ///
    /// Not one worker begins.
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
