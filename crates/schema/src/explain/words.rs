//! Formatting in the style of santhosh-tekuri/jsonschema.

use std::fmt;

use serde_json::Value;

/// A bound that is violated.
pub(super) struct Want {
    pub(super) keyword: &'static str,
    pub(super) got: f64,
    pub(super) want: f64,
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: got {}, want {}", self.keyword, number(self.got), number(self.want))
    }
}

/// Formats a number with a comma at every three digits.
pub(super) fn number(number: f64) -> String {
    let text = format!("{number}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// Formats a text as a Go literal.
pub(super) fn go_quoted(text: &str) -> String {
    groundwork_go::text::quote(text.as_bytes())
}

/// Quotes a text in single quotes, with the escapes of a Go literal. Helm's library removes the
/// escapes of double quotes before it removes the quotes around the literal, so that of two
/// backslashes at the end one is left.
pub(super) fn quoted(text: &str) -> String {
    let literal = go_quoted(text).replace("\\\"", "\"");
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    format!("'{}'", inner.replace('\'', "\\'"))
}

pub(super) fn quoted_list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Lists types in a fixed order, independent of that in the schema.
pub(super) fn types(names: &[&str]) -> String {
    const ORDER: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let wanted: Vec<&str> = ORDER.into_iter().filter(|name| names.contains(name)).collect();
    wanted.join(" or ")
}

pub(super) fn constant(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => "'const' failed".to_owned(),
        other => format!("value must be {}", scalar(other)),
    }
}

pub(super) fn options(options: &[Value]) -> String {
    if options.iter().any(|option| option.is_array() || option.is_object()) {
        return "'enum' failed".to_owned();
    }
    let shown: Vec<String> = options.iter().map(scalar).collect();
    match &shown[..] {
        [one] => format!("value must be {one}"),
        many => format!("value must be one of {}", many.join(", ")),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}
