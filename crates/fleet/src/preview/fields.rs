//! Differences of JSON values, and their fingerprints.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Difference between two values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Path such as `spec.upstream.revision`, `spec.labels["a.b/c"]` or `spec.injectors[0].name`.
    pub path: String,
    /// Old value; absent if the field is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// New value; absent if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Returns all differences below a path, with members in byte order and the elements of lists by
/// their positions.
pub fn differences(path: &str, old: &Value, new: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    compare(path, Some(old), Some(new), &mut fields);
    fields
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<Field>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                compare(&member(path, key), old.get(key), new.get(key), fields);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(&format!("{path}[{at}]"), old.get(at), new.get(at), fields);
            }
        }
        (old, new) => fields.push(Field { path: path.to_owned(), old: old.cloned(), new: new.cloned() }),
    }
}

fn member(path: &str, key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(is_plain) {
        format!("{path}.{key}")
    } else {
        format!("{path}[{key:?}]")
    }
}

/// Returns a hash that is the same for equal values, in any order of their members.
pub(super) fn hash(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

/// Writes JSON without white space, with members in byte order.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(elements) => {
            text.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(element, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_difference_has_its_path() {
        let old =
            json!({"a": 1, "gone": {"x": 1}, "list": [1, {"k": "v"}], "same": [1], "labels": {"a.b/c": "1"}});
        let new = json!({"a": "1", "list": [1, {"k": "w"}, 3], "same": [1], "labels": {"a.b/c": "2", "": "e"}, "n": null});
        let shown: Vec<String> = differences("spec", &old, &new)
            .iter()
            .map(|field| {
                let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
                format!("{} {} {}", field.path, text(&field.old), text(&field.new))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "spec.a 1 \"1\"",
                "spec.gone {\"x\":1} -",
                "spec.labels[\"\"] - \"e\"",
                "spec.labels[\"a.b/c\"] \"1\" \"2\"",
                "spec.list[1].k \"v\" \"w\"",
                "spec.list[2] - 3",
                "spec.n - null",
            ]
        );
        assert_eq!(differences("spec", &old, &old), []);
    }

    #[test]
    fn the_hash_is_that_of_canonical_json() {
        let text = "{\"a\":[1,null,\"x\\\"\"],\"b\":{\"c\":true}}";
        let expected = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        assert_eq!(hash(&json!({"b": {"c": true}, "a": [1, null, "x\""]})), expected);
        assert_ne!(hash(&json!({"a": "1"})), hash(&json!({"a": 1})));
    }
}
