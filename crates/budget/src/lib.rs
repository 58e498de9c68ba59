//! What the work on content of strangers may spend, counted and not timed: so a document has the same outcome on every machine.
//!
//! * [`Budget`]: units of work of several engines together, such as all executions of one blueprint.
//! * [`TemplateLimits`]: what an operator may let templates take.
//! * [`held`]: the bytes that the values of an engine hold at this moment.
//!
//! A unit is about ten nanoseconds of one core: one copied element of a list, the hashing of eight bytes. A step of a Go template, such as
//! the evaluation of a node, is four of them. Engines charge before they work.

pub mod held;
mod template_limits;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use template_limits::TemplateLimits;

/// Units of work that all engines of one operation share; clones are the same account.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    spent: AtomicU64,
}

/// The work of one operation would be more than it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all templates together take more than the limit of {limit} units of work; let them do less, divide the blueprint, or raise --template-work"
)]
pub struct ExceededError {
    pub limit: u64,
}

/// What an operation may do if nobody says otherwise: some seconds of one core.
pub const DEFAULT_WORK: u64 = 200_000_000;

impl Budget {
    /// So many units of work.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account { limit, spent: AtomicU64::new(0) }))
    }

    /// As much as this one had at first, on an account of its own.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self::new(self.0.limit)
    }

    /// Accounts for work that is about to be done.
    ///
    /// # Errors
    ///
    /// The account is empty, and stays so.
    pub fn spend(&self, units: u64) -> Result<(), ExceededError> {
        let spent = self.0.spent.load(Ordering::Relaxed).saturating_add(units);
        // Nobody spends from one account on several threads at a time; if somebody did, a few units would be lost.
        self.0.spent.store(spent, Ordering::Relaxed);
        if spent > self.0.limit { Err(ExceededError { limit: self.0.limit }) } else { Ok(()) }
    }

    /// Units that were charged so far.
    pub fn spent(&self) -> u64 {
        self.0.spent.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_WORK)
    }
}

/// A question that the host answers: whether the time of an operation is over. It is asked every few thousand units of work, so it
/// bounds the operation from without; a single step of it is bounded by what it accounts for.
#[derive(Clone)]
pub struct Deadline(Arc<dyn Fn() -> bool + Send + Sync>);

impl Deadline {
    /// A deadline that has passed once the closure says so.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_over))
    }

    /// Asks the host.
    pub fn is_over(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deadline")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_an_account_and_renewed_ones_do_not() {
        let budget = Budget::new(10);
        budget.spend(6).unwrap();
        let clone = budget.clone();
        assert_eq!(clone.spend(5), Err(ExceededError { limit: 10 }));
        assert_eq!(budget.spend(0), Err(ExceededError { limit: 10 }));
        assert_eq!(budget.renewed().spend(10), Ok(()));
        assert_eq!(budget.spent(), 11);
        assert!(budget.spend(u64::MAX).is_err());
    }
}
