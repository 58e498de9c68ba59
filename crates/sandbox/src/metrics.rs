//! Metrics of workers.

use groundwork_telemetry::Metrics as Registry;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::error::WorkError;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    pool: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    pool: &'static str,
    reason: &'static str,
}

/// Metrics of one pool.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pool: &'static str,
    pub(crate) workers: Gauge,
    jobs: Family<OutcomeLabels, Counter>,
    killed: Family<ReasonLabels, Counter>,
}

/// Reason why a worker ends although its work did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The caller no longer waits for its work.
    Abandoned,
    /// The worker waited for an answer while other work waited for its place.
    GaveWay,
    /// The worker keeps too much memory after its work.
    NotAtRest,
    /// The worker has a low priority since a long piece of work, and a priority cannot be raised.
    Yielded,
    /// The pool has more workers than it needs, and the worker was idle.
    Idle,
    /// Another process ended the worker while it was idle.
    Lost,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry, pool: &'static str) -> Self {
        let workers: Family<PoolLabels, Gauge> = registry.register(
            "sandbox_workers",
            "Worker processes that live, by pool",
            &["pool"],
            Family::default(),
        );
        let jobs: Family<OutcomeLabels, Counter> = registry.register(
            "sandbox_jobs",
            "Pieces of work that workers were given, by pool and outcome: done, failed, abandoned",
            &["pool", "outcome"],
            Family::default(),
        );
        let killed: Family<ReasonLabels, Counter> = registry.register(
            "sandbox_ended",
            "Worker processes that ended or were ended, by pool and reason",
            &["pool", "reason"],
            Family::default(),
        );
        for outcome in ["done", "failed", "abandoned"] {
            jobs.get_or_create(&OutcomeLabels { pool, outcome }).inc_by(0);
        }
        for reason in ["memory", "memory_total", "cpu_time", "wall_time"] {
            killed.get_or_create(&ReasonLabels { pool, reason }).inc_by(0);
        }
        let workers = workers.get_or_create(&PoolLabels { pool }).clone();
        Self { pool, workers, jobs, killed }
    }

    pub(crate) fn count(&self, result: &Result<Vec<u8>, WorkError>) {
        let outcome = if result.is_ok() { "done" } else { "failed" };
        self.jobs.get_or_create(&OutcomeLabels { pool: self.pool, outcome }).inc();
    }

    pub(crate) fn failed(&self, error: &WorkError) {
        self.ended(error.reason());
    }

    pub(crate) fn gone(&self, gone: Gone) {
        let reason = match gone {
            Gone::Abandoned => {
                self.jobs.get_or_create(&OutcomeLabels { pool: self.pool, outcome: "abandoned" }).inc();
                "abandoned"
            }
            Gone::GaveWay => "gave_way",
            Gone::NotAtRest => "not_at_rest",
            Gone::Yielded => "yielded",
            Gone::Idle => "idle",
            Gone::Lost => "lost",
        };
        self.ended(reason);
    }

    fn ended(&self, reason: &'static str) {
        self.killed.get_or_create(&ReasonLabels { pool: self.pool, reason }).inc();
    }
}
