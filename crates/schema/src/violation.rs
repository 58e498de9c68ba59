//! Messages about places where a value does not fit (`blueprints.md` 3.7.3).

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

/// One place where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Violation {
    /// Dotted path of the value, `(root)` for the whole value.
    pub path: String,
    /// Expectation at the place. It contains texts of the schema, never of the value.
    pub problem: String,
}

impl std::fmt::Display for Violation {
    /// Writes path and problem. The value itself is left out, because it may come from a Secret
    /// (`blueprints.md` 10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: Invalid value: <redacted>: {}", self.path, self.problem)
    }
}

pub(crate) fn violation(error: &ValidationError<'_>, root: &Value) -> Violation {
    let pointer = error.instance_path().as_str();
    let path = match pointer.strip_prefix('/') {
        None | Some("") => "(root)".to_owned(),
        Some(path) => path.split('/').map(unescape).collect::<Vec<_>>().join("."),
    };
    let problem = problem(error, &path, root);
    Violation { path, problem }
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Returns the wording of `blueprints.md` 3.7.3. The engine's texts that quote the value are not
/// used.
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
            // For `additionalProperties: false` without any properties, the engine reports the
            // place of the object and not the names.
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
