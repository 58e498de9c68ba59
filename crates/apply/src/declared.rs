//! The part of a manifest that a server can apply: without fields that only servers write, and
//! without fields that its schema does not have (`helm.md` 9.1, 9.2).

use data_encoding::BASE64;
use groundwork_controller::ApiError;
use serde_json::{Value, json};

use crate::cluster::{Cluster, ResourceKind};
use crate::object::{Reference, member, without_server_fields};

/// A manifest in the form that is sent.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) object: Value,
    left_out: Vec<String>,
}

impl Declared {
    pub(crate) fn new(manifest: &Value) -> Self {
        let mut object = without_server_fields(manifest);
        encode_string_data(&mut object);
        Self { object, left_out: Vec::new() }
    }

    /// Removes fields that the server does not know. Returns false if none of them is found.
    pub(crate) fn leave_out(&mut self, fields: &[String]) -> bool {
        let mut has_changed = false;
        for field in fields {
            let Some(path) = parse(field) else { continue };
            if take(&mut self.object, &path) {
                has_changed = true;
                self.left_out.push(without_keys(field));
            }
        }
        has_changed
    }

    /// Returns a warning that names the removed fields.
    pub(crate) fn warning(&self, reference: &Reference) -> Option<String> {
        (!self.left_out.is_empty()).then(|| {
            format!(
                "{reference}: the cluster does not know the fields {}; they were left out",
                self.left_out.join(", ")
            )
        })
    }
}

/// Creates an object and returns it as stored, with a warning for users.
///
/// # Errors
///
/// [`ApiError::AlreadyExists`], or the reason of a refusal.
pub async fn create_declared(
    cluster: &Cluster,
    kind: &ResourceKind,
    manifest: &Value,
) -> Result<(Value, Option<String>), ApiError> {
    let mut declared = Declared::new(manifest);
    let (stored, unknown) = cluster.create_with_warnings(kind, &declared.object).await?;
    declared.left_out = unknown;
    Ok((stored, declared.warning(&Reference::of(manifest))))
}

/// Moves `stringData` of a Secret into `data`. `stringData` is write-only: with server-side apply
/// the server would never remove entries that have left it.
fn encode_string_data(object: &mut Value) {
    let reference = Reference::of(object);
    if (reference.kind.as_str(), reference.api_version.as_str()) != ("Secret", "v1") {
        return;
    }
    let Some(texts) = object.get("stringData").and_then(Value::as_object) else { return };
    if !texts.values().all(Value::is_string) {
        return;
    }
    let encoded: Vec<(String, Value)> = texts
        .iter()
        .filter_map(|(key, text)| Some((key.clone(), json!(BASE64.encode(text.as_str()?.as_bytes())))))
        .collect();
    member(object, "data").extend(encoded);
    if let Value::Object(members) = object {
        members.remove("stringData");
    }
}

/// One step of a path into an object, as a server writes it.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name`
    Member(String),
    /// `[key="value",other=1]`
    Element(Vec<(String, Value)>),
    /// `[3]`
    Index(usize),
}

/// Parses a path such as `.spec.containers[name="a"].resorces`; `None` for another form.
fn parse(path: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(Step::Member(after.get(..end).filter(|name| !name.is_empty())?.to_owned()));
            rest = &after[end..];
        } else {
            let inner = rest.strip_prefix('[')?;
            let end = end_of_brackets(inner)?;
            steps.push(element(&inner[..end])?);
            rest = &inner[end + 1..];
        }
    }
    Some(steps)
}

/// Returns the index of the closing bracket, ignoring brackets in quoted texts.
fn end_of_brackets(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted => return Some(index),
            _ => {}
        }
    }
    None
}

fn element(text: &str) -> Option<Step> {
    if let Ok(index) = text.parse() {
        return Some(Step::Index(index));
    }
    let mut keys = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').filter(|(key, _)| !key.is_empty())?;
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let value = values.next()?.ok()?;
        rest = after.get(values.byte_offset()..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
        keys.push((key.to_owned(), value));
    }
    (!keys.is_empty()).then_some(Step::Element(keys))
}

/// Removes the field that a path names. Returns false if it is not there.
fn take(object: &mut Value, path: &[Step]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    match (object, first) {
        (Value::Object(members), Step::Member(name)) if rest.is_empty() => members.remove(name).is_some(),
        (Value::Object(members), Step::Member(name)) => {
            members.get_mut(name).is_some_and(|inner| take(inner, rest))
        }
        (Value::Array(items), Step::Index(index)) => {
            items.get_mut(*index).is_some_and(|inner| take(inner, rest))
        }
        (Value::Array(items), Step::Element(keys)) => {
            // A key that the manifest leaves out has the default of its schema, so the element may
            // match all the same.
            let fits = |item: &&mut Value| {
                keys.iter().all(|(key, value)| item.get(key).is_none_or(|found| found == value))
            };
            // Remove the field from every matching element: `any` would stop at the first.
            let taken = items.iter_mut().filter(fits).filter_map(|item| take(item, rest).then_some(()));
            taken.count() > 0
        }
        _ => false,
    }
}

/// Removes the keys of list elements from a path, because they may contain values.
fn without_keys(path: &str) -> String {
    let (mut told, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('[') {
        told.push_str(before);
        told.push_str("[]");
        rest = end_of_brackets(after).map_or("", |end| &after[end + 1..]);
    }
    told + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_left_out() {
        let mut manifest = Declared::new(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u", "lables": {}}, "status": {},
            "spec": {"containers": [{"name": "a]", "resorces": 1}, {"name": "b", "ports": [{"containerPort": 1, "x": 1}]}]},
        }));
        let fields = [
            ".metadata.lables",
            ".spec.containers[name=\"a]\"].resorces",
            ".spec.containers[name=\"b\"].ports[containerPort=1,protocol=\"TCP\"].x",
        ];
        assert!(manifest.leave_out(&fields.map(str::to_owned)));
        assert_eq!(
            manifest.object,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "a]"}, {"name": "b", "ports": [{"containerPort": 1}]}]}})
        );
        let told = manifest.warning(&Reference::of(&manifest.object)).unwrap();
        assert_eq!(
            told,
            "a of type Pod: the cluster does not know the fields .metadata.lables, .spec.containers[].resorces, \
             .spec.containers[].ports[].x; they were left out"
        );
        assert!(!manifest.leave_out(&fields.map(str::to_owned)));
        assert!(!manifest.leave_out(&["x[".to_owned(), ".a[=".to_owned(), String::new()]));
    }

    #[test]
    fn texts_of_secrets_are_encoded() {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "eA=="}, "stringData": {"b": "y"}});
        let sent = Declared::new(&secret).object;
        assert_eq!(sent, json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "eA==", "b": "eQ=="}}));
        let wrong = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"b": 1}});
        assert_eq!(Declared::new(&wrong).object, wrong);
    }
}
