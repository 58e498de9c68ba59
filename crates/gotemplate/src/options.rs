//! How templates are parsed and executed.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use groundwork_budget::{Budget, Deadline, TemplateLimits};

use crate::grants::Grants;

/// What a missing map key gives (section 1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// An absent value; chains over it stay absent. Go's `default` and `invalid`.
    #[default]
    Default,
    /// The zero of the map's value type: null, or `""` for `map[string]string`.
    Zero,
    /// An execution error.
    Error,
}

/// Which Go type numbers from data get (section 13.1; chapter blueprints, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberMode {
    /// All are `float64`, as in Go.
    #[default]
    Float64,
    /// Integral ones are `int64`.
    Int64,
    /// Integral ones are `int`.
    Int,
    /// Data numbers: `float64` by name, exact and usable as integers when integral. Also holds for float literals
    /// and for float results of functions.
    Data,
}

/// Bounds of one render, nested renders included (section 10).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest output, and largest single text that a function builds.
    pub output_bytes: usize,
    /// Evaluated nodes plus list elements and text that functions work through.
    pub steps: u64,
    /// Largest memory that all values of the render hold at a time, with its unfinished outputs; roughly what the process needs for them.
    pub value_bytes: usize,
    /// Nested `{{template}}` calls and nested renders.
    pub template_depth: usize,
    /// When to give up, however little was done.
    pub deadline: Option<Deadline>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            output_bytes: 64 << 20,
            steps: 50_000_000,
            value_bytes: 192 << 20,
            template_depth: 5_000,
            deadline: None,
        }
    }
}

/// Those of a template of a blueprint, without a deadline.
impl From<TemplateLimits> for Limits {
    fn from(limits: TemplateLimits) -> Limits {
        Limits { steps: limits.work_of_go(), value_bytes: limits.memory_of_go(), ..Limits::default() }
    }
}

/// The marks around actions; an empty one stands for the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delimiters {
    pub left: String,
    pub right: String,
}

impl Default for Delimiters {
    fn default() -> Delimiters {
        Delimiters { left: "{{".to_string(), right: "}}".to_string() }
    }
}

impl Delimiters {
    pub(crate) fn left(&self) -> &str {
        if self.left.is_empty() { "{{" } else { &self.left }
    }

    pub(crate) fn right(&self) -> &str {
        if self.right.is_empty() { "}}" } else { &self.right }
    }
}

/// Settings of a template and of everything it renders.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub missing_key: MissingKey,
    pub numbers: NumberMode,
    pub limits: Limits,
    pub delimiters: Delimiters,
    pub grants: Grants,
}

/// What a program gives to one render of a template that it has parsed before: what stands here counts instead of what the options of
/// the template say.
#[derive(Clone, Default)]
pub struct Host {
    /// What the program's own functions work on, see [`crate::Context::host`].
    pub data: Option<Arc<dyn Any + Send + Sync>>,
    pub grants: Grants,
    pub deadline: Option<Deadline>,
    /// What this render shares with others, besides the limits of its own.
    pub budget: Option<Budget>,
    /// Limits of this render; its deadline is the one above.
    pub limits: Option<Limits>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("data", &self.data.is_some())
            .field("grants", &self.grants)
            .field("deadline", &self.deadline)
            .field("budget", &self.budget)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody gets other limits by setting what is the default.
    #[test]
    fn defaults_of_operators_are_those_of_the_engine() {
        let (own, given) = (Limits::default(), Limits::from(TemplateLimits::default()));
        assert_eq!((given.steps, given.value_bytes), (own.steps, own.value_bytes));
    }
}
