//! Pauses between attempts, and a log that reports each problem once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backoff::Backoff;
use crate::error::BusError;

/// Current problems of the readers of one bus, with the number of readers that have each. All
/// readers lose the same server at the same time, and the log should show one line for that, not
/// one for each reader. Clones share the problems.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentProblems(Arc<Mutex<BTreeMap<String, usize>>>);

impl CurrentProblems {
    /// Adds a problem of one reader. Returns true if no other reader has it.
    fn add(&self, problem: &str) -> bool {
        let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let readers = problems.entry(problem.to_owned()).or_default();
        *readers += 1;
        *readers == 1
    }

    /// Removes a problem of one reader. Returns true if no other reader has it any more.
    fn remove(&self, problem: &str) -> bool {
        let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(readers) = problems.get_mut(problem) else { return false };
        *readers -= 1;
        let is_solved = *readers == 0;
        if is_solved {
            problems.remove(problem);
        }
        is_solved
    }
}

/// The attempts of one reader, with pauses that double. The log reports a problem when it begins,
/// when it changes and when it is over. Among several readers with the same problem, the first and
/// the last one log it.
#[derive(Debug)]
pub(crate) struct Retry {
    /// Name of the read operation, for the log.
    what: String,
    /// Failed attempts in a row.
    failures: u32,
    /// Current problem of this reader; see [`identity`].
    problem: Option<String>,
    problems: CurrentProblems,
}

impl Retry {
    pub(crate) fn new(what: impl Into<String>, problems: &CurrentProblems) -> Self {
        Self { what: what.into(), failures: 0, problem: None, problems: problems.clone() }
    }

    /// Logs a failed attempt, and waits before the next one.
    pub(crate) async fn back_off(&mut self, error: &BusError) {
        self.report(error);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(Backoff::SERVER.pause(self.failures)).await;
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        if self.clear() {
            tracing::info!(of = self.what, "events are read again");
        }
    }

    /// Logs a problem, unless this or another reader has already logged it. Returns whether it was
    /// logged.
    fn report(&mut self, error: &BusError) -> bool {
        let problem = identity(error);
        if self.problem.as_ref() == Some(&problem) {
            return false;
        }
        self.clear();
        let is_new = self.problems.add(&problem);
        if is_new {
            tracing::warn!(of = self.what, %error, "cannot read events; trying again");
        }
        self.problem = Some(problem);
        is_new
    }

    /// Clears this reader's problem. Returns true if no other reader has the problem either.
    fn clear(&mut self) -> bool {
        self.problem.take().is_some_and(|problem| self.problems.remove(&problem))
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the key by which problems are compared. A server that is away is one problem, for all
/// requests and for all ways to notice it.
fn identity(error: &BusError) -> String {
    match error {
        BusError::Unavailable { server, .. } | BusError::Silent { server, .. } => format!("no {server}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_bus_tell_of_one_problem_once() {
        let problems = CurrentProblems::default();
        let away = |reason: &str| BusError::Unavailable { server: "h:1".into(), reason: reason.into() };
        let (mut index, mut queue) = (Retry::new("index", &problems), Retry::new("queue", &problems));
        assert!(index.report(&away("refused")));
        assert!(!index.report(&away("broken pipe")) && !queue.report(&away("refused")));
        assert!(queue.report(&BusError::StreamNotFound), "another problem is new");
        assert!(!index.report(&BusError::StreamNotFound));
        assert!(!queue.clear(), "the other one still has it");
        drop(index);
        assert!(queue.report(&BusError::StreamNotFound), "it was over meanwhile");
    }
}
