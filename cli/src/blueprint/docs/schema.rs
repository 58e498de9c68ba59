//! JSON schemas for readers: one line, a table of the fields, or the schema itself where a table
//! cannot show all of it.

use serde_json::{Map, Value};

use super::markdown::{cell, code, fenced, paragraph, table};

/// Limit for the rows of a table. Tables of more fields are hard to read, so the schema itself is
/// shown.
const MOST_FIELDS: usize = 40;
const DEEPEST_FIELD: usize = 4;

/// Keywords that a table can show.
const TOLD: [&str; 29] = [
    "$comment",
    "$ref",
    "$schema",
    "additionalProperties",
    "const",
    "default",
    "description",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Keywords whose rule is a single value, with the words in front of the value.
const RULES: [(&str, &str); 15] = [
    ("const", "is"),
    ("format", "format"),
    ("pattern", "matches"),
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("multipleOf", "multiple of"),
    ("minLength", "length ≥"),
    ("maxLength", "length ≤"),
    ("minItems", "entries ≥"),
    ("maxItems", "entries ≤"),
    ("minProperties", "fields ≥"),
    ("maxProperties", "fields ≤"),
    ("uniqueItems", "entries differ:"),
];

/// Returns the type in a word or two; empty if the schema does not give one.
pub(super) fn type_of(schema: &Value) -> String {
    let Value::Object(members) = schema else { return String::new() };
    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
        return code(reference);
    }
    let types: Vec<String> = match members.get("type") {
        Some(Value::String(name)) => vec![cell(name)],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(cell).collect(),
        _ => Vec::new(),
    };
    let of = members.get("items").map(type_of).filter(|of| !of.is_empty());
    match of {
        Some(of) if types == ["array"] => format!("array of {of}"),
        _ => types.join(" or "),
    }
}

