//! Settings for parsing and executing templates.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use groundwork_budget::{Budget, DEFAULT_STEPS, Deadline, TemplateLimits};

use crate::grants::Grants;

/// The result of looking up a missing map key (`gotemplate.md` 1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// An absent value, and fields of it stay absent. Go's `default` and `invalid`.
    #[default]
    Default,
    /// The zero of the map's value type: null, or `""` for `map[string]string`.
    Zero,
    /// An execution error.
    Error,
}

/// The Go type of numbers from data (`gotemplate.md` 13.1; `blueprints.md` 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberMode {
    /// All numbers are `float64`, as in Go.
    #[default]
    Float64,
    /// Integral numbers are `int64`.
    Int64,
    /// Integral numbers are `int`.
    Int,
    /// Data numbers: `float64` by name, exact and usable as integers when integral. The mode also
    /// applies to float literals and to float results of functions.
    Data,
}

/// Bounds of one render, nested renders included (`gotemplate.md` 10).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest output, and largest single text that a function builds.
    pub output_bytes: usize,
    /// Evaluated nodes, plus list elements and text that functions work through.
    pub steps: u64,
    /// Largest memory of all live values of the render together with its unfinished outputs, in
    /// bytes. The number is close to the memory that the process needs for them.
    pub value_bytes: usize,
    /// Deepest nesting of `{{template}}` calls and nested renders.
    pub template_depth: usize,
    /// Time at which the render stops, however few steps it has taken.
    pub deadline: Option<Deadline>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            output_bytes: 64 << 20,
            steps: DEFAULT_STEPS,
            value_bytes: 192 << 20,
            template_depth: 5_000,
            deadline: None,
        }
    }
}

/// Takes over the limits that operators set for templates of a blueprint; there is no deadline
/// among them.
impl From<TemplateLimits> for Limits {
    fn from(limits: TemplateLimits) -> Limits {
        Limits { steps: limits.steps(), value_bytes: limits.memory_of_go(), ..Limits::default() }
    }
}

/// The marks around actions. An empty mark stands for the default.
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

/// Settings of one render of a parsed template. They replace those in the options of the template.
#[derive(Clone, Default)]
pub struct Host {
    /// Data for the program's own functions, see [`crate::Context::host`].
    pub data: Option<Arc<dyn Any + Send + Sync>>,
    pub grants: Grants,
    pub deadline: Option<Deadline>,
    /// Budget that this render shares with others, in addition to its own limits.
    pub budget: Option<Budget>,
    /// Limits of this render. The deadline is taken from `deadline` above.
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

    /// An operator who sets the documented default must not get other limits than with no setting.
    #[test]
    fn defaults_of_operators_are_those_of_the_engine() {
        let (own, given) = (Limits::default(), Limits::from(TemplateLimits::default()));
        assert_eq!((given.steps, given.value_bytes), (own.steps, own.value_bytes));
    }
}
