//! Work that takes the processor for long, away from the threads that serve others.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// So many pieces of work at a time; the others wait. Calls and jobs have workers of their own, so that neither takes the turn of
/// the other. Clones share them.
#[derive(Debug, Clone)]
pub struct Workers(Arc<Semaphore>);

/// The work did not end: it panicked, which is logged where it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work did not end; the log of the service says why")]
pub struct Interrupted;

impl Default for Workers {
    /// As many as there are processors.
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Workers {
    /// At least one.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.max(1))))
    }

    /// Does a piece of work when it is its turn. Dropping the future before gives the turn away; work that has begun keeps it
    /// until its end, so that callers who go and come again do not get more of the processors than others.
    ///
    /// # Errors
    ///
    /// The work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Interrupted> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|_| Interrupted)?;
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            span.in_scope(work)
        });
        task.await.map_err(|_| Interrupted)
    }
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
        while workers.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // Two work, and keep their turn although nobody waits for them; two of the others go.
        for task in &tasks[..4] {
            task.abort();
        }
        for task in &tasks[..4] {
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!((workers.0.available_permits(), done.load(Ordering::SeqCst)), (0, 0));
        for _ in 0..3 {
            go.send(()).unwrap();
        }
        let last = tasks.into_iter().last().unwrap();
        assert_eq!(last.await.unwrap(), Ok(()));
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_panic_is_no_end_of_the_others() {
        let workers = Workers::new(1);
        assert_eq!(workers.run(|| panic!("on purpose")).await, Err::<(), _>(Interrupted));
        assert_eq!(workers.run(|| 1).await, Ok(1));
    }
}
