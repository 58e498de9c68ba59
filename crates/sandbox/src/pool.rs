//! Pool of workers that are started ahead and do one piece of work each at a time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_turns::{Turn, Turns};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::arguments::WorkerArguments;
use crate::ceiling::Ceiling;
use crate::error::{StartError, WorkError};
use crate::metrics::{Gone, Metrics};
use crate::patience::{Clock, Patience, Remembering};
use crate::priority::{LongWork, Share};
use crate::process::{Ended, Limits, Process};

/// Time after which an idle worker is ended, if the pool has more workers than it keeps ready.
const IDLE: Duration = Duration::from_secs(60);
/// Pause after a failed start of a worker.
const START_PAUSE: Duration = Duration::from_secs(1);

/// One of this many workers is kept free for tenants without a worker.
const RESERVE: usize = 4;

/// Tenant of work that does not belong to one namespace: calls without a namespace, and work that
/// is done once for all.
pub const ANYBODY: &str = "";

/// Settings of a pool.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the pool in metrics and logs.
    pub pool: &'static str,
    /// Kind of the pool's workers, as [`enter`](crate::enter) knows it.
    pub name: &'static str,
    /// Program of the workers, which calls [`enter`](crate::enter); `None` for the program of this
    /// process.
    pub program: Option<PathBuf>,
    /// Number of workers that are kept ready without work.
    pub ahead: usize,
    /// Maximum number of workers; further work waits.
    pub most: usize,
    /// Limits of memory and processor time of a piece of work.
    pub limits: WorkerArguments,
    /// Memory limit that pools share.
    pub ceiling: Ceiling,
    /// Time limit of a piece of work. Waits for answers count separately, with a limit of twice
    /// that.
    pub wall_time: Duration,
    /// True for a pool of calls, whose workers run at low priority.
    pub yields: bool,
}

/// Answers the questions of a piece of work to its service.
pub trait Host: Send + Sync {
    /// Answers a question. Every question must get an answer, even a malformed one, because it
    /// comes from untrusted work.
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>>;
}

/// Host for work without questions: every answer is empty.
impl Host for () {
    fn answer(&self, _: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Workers of one kind. Clones share them; the workers end with the last clone.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    limits: Limits,
    program: PathBuf,
    turns: Turns,
    workers: Mutex<Workers>,
    /// Notified when a worker has ended, so that another one is started.
    gone: Arc<Notify>,
    long_work: LongWork,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Workers {
    /// Idle workers. The last used one is last and is taken first, since its memory is most likely
    /// to fit the next work.
    idle: Vec<Process>,
    /// Number of workers, including working ones.
    alive: usize,
}

impl Pool {
    /// Starts the workers that are kept ready.
    ///
    /// # Errors
    ///
    /// No worker could be started.
    pub async fn start(
        options: Options,
        metrics: &groundwork_telemetry::Metrics,
    ) -> Result<Self, StartError> {
        let limits = Limits {
            memory: options.limits.memory(),
            cpu_time: options.limits.cpu_time(),
            wall_time: options.wall_time,
            yields: options.yields,
        };
        let most = options.most.max(1);
        let shared = Arc::new(Shared {
            limits,
            // `own_program` is the running program, even if its file on disk was replaced.
            program: options.program.clone().unwrap_or_else(own_program),
            turns: Turns::new(most, most - most / RESERVE),
            workers: Mutex::default(),
            gone: Arc::default(),
            long_work: LongWork::default(),
            metrics: Metrics::new(metrics, options.pool),
            options,
        });
        let first = shared.begin().await?;
        let pool = shared.options.pool;
        if first.lacking.is_empty() {
            tracing::info!(
                pool,
                "worker processes are isolated: they can open neither files nor connections"
            );
        } else {
            tracing::warn!(
                pool,
                lacking = first.lacking,
                "worker processes are not fully isolated, because of the kernel or the settings of the container"
            );
        }
        shared.put_aside(first);
        tokio::spawn(keep(Arc::downgrade(&shared), Arc::clone(&shared.gone)));
        shared.gone.notify_one();
        Ok(Self(shared))
    }

    /// Runs a piece of work when a place is free. `host` answers its questions. Dropping the future
    /// ends the work, too. Work with late answers may start over, so it must be a function of the
    /// task and the answers.
    ///
    /// All long work of one `tenant`, such as a namespace, together gets the processor time of a
    /// single piece of work, if others need the processors. In a pool of four or more workers, a
    /// tenant never has more than three quarters of them.
    ///
    /// # Errors
    ///
    /// See [`WorkError`].
    pub async fn run(&self, tenant: &str, task: &[u8], host: &dyn Host) -> Result<Vec<u8>, WorkError> {
        // Counted here and not in `Shared::run`, so that work that gives way and starts over counts
        // once.
        let shared = &self.0;
        let host = Remembering::new(host);
        let result = shared.run(tenant, task, &host).await;
        shared.metrics.count(&result);
        result
    }
}

/// Returns the program of this process.
pub(crate) fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_default()
}

/// A working worker. Dropping the lease kills the worker.
struct Lease<'a> {
    shared: &'a Shared,
    worker: Option<Process>,
    turn: Turn,
}

