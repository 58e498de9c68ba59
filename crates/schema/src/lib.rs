//! JSON Schema as blueprints use it: which dialect a schema is written in, which formats count, whether a check comes to an end,
//! and in which words a violation is told (`blueprints.md` 3.7).
//!
//! ```text
//! document + default dialect --dialect--> normalised --cost--> compiled Schema
//! Schema + value --cost--> steps are few enough --> violations
//! ```
//!
//! References are followed inside the document only; [`bundle`] embeds what leads elsewhere before. A crate of its own because the
//! library behind it is instantiated where it is called, which takes long to compile.

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

/// Bytes of what is said about violations of one value, those that are said twice included.
const MOST_WORDS: usize = 32 << 20;
/// Compiled patterns may not take more than this, in bytes.
const LARGEST_PATTERN: usize = 10 << 20;

/// Why a document cannot be used as a schema, as a sentence.
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
    /// What bounds the cost of a check.
    expansion: Option<u64>,
    /// What its patterns weigh together.
    patterns: usize,
    /// True if rules lead back to themselves at one place.
    has_ring: bool,
}

impl Schema {
    /// Compiles a document that is written in this dialect.
    ///
    /// # Errors
    ///
    /// The document is no schema, or its rules lead to one another too often to be followed.
    pub fn compile(document: Value, dialect: Dialect) -> Result<Self, InvalidSchemaError> {
        Self::compile_with(document, dialect, Formats::Original)
    }

    /// The same with other formats.
    ///
    /// # Errors
    ///
    /// As those of [`Schema::compile`].
    pub fn compile_with(
        document: Value,
        dialect: Dialect,
        formats: Formats,
    ) -> Result<Self, InvalidSchemaError> {
        let document = dialect.normalise(document);
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

    /// True if a value fits; what that costs is not counted.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Why `value` does not fit, as a tree; empty if it does. The messages quote the value. A check that would take too long is not made, and
    /// that is what is found.
    pub fn findings(&self, value: &Value) -> Vec<Finding> {
        if let Err(error) = cost::check(&self.document, value, self.expansion, self.patterns) {
            return vec![Finding::root(error.to_string())];
        }
        // The engine takes a ring of rules for one that fits.
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
            // A rule that is not explained: in the library's words.
            return self.validator.iter_errors(value).map(|error| Finding::of(&error)).collect();
        }
        findings
    }

    /// Every place where `value` does not fit. A check that would take too long is not made, and that is what is found.
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
                let problem = "there are further violations, which are not told".to_owned();
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
