//! The state document (`spiff.md` 10.5).

use std::collections::HashSet;
use std::sync::Arc;

use crate::value::{Flags, List, Map, Node, Value};

/// Returns the state in a result: the nodes flagged as state with all that is below them, and the
/// collections above them. Entries of keyed lists keep their key.
pub(crate) fn state_of(node: &Node) -> Option<Node> {
    if node.has(Flags::STATE) {
        return Some(node.clone());
    }
    let value = match &node.value {
        Value::Map(map) => {
            let kept: Vec<_> = map
                .iter()
                .filter_map(|(key, node)| state_of(node).map(|node| (Arc::clone(key), node)))
                .collect();
            if kept.is_empty() {
                return None;
            }
            Value::Map(Arc::new(kept.into_iter().collect()))
        }
        Value::List(list) => {
            let key = key_of(node, list);
            let kept: Vec<_> = list.iter().filter_map(|entry| state_of_entry(entry, key)).collect();
            if kept.is_empty() {
                return None;
            }
            Value::List(Arc::new(kept.into_iter().collect()))
        }
        _ => return None,
    };
    Some(Node { value, ..node.clone() })
}

/// Returns the fields of a map that are themselves flagged as state.
pub(crate) fn root_state_of(node: &Node) -> Option<Node> {
    let Value::Map(map) = &node.value else { return None };
    let kept: Vec<_> = map
        .iter()
        .filter(|(_, field)| field.has(Flags::STATE))
        .map(|(key, field)| (Arc::clone(key), field.clone()))
        .collect();
    (!kept.is_empty())
        .then(|| Node { value: Value::Map(Arc::new(kept.into_iter().collect())), ..node.clone() })
}

/// Returns the key field of a list with keyed entries.
fn key_of<'n>(node: &'n Node, list: &List) -> Option<&'n str> {
    let key = node.key_name().map_or("name", |name| &**name);
    let mut seen = HashSet::new();
    let is_key = |entry: &Node| match &entry.value {
        Value::Map(map) => match map.get(key).map(|field| &field.value) {
            Some(Value::String(text)) => seen.insert(Arc::clone(text)),
            _ => false,
        },
        _ => false,
    };
    list.iter().all(is_key).then_some(key)
}

/// Returns the state in an entry, with the key field by which the next run finds the entry.
fn state_of_entry(entry: &Node, key: Option<&str>) -> Option<Node> {
    let mut kept = state_of(entry)?;
    if let (Some(key), Value::Map(all), Value::Map(map)) = (key, &entry.value, &mut kept.value)
        && let Some(field) = all.get(key)
    {
        Map::insert(Arc::make_mut(map), Arc::from(key), field.clone());
    }
    Some(kept)
}
