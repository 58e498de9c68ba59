//! Decoder from YAML to the records of charts and manifests, by the rules of Go's JSON decoder
//! behind sigs.k8s.io/yaml (`helm.md` 2.4): keys match without case, a scalar becomes a text where
//! a text is expected, null leaves a scalar unchanged.

use groundwork_yaml::{self as yaml, format_g64};
use serde_json::{Map, Value};

/// The type of a member of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Any,
    List,
    Text,
    Flag,
    Texts,
    TextMap,
    /// A record with the name of Go's type.
    Record(&'static Record),
    Records(&'static Record),
}

/// The description of a Go struct.
#[derive(Debug)]
pub(crate) struct Record {
    /// Name with its package, for errors about the whole document.
    pub(crate) qualified: &'static str,
    /// Name without its package.
    pub(crate) name: &'static str,
    /// Name of this type in errors about a field.
    pub(crate) field_type: &'static str,
    pub(crate) fields: &'static [(&'static str, Shape)],
}

/// Reads the first document of a text as JSON. Errors are those of the Go tools.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, String> {
    let text = crate::yaml_errors::text_of(bytes)?;
    let read = yaml::parse_first(text, yaml::Options::default());
    let node = read.map_err(|error| crate::yaml_errors::words(text, &error))?;
    Ok(node.into_value())
}

/// Reads the first document of a text, which must be a table. An empty document or null gives an
/// empty one.
pub(crate) fn table(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    match document(bytes)? {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => Ok(members),
        other => Err(unexpected(kind(&other), "value of type map[string]interface {}")),
    }
}

/// Decodes the first document of a text over the members that are already known.
pub(crate) fn decode_over(
    known: &mut Map<String, Value>,
    bytes: &[u8],
    record: &'static Record,
) -> Result<(), String> {
    match document(bytes)? {
        Value::Null => Ok(()),
        Value::Object(members) => fill(known, members, record, &mut Vec::new()),
        other => Err(unexpected(kind(&other), &format!("value of type {}", record.qualified))),
    }
}

pub(crate) fn unexpected(kind: &str, wanted: &str) -> String {
    format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go {wanted}")
}

/// Returns the word of Go's decoder for a JSON value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Decodes members in the order of their keys, so that of two keys that differ only in case the
/// later one wins.
fn fill(
    known: &mut Map<String, Value>,
    members: Map<String, Value>,
    record: &'static Record,
    path: &mut Vec<&'static str>,
) -> Result<(), String> {
    let mut first_error = Ok(());
    for (key, value) in members {
        let exact = record.fields.iter().find(|(name, _)| *name == key);
        let field = exact.or_else(|| record.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)));
        let Some((name, shape)) = field else { continue };
        path.push(name);
        let result = member(known, name, value, *shape, record, path);
        path.pop();
        // Go continues after an error and reports the first one.
        first_error = first_error.and(result);
    }
    first_error
}

fn member(
    known: &mut Map<String, Value>,
    name: &'static str,
    value: Value,
    shape: Shape,
    owner: &'static Record,
    path: &mut Vec<&'static str>,
) -> Result<(), String> {
    let wrong = |value: &Value, wanted: &str, path: &[&str]| {
        unexpected(kind(value), &format!("struct field {}.{} of type {wanted}", owner.name, path.join(".")))
    };
    let fitted = match (shape, value) {
        (Shape::Text | Shape::Flag, Value::Null) => return Ok(()),
        (_, Value::Null) => Value::Null,
        (Shape::Any, value) | (Shape::List, value @ Value::Array(_)) => value,
        (Shape::List, value) => return Err(wrong(&value, "[]interface {}", path)),
        (Shape::Text, value) => match text(&value) {
            Some(text) => Value::String(text),
            None => return Err(wrong(&value, "string", path)),
        },
        (Shape::Flag, Value::Bool(flag)) => Value::Bool(flag),
        (Shape::Flag, value) => return Err(wrong(&value, "bool", path)),
        (Shape::Texts, Value::Array(items)) => {
            let texts = items.iter().map(|item| match item {
                Value::Null => Ok(Value::String(String::new())),
                item => text(item).map(Value::String).ok_or_else(|| wrong(item, "string", path)),
            });
            Value::Array(texts.collect::<Result<_, _>>()?)
        }
        (Shape::Texts, value) => return Err(wrong(&value, "[]string", path)),
        (Shape::TextMap, Value::Object(entries)) => {
            let mut map = match known.remove(name) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            for (key, item) in entries {
                let text = match &item {
                    Value::Null => Some(String::new()),
                    item => text(item),
                };
                map.insert(key, Value::String(text.ok_or_else(|| wrong(&item, "string", path))?));
            }
            Value::Object(map)
        }
        (Shape::TextMap, value) => return Err(wrong(&value, "map[string]string", path)),
        (Shape::Record(record), Value::Object(members)) => {
            let mut inner = match known.remove(name) {
                Some(Value::Object(inner)) => inner,
                _ => Map::new(),
            };
            fill(&mut inner, members, record, path)?;
            Value::Object(inner)
        }
        (Shape::Record(record), value) => return Err(wrong(&value, record.field_type, path)),
        (Shape::Records(record), Value::Array(items)) => {
            let records = items.into_iter().map(|item| match item {
                Value::Null => Ok(Value::Null),
                Value::Object(members) => {
                    let mut inner = Map::new();
                    fill(&mut inner, members, record, path)?;
                    Ok(Value::Object(inner))
                }
                other => Err(wrong(&other, record.qualified, path)),
            });
            Value::Array(records.collect::<Result<_, _>>()?)
        }
        (Shape::Records(record), value) => {
            return Err(wrong(&value, &format!("[]*{}", record.qualified), path));
        }
    };
    known.insert(name.to_owned(), fitted);
    Ok(())
}

/// Returns a scalar as text. Numbers are formatted as the Go tools do.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() => format_g64(float),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
