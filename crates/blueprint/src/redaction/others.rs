//! Substitute values of the same shape. A message that stays equal with them does not depend on the
//! original values.

use serde_json::{Map, Number, Value};

/// Kind of leaves that are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Texts and numbers, and keys that are not names.
    Texts,
    /// Booleans. They change the control flow of a template more often than its output, so they are
    /// replaced in a separate run.
    Booleans,
}

/// Returns a value in which every letter and digit of each leaf of the kind differs, so that a
/// result from any part of a leaf differs too.
///
/// A letter stays a letter of its case, a digit a digit, and other characters stay, so that a
/// version, an address or a JSON text mostly stays valid. Keys for which `is_name` returns true
/// stay, because templates access values by them.
pub(crate) fn other(value: &Value, kind: Kind, is_name: &impl Fn(&str) -> bool) -> Value {
    match (value, kind) {
        (Value::String(text), Kind::Texts) => Value::from(other_text(text)),
        (Value::Number(number), Kind::Texts) => Value::Number(other_number(number)),
        (Value::Bool(truth), Kind::Booleans) => Value::Bool(!truth),
        (Value::Array(items), _) => items.iter().map(|item| other(item, kind, is_name)).collect(),
        (Value::Object(members), _) => Value::Object(other_members(members, kind, is_name)),
        (leaf, _) => leaf.clone(),
    }
}

/// Returns a map whose members are replaced as [`other`] replaces a value.
pub(crate) fn other_members(
    members: &Map<String, Value>,
    kind: Kind,
    is_name: &impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let member = |(key, value): (&String, &Value)| {
        let stays = kind != Kind::Texts || is_name(key);
        (if stays { key.clone() } else { other_text(key) }, other(value, kind, is_name))
    };
    members.iter().map(member).collect()
}

/// Replaces every letter and digit by another one, without mapping two to the same.
pub(crate) fn other_text(text: &str) -> String {
    text.chars().map(other_character).collect()
}

fn other_character(character: char) -> char {
    let turned = |first: u8, count: u8, by: u8| {
        let offset = u8::try_from(u32::from(character) - u32::from(first)).unwrap_or_default();
        char::from(first + (offset + by) % count)
    };
    match character {
        'a'..='z' => turned(b'a', 26, 5),
        'A'..='Z' => turned(b'A', 26, 5),
        '0'..='9' => turned(b'0', 10, 3),
        // Swaps each character with its neighbour, which mostly belongs to the same script.
        other if other.is_alphanumeric() => char::from_u32(u32::from(other) ^ 1).unwrap_or(other),
        other => other,
    }
}

/// Replaces every digit, so that each rounding of the number differs too.
fn other_number(number: &Number) -> Number {
    let text: String = number
        .to_string()
        .chars()
        .map(|digit| match digit {
            // A leading digit never becomes zero.
            '1'..='9' => char::from(b'1' + (digit as u8 - b'1' + 3) % 9),
            other => other,
        })
        .collect();
    let other: Option<Number> = serde_json::from_str(&text).ok();
    let is_like = |other: &Number| other != number && other.is_f64() == number.is_f64();
    other.filter(is_like).unwrap_or_else(|| Number::from(46))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_leaf_differs() {
        let value =
            json!({"name": {"u1": "aZ9-é\u{2028}"}, "n": [0, 17, -3.5, u64::MAX], "on": true, "none": null});
        let is_name = |key: &str| key != "u1";
        assert_eq!(
            other(&value, Kind::Texts, &is_name),
            json!({"name": {"z4": "fE2-è\u{2028}"}, "n": [46, 41, -6.8, 46], "on": true, "none": null})
        );
        assert_eq!(other(&json!([true, "a"]), Kind::Booleans, &is_name), json!([false, "a"]));
    }
}
