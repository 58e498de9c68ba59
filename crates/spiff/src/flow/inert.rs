//! Values that no pass changes as long as no stub has a value at their path.

use crate::syntax::strings::may_be_dynaml;
use crate::value::{Flags, Node, Value};

/// Reports whether a flow without stubs leaves `node` as it is. The answer is cached in each list
/// and map.
pub(super) fn is_inert(node: &Node) -> bool {
    if !node.flags.difference(Flags::MERGED).is_empty() || node.notes.is_some() {
        return false;
    }
    match &node.value {
        Value::Expression(_) => false,
        Value::String(text) => !may_be_dynaml(text),
        Value::Map(map) => {
            map.known_inert() || {
                let inert = map
                    .iter()
                    .all(|(key, node)| !key.starts_with("<<") && !key.starts_with("key:") && is_inert(node));
                if inert {
                    map.remember_inert();
                }
                inert
            }
        }
        Value::List(list) => {
            list.known_inert() || {
                let inert = list.iter().all(is_inert);
                if inert {
                    list.remember_inert();
                }
                inert
            }
        }
        _ => true,
    }
}
