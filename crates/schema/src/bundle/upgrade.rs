//! Rewriting of schemas from an older draft to a newer one, because documents that refer to one
//! another may have different drafts.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::positions::{knows, version};
use crate::dialect::{exclusive_bound, split_dependencies};
use crate::explain::escaped;

/// Keywords with the first draft that knows them. An older draft ignores them, so they are removed.
const NEWER: [(&str, u16); 18] = [
    ("$dynamicRef", 2020),
    ("$recursiveRef", 2019),
    ("const", 6),
    ("contains", 6),
    ("dependentRequired", 2019),
    ("dependentSchemas", 2019),
    ("else", 7),
    ("if", 7),
    ("maxContains", 2019),
    ("minContains", 2019),
    ("prefixItems", 2020),
    ("propertyNames", 6),
    ("then", 7),
    ("unevaluatedItems", 2019),
    ("unevaluatedProperties", 2019),
    ("$anchor", 2019),
    ("$dynamicAnchor", 2020),
    ("$recursiveAnchor", 2019),
];

/// Members that stay beside a `$ref` of an old draft, since references may lead into them. The
/// others have no effect there.
const BESIDE: [&str; 3] = ["$ref", "definitions", "$defs"];

/// Rewrites one schema, without the schemas inside it.
pub(super) fn upgrade(members: &mut Map<String, Value>, from: Draft, to: Draft) {
    if version(from) >= version(to) {
        return;
    }
    members.retain(|keyword, _| NEWER.iter().all(|(name, since)| name != keyword || *since <= version(from)));
    if version(from) < 2019 && version(to) >= 2019 && members.get("$ref").is_some_and(Value::is_string) {
        let is_rule = |keyword: &str| knows(Draft::Draft202012, keyword) || ASSERTIONS.contains(&keyword);
        members.retain(|keyword, _| BESIDE.contains(&keyword.as_str()) || !is_rule(keyword));
    }
    if from == Draft::Draft4 {
        exclusive_bound(members, "exclusiveMinimum", "minimum");
        exclusive_bound(members, "exclusiveMaximum", "maximum");
    }
    if version(to) >= 2019 {
        split_dependencies(members);
    }
    if to == Draft::Draft202012 {
        match members.remove("items") {
            Some(Value::Array(places)) => {
                members.insert("prefixItems".to_owned(), Value::Array(places));
                if let Some(rest) = members.remove("additionalItems") {
                    members.insert("items".to_owned(), rest);
                }
            }
            Some(every) => {
                members.insert("items".to_owned(), every);
            }
            None => {}
        }
    }
}

/// Removes parts of `$defs` that no reference reaches. An old draft does not know `$defs`, so they
/// may contain anything, which a newer draft would refuse.
pub(super) fn drop_unknown(document: &mut Value, from: Draft, to: Draft, is_reached: &dyn Fn(&str) -> bool) {
    if version(from) >= 2019 || version(to) < 2019 {
        return;
    }
    if let Some(Value::Object(parts)) = document.get_mut("$defs") {
        parts.retain(|name, _| is_reached(&format!("/$defs/{}", escaped(name))));
    }
}

/// Keywords of rules that contain no schemas.
const ASSERTIONS: [&str; 20] = [
    "const",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_spellings() {
        let check = |from, to, schema: Value, expected: Value| {
            let mut members = schema.as_object().unwrap().clone();
            upgrade(&mut members, from, to);
            assert_eq!(Value::Object(members), expected);
        };
        check(
            Draft::Draft7,
            Draft::Draft202012,
            json!({"items": [{}], "additionalItems": false, "unevaluatedProperties": false}),
            json!({"prefixItems": [{}], "items": false}),
        );
        check(
            Draft::Draft7,
            Draft::Draft201909,
            json!({"$ref": "#/a", "type": "string", "definitions": {}, "title": "t"}),
            json!({"$ref": "#/a", "definitions": {}, "title": "t"}),
        );
        check(
            Draft::Draft4,
            Draft::Draft7,
            json!({"minimum": 1, "exclusiveMinimum": true, "const": 1, "if": {}}),
            json!({"exclusiveMinimum": 1}),
        );
        check(
            Draft::Draft7,
            Draft::Draft7,
            json!({"unevaluatedItems": false}),
            json!({"unevaluatedItems": false}),
        );
    }
}
