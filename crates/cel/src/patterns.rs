//! Cache of the patterns of `matches`, for all expressions that are evaluated together. The
//! interpreter would compile them at each call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use groundwork_budget::Steps;
use groundwork_go::regexp::{self, Pattern};

use crate::value::EvalError;

/// Steps for compiling and searching the patterns of all expressions together: a second at worst.
const STEPS: u64 = groundwork_budget::DEFAULT_STEPS / 2;

/// Compiled patterns, or the errors of texts that are not patterns.
#[derive(Debug)]
pub struct Patterns {
    /// The owner of the patterns, in messages: `this set`.
    of: &'static str,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    compiled: HashMap<String, Result<Pattern, String>>,
    steps: Steps,
}

impl Known {
    fn new(limit: u64) -> Mutex<Self> {
        Mutex::new(Self { compiled: HashMap::new(), steps: Steps::new(limit) })
    }

    fn spend(&self, steps: usize, of: &str) -> Result<(), EvalError> {
        if self.steps.spend(steps) {
            return Ok(());
        }
        Err(EvalError::new(format!(
            "the patterns of {of} are too many or too large, or are searched in too much text: use fewer, without counted \
             repetitions, and shorter texts"
        )))
    }
}

impl Patterns {
    /// Creates an empty cache. `of` names the owner of the patterns in messages: `this set`.
    pub fn new(of: &'static str) -> Self {
        Self { of, known: Known::new(STEPS) }
    }

    /// Divides the limit by `part`, for a host that evaluates on a shared thread.
    #[must_use]
    pub fn limited_to(self, part: u64) -> Self {
        Self { known: Known::new(STEPS / part.max(1)), ..self }
    }

    /// Evaluates `text.matches(pattern)`.
    ///
    /// # Errors
    ///
    /// A text that is not a pattern, and patterns that exceed the limits together, or are searched
    /// in too much text.
    pub fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.compiled.contains_key(pattern) {
            regexp::account(pattern, |steps| known.spend(steps, self.of))?;
            known.compiled.insert(pattern.to_owned(), Pattern::compile(pattern));
        }
        match &known.compiled[pattern] {
            Ok(pattern) => {
                known.spend(1 + pattern.searching_steps(text.len()), self.of)?;
                Ok(pattern.regex().is_match(text))
            }
            Err(error) => Err(EvalError::new(format!("error parsing regexp: {error}"))),
        }
    }
}
