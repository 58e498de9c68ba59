//! The state document (section 10.5).

use std::sync::Arc;

use crate::value::{Flags, Node, Value};

/// What of a result is to be kept: the nodes flagged as state with all that is below them, and the collections above them.
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
            let kept: Vec<_> = list.iter().filter_map(state_of).collect();
            if kept.is_empty() {
                return None;
            }
            Value::List(Arc::new(kept.into_iter().collect()))
        }
        _ => return None,
    };
    Some(Node { value, ..node.clone() })
}
