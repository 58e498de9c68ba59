//! Comparison with recorded answers of Go's YAML library for the same input.
//!
//! `data/recorded.jsonl` has one case per line: `{"parse": text, "json": value | null}` (null:
//! refused) or `{"emit": value, "yaml": text}`, recorded with sigs.k8s.io/yaml v1.6.0 on generated
//! input.

use serde_json::Value;

#[test]
fn recorded_cases() {
    let mut count = 0;
    for line in include_str!("data/recorded.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("a case is a line of JSON");
        if let Some(text) = case["parse"].as_str() {
            let parsed = groundwork_yaml::from_str(text).ok();
            assert_eq!(parsed.map(|value| as_doubles(&value)), case.get("json").map(as_doubles), "{text}");
        } else {
            let text = groundwork_yaml::to_string_through_json(&case["emit"]);
            assert_eq!(text.as_deref(), case["yaml"].as_str(), "{case}");
        }
        count += 1;
    }
    assert!(count > 500, "the recorded cases are missing");
}

/// Converts all numbers to doubles, because the recorder saw every number as one. Our reader keeps
/// integers.
fn as_doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64()),
        Value::Array(items) => items.iter().map(as_doubles).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), as_doubles(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
