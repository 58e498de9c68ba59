//! Threads for long computations, so that these do not block the threads of the async runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use groundwork_telemetry::Condition;
use tokio::sync::{Semaphore, oneshot};

/// Stack size of a worker in bytes. Recursive engines grow their stack further on demand.
const STACK_SIZE: usize = 4 << 20;
/// Default time limit of a computation.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// A limited number of computations at a time; others wait. Calls and jobs each have their own
/// workers, so that neither uses up the places of the other. Clones share the workers.
///
/// A computation cannot be stopped from outside. One that exceeds the limit is given up: its place
/// becomes free, it runs on with the lowest priority, and [`Workers::with_condition`] lets
/// readiness report it. While more than twice the number of workers run beyond the limit, no new
/// computation starts.
#[derive(Debug, Clone)]
pub struct Workers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    turns: Arc<Semaphore>,
    count: usize,
    limit: Duration,
    /// Number of computations that run beyond the limit.
    late: Mutex<usize>,
    condition: Option<Condition>,
}

/// Reason why a computation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The computation panicked, which is logged at the place of the panic.
    #[error("the work failed with an internal error; see the log of the service")]
    Panicked,
    /// The computation exceeded the limit. It runs on, and its result will be dropped.
    #[error("it took longer than {} s and was abandoned", .0.as_secs())]
    TimedOut(Duration),
    /// The computation was not started, because too many others run beyond their limit.
    #[error(
        "{0} units of work are still running beyond their time limit, so no more work is started; restart the service"
    )]
    Overloaded(usize),
}

impl WorkError {
    /// Reports whether the computation exceeded, or would exceed, the limits; otherwise the error
    /// is a fault of the service.
    pub fn is_limit(self) -> bool {
        self != Self::Panicked
    }
}

impl Default for Workers {
    /// Returns as many workers as there are processors.
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Workers {
    /// Creates this number of workers, and at least one.
    pub fn new(count: usize) -> Self {
        Self::with(count, DEFAULT_LIMIT, None)
    }

    fn with(count: usize, limit: Duration, condition: Option<Condition>) -> Self {
        let count = count.max(1);
        Self(Arc::new(Shared {
            turns: Arc::new(Semaphore::new(count)),
            count,
            limit,
            late: Mutex::default(),
            condition,
        }))
    }

    /// Returns the same number of workers with another time limit.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self::with(self.0.count, limit, self.0.condition.clone())
    }

    /// Returns the same number of workers, with a condition that is false while many computations
    /// run beyond the limit.
    #[must_use]
    pub fn with_condition(&self, condition: Condition) -> Self {
        condition.ready();
        Self::with(self.0.count, self.0.limit, Some(condition))
    }

    /// Runs a computation when a place is free. Dropping the future before that gives the place up.
    /// A computation that has started keeps its place until its end or its limit, so that callers
    /// who give up and call again do not get more of the processors than others.
    ///
    /// # Errors
    ///
    /// See [`WorkError`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        // The semaphore is never closed.
        let turn = Arc::clone(&self.0.turns).acquire_owned().await.map_err(|_| WorkError::Panicked)?;
        let late = *self.0.late();
        if late >= self.0.count.saturating_mul(2) {
            return Err(WorkError::Overloaded(late));
        }
        let (sender, mut answer) = oneshot::channel();
        let thread = spawn(work, sender).map_err(|error| {
            tracing::error!(%error, "cannot start a thread for a unit of work");
            WorkError::Panicked
        })?;
        let shared = Arc::clone(&self.0);
        // Wait in a separate task, so that the place is freed even if the caller's future is
        // dropped.
        let watch = async move {
            let answered = tokio::time::timeout(shared.limit, &mut answer).await;
            drop(turn);
            match answered {
                Ok(result) => result.unwrap_or(Err(WorkError::Panicked)),
                Err(_) => {
                    tracing::warn!(limit = ?shared.limit, "a unit of work exceeds its time limit and is abandoned");
                    thread.lower_priority();
                    let limit = shared.limit;
                    tokio::spawn(shared.outlive(async move { drop(answer.await) }));
                    Err(WorkError::TimedOut(limit))
                }
            }
        };
        let span = tracing::Span::current();
        tokio::spawn(tracing::Instrument::instrument(watch, span)).await.unwrap_or(Err(WorkError::Panicked))
    }
}

impl Shared {
    fn late(&self) -> MutexGuard<'_, usize> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a computation that was given up, until it ends after all.
    async fn outlive(self: Arc<Self>, end: impl Future<Output = ()>) {
        self.count(|late| late + 1);
        end.await;
        self.count(|late| late.saturating_sub(1));
    }

