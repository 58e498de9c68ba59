//! Reads objects from JSON texts.

use std::collections::HashSet;
use std::fmt;

use groundwork_yaml::{Content, Entry, Node, Position};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::strict::Schemas;

/// Maximum number of problems reported for one object; a longer list would not help.
const MOST_PROBLEMS: usize = 50;
/// Position that every node gets: errors about JSON give paths instead of lines and columns.
const NOWHERE: Position = Position { line: 1, column: 1 };

/// Reason that a text is not a usable object. Messages quote names of fields, but no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not valid JSON (line {line}, column {column})")]
    Syntax { line: usize, column: usize },
    #[error("a field name occurs twice in one object (line {line}, column {column})")]
    Twice { line: usize, column: usize },
    /// Errors in the structure, at most fifty.
    #[error("{}", .0.join("; "))]
    Structure(Vec<String>),
}

/// Reads an object, and checks its structure if its kind is one of ours. Every object needs
/// `apiVersion`, `kind` and a name.
///
/// # Errors
///
/// The text is not JSON, or does not have the structure of its kind.
pub fn read(text: &str, schemas: &Schemas) -> Result<Value, JsonError> {
    let node = node(text)?;
    let member = |name: &str| node.get(name).and_then(Node::as_str).unwrap_or_default();
    let name = node.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Node::as_str);
    let given = [
        ("apiVersion", member("apiVersion")),
        ("kind", member("kind")),
        ("metadata.name", name.unwrap_or_default()),
    ];
    let missing = given.iter().filter(|(_, text)| text.is_empty());
    let mut problems: Vec<String> = missing.map(|(field, _)| format!("{field} must be given")).collect();
    match schemas.check(member("apiVersion"), member("kind"), &node) {
        Some(findings) => problems.extend(findings.into_iter().map(|(_, problem)| problem)),
        None => problems.extend(schemas.api_version_of(member("kind")).and_then(|known| {
            let is_ours = known.split('/').next() == member("apiVersion").split('/').next();
            is_ours.then(|| format!("apiVersion is not served; the kind has apiVersion {known}"))
        })),
    }
    problems.truncate(MOST_PROBLEMS);
    if problems.is_empty() { Ok(node.to_value()) } else { Err(JsonError::Structure(problems)) }
}

/// Parses a JSON text into a node. All nodes get the position of the beginning of the text.
///
/// # Errors
///
/// The text is not JSON, or an object in it has a name twice.
pub fn node(text: &str) -> Result<Node, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let node = Seed.deserialize(&mut reader).and_then(|node| reader.end().map(|()| node));
    node.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() { JsonError::Twice { line, column } } else { JsonError::Syntax { line, column } }
    })
}

struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn at_start(content: Content) -> Node {
    Node { position: NOWHERE, content }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(at_start(Content::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(at_start(Content::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(at_start(Content::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(at_start(Content::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(at_start(Number::from_f64(value).map_or(Content::Null, Content::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(at_start(Content::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Seed)? {
            all.push(item);
        }
        Ok(at_start(Content::Sequence(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        while let Some(key) = members.next_key::<String>()? {
            if !known.insert(key.clone()) {
                return Err(A::Error::custom("a field name occurs twice"));
            }
            let value = members.next_value_seed(Seed)?;
            all.push(Entry { key, key_position: NOWHERE, value });
        }
        Ok(at_start(Content::Mapping(all)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_stays_what_it_is() {
        let value =
            json!({"a": [1, -2, 1.5, true, null, "x\u{1f600}\n"], "n": 9_007_199_254_740_993_u64, "": {}});
        assert_eq!(node(&value.to_string()).unwrap().to_value(), value);
        assert_eq!(node(r#""\ud83d\ude00""#).unwrap().as_str(), Some("\u{1f600}"));
        for (text, is_twice) in
            [("{", false), ("{} x", false), ("hidden", false), (r#"{"a": 1, "a": 2}"#, true)]
        {
            let error = node(text).unwrap_err();
            assert_eq!(matches!(error, JsonError::Twice { .. }), is_twice, "{text}");
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
        assert!(node(&"[".repeat(10_000)).is_err());
    }

    #[test]
    fn what_a_kind_does_not_know_is_refused() {
        let schemas = Schemas::new();
        let base = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
            "metadata": {"name": "o"}, "overwrites": [],
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let with = |base: &Value, pointer: &str, field: &str, value: Value| {
            let mut object = base.clone();
            object.pointer_mut(pointer).unwrap()[field] = value;
            object
        };
        assert_eq!(read(&base.to_string(), &schemas), Ok(base.clone()));
        let typo = json!([{"source": {"componentNam": "x"}, "substitution": {}}]);
        for (object, problems) in [
            (with(&base, "", "overwrites", typo), "unknown field \"overwrites[0].source.componentNam\""),
            (with(&base, "", "overwrites", json!("s3cret")), "overwrites: expected array, found string"),
            (with(&base, "/metadata", "name", json!("")), "metadata.name must be given"),
            (with(&base, "/metadata", "nam", json!("")), "unknown field \"metadata.nam\""),
            (with(&base, "", "kind", json!("")), "kind must be given"),
            (
                with(&base, "", "apiVersion", json!("landscaper.gardener.cloud/v1")),
                "apiVersion is not served; the kind has apiVersion landscaper.gardener.cloud/v1alpha1",
            ),
            (with(&secret, "", "stringdata", json!({"a": "b"})), "unknown field \"stringdata\""),
            (json!([]), "apiVersion must be given; kind must be given; metadata.name must be given"),
        ] {
            assert_eq!(read(&object.to_string(), &schemas).unwrap_err().to_string(), problems);
        }
        let filled = with(&secret, "", "stringData", json!({"user": "alice"}));
        assert!(read(&filled.to_string(), &schemas).is_ok());
        // Kinds of others have no schema here, so all their fields pass.
        let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "x": 1});
        assert!(read(&other.to_string(), &schemas).is_ok());
    }
}
