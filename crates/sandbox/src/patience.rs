//! Patience of workers: a worker that waits for a late answer from outside gives its place to
//! others.
//!
//! Its work starts over in another worker once the answer is there. Work is a function of its task
//! and of the answers, so only the processor time so far is lost.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_turns::Turn;
use tokio::time::{Instant, sleep, timeout};

use crate::pool::Host;

/// Time that a worker waits for an answer before it gives its place to others.
const FIRST: Duration = Duration::from_millis(250);
/// Upper limit of the wait. Each time that the same work has given way, its next wait is twice as
/// long: otherwise work with many late answers would never end.
const LONGEST: Duration = Duration::from_secs(8);

/// Time for which a worker may keep a place while it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    turn: &'a Turn,
    time: Duration,
}

impl<'a> Patience<'a> {
    /// Returns the patience of work that has given way this many times before.
    pub(crate) fn after(gave_way: u32, turn: &'a Turn) -> Self {
        Self { turn, time: FIRST.saturating_mul(2_u32.saturating_pow(gave_way)).min(LONGEST) }
    }

    /// Returns when the time is over and another tenant wants the place.
    pub(crate) async fn ends(self) {
        sleep(self.time).await;
        self.turn.wanted().await;
    }
}

/// Time limit of waits for answers, as a multiple of the time limit of the work itself.
const WAITS: u32 = 2;

/// Remaining time of a piece of work by the wall clock. Waits for answers have a separate limit:
/// the answering side has limits of its own, and its errors explain better what took so long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    work: Duration,
    waits: Duration,
}

impl Clock {
    pub(crate) fn new(work: Duration) -> Self {
        Self { work, waits: work.saturating_mul(WAITS) }
    }

    /// Returns the result of the work itself, or `None` if its time is over first.
    pub(crate) async fn work<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        Self::run(&mut self.work, work).await
    }

    /// Returns the result of a wait, or `None` if the time for waits is over first.
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

/// A question with a late answer.
pub(crate) struct Late<'h> {
    pub(crate) question: Vec<u8>,
    pub(crate) answer: BoxFuture<'h, Vec<u8>>,
}

/// A host that remembers late answers, so that they are not requested again.
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
