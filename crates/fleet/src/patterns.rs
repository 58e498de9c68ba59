//! Patterns of `matches`, compiled once for all targets of a set. The interpreter would compile them at each call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cel::{ExecutionError, Value};
use regex::{Regex, RegexBuilder};

/// What all patterns of a set may weigh together, see [`weight`].
const MOST_WEIGHT: usize = 500_000;
/// What a counted repetition or a class of characters multiplies the weight of a pattern by: both stand for many characters.
const HEAVY: usize = 500;
/// Largest compiled pattern, in bytes.
const MOST_BYTES: usize = 10 << 20;

/// How the interpreter calls `matches`, which messages are told by.
pub(crate) const MATCHES: &str = "matches";
/// The function whose failure says that the patterns of a set are too many.
pub(crate) const TOO_MANY: &str = "@patterns";

/// Compiled patterns, or nothing for texts that are none.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    compiled: HashMap<String, Option<Regex>>,
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
    /// Arguments that are no texts, a text that is no pattern, and patterns that are too many for one set.
    pub(crate) fn matches(&self, text: &Value, pattern: &Value) -> Result<Value, ExecutionError> {
        let failed = |function: &str| {
            Err(ExecutionError::FunctionError { function: function.to_owned(), message: String::new() })
        };
        let (Value::String(text), Value::String(pattern)) = (text, pattern) else {
            // Told as that there is no such overload.
            return Err(ExecutionError::MissingArgumentOrTarget);
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.compiled.contains_key(pattern.as_str()) {
            known.weight = known.weight.saturating_add(weight(pattern));
            if known.weight > MOST_WEIGHT {
                return failed(TOO_MANY);
            }
            let compiled = RegexBuilder::new(pattern).size_limit(MOST_BYTES).build();
            known.compiled.insert(pattern.to_string(), compiled.ok());
        }
        match &known.compiled[pattern.as_str()] {
            Some(regex) => Ok(Value::Bool(regex.is_match(text))),
            None => failed(MATCHES),
        }
    }
}
