//! Patterns of `matches`, compiled once for all targets of a set. The interpreter would compile them at each call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use groundwork_cel::EvalError;
use groundwork_go::regexp::Pattern;
use regex::Regex;

/// What all patterns of a set may weigh together, see [`weight`].
const MOST_WEIGHT: usize = 500_000;
/// What a counted repetition or a class of characters multiplies the weight of a pattern by: both stand for many characters.
const HEAVY: usize = 500;

/// Compiled patterns, or what is wrong with texts that are none.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    compiled: HashMap<String, Result<Regex, String>>,
    weight: usize,
}

/// What it takes to compile a pattern, in bytes that are plain characters.
fn weight(pattern: &str) -> usize {
    let is_heavy = pattern.contains(['{', '\\', '[']);
    (16 + pattern.len()).saturating_mul(if is_heavy { HEAVY } else { 1 })
}

impl Patterns {
    /// `text.matches(pattern)`.
    ///
    /// # Errors
    ///
    /// A text that is no pattern, and patterns that are too many for one set.
    pub(crate) fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.compiled.contains_key(pattern) {
            known.weight = known.weight.saturating_add(weight(pattern));
            if known.weight > MOST_WEIGHT {
                return Err(EvalError::new(
                    "the patterns of this set are too many or too large: use fewer, without counted repetitions",
                ));
            }
            let compiled = Pattern::compile(pattern).map(|pattern| pattern.regex().clone());
            known.compiled.insert(pattern.to_owned(), compiled);
        }
        match &known.compiled[pattern] {
            Ok(regex) => Ok(regex.is_match(text)),
            Err(error) => Err(EvalError::new(format!("error parsing regexp: {error}"))),
        }
    }
}
