//! What one render may spend (chapter gotemplate, section 10).

use groundwork_budget::{ExceededError, held};
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
    #[error("template values hold more than the limit of {0} bytes at a time")]
    Held(usize),
    #[error(transparent)]
    Work(#[from] ExceededError),
    #[error("template execution exceeds its time limit")]
    Time,
    #[error("value is nested deeper than {MAX_DEPTH} levels (does a map contain itself?)")]
    ValueDepth,
    #[error("exceeded maximum template depth (100000)")]
    TemplateDepth,
}

/// Pieces of a formatted text, see [`groundwork_go::fmt::Sink::take_pieces`], that take as long as a step.
const PIECES_PER_STEP: usize = 2;

/// What a step takes, in the units that engines share.
const UNITS_PER_STEP: u64 = 4;

fn units(steps: u64) -> u64 {
    steps.saturating_mul(UNITS_PER_STEP)
}

/// The deadline is asked each time this many steps (a power of two) are full.
const STEPS_PER_CHECK: u64 = 4_096;

impl From<TooDeep> for LimitError {
    fn from(_: TooDeep) -> LimitError {
        LimitError::ValueDepth
    }
}

/// The running account of a render; nested renders share it.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: u64,
    /// What the render shares with others; it learns of steps when some thousand are full, and at the end.
    shared: Option<groundwork_budget::Budget>,
    reported: u64,
    /// What this thread held when the render began.
    start: isize,
}

impl Budget {
    pub(crate) fn new(limits: Limits, shared: Option<groundwork_budget::Budget>) -> Budget {
        Budget { limits, steps: 0, shared, reported: 0, start: held::now() }
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
        self.reserve(0)?;
        if self.steps / STEPS_PER_CHECK != before { self.report() } else { Ok(()) }
    }

    /// Pieces of formatted text that the steps which are left suffice for.
    pub(crate) fn pieces(&self) -> usize {
        let left = self.limits.steps.saturating_sub(self.steps);
        usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(PIECES_PER_STEP)
    }

    /// Accounts for pieces of formatted text.
    pub(crate) fn spend_pieces(&mut self, pieces: usize) -> Result<(), LimitError> {
        self.spend(pieces / PIECES_PER_STEP)
    }

    /// Why a formatted text was not finished.
    pub(crate) fn refusal(&self, error: FormatError) -> LimitError {
        match error {
            FormatError::Length(limit) => LimitError::Output(limit),
            FormatError::Pieces => LimitError::Steps(self.limits.steps),
            FormatError::Depth => LimitError::ValueDepth,
        }
    }

    /// What has to be asked from time to time.
    #[cold]
    fn report(&mut self) -> Result<(), LimitError> {
        if let Some(shared) = &self.shared {
            shared.spend(units(self.steps - self.reported))?;
            self.reported = self.steps;
        }
        match &self.limits.deadline {
            Some(deadline) if deadline.is_over() => Err(LimitError::Time),
            _ => Ok(()),
        }
    }

    /// Checks that the values of the render may hold so many bytes more.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), LimitError> {
        if held::since(self.start).saturating_add(bytes) > self.limits.value_bytes {
            return Err(LimitError::Held(self.limits.value_bytes));
        }
        Ok(())
    }

    /// Checks the size of a text before it is built, and accounts for building it.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), LimitError> {
        if bytes > self.limits.output_bytes {
            return Err(LimitError::Text(self.limits.output_bytes));
        }
        // Once while it is built, and once as a value.
        self.reserve(bytes.saturating_mul(2))?;
        self.spend(bytes / 64)
    }

    pub(crate) fn check_value_depth(&self, depth: usize) -> Result<(), LimitError> {
        if depth > MAX_DEPTH { Err(LimitError::ValueDepth) } else { Ok(()) }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // Whoever goes on with the account learns that it is empty.
            let _ = shared.spend(units(self.steps - self.reported));
        }
    }
}
