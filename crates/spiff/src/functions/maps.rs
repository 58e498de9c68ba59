//! Functions for maps (`spiff.md` 11.3).

use std::sync::Arc;

use super::arguments::{count, list, map, simple, text};
use super::calling::Outcome;
use crate::issue::Issue;
use crate::syntax::ast::Name;
use crate::value::{Map, Node, Value};

/// `keys(map)`
pub(super) fn keys(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "one argument required for keys")?;
    let map = map(&arguments[0], "map argument required for keys")?;
    Ok(Value::list(map.keys().map(|key| Value::String(Arc::clone(key)))))
}

/// `list_to_map(list [, key])`; `key_name` is the key of the list, used without a second argument.
pub(crate) fn list_to_map(arguments: &[Value], key_name: &str) -> Outcome {
    count(arguments, 1..=2, "list_to_map takes 1 or 2 arguments")?;
    let list = list(&arguments[0], "list_to_map requires a list as first argument")?;
    let key_name = match arguments.get(1) {
        Some(key) => text(key, "second argument of list_to_map must be a key name")?,
        None => key_name,
    };
    let mut result = Vec::with_capacity(list.len());
    for node in list.iter() {
        let fields = map(&node.value, "list entries must by maps")?;
        let key =
            fields.get(key_name).ok_or_else(|| Issue::new(format!("key field '{key_name}' not found")))?;
        let Value::String(key) = &key.value else {
            return Err(Issue::new(format!("key field '{key_name}' contains no string value")));
        };
        let rest: Map = fields.iter().filter(|(name, _)| &**name != key_name).cloned().collect();
        result.push((Arc::clone(key), Node { value: Value::Map(Arc::new(rest)), ..node.clone() }));
    }
    Ok(Value::Map(Arc::new(Map::new(result))))
}

/// `makemap(list of {key, value})`, `makemap(k1, v1, …)`
pub(super) fn makemap(arguments: &[Value]) -> Outcome {
    let mut result = Vec::new();
    if let [entries] = arguments {
        let entries = list(entries, "single argument flavor of mapentry requires a list")?;
        for (at, entry) in entries.values().enumerate() {
            result.push(entry_of(entry, at)?);
        }
    } else {
        for (at, pair) in arguments.chunks(2).enumerate() {
            let [key, value] = pair else { return Err("mapentry takes one or two arguments".into()) };
            let key = simple(key)
                .ok_or_else(|| Issue::new(format!("invalid type for key value of arument pair {at}")))?;
            result.push((Name::from(key), Node::new(value.clone())));
        }
    }
    Ok(Value::Map(Arc::new(Map::new(result))))
}

fn entry_of(entry: &Value, at: usize) -> Result<(Name, Node), Issue> {
    let fields = map(entry, &format!("entry {at} is no map entry"))?;
    let field =
        |name: &str| fields.get(name).ok_or_else(|| Issue::new(format!("entry {at} has no entry '{name}'")));
    let key = simple(&field("key")?.value)
        .ok_or_else(|| Issue::new(format!("invalid type for 'key' value of entry {at}")))?;
    Ok((Name::from(key), field("value")?.clone()))
}

/// `deepmerge(map…)`, `deepmerge(list of maps)`
pub(super) fn deepmerge(arguments: &[Value]) -> Outcome {
    if arguments.is_empty() {
        return Err(Issue::default());
    }
    let (values, place): (Vec<&Value>, _) = match arguments {
        [Value::List(list)] => (list.values().collect(), "entry of list argument:"),
        arguments => (arguments.iter().collect(), "argument"),
    };
    if values.is_empty() {
        return Err("deepmerge: no map found for merge".into());
    }
    let mut result = Map::default();
    for (position, value) in (1..).zip(values) {
        let content = match value {
            Value::Template(template) => &template.content.value,
            value => value,
        };
        let Value::Map(map) = content else {
            let why = match value {
                Value::Template(_) => "template is not a map template".to_owned(),
                value => format!("no map or map template, but {}", value.type_name()),
            };
            return Err(Issue::new(format!("deepmerge: {place} {position}: {why}")));
        };
        merge_into(&mut result, map);
    }
    Ok(Value::Map(Arc::new(result)))
}

fn merge_into(result: &mut Map, map: &Map) {
    for (key, node) in map {
        let merged = match (result.get(key).map(|known| &known.value), &node.value) {
            (Some(Value::Map(known)), Value::Map(new)) if !Arc::ptr_eq(known, new) => {
                let mut both = (**known).clone();
                stacker::maybe_grow(128 << 10, 1 << 20, || merge_into(&mut both, new));
                Node::new(Value::Map(Arc::new(both)))
            }
            _ => node.clone(),
        };
        result.insert(Arc::clone(key), merged);
    }
}
