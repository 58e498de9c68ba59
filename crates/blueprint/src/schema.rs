//! JSON schemas of imports and exports (`blueprints.md` 3.7).
//!
//! ```text
//! schema as written --references--> one document without foreign references --dialect--> compiled --cost--> violations
//! ```

mod cost;
mod dialect;
mod references;

use std::sync::LazyLock;

use groundwork_api::Blueprint;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};

use crate::filesystem::Filesystem;
use dialect::Dialect;

pub use references::{ForeignSchema, ReferenceError, SchemaSource};

/// Compiled patterns may not take more than this.
const LARGEST_PATTERN: usize = 10 << 20;

/// The formats of `blueprints.md` 3.7.1, which are asserted whatever the dialect.
///
/// `idn-email` belongs to them as well, see [`is_international_email`].
const ASSERTED_FORMATS: [&str; 16] = [
    "date",
    "date-time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// A validator for each asserted format. Older drafts do not know all of them, so the newest one is asked.
static FORMATS: LazyLock<[Validator; ASSERTED_FORMATS.len()]> =
    LazyLock::new(|| ASSERTED_FORMATS.map(format_validator));
static EMAIL: LazyLock<Validator> = LazyLock::new(|| format_validator("email"));

fn format_validator(format: &str) -> Validator {
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
    options.build(&json!({"format": format})).expect("a schema of one constant keyword compiles")
}

/// An address in which letters and digits of any script may stand: the engine knows the format only together
/// with the tables of international domain names.
fn is_international_email(text: &str) -> bool {
    let plain = |letter: char| if !letter.is_ascii() && letter.is_alphanumeric() { 'x' } else { letter };
    EMAIL.is_valid(&Value::String(text.chars().map(plain).collect()))
}

/// Formats that are not asserted although the engine knows them.
const TOLERATED_FORMATS: [&str; 2] = ["duration", "idn-hostname"];

/// Checks that schemas are schemas (rule G4), without following foreign references.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    default_dialect: &'a str,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(definition: &'a Blueprint) -> Self {
        Self { default_dialect: definition.json_schema_version.as_deref().unwrap_or_default() }
    }

    pub(crate) fn check(&self, schema: &Value) -> Result<(), String> {
        let dialect = Dialect::of(schema, self.default_dialect)?;
        let schema = dialect.normalise(schema.clone());
        dialect.check(&schema)
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    document: Value,
}

/// Why a schema could not be compiled. SCH-001 and SCH-002 for references.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("error compiling jsonschema: {0}")]
    Reference(#[from] ReferenceError),
    #[error("error compiling jsonschema: {0}")]
    Invalid(String),
}

/// One place where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// Dotted path of the value, `(root)` for the whole value.
    pub path: String,
    /// What is expected there. Holds texts of the schema, never of the value.
    pub problem: String,
}

impl std::fmt::Display for SchemaViolation {
    /// The value itself never shows: it may come from a Secret (`blueprints.md` 10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: Invalid value: <redacted>: {}", self.path, self.problem)
    }
}

