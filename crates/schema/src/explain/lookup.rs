//! Look-up of parts of a schema, and comparison of JSON values.

use serde_json::Value;

/// Compares as JSON: 1 and 1.0 are equal.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

pub(super) fn is_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Returns the part of a schema with this id.
pub(super) fn by_id<'s>(schema: &'s Value, id: &str) -> Option<&'s Value> {
    search(schema, &|part| {
        let own = ["$id", "id"].iter().find_map(|key| part.get(*key)?.as_str());
        own.is_some_and(|own| own.trim_end_matches('#') == id)
    })
}

pub(super) fn by_anchor<'s>(schema: &'s Value, anchor: &str) -> Option<&'s Value> {
    search(schema, &|part| {
        let named = ["$anchor", "$dynamicAnchor"].iter().find_map(|key| part.get(*key)?.as_str());
        named == Some(anchor) || part.get("$id").and_then(Value::as_str) == Some(&format!("#{anchor}"))
    })
}

fn search<'s>(schema: &'s Value, is_it: &impl Fn(&Value) -> bool) -> Option<&'s Value> {
    let mut waiting = vec![schema];
    while let Some(part) = waiting.pop() {
        match part {
            Value::Object(members) => {
                if is_it(part) {
                    return Some(part);
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    None
}

pub(crate) fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|text| u8::from_str_radix(text, 16).ok())
            }
            _ => None,
        };
        match code {
            Some(code) => (bytes.push(code), rest = &rest[3..]).1,
            None => (bytes.push(*first), rest = tail).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Escapes a name for a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the pointer of a part of a schema, found by its address in memory; empty for the whole
/// schema.
pub(super) fn pointer_of(schema: &Value, part: &Value) -> String {
    let mut waiting = vec![(String::new(), schema)];
    while let Some((pointer, value)) = waiting.pop() {
        if std::ptr::eq(value, part) {
            return pointer;
        }
        match value {
            Value::Object(members) => {
                let below =
                    members.iter().map(|(name, value)| (format!("{pointer}/{}", escaped(name)), value));
                waiting.extend(below);
            }
            Value::Array(items) => {
                waiting.extend(items.iter().enumerate().map(|(at, item)| (format!("{pointer}/{at}"), item)));
            }
            _ => {}
        }
    }
    String::new()
}
