//! Strategic merge patches, which `kubectl patch` sends unless told otherwise.
//!
//! A list replaces the former one, as in a merge patch, except for those lists of the metadata that
//! Kubernetes merges: owners by their UID, finalizers by their text.

use serde_json::{Map, Value};

/// Member with an instruction for the object or element that it is in.
const DIRECTIVE: &str = "$patch";
/// Member with the only members that stay.
const RETAIN: &str = "$retainKeys";
/// Start of members that remove texts from a list.
const REMOVE: &str = "$deleteFromPrimitiveList/";
/// Start of members that put a list in order, which has no meaning for these lists.
const ORDER: &str = "$setElementOrder/";

/// Applies a patch to an object.
///
/// # Errors
///
/// The patch has an instruction that does not exist.
pub(super) fn merge(target: &mut Value, patch: Value) -> Result<(), String> {
    merge_at("", target, patch)
}

/// Applies a patch to the value at a path of names, joined with dots.
fn merge_at(path: &str, target: &mut Value, patch: Value) -> Result<(), String> {
    let Value::Object(mut members) = patch else {
        *target = patch;
        return Ok(());
    };
    match members.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "merge" => {}
        Some(Value::String(directive)) if directive == "replace" => {
            *target = Value::Object(members);
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "delete" => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(format!("unknown instruction {DIRECTIVE}: {other}")),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else { return Ok(()) };
    if let Some(Value::Array(retained)) = members.remove(RETAIN) {
        object.retain(|name, _| retained.iter().any(|retained| retained == name));
    }
    for (name, value) in members {
        if let Some(list) = name.strip_prefix(REMOVE) {
            let removed = value.as_array().cloned().unwrap_or_default();
            if let Some(present) = object.get_mut(list).and_then(Value::as_array_mut) {
                present.retain(|item| !removed.contains(item));
            }
            continue;
        }
        if name.starts_with(ORDER) {
            continue;
        }
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Null => drop(object.remove(&name)),
            Value::Array(items) if inner == "metadata.finalizers" => {
                let mut present = list_of(object, &name);
                let new: Vec<_> = items.into_iter().filter(|item| !present.contains(item)).collect();
                present.extend(new);
                object.insert(name, Value::Array(present));
            }
            Value::Array(items) if inner == "metadata.ownerReferences" => {
                let merged = owners(list_of(object, &name), items)?;
                object.insert(name, Value::Array(merged));
            }
            value => merge_at(&inner, object.entry(name).or_insert(Value::Null), value)?,
        }
    }
    Ok(())
}

/// Takes a list out of an object.
fn list_of(object: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match object.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Merges owners by their UID.
fn owners(mut present: Vec<Value>, items: Vec<Value>) -> Result<Vec<Value>, String> {
    let is_whole = |item: &Value| *item == serde_json::json!({DIRECTIVE: "replace"});
    if items.iter().any(is_whole) {
        return Ok(items.into_iter().filter(|item| !is_whole(item)).collect());
    }
    for item in items {
        let Some(uid) = item.get("uid").cloned() else {
            let text = "an entry of metadata.ownerReferences has no uid, by which entries are merged";
            return Err(text.to_owned());
        };
        let is_deleted = item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
        match present.iter().position(|found| found.get("uid") == Some(&uid)) {
            Some(at) if is_deleted => drop(present.remove(at)),
            None if is_deleted => {}
            Some(at) => merge_at("metadata.ownerReferences", &mut present[at], item)?,
            None => {
                let mut new = Value::Null;
                merge_at("metadata.ownerReferences", &mut new, item)?;
                present.push(new);
            }
        }
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches() {
        let object = json!({
            "metadata": {"labels": {"a": "b"}, "finalizers": ["x", "y"],
                "ownerReferences": [{"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}]},
            "spec": {"lifecycle": "Draft", "gates": [{"type": "a"}, {"type": "b"}]},
        });
        for (patch, path, expected) in [
            (json!({"spec": {"lifecycle": "Proposed"}}), "/spec/lifecycle", json!("Proposed")),
            (json!({"spec": {"lifecycle": null}}), "/spec", json!({"gates": [{"type": "a"}, {"type": "b"}]})),
            (json!({"spec": {"gates": [{"type": "c"}]}}), "/spec/gates", json!([{"type": "c"}])),
            (json!({"spec": {"$patch": "replace", "a": 1}}), "/spec", json!({"a": 1})),
            (json!({"spec": {"$patch": "delete"}}), "/spec", json!({})),
            (
                json!({"spec": {"$retainKeys": ["lifecycle"], "lifecycle": "Draft"}}),
                "/spec",
                json!({"lifecycle": "Draft"}),
            ),
            (json!({"metadata": {"labels": {"c": "d"}}}), "/metadata/labels", json!({"a": "b", "c": "d"})),
            (json!({"metadata": {"finalizers": ["y", "z"]}}), "/metadata/finalizers", json!(["x", "y", "z"])),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "$setElementOrder/finalizers": ["y"]}}),
                "/metadata/finalizers",
                json!(["y"]),
            ),
            (
                json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2", "kind": "K"},
                    {"uid": "3"}]}}),
                "/metadata/ownerReferences",
                json!([{"uid": "2", "name": "two", "kind": "K"}, {"uid": "3"}]),
            ),
            (
                json!({"metadata": {"ownerReferences": [{"$patch": "replace"}, {"uid": "4"}]}}),
                "/metadata/ownerReferences",
                json!([{"uid": "4"}]),
            ),
        ] {
            let mut merged = object.clone();
            merge(&mut merged, patch.clone()).unwrap();
            assert_eq!(merged.pointer(path), Some(&expected), "{patch}");
        }
        for patch in [
            json!({"spec": {"$patch": "other"}}),
            json!({"metadata": {"ownerReferences": [{"name": "no UID"}]}}),
        ] {
            assert!(merge(&mut object.clone(), patch.clone()).is_err(), "{patch}");
        }
    }
}
