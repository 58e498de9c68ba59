//! Detection of rules that lead back to themselves at the same place of a value. The engine treats
//! such a rule as fitting, Helm's library as a fault.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::cost::{Anchors, Scope, held, referred};

/// Returns true if a rule that can be reached from the root leads back to itself.
pub(super) fn has_ring(root: &Value) -> bool {
    let anchors = Anchors::of(root);
    let mut states = HashMap::new();
    let mut seen = HashSet::new();
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        if leads_back(schema, &anchors, &mut states) {
            return true;
        }
        let Value::Object(members) = schema else { continue };
        for (keyword, rule) in members {
            let next =
                referred(keyword, rule, &anchors).or_else(|| held(keyword, rule).map(|(_, held)| held));
            open.extend(next.into_iter().flatten());
        }
    }
    false
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Done,
}

/// Reports whether the rules of `schema` lead back to one that is still open. The recursion is
/// limited, because `cost::check_chains` has limited the depth of the rules before.
fn leads_back<'a>(
    schema: &'a Value,
    anchors: &Anchors<'a>,
    states: &mut HashMap<*const Value, State>,
) -> bool {
    let Value::Object(members) = schema else { return false };
    match states.get(&std::ptr::from_ref(schema)) {
        Some(State::Open) => return true,
        Some(State::Done) => return false,
        None => {}
    }
    states.insert(schema, State::Open);
    for (keyword, rule) in members {
        let next = referred(keyword, rule, anchors).or_else(|| match held(keyword, rule) {
            Some((Scope::Here, held)) => Some(held),
            _ => None,
        });
        if next.into_iter().flatten().any(|next| leads_back(next, anchors, states)) {
            return true;
        }
    }
    states.insert(schema, State::Done);
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::has_ring;

    #[test]
    fn rings() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"items": {"anyOf": [{"$ref": "#/items"}]}}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
        ] {
            assert!(has_ring(&schema), "{schema}");
        }
        for schema in [
            json!(true),
            json!({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}}),
            json!({"$defs": {"a": {"$ref": "#/$defs/a"}}}),
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {}}}),
        ] {
            assert!(!has_ring(&schema), "{schema}");
        }
    }
}
