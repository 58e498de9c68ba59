//! Words for what fails when an expression is evaluated (`packagevariants.md` 4.4, the tables of texts).

use cel::{ExecutionError, Value};

use crate::patterns::{MATCHES, TOO_MANY};

/// Variables that are declared, whether they are known or not.
const VARIABLES: [&str; 5] = ["repoDefault", "packageDefault", "upstream", "target", "repository"];

/// Why a result is not what an expression has to give. Nothing is converted.
pub(crate) fn not_a_text(value: &Value) -> String {
    let kind = match value {
        Value::Int(_) => return "unsupported type conversion from 'int' to string".to_owned(),
        Value::UInt(_) => return "unsupported type conversion from 'uint' to string".to_owned(),
        Value::Float(_) => "Double",
        Value::Bool(_) => "bool",
        Value::Null => "'null_type'",
        Value::Bytes(_) => "Bytes",
        Value::List(_) => "list",
        Value::Map(_) | Value::Struct(_) => "map",
        Value::Timestamp(_) => "'Timestamp'",
        Value::Duration(_) => "'Duration'",
        Value::Opaque(_) | Value::Function(..) | Value::String(_) => {
            return "type conversion not supported for 'type'".to_owned();
        }
    };
    format!("type conversion error from {kind} to 'string'")
}

/// The library's errors print the values that they are about.
pub(crate) fn problem(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) if VARIABLES.contains(&name.as_str()) => {
            format!("no such attribute(s): {name}")
        }
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::FunctionError { function, .. } if function == MATCHES => {
            "error parsing regexp: the pattern is not one of RE2".to_owned()
        }
        ExecutionError::FunctionError { function, .. } if function == TOO_MANY => {
            "the patterns of this set are too many or too large: use fewer, without counted repetitions"
                .to_owned()
        }
        ExecutionError::FunctionError { function, .. } => {
            format!("the function {function} cannot be applied to its arguments")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::IndexOutOfBounds(Value::UInt(at)) => format!("index out of bounds: {at}"),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::DuplicateKey(_) => "a map has the same key twice".to_owned(),
        _ => "no such overload".to_owned(),
    }
}
