//! Cache of the patterns of `matches`, for all expressions that are evaluated together. The
//! interpreter would compile them at each call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use groundwork_go::regexp::{self, Pattern};

use crate::value::EvalError;

/// Largest total weight of the patterns (see [`regexp::weight`]): a hundred megabytes and half a
/// second.
const MOST_WEIGHT: usize = 1_000_000;
/// Maximum of bytes of texts times the weight of the pattern searched in them, for all expressions
/// together: a second at worst.
const MOST_SEARCHED: usize = 200_000_000;

/// Compiled patterns, or the errors of texts that are not patterns.
#[derive(Debug)]
pub struct Patterns {
    /// The owner of the patterns, in messages: `this set`.
    of: &'static str,
    most_weight: usize,
    most_searched: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    compiled: HashMap<String, Result<Pattern, String>>,
    weight: usize,
    searched: usize,
}

impl Known {
    fn add(&mut self, of: &str, most: usize, weight: usize) -> Result<(), EvalError> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > most {
            return Err(EvalError::new(format!(
                "the patterns of {of} are too many or too large: use fewer, without counted repetitions"
            )));
        }
        Ok(())
    }
}

impl Patterns {
    /// Creates an empty cache. `of` names the owner of the patterns in messages: `this set`.
    pub fn new(of: &'static str) -> Self {
        Self { of, most_weight: MOST_WEIGHT, most_searched: MOST_SEARCHED, known: Mutex::default() }
    }

    /// Divides the limits by `part`, for a host that evaluates on a shared thread.
    #[must_use]
    pub fn limited_to(self, part: usize) -> Self {
        let part = part.max(1);
        Self { most_weight: MOST_WEIGHT / part, most_searched: MOST_SEARCHED / part, ..self }
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
            known.add(self.of, self.most_weight, 200 + regexp::reading_weight(pattern))?;
            known.add(self.of, self.most_weight, regexp::weight(pattern))?;
            known.compiled.insert(pattern.to_owned(), Pattern::compile(pattern));
        }
        let Known { compiled, searched, .. } = &mut *known;
        match &compiled[pattern] {
            Ok(pattern) => {
                *searched = searched.saturating_add(text.len().saturating_mul(1 + pattern.weight()));
                if *searched > self.most_searched {
                    return Err(EvalError::new(format!(
                        "the patterns of {} are searched in too much text: use shorter texts, or patterns without counted repetitions",
                        self.of
                    )));
                }
                Ok(pattern.regex().is_match(text))
            }
            Err(error) => Err(EvalError::new(format!("error parsing regexp: {error}"))),
        }
    }
}