    /// Sets the condition under the lock, so that it always reflects the last count.
    fn count(&self, change: impl FnOnce(usize) -> usize) {
        let mut late = self.late();
        *late = change(*late);
        self.update_condition(*late);
    }

    fn update_condition(&self, late: usize) {
        let Some(condition) = &self.condition else { return };
        if late * 2 < self.count.max(8) {
            condition.ready();
        } else {
            condition.not_ready(format!(
                "{late} units of work are still running beyond their limit of {} s; see the log, or restart the \
                 service to end them",
                self.limit.as_secs()
            ));
        }
    }
}

/// Starts a new thread for each computation. One that is given up gets a lower priority, which a
/// thread cannot raise again, so threads are not reused.
fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    sender: oneshot::Sender<Result<T, WorkError>>,
) -> std::io::Result<Thread> {
    let span = tracing::Span::current();
    let thread = Thread::default();
    let id = thread.clone();
    std::thread::Builder::new().name("worker".to_owned()).stack_size(STACK_SIZE).spawn(move || {
        id.set_current();
        let result = catch_unwind(AssertUnwindSafe(|| span.in_scope(work)));
        // The receiver is gone if the computation was given up.
        drop(sender.send(result.map_err(|_| WorkError::Panicked)));
    })?;
    Ok(thread)
}

/// Thread id of the operating system.
#[derive(Debug, Clone, Default)]
struct Thread(#[cfg(target_os = "linux")] Arc<std::sync::OnceLock<rustix::process::Pid>>);

#[cfg(target_os = "linux")]
impl Thread {
    /// Stores the id of the current thread.
    fn set_current(&self) {
        _ = self.0.set(rustix::thread::gettid());
    }

    /// Gives the thread the lowest priority, so that all other work goes first.
    fn lower_priority(&self) {
        const LOWEST: i32 = 19;
        let Some(thread) = self.0.get() else { return };
        if let Err(error) = rustix::process::setpriority_process(Some(*thread), LOWEST) {
            tracing::debug!(%error, "cannot lower the priority of a thread");
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unused_self, reason = "other systems have no priority of single threads")]
impl Thread {
    fn set_current(&self) {}
    fn lower_priority(&self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn only_so_many_work_and_who_gives_up_waiting_never_does() {
        let workers = Workers::new(2);
        let (go, gate) = channel::<()>();
        let (gate, done) = (Arc::new(Mutex::new(gate)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            move || {
                _ = gate.lock().unwrap().recv();
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                let (workers, work) = (workers.clone(), work());
                tokio::spawn(async move { workers.run(work).await })
            })
            .collect();
        while workers.0.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // Two computations run and keep their places although their callers are gone; two of the
        // waiting ones give up theirs.
        for task in &tasks[..4] {
            task.abort();
        }
        for task in &tasks[..4] {
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!((workers.0.turns.available_permits(), done.load(Ordering::SeqCst)), (0, 0));
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        let last = tasks.into_iter().last().unwrap();
        assert_eq!(last.await.unwrap(), Ok(()));
        // The last computation got its place when one of the first two was done; the other may end
        // later.
        while done.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_panic_is_no_end_of_the_others() {
        let workers = Workers::new(1);
        assert_eq!(workers.run(|| panic!("on purpose")).await, Err::<(), _>(WorkError::Panicked));
        assert_eq!(workers.run(|| 1).await, Ok(1));
    }

    /// A computation that is given up frees its place, readiness reports it, and no new one starts
    /// beside too many of them.
    #[tokio::test]
    async fn work_beyond_its_limit_is_given_up() {
        let telemetry = groundwork_telemetry::Telemetry::silent("test");
        let workers = Workers::new(4)
            .within(Duration::from_millis(200))
            .with_condition(telemetry.health.condition("rendering"));
        let (go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let mut given_up = Vec::new();
        for _ in 0..8 {
            let gate = Arc::clone(&gate);
            let work = move || _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
            given_up.push(workers.run(work).await);
            assert!(workers.0.turns.available_permits() == 4, "its turn is free");
        }
        assert_eq!(given_up, vec![Err(WorkError::TimedOut(Duration::from_millis(200))); 8]);
        while *workers.0.late() < 8 {
            tokio::task::yield_now().await;
        }
        let told = telemetry.health.problems();
        assert!(told[0].starts_with("rendering: 8 units of work are still running"), "{told:?}");
        assert_eq!(workers.run(|| 1).await, Err(WorkError::Overloaded(8)));
        drop(go);
        telemetry.health.until(true).await;
        // On a busy machine even this trivial computation may exceed the limit.
        while workers.run(|| 1).await != Ok(1) {}
    }
}
