use std::cell::Cell;

/// Steps of one evaluation, on one thread. Once the limit is exceeded, all further steps are
/// denied, so that an evaluation which goes on after an error ends soon.
#[derive(Debug)]
pub struct Steps {
    limit: u64,
    spent: Cell<u64>,
}

impl Steps {
    /// Creates an account of this many steps.
    pub fn new(limit: u64) -> Self {
        Self { limit, spent: Cell::new(0) }
    }

    /// Accounts for steps before they are made, and reports whether they are within the limit.
    pub fn spend(&self, steps: usize) -> bool {
        self.spent.set(self.spent.get().saturating_add(steps as u64));
        !self.is_exceeded()
    }

    /// Returns the steps that have been charged.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Reports whether more steps were charged than the limit allows.
    pub fn is_exceeded(&self) -> bool {
        self.spent.get() > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exceeded_stays_so() {
        let steps = Steps::new(10);
        assert!(steps.spend(10) && !steps.is_exceeded());
        assert!(!steps.spend(1) && !steps.spend(0));
        assert_eq!((steps.spent(), steps.is_exceeded()), (11, true));
        assert!(!steps.spend(usize::MAX));
    }
}