impl Lease<'_> {
    /// Runs the work in a worker. `gave_way` is how often this work has given way before.
    async fn run<'h>(
        &mut self,
        task: &[u8],
        host: &Remembering<'h>,
        clock: &mut Clock,
        share: &Share<'_>,
        gave_way: u32,
    ) -> Result<Ended<'h>, WorkError> {
        let shared = self.shared;
        let worker = match shared.take() {
            Some(worker) => worker,
            None => shared.begin().await?,
        };
        let mut was_used = worker.is_used;
        let mut worker = self.worker.insert(worker);
        loop {
            let patience = Patience::after(gave_way, &self.turn);
            let ceiling = &shared.options.ceiling;
            let result = worker.run(task, host, shared.limits, clock, ceiling, share, patience).await;
            match &result {
                Ok(Ended::Late(_)) => {
                    self.worker = None;
                    shared.metrics.gone(Gone::GaveWay);
                    shared.count_out(1);
                    return result;
                }
                Ok(Ended::Done(_)) => {
                    if let Some(worker) = self.worker.take() {
                        shared.give_back(worker);
                    }
                    return result;
                }
                Err(error) => {
                    shared.metrics.failed(error);
                    let (pool, reason) = (shared.options.pool, error.reason());
                    tracing::warn!(pool, reason, %error, "the work in a worker failed; its process is replaced");
                    shared.count_out(1);
                    self.worker = None;
                    // Earlier work in the same process may be the reason, so run the work once more
                    // in a new worker.
                    if !(was_used && matches!(error, WorkError::Died { .. })) {
                        return result;
                    }
                }
            }
            was_used = false;
            worker = self.worker.insert(shared.begin().await?);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.worker.take().is_some() {
            self.shared.metrics.gone(Gone::Abandoned);
            self.shared.count_out(1);
        }
    }
}

impl Shared {
    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work, and starts it over each time that it gives way to others.
    async fn run(&self, tenant: &str, task: &[u8], host: &Remembering<'_>) -> Result<Vec<u8>, WorkError> {
        let limits = self.limits;
        // Calls of all tenants together share one part of the processors.
        let long_work_of = if limits.yields { ANYBODY } else { tenant };
        let share = Share { long_work: &self.long_work, tenant: long_work_of, is_call: limits.yields };
        let mut clock = Clock::new(limits.wall_time);
        for gave_way in 0.. {
            let turn = self.turns.take(tenant).await;
            let mut lease = Lease { shared: self, worker: None, turn };
            let late = match lease.run(task, host, &mut clock, &share, gave_way).await? {
                Ended::Done(content) => return Ok(content),
                Ended::Late(late) => late,
            };
            drop(lease);
            let Some(answer) = clock.wait(late.answer).await else { break };
            host.keep(late.question, answer);
        }
        let error = WorkError::WallTime { limit: limits.wall_time };
        self.metrics.failed(&error);
        Err(error)
    }

    /// Returns an idle worker, if there is one.
    fn take(&self) -> Option<Process> {
        loop {
            let mut worker = self.workers().idle.pop()?;
            if worker.is_alive() {
                return Some(worker);
            }
            self.metrics.gone(Gone::Lost);
            self.count_out(1);
        }
    }

    /// Starts a worker.
    async fn begin(&self) -> Result<Process, StartError> {
        let mut counted = Counted::new(self);
        let worker = Process::start(&self.program, self.options.name, self.limits).await?;
        counted.has_begun = true;
        Ok(worker)
    }

    /// Takes a worker back after its work, or ends it.
    fn give_back(&self, worker: Process) {
        let gone = match (worker.has_yielded(), worker.is_at_rest()) {
            (false, true) => return self.put_aside(worker),
            (true, _) => Gone::Yielded,
            (false, false) => Gone::NotAtRest,
        };
        drop(worker);
        self.metrics.gone(gone);
        self.count_out(1);
    }

    fn put_aside(&self, mut worker: Process) {
        worker.idle_since = Instant::now();
        self.workers().idle.push(worker);
    }

    fn count_out(&self, count: usize) {
        let mut workers = self.workers();
        workers.alive = workers.alive.saturating_sub(count);
        self.metrics.workers.set(i64::try_from(workers.alive).unwrap_or(i64::MAX));
        drop(workers);
        self.gone.notify_one();
    }

    /// Returns idle workers to end: those that have been idle for long, as far as the pool has more
    /// workers than it keeps ready.
    fn surplus(&self) -> Vec<Process> {
        let now = Instant::now();
        let mut workers = self.workers();
        let beyond = workers.alive.saturating_sub(self.options.ahead).min(workers.idle.len());
        let is_old = |worker: &&Process| now.duration_since(worker.idle_since) >= IDLE;
        let old = workers.idle.iter().take(beyond).take_while(is_old).count();
        workers.idle.drain(..old).collect()
    }

    /// Starts the missing permanent workers.
    async fn fill(&self) -> Result<(), StartError> {
        while self.workers().alive < self.options.ahead.min(self.options.most.max(1)) {
            let worker = self.begin().await?;
            self.put_aside(worker);
        }
        Ok(())
    }
}

/// Counts a worker while it starts, so that the pool never exceeds its maximum.
struct Counted<'a> {
    shared: &'a Shared,
    has_begun: bool,
}

impl<'a> Counted<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut workers = shared.workers();
        workers.alive += 1;
        shared.metrics.workers.set(i64::try_from(workers.alive).unwrap_or(i64::MAX));
        drop(workers);
        Self { shared, has_begun: false }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.shared.count_out(1);
        }
    }
}

/// Replaces workers that have ended, and ends surplus ones, as long as the pool exists.
async fn keep(pool: Weak<Shared>, gone: Arc<Notify>) {
    loop {
        // Continue after the notification or the time-out, whichever comes first.
        _ = timeout(IDLE / 2, gone.notified()).await;
        let Some(shared) = pool.upgrade() else { return };
        for worker in shared.surplus() {
            drop(worker);
            shared.metrics.gone(Gone::Idle);
            shared.count_out(1);
        }
        let failed = shared.fill().await.err();
        let pool = shared.options.pool;
        drop(shared);
        if let Some(error) = failed {
            tracing::error!(pool, %error, "cannot start a worker process; trying again");
            tokio::time::sleep(START_PAUSE).await;
            gone.notify_one();
        }
    }
}
