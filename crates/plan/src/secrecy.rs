//! Hiding of secret values in plans (`blueprints.md` 10).
//!
//! A value is shown if it stays equal when all possibly secret inputs are replaced by other values.

use groundwork_fleet::{Field, differences};
use serde_json::{Map, Value};

/// Mark for a value that may be secret. Beside it, `[hidden, another one]` means that the two
/// values differ.
pub const HIDDEN: &str = "[hidden]";
const ANOTHER: &str = "[hidden, another one]";

/// Values to compare with, which decide about the parts that may be shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Proof<'a> {
    /// No secret went into the value.
    Public,
    /// Only the parts that are equal in all these values are shown.
    SameAs(&'a [Option<Value>]),
}

/// Returns the differences of two values, with secret parts hidden.
pub(crate) fn shown_differences(
    path: &str,
    (old, old_proof): (&Value, Proof<'_>),
    (new, new_proof): (&Value, Proof<'_>),
) -> Vec<Field> {
    let masked = |value: &Value, proof: Proof<'_>, counterpart: &Value, marker: &str| match proof {
        Proof::Public => value.clone(),
        Proof::SameAs(others) => {
            let others: Vec<Option<&Value>> = others.iter().map(Option::as_ref).collect();
            mask(value, &others, Some(counterpart), marker)
        }
    };
    let mut fields =
        differences(path, &masked(old, old_proof, new, HIDDEN), &masked(new, new_proof, old, ANOTHER));
    for field in fields.iter_mut().filter(|field| field.path.starts_with('.')) {
        field.path.remove(0);
    }
    fields
}

/// Hides each leaf that is not equal in all `others`. A hidden leaf becomes `marker`, or [`HIDDEN`]
/// if `counterpart` has the same leaf.
fn mask(value: &Value, others: &[Option<&Value>], counterpart: Option<&Value>, marker: &str) -> Value {
    match value {
        Value::Object(members) if others.iter().all(|other| other.is_some_and(Value::is_object)) => {
            let mut masked = Map::new();
            for (key, member) in members {
                let others: Vec<Option<&Value>> =
                    others.iter().map(|other| other.and_then(|other| other.get(key))).collect();
                let counterpart = counterpart.and_then(|counterpart| counterpart.get(key));
                // A key that is missing with other values may itself be a secret value.
                let shown = if others.iter().all(Option::is_some) { key.as_str() } else { marker };
                masked.insert(shown.to_owned(), mask(member, &others, counterpart, marker));
            }
            Value::Object(masked)
        }
        Value::Array(elements) if others.iter().all(|other| other.is_some_and(Value::is_array)) => {
            let element = |(at, element): (usize, &Value)| {
                let others: Vec<Option<&Value>> =
                    others.iter().map(|other| other.and_then(|other| other.get(at))).collect();
                mask(element, &others, counterpart.and_then(|counterpart| counterpart.get(at)), marker)
            };
            elements.iter().enumerate().map(element).collect()
        }
        leaf if others.iter().all(|other| *other == Some(leaf)) => leaf.clone(),
        leaf if counterpart == Some(leaf) => Value::from(HIDDEN),
        _ => Value::from(marker),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(fields: &[Field]) -> Vec<String> {
        let value = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        fields
            .iter()
            .map(|field| format!("{} {} {}", field.path, value(&field.old), value(&field.new)))
            .collect()
    }

    #[test]
    fn what_depends_on_secrets_is_hidden() {
        let old = json!({"image": "1", "password": "abc", "stays": "abc", "user-1": 1});
        let new = json!({"image": "2", "password": "abd", "stays": "abc", "user-2": 1, "list": ["a", "x"]});
        let old_other = [Some(json!({"image": "1", "password": "fgh", "stays": "fgh", "user-4": 1}))];
        let new_other =
            [Some(json!({"image": "2", "password": "fgi", "stays": "fgh", "user-5": 1, "list": ["a", "y"]}))];
        let fields =
            shown_differences("spec", (&old, Proof::SameAs(&old_other)), (&new, Proof::SameAs(&new_other)));
        assert_eq!(
            text(&fields),
            [
                r#"spec["[hidden, another one]"] - "[hidden, another one]""#,
                r#"spec["[hidden]"] "[hidden]" -"#,
                r#"spec.image "1" "2""#,
                r#"spec.list - ["a","[hidden, another one]"]"#,
                r#"spec.password "[hidden]" "[hidden, another one]""#,
            ]
        );
        let fields = shown_differences("spec", (&old, Proof::SameAs(&[None])), (&new, Proof::Public));
        assert!(!text(&fields).join(" ").contains("abc\" \""), "{fields:?}");
    }
}
