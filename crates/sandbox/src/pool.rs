//! Workers that are started ahead, one piece of work each at a time.

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

/// How long a worker beyond those that are kept waits for work.
const IDLE: Duration = Duration::from_secs(60);
/// How long nothing is started after something could not be.
const START_PAUSE: Duration = Duration::from_secs(1);

/// Of so many workers one is kept for tenants that have none.
const RESERVE: usize = 4;

/// The tenant of work that is not for one namespace: of calls that name none, and of what is done once for all.
pub const ANYBODY: &str = "";

/// What a pool is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// The label of metrics and the word of logs.
    pub pool: &'static str,
    /// The kind of its workers, as [`enter`](crate::enter) knows it.
    pub name: &'static str,
    /// The program, which calls [`enter`](crate::enter); that of this process if none is given.
    pub program: Option<PathBuf>,
    /// Workers that are there even if there is nothing to do.
    pub ahead: usize,
    /// Workers at the most; work beyond waits.
    pub most: usize,
    /// Memory and processor time of a piece of work.
    pub limits: WorkerArguments,
    /// Memory of all pools that share this.
    pub ceiling: Ceiling,
    /// How long a piece of work may take, with what it waits for.
    pub wall_time: Duration,
    /// Whether it is for calls, whose workers have the processor only as far as others leave it.
    pub yields: bool,
}

/// What a piece of work may ask its service for.
pub trait Host: Send + Sync {
    /// Whatever comes has an answer: what a worker asks for is content of strangers as well.
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>>;
}

/// For work that has nothing to ask: every answer is empty.
impl Host for () {
    fn answer(&self, _: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Workers of one kind. Clones share them; with the last one they end.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    limits: Limits,
    program: PathBuf,
    turns: Turns,
    workers: Mutex<Workers>,
    /// Rings when a worker has gone, so that another one is started.
    gone: Arc<Notify>,
    long_work: LongWork,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Workers {
    /// The one that was used last comes last: it has the most of what the next piece of work may need.
    idle: Vec<Process>,
    /// With those that work.
    alive: usize,
}

impl Pool {
    /// Starts the workers that are there ahead.
    ///
    /// # Errors
    ///
    /// Not one of them begins.
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
            // The program that runs, even if another one has taken its place on disk.
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
            tracing::info!(pool, "worker processes can open nothing and reach nothing");
        } else {
            tracing::warn!(
                pool,
                lacking = first.lacking,
                "worker processes are not fenced in as far as they could be, because of the kernel or of how the container runs"
            );
        }
        shared.put_aside(first);
        tokio::spawn(keep(Arc::downgrade(&shared), Arc::clone(&shared.gone)));
        shared.gone.notify_one();
        Ok(Self(shared))
    }

    /// Has a piece of work done when it is its turn. What it asks for, `host` answers. Dropping the future ends the work, too. Work whose
    /// answers are late may begin anew: it is to be a function of the task and the answers.
    ///
    /// Long work of one `tenant`, say of one namespace, gets together what a single piece of it would get, where others need the processors.
    /// Where there are four workers or more, no tenant has more than three quarters of them.
    ///
    /// # Errors
    ///
    /// See [`WorkError`].
    pub async fn run(&self, tenant: &str, task: &[u8], host: &dyn Host) -> Result<Vec<u8>, WorkError> {
        // As `start`.
        let shared = &self.0;
        let host = Remembering::new(host);
        let result = shared.run(tenant, task, &host).await;
        shared.metrics.count(&result);
        result
    }
}

fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_default()
}

/// A worker that works, as long as somebody waits for it.
struct Lease<'a> {
    shared: &'a Shared,
    worker: Option<Process>,
    turn: Turn,
}

impl Lease<'_> {
    /// `gave_way` is how often this work has given way before.
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
                    tracing::warn!(pool, reason, %error, "the work of a worker process failed, and the process is replaced");
                    shared.count_out(1);
                    self.worker = None;
                    // What somebody else did before may have been the reason; with a new worker it cannot be.
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

    /// Has work done, as often as it gives way to others.
    async fn run(&self, tenant: &str, task: &[u8], host: &Remembering<'_>) -> Result<Vec<u8>, WorkError> {
        let limits = self.limits;
        // Calls of everybody have one share of the processors together.
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

    /// A worker that waits, if there is one.
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

    /// Starts one.
    async fn begin(&self) -> Result<Process, StartError> {
        let mut counted = Counted::new(self);
        let worker = Process::start(&self.program, self.options.name, self.limits).await?;
        counted.has_begun = true;
        Ok(worker)
    }

    /// After its work.
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

    /// Those that have waited for long, beyond those that are kept.
    fn surplus(&self) -> Vec<Process> {
        let now = Instant::now();
        let mut workers = self.workers();
        let beyond = workers.alive.saturating_sub(self.options.ahead).min(workers.idle.len());
        let is_old = |worker: &&Process| now.duration_since(worker.idle_since) >= IDLE;
        let old = workers.idle.iter().take(beyond).take_while(is_old).count();
        workers.idle.drain(..old).collect()
    }

    /// Starts what lacks of those that are there ahead.
    async fn fill(&self) -> Result<(), StartError> {
        while self.workers().alive < self.options.ahead.min(self.options.most.max(1)) {
            let worker = self.begin().await?;
            self.put_aside(worker);
        }
        Ok(())
    }
}

/// A worker that is about to begin is counted, so that no more are started than there may be.
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

/// Replaces workers that have gone, and ends those that nobody needs, as long as there is a pool.
async fn keep(pool: Weak<Shared>, gone: Arc<Notify>) {
    loop {
        // Either way it is time to look.
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
            tracing::error!(pool, %error, "no worker process could be started; it is tried again");
            tokio::time::sleep(START_PAUSE).await;
            gone.notify_one();
        }
    }
}
