//! How templates are parsed and executed.

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
    /// All are `float64`, as in the original.
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
    /// Nested `{{template}}` calls and nested renders.
    pub template_depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { output_bytes: 64 << 20, steps: 50_000_000, template_depth: 5_000 }
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
}
