//! The account of what one render may spend: steps, memory and time (`gotemplate.md` 10).

use groundwork_budget::{ExceededError, live_bytes};
use groundwork_go::fmt::FormatError;

use crate::nesting::{MAX_DEPTH, TooDeep};
use crate::options::Limits;

/// A limit of the render was reached. Users see these texts in error messages.
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

/// Pieces of a formatted text (see [`groundwork_go::fmt::Sink::take_pieces`]) that take as long as
/// one step.
const PIECES_PER_STEP: usize = 2;

/// Steps for an entry of a map that is read or made: its key is hashed and compared.
const STEPS_PER_ENTRY: usize = 4;

/// Bytes of text that are made in the time of a step.
const MADE_PER_STEP: usize = 64;

/// Steps (a power of two) between two checks of the deadline and of the shared budget.
const STEPS_PER_CHECK: u64 = 4_096;

impl From<TooDeep> for LimitError {
    fn from(_: TooDeep) -> LimitError {
        LimitError::ValueDepth
    }
}

/// Running account of a render; nested renders share it.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: u64,
    /// Budget that the render shares with others. Steps are reported to it after every
    /// [`STEPS_PER_CHECK`], and at the end.
    shared: Option<groundwork_budget::Budget>,
    reported: u64,
    /// Live bytes of this thread's values when the render began.
    start: isize,
}

impl Budget {
    pub(crate) fn new(limits: Limits, shared: Option<groundwork_budget::Budget>) -> Budget {
        Budget { limits, steps: 0, shared, reported: 0, start: live_bytes::now() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Accounts for one step.
    pub(crate) fn step(&mut self) -> Result<(), LimitError> {
        self.spend(1)
    }

    /// Accounts for entries of maps.
    pub(crate) fn spend_entries(&mut self, entries: usize) -> Result<(), LimitError> {
        self.spend(entries.saturating_mul(STEPS_PER_ENTRY))
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

    /// Returns how many pieces of formatted text the remaining steps pay for.
    pub(crate) fn pieces(&self) -> usize {
        let left = self.limits.steps.saturating_sub(self.steps);
        usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(PIECES_PER_STEP)
    }

    /// Accounts for pieces of formatted text.
    pub(crate) fn spend_pieces(&mut self, pieces: usize) -> Result<(), LimitError> {
        self.spend(pieces / PIECES_PER_STEP)
    }

    /// Returns the limit that stopped the formatting of a text.
    pub(crate) fn refusal(&self, error: FormatError) -> LimitError {
        match error {
            FormatError::Length(limit) => LimitError::Output(limit),
            FormatError::Pieces => LimitError::Steps(self.limits.steps),
            FormatError::Depth => LimitError::ValueDepth,
        }
    }

    /// Reports the steps to the shared budget and checks the deadline.
    #[cold]
    fn report(&mut self) -> Result<(), LimitError> {
        if let Some(shared) = &self.shared {
            shared.spend(self.steps - self.reported)?;
            self.reported = self.steps;
        }
        match &self.limits.deadline {
            Some(deadline) if deadline.is_over() => Err(LimitError::Time),
            _ => Ok(()),
        }
    }

    /// Checks that the values of the render may take this many more bytes.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), LimitError> {
        if live_bytes::since(self.start).saturating_add(bytes) > self.limits.value_bytes {
            return Err(LimitError::Held(self.limits.value_bytes));
        }
        Ok(())
    }

    /// Checks the size of a text before it is built, and accounts for building it.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), LimitError> {
        if bytes > self.limits.output_bytes {
            return Err(LimitError::Text(self.limits.output_bytes));
        }
        // The text exists twice for a moment: as the buffer in which it is built, and as the
        // finished value.
        self.reserve(bytes.saturating_mul(2))?;
        self.spend(bytes / MADE_PER_STEP)
    }

    pub(crate) fn check_value_depth(&self, depth: usize) -> Result<(), LimitError> {
        if depth > MAX_DEPTH { Err(LimitError::ValueDepth) } else { Ok(()) }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // A drop cannot fail. The next render on the shared budget gets the error instead.
            let _ = shared.spend(self.steps - self.reported);
        }
    }
}
