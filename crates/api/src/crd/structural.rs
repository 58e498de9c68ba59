//! From the schemas of the Rust types to structural schemas, the form that CRDs demand.

use serde_json::{Map, Value, json};

/// Extension by which a field asks for a default in the CRD. What serde takes for an absent field is no
/// default there: it would be written into every object.
const DEFAULT: &str = "crdDefault";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// What happens to members that a schema does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownMembers {
    /// They are refused under strict validation, and else dropped.
    Pruned,
    /// They are kept on every level.
    Kept,
}

/// Rewrites a schema, and those inside it.
pub(super) fn structural(schema: Value, unknown: UnknownMembers) -> Value {
    // The schema `true` lets anything pass.
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
        // A structural schema names its members or describes all of them, never both.
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

/// Takes the alternative `null` out: an optional field is one that may be left out.
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
    // What is said about the field goes before what is said about its type.
    let mut merged = only.clone();
    schema.remove("anyOf");
    merged.extend(schema);
    merged
}

/// Lines of a doc comment are wrapped for the source; a description has one line for each paragraph.
fn one_line_per_paragraph(text: &str) -> String {
    let paragraph = |lines: &str| lines.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}
