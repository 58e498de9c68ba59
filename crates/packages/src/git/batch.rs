//! Batches of pushes: while one `git push` is running, other writers gather for the next one
//! (`packagevariants.md` 9.2).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::git::remote::{RefUpdate, Remote, RemoteError};

/// Limit for the writers that share a push: the refs of all have to fit on a command line.
const MOST: usize = 64;

type Answer = Result<(), RemoteError>;

/// Pushes to one remote.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    waiting: Mutex<Vec<Arc<Submission>>>,
    /// Lock of the thread that pushes.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Submission {
    updates: Vec<RefUpdate>,
    answer: Mutex<Option<Answer>>,
}

impl Batches {
    /// Pushes updates, in this thread or in the thread that holds the lock. `push` returns an
    /// answer for each of its batches.
    pub(crate) fn submit(
        &self,
        updates: Vec<RefUpdate>,
        push: impl FnOnce(&[&[RefUpdate]]) -> Vec<Answer>,
    ) -> Answer {
        let own = Arc::new(Submission { updates, answer: Mutex::default() });
        lock(&self.waiting).push(Arc::clone(&own));
        let _turn = lock(&self.turn);
        if let Some(answer) = lock(&own.answer).take() {
            return answer;
        }
        let batch = take(&mut lock(&self.waiting), &own);
        let updates: Vec<&[RefUpdate]> = batch.iter().map(|one| one.updates.as_slice()).collect();
        for (submission, answer) in batch.iter().zip(push(&updates)) {
            *lock(&submission.answer) = Some(answer);
        }
        let answer = lock(&own.answer).take();
        answer.unwrap_or_else(|| Err(RemoteError::Failed("the push was not answered".to_owned())))
    }
}

/// Takes `own`, and each waiting submission whose refs no earlier one of the batch touches.
fn take(waiting: &mut Vec<Arc<Submission>>, own: &Arc<Submission>) -> Vec<Arc<Submission>> {
    let refs = |submission: &Submission| -> Vec<String> {
        submission.updates.iter().map(|update| update.reference.clone()).collect()
    };
    let mut touched: HashSet<String> = refs(own).into_iter().collect();
    let mut batch = vec![Arc::clone(own)];
    waiting.retain(|submission| {
        if Arc::ptr_eq(submission, own) {
            return false;
        }
        let refs = refs(submission);
        if batch.len() >= MOST || refs.iter().any(|reference| touched.contains(reference)) {
            return true;
        }
        touched.extend(refs);
        batch.push(Arc::clone(submission));
        false
    });
    batch
}

/// Pushes as many updates as possible in one call. If that is refused, finds the updates that
/// caused it.
pub(crate) fn push_batch(remote: &Remote, batch: &[&[RefUpdate]]) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = vec![None; batch.len()];
    loop {
        let open: Vec<usize> = (0..batch.len()).filter(|at| answers[*at].is_none()).collect();
        let [first, others @ ..] = open.as_slice() else { break };
        if others.is_empty() {
            answers[*first] = Some(remote.push(batch[*first]));
            break;
        }
        let all: Vec<RefUpdate> = open.iter().flat_map(|at| batch[*at].iter().cloned()).collect();
        let result = remote.push_atomically(&all);
        let stale =
            |at: &usize, refs: &[String]| batch[*at].iter().any(|update| refs.contains(&update.reference));
        match &result {
            Err(RemoteError::Stale(refs)) if open.iter().any(|at| stale(at, refs)) => {
                // The stale updates get their error, and the others are pushed without them.
                for at in open.iter().filter(|at| stale(at, refs)) {
                    let own: Vec<String> = batch[*at].iter().map(|update| update.reference.clone()).collect();
                    let own = refs.iter().filter(|reference| own.contains(reference)).cloned().collect();
                    answers[*at] = Some(Err(RemoteError::Stale(own)));
                }
            }
            // A hook looks at all refs of a push. Pushed one by one, only the refs that it rejects
            // are refused.
            Err(RemoteError::Stale(_) | RemoteError::Declined(_) | RemoteError::NotAtomic) => {
                for at in open {
                    answers[at] = Some(remote.push(batch[at]));
                }
            }
            // Any other error concerns the remote, so all updates get it.
            _ => {
                for at in open {
                    answers[at] = Some(result.clone());
                }
            }
        }
    }
    answers.into_iter().flatten().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn update(reference: &str) -> Vec<RefUpdate> {
        vec![RefUpdate { reference: reference.to_owned(), old: None, new: None }]
    }

    fn names(batch: &[&[RefUpdate]]) -> Vec<String> {
        let mut names: Vec<String> =
            batch.iter().flat_map(|updates| updates.iter().map(|update| update.reference.clone())).collect();
        names.sort();
        names
    }

    /// Three submissions arrive during the first push. Two of them touch the same ref, so two
    /// further pushes are needed instead of one.
    #[test]
    fn what_comes_meanwhile_goes_together() {
        let batches = Batches::default();
        let pushed = Mutex::new(Vec::new());
        let (begun, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let push = |batch: &[&[RefUpdate]]| {
            lock(&pushed).push(names(batch));
            vec![Ok(()); batch.len()]
        };
        std::thread::scope(|scope| {
            let (batches, push) = (&batches, &push);
            scope.spawn(move || {
                batches.submit(update("a"), |batch| {
                    begun.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    push(batch)
                })
            });
            has_begun.recv().unwrap();
            for name in ["b", "c", "c"] {
                scope.spawn(move || batches.submit(update(name), push).unwrap());
            }
            while lock(&batches.waiting).len() < 3 {
                std::thread::yield_now();
            }
            go_on.send(()).unwrap();
        });
        let pushed = lock(&pushed).clone();
        assert_eq!(pushed.len(), 3, "{pushed:?}");
        assert_eq!(pushed[0], ["a"]);
        assert_eq!(pushed[1..].concat().len(), 3, "{pushed:?}");
    }
}
