//! Equality of what clients send and what they have read.

use serde::Serialize;
use serde_json::Value;

/// Returns whether two values mean the same to a program that leaves empty members out when it
/// writes an object back, as programs in Go do: `null`, `false`, 0, and empty texts, lists and
/// objects are absent. Values that cannot be written as JSON are never the same.
pub fn is_equivalent(one: &impl Serialize, other: &impl Serialize) -> bool {
    match (serde_json::to_value(one), serde_json::to_value(other)) {
        (Ok(one), Ok(other)) => without_empty(one) == without_empty(other),
        _ => false,
    }
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let left = members.into_iter().map(|(name, value)| (name, without_empty(value)));
            Value::Object(left.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        plain => plain,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_members_are_absent() {
        let full = json!({"a": {"b": {}, "c": [], "d": ""}, "e": 0, "f": false, "g": null, "h": [{"i": ""}]});
        assert!(is_equivalent(&full, &json!({"h": [{}]})));
        assert!(is_equivalent(&full, &full));
        for other in
            [json!({}), json!({"h": [{}, {}]}), json!({"h": [{}], "e": 1}), json!({"h": [{"i": "x"}]})]
        {
            assert!(!is_equivalent(&full, &other), "{other}");
        }
    }
}
