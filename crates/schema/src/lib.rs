//! JSON Schema as blueprints use it: the dialect of a schema, the asserted formats, a bound on the
//! cost of a check, and the messages about violations (`blueprints.md` 3.7).
//!
//! ```text
//! document + default dialect --dialect--> normalised --cost--> compiled Schema
//! Schema + value --cost--> steps are few enough --> violations
//! ```
//!
//! References are followed inside the document only; [`bundle`] embeds other documents before. This
//! is a crate of its own because the library behind it is instantiated in the calling crate, which
//! takes long to compile.

mod bundle;
mod cost;
mod dialect;
mod explain;
mod formats;
mod metaschema;
mod rings;
mod violation;

use std::collections::HashSet;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

pub use bundle::{Bundle, BundleError, bundle, joined};
pub use dialect::{DEFAULT_DIALECT, Dialect};
pub use explain::{Finding, PLACE};
pub use formats::Formats;
pub use violation::Violation;

/// Largest size in bytes of the messages about one value, repeated ones included.
const MOST_WORDS: usize = 32 << 20;
/// Largest size of a compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 10 << 20;

/// The reason why a document cannot be used as a schema, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchemaError(String);

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    document: Value,
    dialect: Dialect,
    formats: Formats,
    /// Number of rules for the quick bound on the cost of a check, see [`cost::expansion`].
    expansion: Option<u64>,
    /// Total weight of the schema's patterns.
    patterns: usize,
    /// True if rules lead back to themselves at one place.
    has_ring: bool,
}

impl Schema {
    /// Compiles a document that is written in this dialect.
    ///
    /// # Errors
    ///
    /// The document is not a schema, or its rules lead to one another too often to be followed.
    pub fn compile(document: Value, dialect: Dialect) -> Result<Self, InvalidSchemaError> {
        Self::compile_with(document, dialect, Formats::Original)
    }

    /// Compiles a document, with other formats.
    ///
    /// # Errors
    ///
    /// As [`Schema::compile`].
    pub fn compile_with(
        document: Value,
        dialect: Dialect,
        formats: Formats,
    ) -> Result<Self, InvalidSchemaError> {
        let document = dialect.normalise(document);
        // The engine recurses along the rules and compiles all patterns while it builds the
        // validator, so both are limited before.
        cost::check_chains(&document).map_err(|error| InvalidSchemaError(error.to_string()))?;
        let patterns =
            cost::check_patterns(&document).map_err(|error| InvalidSchemaError(error.to_string()))?;
        let options = jsonschema::options()
            .with_draft(dialect.draft())
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN));
        let validator = formats.apply(options).build(&document);
        let validator = validator.map_err(|error| InvalidSchemaError(error.to_string()))?;
        let expansion = cost::expansion(&document);
        let has_ring = expansion.is_none() && rings::has_ring(&document);
        Ok(Self { validator, document, dialect, formats, expansion, patterns, has_ring })
    }

    /// Returns true if a value fits. The cost of the check is not limited.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the faults of `value` as a tree; empty if it fits. The messages quote the value. If
    /// the check would take too long, it is not done, and the only finding says so.
    pub fn findings(&self, value: &Value) -> Vec<Finding> {
        if let Err(error) = cost::check(&self.document, value, self.expansion, self.patterns) {
            return vec![Finding::root(error.to_string())];
        }
        // The engine treats a ring of rules as fitting, so its answer does not count for such a
        // schema.
        if !self.has_ring && self.validator.is_valid(value) {
            return Vec::new();
        }
        let explainer = explain::Explainer::new(&self.document, self.dialect.draft(), self.formats);
        let explainer = if self.has_ring { explainer.bounded() } else { explainer };
        let findings = explainer.explain(value);
        if explainer.is_exhausted() {
            return vec![Finding::root(cost::TooExpensive::Steps.to_string())];
        }
        if findings.is_empty() && !self.has_ring {
            // The explanation has no words for this rule, so the library's are used.
            return self.validator.iter_errors(value).map(|error| Finding::of(&error)).collect();
        }
        findings
    }

    /// Returns every place where `value` does not fit. If the check would take too long, it is not
    /// done, and the only violation says so.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if let Err(error) = cost::check(&self.document, value, self.expansion, self.patterns) {
            return vec![Violation { path: "(root)".to_owned(), problem: error.to_string() }];
        }
        let mut seen = HashSet::new();
        let violations = self.validator.iter_errors(value).map(|error| violation::violation(&error, value));
        let mut found = Vec::new();
        let mut bytes = 0;
        for violation in violations {
            if bytes > MOST_WORDS {
                let problem = "further violations are not listed".to_owned();
                found.push(Violation { path: "(root)".to_owned(), problem });
                break;
            }
            bytes += violation.path.len() + violation.problem.len();
            if seen.insert(violation.clone()) {
                found.push(violation);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