impl Schema {
    /// Resolves references and compiles. `source` gives the documents behind `cd://`, if there is a component.
    ///
    /// # Errors
    ///
    /// A reference leads nowhere or in a circle, or the document is no schema.
    pub fn compile(
        schema: &Value,
        definition: &Blueprint,
        files: &Filesystem,
        source: Option<&dyn SchemaSource>,
    ) -> Result<Self, SchemaError> {
        let default_dialect = definition.json_schema_version.as_deref().unwrap_or_default();
        let dialect = Dialect::of(schema, default_dialect).map_err(SchemaError::Invalid)?;
        let resolved = references::resolve(schema, &definition.local_types, files, source)?;
        let resolved = dialect.normalise(resolved);
        cost::check_chains(&resolved).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let mut options = jsonschema::options()
            .with_draft(dialect.draft())
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN));
        for (index, format) in ASSERTED_FORMATS.into_iter().enumerate() {
            options = options.with_format(format, move |text: &str| FORMATS[index].is_valid(&json!(text)));
        }
        options = options.with_format("idn-email", is_international_email);
        for format in TOLERATED_FORMATS {
            options = options.with_format(format, |_: &str| true);
        }
        let validator = options.build(&resolved).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Self { validator, document: resolved })
    }

    /// Every place where `value` does not fit. A check that would take too long is not made, and that is what is found.
    pub fn violations(&self, value: &Value) -> Vec<SchemaViolation> {
        if let Err(error) = cost::check(&self.document, value) {
            return vec![SchemaViolation { path: "(root)".to_owned(), problem: error.to_string() }];
        }
        let mut violations: Vec<SchemaViolation> = Vec::new();
        for violation in self.validator.iter_errors(value).map(|error| violation(&error, value)) {
            if !violations.contains(&violation) {
                violations.push(violation);
            }
        }
        violations
    }
}

fn violation(error: &ValidationError<'_>, root: &Value) -> SchemaViolation {
    let pointer = error.instance_path().as_str();
    let path = match pointer.strip_prefix('/') {
        None | Some("") => "(root)".to_owned(),
        Some(path) => path.split('/').map(unescape).collect::<Vec<_>>().join("."),
    };
    let problem = problem(error, &path, root);
    SchemaViolation { path, problem }
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The wording of `blueprints.md` 3.7.3. Texts that quote the value are not taken over from the engine.
fn problem(error: &ValidationError<'_>, path: &str, root: &Value) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Required { property } => format!("{} is required", property.as_str().unwrap_or_default()),
        Kind::Type { kind } => {
            format!(
                "Invalid type. Expected: {}, given: {}",
                expected_types(kind),
                type_name(error.instance())
            )
        }
        Kind::Enum { options } => {
            let options = options
                .as_array()
                .map(|options| options.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            format!("{path} must be one of the following: {}", options.unwrap_or_default())
        }
        Kind::Constant { expected_value } => format!("{path} does not match: {expected_value}"),
        Kind::Pattern { pattern } => format!("Does not match pattern '{pattern}'"),
        Kind::Format { format } => format!("Does not match format '{format}'"),
        Kind::MinLength { limit } => format!("String length must be greater than or equal to {limit}"),
        Kind::MaxLength { limit } => format!("String length must be less than or equal to {limit}"),
        Kind::Minimum { limit } => format!("Must be greater than or equal to {limit}"),
        Kind::Maximum { limit } => format!("Must be less than or equal to {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("Must be greater than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("Must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("Must be a multiple of {multiple_of}"),
        Kind::MinItems { limit } => format!("Array must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("Array must have at most {limit} items"),
        Kind::UniqueItems => "array items must be unique".to_owned(),
        Kind::MinProperties { limit } => format!("Must have at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("Must have at most {limit} properties"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("Additional property {} is not allowed", unexpected.join(", "))
        }
        Kind::AdditionalItems { .. } => "No additional items allowed on array".to_owned(),
        Kind::AnyOf { .. } => "Must validate at least one schema (anyOf)".to_owned(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "Must validate one and only one schema (oneOf)".to_owned()
        }
        Kind::Not { .. } => "Must not validate the schema (not)".to_owned(),
        Kind::Contains => "At least one of the items must match".to_owned(),
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            // `additionalProperties: false` without any properties: the engine reports the object's place and
            // not the names.
            let holder = root.pointer(error.instance_path().as_str()).and_then(Value::as_object);
            let names: Vec<&str> = holder.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            format!("Additional property {} is not allowed", names.join(", "))
        }
        Kind::FalseSchema => "False always fails validation".to_owned(),
        other => format!("does not satisfy the keyword {}", other.keyword()),
    }
}

fn expected_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(name) => name.to_string(),
        TypeKind::Multiple(names) => {
            format!("[{}]", names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(","))
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
