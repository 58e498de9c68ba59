use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Shutdown of a process: one request that all tasks see, and the tasks to wait for. Clones share
/// both.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
}

/// Tasks that were still running when the time for draining was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{tasks} tasks did not end within {limit:?} and were abandoned; their work is repeated after the next start"
)]
pub struct Unfinished {
    pub tasks: usize,
    pub limit: Duration,
}

impl Shutdown {
    /// Requests the shutdown: tasks finish their work and begin no more.
    pub fn request(&self) {
        self.token.cancel();
    }

    /// Reports whether the shutdown was requested.
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the shutdown is requested.
    pub fn requested(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// Returns the token for libraries that need it.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Spawns a task that the shutdown waits for, in the current span. The task must end soon after
    /// the request.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tasks.spawn(task.in_current_span())
    }

    /// Requests the shutdown and waits for the tasks.
    ///
    /// # Errors
    ///
    /// Tasks were still running after `limit`.
    pub async fn drain(&self, limit: Duration) -> Result<(), Unfinished> {
        tokio::time::timeout(limit, self.finished()).await.map_err(|_| self.unfinished(limit))
    }

    /// Requests the shutdown and waits for the tasks without a limit.
    pub(crate) async fn finished(&self) {
        self.request();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn unfinished(&self, limit: Duration) -> Unfinished {
        Unfinished { tasks: self.tasks.len(), limit }
    }

    /// Requests the shutdown on SIGTERM or SIGINT. The next signal ends the process at once, with
    /// status 128 plus the number of the signal.
    ///
    /// # Errors
    ///
    /// The handlers could not be installed.
    pub fn on_signals(&self) -> io::Result<()> {
        let mut signals = Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        let shutdown = self.clone();
        // Not spawned with `self.spawn`: this task has to see the second signal while the others
        // end.
        tokio::spawn(async move {
            let (name, _) = signals.next().await;
            tracing::info!(signal = name, "the service is stopping; the next signal stops it at once");
            shutdown.request();
            let (_, number) = signals.next().await;
            std::process::exit(128 + number);
        });
        Ok(())
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn drain_waits_for_tasks() {
        let shutdown = Shutdown::default();
        let task = shutdown.spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.requested().await }
        });
        assert!(!shutdown.is_requested());
        shutdown.drain(SOON).await.unwrap();
        assert!(task.is_finished() && shutdown.is_requested());
    }

    #[tokio::test]
    async fn drain_is_bounded() {
        let shutdown = Shutdown::default();
        let (_sender, never) = oneshot::channel::<()>();
        shutdown.spawn(never);
        let limit = Duration::from_millis(1);
        assert_eq!(shutdown.drain(limit).await, Err(Unfinished { tasks: 1, limit }));
    }
}
