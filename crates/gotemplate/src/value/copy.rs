//! Deep copies, so that a render cannot change its caller's input.

use super::{List, Value};
use crate::nesting::{MAX_DEPTH, TooDeep};
use crate::stack;

impl Value {
    /// Returns a copy that shares no map with the original. Objects of the host are shared.
    pub fn deep_copy(&self) -> Result<Value, TooDeep> {
        copy(self, 0)
    }
}

fn copy(value: &Value, depth: usize) -> Result<Value, TooDeep> {
    if depth > MAX_DEPTH {
        return Err(TooDeep);
    }
    match value {
        Value::List(list) if !list.is_nil() => stack::guarded(|| {
            let items: Result<Vec<Value>, TooDeep> =
                list.items().iter().map(|item| copy(item, depth + 1)).collect();
            Ok(Value::List(List::typed(list.element(), items?)))
        }),
        Value::Map(map) if !map.is_nil() => stack::guarded(|| {
            let target = map.empty_alike();
            for (key, entry) in map.entries() {
                target.insert(key, copy(&entry, depth + 1)?);
            }
            Ok(Value::Map(map.named_type().map_or_else(|| target.plain(), |named| target.named(named))))
        }),
        other => Ok(other.clone()),
    }
}
