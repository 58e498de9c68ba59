//! The draft in which a schema is written (`blueprints.md` 3.7.1).

use jsonschema::Draft;
use serde_json::{Map, Value};

use crate::InvalidSchemaError;

/// Dialect of schemas that do not name one (`blueprints.md` 1.1).
pub const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2019-09/schema";

/// A draft, and whether spellings for the older validator are accepted, which did not distinguish
/// dialects.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    draft: Draft,
    hybrid: bool,
    /// True if `$schema` names no known draft.
    is_foreign: bool,
}

impl Dialect {
    /// Returns the dialect that `$schema` of the root names, or else the one with the URI
    /// `default`. A schema that names no known draft is read as one that names none: the older
    /// validator takes both for a mixture of drafts.
    ///
    /// # Errors
    ///
    /// No draft has the URI `default`.
    pub fn of(schema: &Value, default: &str) -> Result<Self, InvalidSchemaError> {
        let declared = schema.get("$schema").and_then(Value::as_str);
        if let Some(draft) = declared.and_then(draft_of) {
            return Ok(Self::of_draft(draft));
        }
        let (is_foreign, uri) = match declared {
            Some(_) => (true, DEFAULT_DIALECT),
            None => (false, default),
        };
        let draft =
            draft_of(uri).ok_or_else(|| InvalidSchemaError(format!("the dialect {uri:?} is not known")))?;
        Ok(Self { draft, hybrid: uri == DEFAULT_DIALECT, is_foreign })
    }

    /// Reports whether the schema names a dialect that is no known draft.
    pub fn is_foreign(self) -> bool {
        self.is_foreign
    }

    /// Reports whether the draft is older than 2019-09. Older drafts assert formats.
    pub fn is_before_2019(self) -> bool {
        matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
    }

    pub(crate) fn of_draft(draft: Draft) -> Self {
        Self { draft, hybrid: false, is_foreign: false }
    }

    pub(crate) fn draft(self) -> Draft {
        self.draft
    }

    /// Rewrites spellings of older drafts that are still accepted.
    pub(crate) fn normalise(self, mut schema: Value) -> Value {
        if matches!(self.draft, Draft::Draft201909 | Draft::Draft202012) {
            normalise(&mut schema, self.hybrid);
        }
        // The engine would look for the metaschema of the dialect.
        if let Some(members) = schema.as_object_mut().filter(|_| self.is_foreign) {
            members.remove("$schema");
        }
        schema
    }

    /// Checks a document against the metaschema. References are not followed.
    ///
    /// # Errors
    ///
    /// The document is not a schema.
    pub fn check(self, schema: &Value) -> Result<(), InvalidSchemaError> {
        let schema = &self.normalise(schema.clone());
        if !schema.is_object() && !schema.is_boolean() {
            return Err(InvalidSchemaError("a map or a boolean is expected".to_owned()));
        }
        let result = match self.draft {
            Draft::Draft4 => jsonschema::draft4::meta::validate(schema),
            Draft::Draft6 => jsonschema::draft6::meta::validate(schema),
            Draft::Draft7 => jsonschema::draft7::meta::validate(schema),
            Draft::Draft202012 => jsonschema::draft202012::meta::validate(schema),
            _ => jsonschema::draft201909::meta::validate(schema),
        };
        result.map_err(|error| {
            let at = error.instance_path().as_str();
            InvalidSchemaError(if at.is_empty() { error.to_string() } else { format!("{error} at {at}") })
        })
    }
}

/// Returns the draft of a URI. A trailing `#` and the scheme make no difference.
pub(crate) fn draft_of(uri: &str) -> Option<Draft> {
    let uri = uri.trim_end_matches('#');
    let uri = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
    match uri {
        "json-schema.org/draft-04/schema" => Some(Draft::Draft4),
        "json-schema.org/draft-06/schema" => Some(Draft::Draft6),
        "json-schema.org/draft-07/schema" => Some(Draft::Draft7),
        "json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        _ => None,
    }
}

fn normalise(schema: &mut Value, hybrid: bool) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, hybrid)),
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                // Values of these keywords are data, not schemas.
                if !matches!(key.as_str(), "enum" | "const" | "default" | "examples") {
                    normalise(value, hybrid);
                }
            }
            split_dependencies(members);
            if hybrid {
                exclusive_bound(members, "exclusiveMinimum", "minimum");
                exclusive_bound(members, "exclusiveMaximum", "maximum");
                named_part(members);
            }
        }
        _ => {}
    }
}

/// Converts the name of a part in older drafts, `$id: "#name"` or `id: "#name"`, to that of later
/// drafts, `$anchor: name`.
fn named_part(members: &mut Map<String, Value>) {
    for keyword in ["$id", "id"] {
        let name = members.get(keyword).and_then(Value::as_str).and_then(|id| id.strip_prefix('#'));
        let Some(name) = name.map(str::to_owned) else { continue };
        members.remove(keyword);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if is_name {
            members.entry("$anchor").or_insert_with(|| name.into());
        }
    }
}

/// Converts the bound of draft 4, `minimum: 1, exclusiveMinimum: true`, to that of later drafts,
/// `exclusiveMinimum: 1`.
pub(crate) fn exclusive_bound(members: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = members.get(exclusive) else { return };
    let is_exclusive = *is_exclusive;
    members.remove(exclusive);
    if is_exclusive && let Some(value) = members.remove(bound) {
        members.insert(exclusive.to_owned(), value);
    }
}

/// Splits `dependencies` into the two keywords that replace it in draft 2019-09.
pub(crate) fn split_dependencies(members: &mut Map<String, Value>) {
    let is_keyword = |value: &Value| {
        value.as_object().is_some_and(|entries| {
            entries.values().all(|entry| {
                entry.as_array().is_some_and(|names| names.iter().all(Value::is_string))
                    || entry.is_object()
                    || entry.is_boolean()
            })
        })
    };
    if !members.get("dependencies").is_some_and(is_keyword)
        || members.contains_key("type") && members["type"].is_object()
    {
        return;
    }
    let Some(Value::Object(entries)) = members.remove("dependencies") else { return };
    let (names, schemas): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, entry)| entry.is_array());
    for (keyword, entries) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if !entries.is_empty() {
            members.entry(keyword).or_insert_with(|| Value::Object(entries.into_iter().collect()));
        }
    }
}
