//! Limits on work for untrusted content. They count work instead of time, so that a document has
//! the same outcome on every machine.
//!
//! * [`Budget`]: steps of several engines together, such as all executions of one blueprint.
//! * [`Steps`]: steps of one evaluation.
//! * [`TemplateLimits`]: the limits that an operator sets for templates.
//! * [`live_bytes`]: the bytes of an engine's live values.
//!
//! A step is one evaluated node, one element that is read or made, or [`BYTES_PER_STEP`] bytes of
//! text that are read: about forty nanoseconds of one core. Engines charge before they work. What
//! they undercount ends at the limits of the worker process (`crates/sandbox`).

pub mod live_bytes;
mod steps;
mod template_limits;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use steps::Steps;
pub use template_limits::TemplateLimits;

/// Steps that all engines of one operation share. Clones share the same account.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    spent: AtomicU64,
}

/// The work of one operation exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all templates together take more than the limit of {limit} steps; let them do less, divide the blueprint, or raise --template-work"
)]
pub struct ExceededError {
    pub limit: u64,
}

/// Default limit of an operation, in steps: two seconds of one core.
pub const DEFAULT_STEPS: u64 = 50_000_000;
/// Bytes of text that an engine reads in the time of a step.
pub const BYTES_PER_STEP: usize = 16;

impl Budget {
    /// Creates a budget of this many steps.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account { limit, spent: AtomicU64::new(0) }))
    }

    /// Returns a budget with the initial limit of this one and an account of its own.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self::new(self.0.limit)
    }

    /// Accounts for work that is about to be done.
    ///
    /// # Errors
    ///
    /// The budget is spent. All later calls fail, too.
    pub fn spend(&self, steps: u64) -> Result<(), ExceededError> {
        let spent = self.0.spent.load(Ordering::Relaxed).saturating_add(steps);
        // The separate load and store could lose steps if two threads spent at a time, but each
        // account is used by one thread at a time.
        self.0.spent.store(spent, Ordering::Relaxed);
        if spent > self.0.limit { Err(ExceededError { limit: self.0.limit }) } else { Ok(()) }
    }

    /// Returns the steps that have been charged.
    pub fn spent(&self) -> u64 {
        self.0.spent.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_STEPS)
    }
}

/// Parts of a step, for accounts that count single bytes: about a nanosecond.
pub const PARTS_PER_STEP: u64 = 40;

/// A callback to the host that reports whether the time of an operation is over. Engines call it
/// every few thousand steps, so it limits the operation as a whole; a single call is limited by the
/// steps that it charges.
#[derive(Clone)]
pub struct Deadline(Arc<dyn Fn() -> bool + Send + Sync>);

impl Deadline {
    /// Creates a deadline that is over once the closure returns true.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_over))
    }

    /// Reports whether the deadline is over.
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