/// Returns title and description as one text.
pub(super) fn description(schema: &Value) -> String {
    let text = |member: &str| schema.get(member).and_then(Value::as_str).map(cell).unwrap_or_default();
    let parts = [text("title"), text("description")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("<br>")
}

/// Returns the constraints on values besides their type, and examples of values.
pub(super) fn rules(schema: &Value) -> String {
    let Value::Object(members) = schema else { return String::new() };
    let values = |list: &Value| {
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().map(|value| code(&value.to_string())).collect::<Vec<_>>().join(", ")
    };
    let mut rules = Vec::new();
    rules.extend(members.get("enum").map(|list| format!("one of {}", values(list))));
    for (keyword, word) in RULES {
        let value = members.get(keyword);
        rules.extend(value.map(|value| format!("{word} {}", code(&plain(value)))));
    }
    if members.get("additionalProperties") == Some(&Value::Bool(false)) {
        rules.push("no other fields".to_owned());
    }
    let mut text = rules.join("; ");
    for examples in
        [members.get("examples").map(values), members.get("example").map(|value| code(&value.to_string()))]
    {
        let Some(examples) = examples.filter(|examples| !examples.is_empty()) else { continue };
        text.push_str(if text.is_empty() { "" } else { "<br>" });
        text.push_str(&format!("e.g. {examples}"));
    }
    text
}

/// Returns a string without its quotes, and other values as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the part of a schema that does not fit in one line: an empty text, a table of fields, or
/// the schema itself.
pub(super) fn details(schema: &Value) -> String {
    let mut rows = Vec::new();
    if is_told(schema) && fields(schema, "", 0, &mut rows).is_some() && rows.len() <= MOST_FIELDS {
        if rows.is_empty() {
            return String::new();
        }
        return table(["Field", "Type", "Required", "Default", "Rules", "Description"], &rows);
    }
    fenced("json", &format!("{schema:#}"))
}

/// Shows a schema on its own: its line as a paragraph, and the rest below.
pub(super) fn whole(schema: &Value) -> String {
    let text = |member: &str| schema.get(member).and_then(Value::as_str).map(paragraph);
    let line = [type_of(schema), rules(schema).replace("<br>", "; ")];
    let line = line.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let blocks = [text("title"), text("description"), Some(line), Some(details(schema))];
    let blocks = blocks.into_iter().flatten().map(|block| block.trim_end().to_owned());
    let blocks: Vec<String> = blocks.filter(|block| !block.is_empty()).collect();
    if blocks.is_empty() { "Any value.\n".to_owned() } else { blocks.join("\n\n") + "\n" }
}

/// Reports whether a table shows everything in this schema. Schemas of fields and entries are
/// checked with their rows.
fn is_told(schema: &Value) -> bool {
    match schema {
        Value::Bool(allowed) => *allowed,
        Value::Object(members) => {
            let only_known = members.keys().all(|key| TOLD.contains(&key.as_str()));
            let other_fields = members.get("additionalProperties").is_none_or(Value::is_boolean);
            // Keywords beside a `$ref` are ignored, so only the reference counts.
            only_known && other_fields
        }
        _ => false,
    }
}

/// Adds a row for each field and for the fields below it. Returns `None` if a table cannot show the
/// schema.
fn fields(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<[String; 6]>) -> Option<()> {
    let Value::Object(members) = schema else { return Some(()) };
    if let Some(items) = members.get("items") {
        is_told(items).then_some(())?;
        fields(items, &format!("{prefix}[]"), depth, rows)?;
    }
    let none = Map::new();
    let properties = match members.get("properties") {
        Some(properties) => properties.as_object()?,
        None => &none,
    };
    let required: Vec<&str> = members
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // A field that is required but not described would get no row.
    required.iter().all(|name| properties.contains_key(*name)).then_some(())?;
    for (name, field) in properties {
        (is_told(field) && depth < DEEPEST_FIELD).then_some(())?;
        let dot = if prefix.is_empty() { "" } else { "." };
        let path = format!("{prefix}{dot}{name}");
        rows.push([
            code(&path),
            type_of(field),
            if required.contains(&name.as_str()) { "yes".to_owned() } else { String::new() },
            field.get("default").map(|value| code(&value.to_string())).unwrap_or_default(),
            rules(field),
            description(field),
        ]);
        if rows.len() <= MOST_FIELDS {
            fields(field, &path, depth + 1, rows)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// B-43: descriptions and examples reach readers.
    #[test]
    fn one_line() {
        let schema = json!({
            "type": "string", "title": "T", "description": "a|b", "minLength": 1, "enum": ["x", "y"], "pattern": "^a|b$",
            "examples": ["x", {"y": 1}]
        });
        assert_eq!(type_of(&schema), "string");
        assert_eq!(description(&schema), "T<br>a|b");
        assert_eq!(
            rules(&schema),
            r#"one of `"x"`, `"y"`; matches `^a|b$`; length ≥ `1`<br>e.g. `"x"`, `{"y":1}`"#
        );
        assert_eq!(details(&schema), "");
        assert_eq!(
            type_of(&json!({"type": "array", "items": {"type": ["string", "null"]}})),
            "array of string or null"
        );
        assert_eq!(type_of(&json!({"$ref": "local://port"})), "`local://port`");
        assert_eq!(whole(&json!(true)), "Any value.\n");
    }

    #[test]
    fn fields_of_objects() {
        let schema = json!({
            "type": "object",
            "required": ["db"],
            "properties": {
                "db": {"type": "object", "properties": {"port": {"type": "integer", "default": 5432}}},
                "hosts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            }
        });
        assert_eq!(
            details(&schema),
            "\
| Field | Type | Required | Default |
| --- | --- | --- | --- |
| `db` | object | yes |  |
| `db.port` | integer |  | `5432` |
| `hosts` | array of object |  |  |
| `hosts[].name` | string |  |  |
"
        );
    }

    /// A schema that a table cannot show is printed as it is.
    #[test]
    fn other_schemas_are_shown_as_they_are() {
        let deep = (0..6).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
        let many: Map<String, Value> = (0..50).map(|index| (format!("f{index}"), json!({}))).collect();
        for schema in [
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"properties": {"a": {"not": {}}}}),
            json!({"items": {"anyOf": []}}),
            json!({"required": ["a"]}),
            json!({"additionalProperties": {"type": "string"}}),
            json!({"properties": {"a": false}}),
            json!({"properties": many}),
            deep,
        ] {
            assert_eq!(details(&schema), format!("```json\n{schema:#}\n```\n"));
        }
    }
}
