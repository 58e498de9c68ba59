//! What one render may spend (chapter gotemplate, section 10).

use groundwork_go::fmt::FormatError;

use crate::nesting::{MAX_DEPTH, TooDeep};
use crate::options::Limits;

/// A configured limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("template output exceeds the limit of {0} bytes")]
    Output(usize),
    #[error("template execution exceeds the limit of {0} steps")]
    Steps(u64),
    #[error("template values use more than the limit of {0} bytes")]
    Text(usize),
    #[error("template execution exceeds its time limit")]
    Time,
    #[error("value is nested deeper than {MAX_DEPTH} levels (does a map contain itself?)")]
    ValueDepth,
    #[error("exceeded maximum template depth (100000)")]
    TemplateDepth,
}

/// The deadline is asked each time this many steps (a power of two) are full.
const STEPS_PER_CHECK: u64 = 4_096;

impl From<TooDeep> for LimitError {
    fn from(_: TooDeep) -> LimitError {
        LimitError::ValueDepth
    }
}

impl From<FormatError> for LimitError {
    fn from(error: FormatError) -> LimitError {
        match error {
            FormatError::Length(limit) => LimitError::Output(limit),
            FormatError::Depth => LimitError::ValueDepth,
        }
    }
}

/// The running account of a render; nested renders share it.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Budget {
        Budget { limits, steps: 0 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Accounts for one unit of work.
    pub(crate) fn step(&mut self) -> Result<(), LimitError> {
        self.spend(1)
    }

    /// Accounts for work in proportion to `amount`, such as copied list elements.
    pub(crate) fn spend(&mut self, amount: usize) -> Result<(), LimitError> {
        let before = self.steps / STEPS_PER_CHECK;
        self.steps = self.steps.saturating_add(amount as u64);
        if self.steps > self.limits.steps {
            return Err(LimitError::Steps(self.limits.steps));
        }
        match &self.limits.deadline {
            Some(deadline) if self.steps / STEPS_PER_CHECK != before && deadline.is_over() => {
                Err(LimitError::Time)
            }
            _ => Ok(()),
        }
    }

    /// Checks the size of a text before it is built, and accounts for building it.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), LimitError> {
        if bytes > self.limits.output_bytes {
            return Err(LimitError::Text(self.limits.output_bytes));
        }
        self.spend(bytes / 64)
    }

    pub(crate) fn check_value_depth(&self, depth: usize) -> Result<(), LimitError> {
        if depth > MAX_DEPTH { Err(LimitError::ValueDepth) } else { Ok(()) }
    }
}
