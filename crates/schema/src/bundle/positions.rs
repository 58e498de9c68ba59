//! The positions of schemas inside a schema, draft by draft, as Helm's library knows them.
//! Everything else is data.

use jsonschema::Draft;
use serde_json::{Map, Value};

use crate::explain::escaped;

/// The form in which a keyword contains schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Table,
    /// A schema, or a list of schemas.
    OneOrList,
}

/// The condition under which the schemas of a keyword are applied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Applied,
    /// The schemas are applied only where a reference leads to them.
    Kept,
}

/// A keyword, the form of its value, the first draft with it, and whether it is applied by itself.
type Keyword = (&'static str, Shape, u16, Use);

const KEYWORDS: [Keyword; 22] = [
    ("$defs", Shape::Table, 2019, Use::Kept),
    ("additionalItems", Shape::One, 4, Use::Applied),
    ("additionalProperties", Shape::One, 4, Use::Applied),
    ("allOf", Shape::List, 4, Use::Applied),
    ("anyOf", Shape::List, 4, Use::Applied),
    ("contains", Shape::One, 6, Use::Applied),
    ("contentSchema", Shape::One, 2019, Use::Kept),
    ("definitions", Shape::Table, 4, Use::Kept),
    ("dependencies", Shape::Table, 4, Use::Applied),
    ("dependentSchemas", Shape::Table, 2019, Use::Applied),
    ("else", Shape::One, 7, Use::Applied),
    ("if", Shape::One, 7, Use::Applied),
    ("items", Shape::OneOrList, 4, Use::Applied),
    ("not", Shape::One, 4, Use::Applied),
    ("oneOf", Shape::List, 4, Use::Applied),
    ("patternProperties", Shape::Table, 4, Use::Applied),
    ("prefixItems", Shape::List, 2020, Use::Applied),
    ("properties", Shape::Table, 4, Use::Applied),
    ("propertyNames", Shape::One, 6, Use::Applied),
    ("then", Shape::One, 7, Use::Applied),
    ("unevaluatedItems", Shape::One, 2019, Use::Applied),
    ("unevaluatedProperties", Shape::One, 2019, Use::Applied),
];

/// Keywords whose value is the address of another schema, and the first draft with them.
pub(super) const REFERENCES: [(&str, u16); 3] = [("$ref", 4), ("$recursiveRef", 2019), ("$dynamicRef", 2020)];

pub(super) fn version(draft: Draft) -> u16 {
    match draft {
        Draft::Draft4 => 4,
        Draft::Draft6 => 6,
        Draft::Draft7 => 7,
        Draft::Draft201909 => 2019,
        _ => 2020,
    }
}

/// Returns true if a keyword contains schemas in a draft.
pub(super) fn knows(draft: Draft, keyword: &str) -> bool {
    KEYWORDS.iter().any(|(name, _, since, _)| *name == keyword && *since <= version(draft))
}

fn shape(draft: Draft, keyword: &str, applied_only: bool) -> Option<Shape> {
    let (_, shape, since, usage) = KEYWORDS.iter().find(|(name, ..)| *name == keyword)?;
    (*since <= version(draft) && (!applied_only || *usage == Use::Applied)).then_some(*shape)
}

/// Returns the schemas inside a schema, with the ends of their pointers, in the order of the
/// keywords. `applied_only` leaves out those that are applied only where a reference leads to them.
pub(crate) fn below(schema: &Value, draft: Draft, applied_only: bool) -> Vec<(String, &Value)> {
    let Value::Object(members) = schema else { return Vec::new() };
    // Before draft 2019-09, a `$ref` hides all other members of its schema.
    let is_hidden =
        applied_only && version(draft) < 2019 && members.get("$ref").is_some_and(Value::is_string);
    if is_hidden {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (keyword, rule) in members {
        let Some(shape) = shape(draft, keyword, applied_only) else { continue };
        match (shape, rule) {
            (Shape::List | Shape::OneOrList, Value::Array(rules)) => {
                found.extend(rules.iter().enumerate().map(|(at, rule)| (format!("/{keyword}/{at}"), rule)));
            }
            (Shape::Table, Value::Object(rules)) => {
                found
                    .extend(rules.iter().map(|(name, rule)| (format!("/{keyword}/{}", escaped(name)), rule)));
            }
            (Shape::One | Shape::OneOrList, rule) => found.push((format!("/{keyword}"), rule)),
            _ => {}
        }
    }
    found
}

/// Changes a schema and all schemas inside it, the inner ones first.
pub(super) fn change(schema: &mut Value, draft: Draft, change_one: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(members) = schema else { return };
    for (keyword, rule) in members.iter_mut() {
        let Some(shape) = shape(draft, keyword, false) else { continue };
        match (shape, rule) {
            (Shape::List | Shape::OneOrList, Value::Array(rules)) => {
                rules.iter_mut().for_each(|rule| change(rule, draft, change_one));
            }
            (Shape::Table, Value::Object(rules)) => {
                rules.values_mut().for_each(|rule| change(rule, draft, change_one));
            }
            (Shape::One | Shape::OneOrList, rule) => change(rule, draft, change_one),
            _ => {}
        }
    }
    change_one(members);
}

/// Returns true if a pointer leads to a schema, and not into data or an unknown keyword.
pub(super) fn is_position(schema: &Value, draft: Draft, pointer: &str) -> bool {
    let mut tokens = pointer.split('/').skip(1);
    let mut here = schema;
    while let Some(keyword) = tokens.next() {
        let Some(rule) = here.get(keyword) else { return false };
        let Some(shape) = shape(draft, keyword, false) else { return false };
        let is_one = shape == Shape::One || shape == Shape::OneOrList && !rule.is_array();
        let next = match (is_one, rule) {
            (true, rule) => Some(rule),
            (false, rule) => tokens.next().and_then(|token| rule.pointer(&format!("/{token}"))),
        };
        let Some(next) = next else { return false };
        here = next;
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn where_schemas_stand() {
        let schema = json!({
            "$ref": "#/x", "properties": {"$ref": {"type": "string"}, "a/b": {}}, "items": [{}, {}], "$defs": {"d": {}},
            "enum": [{"$ref": "no"}], "x-own": {"$ref": "no"},
        });
        let pointers = |draft, applied_only| -> Vec<String> {
            below(&schema, draft, applied_only).into_iter().map(|(pointer, _)| pointer).collect()
        };
        let properties = ["/properties/$ref", "/properties/a~1b"];
        let expected = [&["/$defs/d", "/items/0", "/items/1"][..], &properties].concat();
        assert_eq!(pointers(Draft::Draft201909, false), expected);
        assert_eq!(pointers(Draft::Draft201909, true), expected[1..]);
        assert_eq!(pointers(Draft::Draft7, false), expected[1..]);
        assert_eq!(pointers(Draft::Draft7, true), Vec::<String>::new());
        for (pointer, expected) in [
            ("", true),
            ("/properties/a~1b", true),
            ("/items/1", true),
            ("/items", false),
            ("/enum/0", false),
            ("/x-own", false),
        ] {
            assert_eq!(is_position(&schema, Draft::Draft201909, pointer), expected, "{pointer}");
        }
    }
}
