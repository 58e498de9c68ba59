//! Removal of cycles among maps that contain themselves (`gotemplate.md` 14): reference counting
//! alone would never free them.

use std::collections::HashSet;

use crate::value::{List, Map, Str, Value};

/// A container on the path of the search, with the children still to visit.
enum Step {
    Map { map: Map, entries: std::vec::IntoIter<(Str, Value)>, current: Option<Str> },
    List { list: List, next: usize },
}

impl Step {
    fn into_map(map: Map) -> Step {
        let entries = map.entries().into_iter();
        Step::Map { map, entries, current: None }
    }

    fn next_child(&mut self) -> Option<Value> {
        match self {
            Step::Map { entries, current, .. } => {
                let (key, value) = entries.next()?;
                *current = Some(key);
                Some(value)
            }
            Step::List { list, next } => {
                let value = list.items().get(*next)?.clone();
                *next += 1;
                Some(value)
            }
        }
    }
}

/// Removes the entries that close a cycle through any of the given maps. A depth-first search finds
/// them as its back edges.
pub(crate) fn cut(maps: impl Iterator<Item = Map>) {
    let mut visited = HashSet::new();
    let mut on_path = HashSet::new();
    for root in maps {
        if !visited.insert(root.address()) {
            continue;
        }
        on_path.insert(root.address());
        let mut path = vec![Step::into_map(root)];
        while let Some(step) = path.last_mut() {
            match step.next_child() {
                Some(Value::Map(child)) if on_path.contains(&child.address()) => remove_current(&path),
                Some(Value::Map(child)) if visited.insert(child.address()) => {
                    on_path.insert(child.address());
                    path.push(Step::into_map(child));
                }
                // Lists are immutable, so every cycle passes through a map, and only maps need the
                // check for one.
                Some(Value::List(list)) if !list.is_empty() => path.push(Step::List { list, next: 0 }),
                Some(_) => {}
                None => {
                    if let Some(Step::Map { map, .. }) = path.pop() {
                        on_path.remove(&map.address());
                    }
                }
            }
        }
    }
}

/// Removes the entry of the innermost map on the path, through which the path runs.
fn remove_current(path: &[Step]) {
    let innermost = path.iter().rev().find_map(|step| match step {
        Step::Map { map, current: Some(key), .. } => Some((map, key)),
        _ => None,
    });
    if let Some((map, key)) = innermost {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_cut_and_everything_else_stays() {
        let (a, b) = (Map::default(), Map::default());
        a.insert("b".into(), Value::list([Value::Map(b.clone())]));
        a.insert("plain".into(), Value::str("x"));
        b.insert("a".into(), Value::Map(a.clone()));
        b.insert("kept".into(), Value::list([Value::str("y")]));
        cut([a.clone()].into_iter());
        assert!(a.contains_key(b"b") && a.contains_key(b"plain"));
        assert!(!b.contains_key(b"a") && b.contains_key(b"kept"));
    }
}
