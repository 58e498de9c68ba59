//! Export values that an item reads from objects (`installations.md` 7.9, exports).

use serde_json::{Map, Value};

use crate::awaited::{Awaited, Waiting};
use crate::cluster::Cluster;
use crate::configuration::Export;
use crate::context::{OtherClusters, Seen, cluster_of};
use crate::error::ApplyError;
use crate::json_path::JsonPath;
use crate::object::{Reference, merge_over};

/// Result of reading exports.
#[derive(Debug)]
pub enum Exported {
    /// The values, merged in the order of the exports.
    Values(Map<String, Value>),
    /// The wait for an object or field from which a value is read.
    Awaited(Waiting),
}

/// Reads all exports, or returns the wait for the first missing one.
///
/// # Errors
///
/// A cluster does not answer, or a path matches several values.
pub async fn read_exports(
    own: &Cluster,
    others: &OtherClusters,
    exports: &[Export],
    seen: &Seen,
) -> Result<Exported, ApplyError> {
    let mut values = Value::Object(Map::new());
    for export in exports {
        let Some(resource) = &export.from_resource else { continue };
        let cluster = cluster_of(own, others, export.target_name.as_deref())?;
        let known = seen.get(resource).filter(|_| export.target_name.is_none());
        let waiting = |reason: String, awaited: Option<Awaited>| {
            let what = format!("deployer: during export - key: {}: {reason}", export.key);
            Ok(Exported::Awaited(Waiting { awaited: awaited.into_iter().collect(), ..what.into() }))
        };
        let mut object = match known {
            Some(object) => object.clone(),
            None => match cluster.get(resource).await? {
                Some(object) => object,
                None => {
                    let awaited = Awaited::object(cluster, resource, None, |_| true).await;
                    return waiting(format!("resource {resource} does not exist"), awaited);
                }
            },
        };
        if let Some(inner) = &export.from_object_ref {
            let Some(reference) = referred(&object, resource, inner)? else {
                let what = format!("{} of resource {resource} does not name an object", inner.json_path);
                return waiting(what, until_there(cluster, resource, &object, &inner.json_path).await);
            };
            match cluster.get(&reference).await? {
                Some(found) => object = found,
                None => {
                    let awaited = Awaited::object(cluster, &reference, None, |_| true).await;
                    return waiting(format!("resource {reference} does not exist"), awaited);
                }
            }
        }
        let Some(value) = one(&object, &export.json_path)? else {
            let awaited = until_there(cluster, &Reference::of(&object), &object, &export.json_path).await;
            return waiting(format!("{} does not exist yet", export.json_path), awaited);
        };
        merge_over(&mut values, &nested(&export.key, value));
    }
    Ok(Exported::Values(if let Value::Object(values) = values { values } else { Map::new() }))
}

/// Returns the wait for a path to match a value in the object. Several matches also end the wait;
/// the next round reports them as an error.
async fn until_there(cluster: &Cluster, reference: &Reference, live: &Value, path: &str) -> Option<Awaited> {
    let path = path.to_owned();
    let is_there = move |object: &Value| !matches!(one(object, &path), Ok(None));
    Awaited::object(cluster, reference, Some(live), is_there).await
}

/// Returns the object that a field names. Its default namespace is that of the object with the
/// field.
fn referred(
    object: &Value,
    from: &Reference,
    inner: &crate::configuration::FromObjectRef,
) -> Result<Option<Reference>, ApplyError> {
    let Some(found) = one(object, &inner.json_path)? else { return Ok(None) };
    let Some(name) = found["name"].as_str() else { return Ok(None) };
    let namespace = found["namespace"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(Some(Reference {
        api_version: inner.api_version.clone(),
        kind: inner.kind.clone(),
        namespace: namespace.or_else(|| from.namespace.clone()),
        name: name.to_owned(),
    }))
}

/// Returns the single value of a path.
///
/// # Errors
///
/// The path is invalid, or matches several values.
pub fn one(object: &Value, path: &str) -> Result<Option<Value>, ApplyError> {
    let wrong = |problem: &str| ApplyError::Configuration(format!("the path {path} {problem}"));
    let parsed = JsonPath::parse(path).map_err(|error| wrong(&error.to_string()))?;
    match parsed.find(object).as_slice() {
        [] => Ok(None),
        [value] => Ok(Some((*value).clone())),
        several => Err(wrong(&format!("matches {} values, but an export is one value", several.len()))),
    }
}

/// Returns a value nested below the names of a dotted key.
pub fn nested(key: &str, value: Value) -> Value {
    key.rsplit('.').fold(value, |inner, name| Value::Object([(name.to_owned(), inner)].into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_with_dots_nest() {
        assert_eq!(nested("a.b", json!(1)), json!({"a": {"b": 1}}));
        assert_eq!(nested("a", json!(1)), json!({"a": 1}));
    }

    #[test]
    fn one_value_is_exported() {
        let object = json!({"a": [1, 2], "b": 3});
        assert_eq!(one(&object, ".b"), Ok(Some(json!(3))));
        assert_eq!(one(&object, ".c"), Ok(None));
        assert!(one(&object, ".a[*]").unwrap_err().to_string().contains("2 values"));
    }
}
