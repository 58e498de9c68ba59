//! Turns the schemas of the Rust types into structural schemas, the form that CRDs require.

use serde_json::{Map, Value, json};

/// Extension by which a field asks for a default in the CRD. Serde's values for absent fields do
/// not become defaults, since the API server would write them into every object.
const DEFAULT: &str = "crdDefault";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Treatment of members that a schema does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownMembers {
    /// Strict validation refuses unknown members; otherwise the API server drops them.
    Pruned,
    /// The API server keeps unknown members on every level.
    Kept,
}

/// Rewrites a schema and all schemas inside it.
pub(super) fn structural(schema: Value, unknown: UnknownMembers) -> Value {
    // The schema `true` accepts any value, as an empty structural schema does.
    let written = if let Value::Object(written) = schema { written } else { Map::new() };
    let mut schema = without_null(written);
    for keyword in ["$schema", "title", "default"] {
        schema.remove(keyword);
    }
    if let Some(default) = schema.remove(DEFAULT) {
        schema.insert("default".to_owned(), default);
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = one_line_per_paragraph(text);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (_, property) in properties.iter_mut() {
            *property = structural(property.take(), unknown);
        }
        // A structural schema has either `properties` or `additionalProperties`, never both.
        schema.remove("additionalProperties");
        if unknown == UnknownMembers::Kept {
            schema.insert(PRESERVE.to_owned(), true.into());
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword) {
            *inner = structural(inner.take(), unknown);
        }
    }
    if !schema.contains_key("type") && !schema.contains_key("x-kubernetes-int-or-string") {
        schema.insert(PRESERVE.to_owned(), true.into());
        schema.entry("nullable").or_insert(true.into());
    }
    Value::Object(schema)
}

/// Removes the alternative `null`, since an optional field is one that may be left out.
fn without_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(alternatives)) = schema.get("anyOf") else {
        return schema;
    };
    let mut rest = alternatives.iter().filter(|alternative| alternative.get("type") != Some(&json!("null")));
    let (Some(Value::Object(only)), None) = (rest.next(), rest.next()) else {
        return schema;
    };
    // The field's own description wins over that of its type.
    let mut merged = only.clone();
    schema.remove("anyOf");
    merged.extend(schema);
    merged
}

/// Joins the lines of each paragraph: doc comments are wrapped for the source, descriptions are
/// not.
fn one_line_per_paragraph(text: &str) -> String {
    let paragraph = |lines: &str| lines.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}
