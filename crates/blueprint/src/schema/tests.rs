#![allow(clippy::needless_pass_by_value)]

use serde_json::json;

use super::*;

fn definition(local_types: Value) -> Definition {
    let mut definition: Definition = serde_json::from_value(json!({"localTypes": local_types})).unwrap();
    definition.json_schema_version = Some(groundwork_schema::DEFAULT_DIALECT.to_owned());
    definition
}

fn files() -> Filesystem {
    let mut files = Filesystem::default();
    files.insert("defs/port.json", r##"{"definitions": {"low": {"maximum": 1023}, "port": {"allOf": [{"type": "integer"}, {"$ref": "#/definitions/low"}]}}}"##).unwrap();
    files.insert("defs/own.json", r##"{"$id": "https://example.org/own", "type": "object", "properties": {"p": {"$ref": "#/definitions/t"}}, "definitions": {"t": {"type": "string"}}}"##).unwrap();
    files.insert("broken.json", "{").unwrap();
    files
}

fn violations(schema: &Value, value: &Value) -> Result<String, String> {
    let definition = definition(json!({
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "pair": {"type": "array", "items": {"$ref": "local://port"}, "maxItems": 2},
        "nested": {"fields": {"name": {"type": "string"}}, "a/b": {"type": "null"}},
        "tree": {"type": "object", "properties": {"children": {"items": {"$ref": "local://tree"}}}},
    }));
    let (schema, _) = compile(schema, &definition, &files(), None).map_err(|error| error.to_string())?;
    let texts = schema.violations(value).iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(texts.join("; "))
}

#[track_caller]
fn check(schema: Value, value: Value, expected: &str) {
    assert_eq!(violations(&schema, &value).as_deref(), Ok(expected), "{schema} {value}");
}

#[track_caller]
fn check_error(schema: Value, expected: &str) {
    assert_eq!(violations(&schema, &json!(1)).unwrap_err(), expected);
}

#[test]
fn references_are_followed() {
    check(
        json!({"$ref": "local://port"}),
        json!(70000),
        "(root): Invalid value: <redacted>: Must be less than or equal to 65535",
    );
    check(
        json!({"items": {"$ref": "local://pair"}}),
        json!([[1, 0]]),
        "0.1: Invalid value: <redacted>: Must be greater than or equal to 1",
    );
    check(
        json!({"$ref": "local://nested#/fields/name"}),
        json!(1),
        "(root): Invalid value: <redacted>: Invalid type. Expected: string, given: integer",
    );
    check(json!({"$ref": "local://nested#/a~1b"}), json!(null), "");
    check(
        json!({"$ref": "blueprint://defs/port.json#/definitions/port"}),
        json!(2000),
        "(root): Invalid value: <redacted>: Must be less than or equal to 1023",
    );
    check(
        json!({"$ref": "blueprint:///defs/own.json"}),
        json!({"p": 1}),
        "p: Invalid value: <redacted>: Invalid type. Expected: string, given: integer",
    );
    check(json!({"$ref": "local://port", "maximum": 5}), json!(10), "");
}

#[test]
fn references_that_lead_nowhere() {
    let prefix = "error compiling jsonschema: error resolving reference at";
    for (reference, problem) in [
        ("local://nope", "type nope is not defined in local types"),
        ("local://port/x", "a path is not supported for local resources"),
        (
            "local://nested#/fields/nope",
            "error resolving fragment fields/nope: element at \"fields\" doesn't have a field \"nope\"",
        ),
        ("local://port#/type/x", "unable to resolve fragment type/x: element at \"type\" is no object"),
        ("blueprint://nope.json", "unable to read local schema from nope.json: file does not exist"),
        ("cd://resources/x", "no component descriptor defined to resolve the ref"),
    ] {
        check_error(
            json!({"properties": {"a": {"$ref": reference}}}),
            &format!("{prefix} .properties.a.$ref: {problem}"),
        );
    }
    check_error(
        json!({"$ref": "local://tree"}),
        &format!("{prefix} .properties.children.items.$ref: cyclic references detected: reference \"local://tree\" is part of a cycle").replace("at .properties", "at .properties"),
    );
    check_error(
        json!({"$ref": 5}),
        "error compiling jsonschema: invalid reference value at .$ref: expected string, got number",
    );
    assert!(violations(&json!({"$ref": "https://example.org/x"}), &json!(1)).is_err(), "nothing is fetched");
}

/// Component with its schema resources by URI, and the components that other URIs lead to.
struct Source(&'static str);

impl SchemaSource for Source {
    fn schema(&self, uri: &str) -> Result<ForeignSchema, String> {
        let foreign =
            |owner: &'static str, document: Value| ForeignSchema { document, owner: Box::new(Source(owner)) };
        Ok(match (self.0, uri) {
            ("a:1", "cd://resources/own") => {
                foreign("a:1", json!({"definitions": {"s": {"type": "string"}}}))
            }
            ("a:1", "cd://componentReferences/b/resources/x") => foreign(
                "b:2",
                json!({"properties": {"p": {"$ref": "cd://resources/own"}, "q": {"$ref": "#/definitions/i"}}, "definitions": {"i": {"type": "integer"}}}),
            ),
            // The same URI as above, but in another component.
            ("b:2", "cd://resources/own") => foreign("b:2", json!({"type": "null"})),
            ("a:1", "cd://resources/local") => foreign("a:1", json!({"items": {"$ref": "local://port"}})),
            ("a:1", "cd://resources/file") => {
                foreign("a:1", json!({"items": {"$ref": "blueprint://broken.json"}}))
            }
            ("a:1", "cd://resources/circle") => {
                foreign("a:1", json!({"items": {"$ref": "cd://resources/circle"}}))
            }
            _ => return Err("not found".to_owned()),
        })
    }

    fn component(&self) -> String {
        self.0.to_owned()
    }
}

/// Case B-19, `blueprints.md` 3.7: documents of a component see their own component, but not the
/// blueprint.
#[test]
fn references_to_components() {
    let definition = definition(
        json!({"port": {"type": "integer"}, "far": {"$ref": "cd://resources/own#/definitions/s"}}),
    );
    let check = |reference: &str, value: Value, expected: Result<&str, &str>| {
        let result = compile(&json!({"$ref": reference}), &definition, &files(), Some(&Source("a:1")))
            .map(|(schema, _)| {
                schema.violations(&value).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            })
            .map_err(|error| error.to_string());
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{reference}");
    };
    let text_expected = "(root): Invalid value: <redacted>: Invalid type. Expected: string, given: integer";
    check("cd://resources/own#/definitions/s", json!(1), Ok(text_expected));
    check("local://far", json!(1), Ok(text_expected));
    check("cd://componentReferences/b/resources/x", json!({"p": null, "q": 1}), Ok(""));
    check(
        "cd://componentReferences/b/resources/x",
        json!({"p": "text", "q": "text"}),
        Ok(
            "p: Invalid value: <redacted>: Invalid type. Expected: null, given: string; q: Invalid value: <redacted>: \
            Invalid type. Expected: integer, given: string",
        ),
    );
    let prefix = "error compiling jsonschema: error resolving reference at";
    for (reference, problem) in [
        ("cd://resources/nope", ".$ref: unable to fetch jsonschema for 'cd://resources/nope': not found"),
        ("cd://resources/local", ".items.$ref: type port is not defined in local types"),
        ("cd://resources/file", ".items.$ref: no filesystem defined to read a local schema"),
        (
            "cd://resources/circle",
            ".items.$ref: cyclic references detected: reference \"cd://resources/circle\" from component a:1 is part \
             of a cycle",
        ),
    ] {
        check(reference, json!(1), Err(&format!("{prefix} {problem}")));
    }
}

/// A fragment without a slash that is the name of no part means the whole document, as for
/// Landscaper.
#[test]
fn fragments_without_a_slash() {
    let forgotten = |fragment: &str| json!({"type": "object", "properties": {"a": {"$ref": format!("#{fragment}")}}, "definitions": {"t": {"type": "string"}}});
    for fragment in ["definitions/t", "definition/t", "t", "$defs"] {
        check(forgotten(fragment), json!({"a": {"a": {}}}), "");
        check(
            forgotten(fragment),
            json!({"a": "x"}),
            "a: Invalid value: <redacted>: Invalid type. Expected: object, given: string",
        );
        assert!(misread(&forgotten(fragment)).contains(fragment), "{fragment}");
    }
    assert!(misread(&forgotten("/definitions/t")).is_empty() && misread(&forgotten("")).is_empty());
    for name in [json!({"$id": "#t"}), json!({"id": "#t"}), json!({"$anchor": "t"})] {
        let mut schema = forgotten("t");
        schema["definitions"]["t"].as_object_mut().unwrap().extend(name.as_object().cloned().unwrap());
        check(schema.clone(), json!({"a": "x"}), "");
        assert!(misread(&schema).is_empty(), "{schema}");
    }
}

/// A schema that names a foreign dialect is read as one that names none.
#[test]
fn foreign_dialects() {
    for dialect in ["http://json-schema.org/schema#", "https://example.org/dialect"] {
        let schema = json!({"$schema": dialect, "minimum": 1, "exclusiveMinimum": true});
        check(schema.clone(), json!(2), "");
        check(schema.clone(), json!(1), "(root): Invalid value: <redacted>: Must be greater than 1");
        let definition = definition(json!({}));
        let warning = Checker::new(&definition).warning(&schema).unwrap();
        assert!(warning.contains(dialect), "{warning}");
        assert_eq!(Checker::new(&definition).warning(&json!({"type": "string"})), None);
    }
}
