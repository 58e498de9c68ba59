//! Patches of objects: merge patches (RFC 7386), strategic merge patches and JSON patches
//! (RFC 6902).

mod strategic;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::request::Request;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";

/// Returns an object after the patch in a request.
///
/// # Errors
///
/// The type of the patch is not supported, or the patch does not fit the object.
pub fn patched(object: &Value, request: &Request) -> Result<Value, Refusal> {
    let patch = request.json()?;
    match request.content_type.as_str() {
        MERGE => {
            let mut object = object.clone();
            merge(&mut object, patch);
            Ok(object)
        }
        STRATEGIC => {
            let mut object = object.clone();
            strategic::merge(&mut object, patch).map_err(Refusal::bad_request)?;
            Ok(object)
        }
        JSON => {
            let steps: Vec<Step> = serde_json::from_value(patch)
                .map_err(|error| Refusal::bad_request(format!("the body is not a JSON patch: {error}")))?;
            let mut object = object.clone();
            for step in &steps {
                step.apply(&mut object).map_err(|why| {
                    let message =
                        format!("the server rejected our request due to an error in our request: {why}");
                    Refusal { code: 422, reason: "Invalid", ..Refusal::bad_request(message) }
                })?;
            }
            Ok(object)
        }
        other => {
            let why = format!(
                "patches of type {other:?} are not supported here; supported are {STRATEGIC}, {MERGE} and {JSON}"
            );
            Err(Refusal::unsupported_media_type(&why))
        }
    }
}

/// Applies a merge patch: `null` removes a member, and a list replaces the former one.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    for (name, value) in members {
        match value {
            Value::Null => drop(object.remove(&name)),
            value => merge(object.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// Step of a JSON patch.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Step {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
    Test { path: String, value: Value },
    Move { from: String, path: String },
    Copy { from: String, path: String },
}

impl Step {
    fn apply(&self, object: &mut Value) -> Result<(), String> {
        match self {
            Self::Add { path, value } => add(object, path, value.clone()),
            Self::Remove { path } => remove(object, path).map(drop),
            Self::Replace { path, value } => {
                *object.pointer_mut(path).ok_or_else(|| missing(path))? = value.clone();
                Ok(())
            }
            Self::Test { path, value } => match object.pointer(path) {
                Some(found) if found == value => Ok(()),
                _ => Err(format!("testing path {path:?} failed")),
            },
            Self::Move { from, path } => {
                let value = remove(object, from)?;
                add(object, path, value)
            }
            Self::Copy { from, path } => {
                let value = object.pointer(from).cloned().ok_or_else(|| missing(from))?;
                add(object, path, value)
            }
        }
    }
}

fn missing(path: &str) -> String {
    format!("the path {path:?} does not exist")
}

/// Returns the value around a path, and the last part of the path.
fn around<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (outer, last) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    let outer = object.pointer_mut(outer).ok_or_else(|| missing(path))?;
    Ok((outer, last.replace("~1", "/").replace("~0", "~")))
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (outer, last) = around(object, path)?;
    match outer {
        Value::Object(members) => drop(members.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at =
                last.parse().ok().filter(|at: &usize| *at <= items.len()).ok_or_else(|| missing(path))?;
            items.insert(at, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let (outer, last) = around(object, path)?;
    let removed = match outer {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let at = last.parse().ok().filter(|at: &usize| *at < items.len());
            at.map(|at: usize| items.remove(at))
        }
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Examples of RFC 7386.
    #[test]
    fn merge_patches() {
        for (target, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": "foo"}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{target} {patch}");
        }
    }

    fn applied(steps: Value) -> Result<Value, String> {
        let mut object = json!({"a": {"b": 1}, "list": [1, 2], "x/y": 1});
        let steps: Vec<Step> = serde_json::from_value(steps).map_err(|error| error.to_string())?;
        steps.iter().try_for_each(|step| step.apply(&mut object))?;
        Ok(object)
    }

    #[test]
    fn json_patches() {
        for (step, expected) in [
            (
                json!({"op": "add", "path": "/c", "value": 2}),
                json!({"a": {"b": 1}, "list": [1, 2], "x/y": 1, "c": 2}),
            ),
            (
                json!({"op": "add", "path": "/list/-", "value": 3}),
                json!({"a": {"b": 1}, "list": [1, 2, 3], "x/y": 1}),
            ),
            (
                json!({"op": "add", "path": "/list/0", "value": 0}),
                json!({"a": {"b": 1}, "list": [0, 1, 2], "x/y": 1}),
            ),
            (json!({"op": "remove", "path": "/x~1y"}), json!({"a": {"b": 1}, "list": [1, 2]})),
            (
                json!({"op": "replace", "path": "/a/b", "value": 7}),
                json!({"a": {"b": 7}, "list": [1, 2], "x/y": 1}),
            ),
            (
                json!({"op": "move", "from": "/a", "path": "/d"}),
                json!({"d": {"b": 1}, "list": [1, 2], "x/y": 1}),
            ),
            (
                json!({"op": "copy", "from": "/list", "path": "/a"}),
                json!({"a": [1, 2], "list": [1, 2], "x/y": 1}),
            ),
            (
                json!({"op": "test", "path": "/a/b", "value": 1}),
                json!({"a": {"b": 1}, "list": [1, 2], "x/y": 1}),
            ),
        ] {
            assert_eq!(applied(json!([step])).unwrap(), expected, "{step}");
        }
        for step in [
            json!({"op": "test", "path": "/a/b", "value": 2}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "replace", "path": "/a/none", "value": 1}),
            json!({"op": "add", "path": "/list/9", "value": 1}),
            json!({"op": "other", "path": "/a"}),
        ] {
            assert!(applied(json!([step])).is_err(), "{step}");
        }
    }
}
