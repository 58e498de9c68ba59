//! A worker that waits for something from outside keeps nobody else waiting: if the answer is late, it gives way.
//!
//! Its work begins anew, in another worker, once the answer is there. Work is a function of its task and of the answers, so nothing is lost
//! but the processor time that it took so far.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_turns::Turn;
use tokio::time::{Instant, sleep, timeout};

use crate::pool::Host;

/// How long a worker waits for an answer before it gives way to others that wait for its place.
const FIRST: Duration = Duration::from_millis(250);
/// Each time that the same work has given way, it may wait twice as long, but for no longer than this: else work with many late answers would
/// never end.
const LONGEST: Duration = Duration::from_secs(8);

/// How long a worker may keep a place while it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    turn: &'a Turn,
    time: Duration,
}

impl<'a> Patience<'a> {
    /// For work that has given way so many times before.
    pub(crate) fn after(gave_way: u32, turn: &'a Turn) -> Self {
        Self { turn, time: FIRST.saturating_mul(2_u32.saturating_pow(gave_way)).min(LONGEST) }
    }

    /// Returns once the time is over and another tenant wants the place.
    pub(crate) async fn ends(self) {
        sleep(self.time).await;
        self.turn.wanted().await;
    }
}

/// Waiting for answers may take so many times the time of the work itself.
const WAITS: u32 = 2;

/// Time of the clock that is left for a piece of work. Waits for answers have a time of their own: who answers has limits, too, and says
/// better what took so long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    work: Duration,
    waits: Duration,
}

impl Clock {
    pub(crate) fn new(work: Duration) -> Self {
        Self { work, waits: work.saturating_mul(WAITS) }
    }

    /// The result of the work itself, unless its time is over first.
    pub(crate) async fn work<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        Self::run(&mut self.work, work).await
    }

    /// The same for a wait.
    pub(crate) async fn wait<T>(&mut self, answer: impl Future<Output = T>) -> Option<T> {
        Self::run(&mut self.waits, answer).await
    }

    async fn run<T>(left: &mut Duration, work: impl Future<Output = T>) -> Option<T> {
        let begin = Instant::now();
        let done = timeout(*left, work).await;
        *left = left.saturating_sub(begin.elapsed());
        done.ok()
    }
}

/// A question whose answer is late.
pub(crate) struct Late<'h> {
    pub(crate) question: Vec<u8>,
    pub(crate) answer: BoxFuture<'h, Vec<u8>>,
}

/// A host that is not asked again for what came late.
pub(crate) struct Remembering<'h> {
    host: &'h dyn Host,
    late: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl<'h> Remembering<'h> {
    pub(crate) fn new(host: &'h dyn Host) -> Self {
        Self { host, late: Mutex::default() }
    }

    pub(crate) fn keep(&self, question: Vec<u8>, answer: Vec<u8>) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
    }

    pub(crate) fn answer(&self, question: Vec<u8>) -> BoxFuture<'h, Vec<u8>> {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).get(&question).cloned();
        match late {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => self.host.answer(question),
        }
    }
}
