//! Answers about sets, variants and packages.

use serde::Serialize;
use serde_json::Value;

/// Answer to one line.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Reason for an answer without an output.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    /// `Input`, `Decode`, or the reason of the condition that a controller would set in a cluster.
    reason: &'static str,
    message: String,
    /// Messages of a validation, one per entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

/// Result of a line, with its warnings.
pub(crate) struct Output {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Self { value, warnings: Vec::new() }
    }
}

impl Failure {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), errors: Vec::new() }
    }

    /// Error for a line that cannot be used.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new("Input", message)
    }

    /// Error for a variant or set that cannot be decoded.
    pub(crate) fn decode(message: impl Into<String>) -> Self {
        Self::new("Decode", message)
    }

    /// Error for a variant or set that breaks rules.
    pub(crate) fn validation(errors: Vec<String>) -> Self {
        Self { reason: "ValidationError", message: errors.join("; "), errors }
    }
}

/// Answers a line: parses it, runs `answer` on its members, and adds its name to the result.
pub(crate) fn answer(
    line: &[u8],
    compute: impl FnOnce(&mut serde_json::Map<String, Value>) -> Result<Output, Failure>,
) -> Answer {
    let mut members: serde_json::Map<String, Value> = match serde_json::from_slice(line) {
        Ok(members) => members,
        Err(error) => return failed(None, Failure::input(format!("the line is no JSON object: {error}"))),
    };
    members.retain(|_, value| !value.is_null());
    let name = match members.remove("name") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return failed(None, Failure::input("name must be a string")),
    };
    match compute(&mut members) {
        Ok(output) => Answer { name, output: Some(output.value), error: None, warnings: output.warnings },
        Err(failure) => failed(name, failure),
    }
}

fn failed(name: Option<String>, failure: Failure) -> Answer {
    Answer { name, output: None, error: Some(failure), warnings: Vec::new() }
}

/// Takes a package, a map from paths to texts, out of the members.
pub(crate) fn files(
    members: &mut serde_json::Map<String, Value>,
    member: &str,
) -> Result<Option<std::collections::BTreeMap<String, String>>, Failure> {
    let Some(value) = members.remove(member) else { return Ok(None) };
    let Value::Object(files) = value else {
        return Err(Failure::input(format!("{member} must be a map from paths to texts")));
    };
    let texts = files.into_iter().map(|(path, text)| match text {
        Value::String(text) => Ok((path, text)),
        _ => Err(Failure::input(format!("{member}: the content of {path:?} must be a text"))),
    });
    texts.collect::<Result<_, _>>().map(Some)
}

/// Takes a list of objects out of the members. A missing list is empty.
pub(crate) fn objects(
    members: &mut serde_json::Map<String, Value>,
    member: &str,
) -> Result<Vec<Value>, Failure> {
    let items = match members.remove(member) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(Failure::input(format!("{member} must be a list of objects"))),
    };
    match items.iter().position(|item| !item.is_object()) {
        Some(index) => Err(Failure::input(format!("{member}[{index}] must be an object"))),
        None => Ok(items),
    }
}

/// Takes a map from texts to texts out of the members. A missing map is empty.
pub(crate) fn texts(
    members: &mut serde_json::Map<String, Value>,
    member: &str,
) -> Result<std::collections::BTreeMap<String, String>, Failure> {
    let wrong = || Failure::input(format!("{member} must be a map from texts to texts"));
    match members.remove(member) {
        None => Ok(std::collections::BTreeMap::new()),
        Some(Value::Object(entries)) => entries
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}
