#![allow(clippy::needless_pass_by_value)]

use serde_json::json;

use super::*;

fn definition(local_types: Value) -> Blueprint {
    let mut definition: Blueprint = serde_json::from_value(json!({"localTypes": local_types})).unwrap();
    definition.json_schema_version = Some(crate::load::DEFAULT_DIALECT.to_owned());
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
    let schema = Schema::compile(schema, &definition, &files(), None).map_err(|error| error.to_string())?;
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

/// The texts of `blueprints.md` 3.7.3; the value never shows.
#[test]
fn texts() {
    let at = |problem: &str| format!("(root): Invalid value: <redacted>: {problem}");
    for (schema, value, problem) in [
        (json!({"type": "string"}), json!(1), "Invalid type. Expected: string, given: integer"),
        (
            json!({"type": ["string", "null"]}),
            json!(1.5),
            "Invalid type. Expected: [null,string], given: number",
        ),
        (json!({"required": ["a"]}), json!({}), "a is required"),
        (json!({"enum": ["a", 1]}), json!("b"), "(root) must be one of the following: \"a\", 1"),
        (json!({"const": {"a": 1}}), json!(2), "(root) does not match: {\"a\":1}"),
        (json!({"pattern": "^a"}), json!("secret"), "Does not match pattern '^a'"),
        (json!({"format": "ipv4"}), json!("secret"), "Does not match format 'ipv4'"),
        (json!({"minLength": 2}), json!("s"), "String length must be greater than or equal to 2"),
        (json!({"maxLength": 2}), json!("sss"), "String length must be less than or equal to 2"),
        (json!({"minimum": 2}), json!(1), "Must be greater than or equal to 2"),
        (json!({"exclusiveMaximum": 2}), json!(2), "Must be less than 2"),
        (json!({"minItems": 1}), json!([]), "Array must have at least 1 items"),
        (json!({"maxItems": 1}), json!([1, 2]), "Array must have at most 1 items"),
        (json!({"additionalProperties": false}), json!({"a": 1}), "Additional property a is not allowed"),
        (json!({"anyOf": [{"type": "string"}]}), json!(1), "Must validate at least one schema (anyOf)"),
        (json!({"oneOf": [{}, {}]}), json!(1), "Must validate one and only one schema (oneOf)"),
        (json!({"not": {}}), json!(1), "Must not validate the schema (not)"),
        (json!(false), json!(1), "False always fails validation"),
    ] {
        check(schema, value, &at(problem));
    }
    check(
        json!({"properties": {"cpu": {"items": {"type": "string"}}}}),
        json!({"cpu": ["1", 2]}),
        "cpu.1: Invalid value: <redacted>: Invalid type. Expected: string, given: integer",
    );
}

#[test]
fn numbers_and_formats() {
    check(json!({"type": "integer"}), json!(3.0), "");
    for format in ["int32", "duration", "idn-hostname", "whatever"] {
        check(json!({"format": format}), json!("x"), "");
    }
}

/// Spellings of older drafts stay usable where no dialect is named.
#[test]
fn older_spellings() {
    let schema = json!({"minimum": 1, "exclusiveMinimum": true});
    check(schema.clone(), json!(1), "(root): Invalid value: <redacted>: Must be greater than 1");
    check(schema, json!(2), "");
    check(json!({"minimum": 1, "exclusiveMinimum": false}), json!(1), "");
    check(json!({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}}), json!(null), "");
    let schema = json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}});
    check(schema.clone(), json!({"a": 1, "b": 1}), "");
    assert_ne!(violations(&schema, &json!({"a": 1})).unwrap(), "");
    check(schema, json!({"c": 1}), "(root): Invalid value: <redacted>: d is required");
    let draft4 =
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true});
    check(draft4, json!(1), "(root): Invalid value: <redacted>: Must be greater than 1");
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

#[test]
fn checker_finds_what_is_no_schema() {
    let definition = definition(json!({}));
    let checker = Checker::new(&definition);
    assert_eq!(
        checker.check(&json!({"$schema": "https://example.org/mine"})),
        Err("the dialect \"https://example.org/mine\" is not known".to_owned())
    );
    assert_eq!(checker.check(&json!("x")), Err("a map or a boolean is expected".to_owned()));
    assert!(checker.check(&json!({"type": "strin"})).is_err());
    assert!(checker.check(&json!({"minimum": 1, "exclusiveMinimum": true})).is_ok());
    assert!(checker.check(&json!(true)).is_ok());
}

/// `blueprints.md` 3.7.1: these formats are asserted, whatever the dialect.
#[test]
fn formats_in_all_dialects() {
    for dialect in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        for (format, fits, misfit) in [
            ("date", "2024-02-29", "2023-02-29"),
            ("time", "10:00:00Z", "25:00:00Z"),
            ("date-time", "2024-01-01T10:00:00Z", "2024-01-01"),
            ("hostname", "a.example.org", "-a-"),
            ("email", "a@example.org", "example.org"),
            ("idn-email", "ü@example.org", "example.org"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("uri", "https://example.org/a", "/a"),
            ("uri-reference", "/a", "\\a"),
            ("iri", "https://example.org/ü", "/ü"),
            ("iri-reference", "/ü", "\\a"),
            ("uri-template", "/a/{b}", "/a/{b"),
            ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
            ("regex", "^a$", "a("),
            ("json-pointer", "/a/b", "a/b"),
            ("relative-json-pointer", "1/a", "/a"),
        ] {
            let schema = json!({"$schema": dialect, "format": format});
            assert_eq!(violations(&schema, &json!(fits)).as_deref(), Ok(""), "{dialect} {format}");
            assert_eq!(
                violations(&schema, &json!(misfit)),
                Ok(format!("(root): Invalid value: <redacted>: Does not match format '{format}'")),
                "{dialect} {format}"
            );
        }
    }
}

/// A component with its schema resources by URI, and the components that other URIs lead to.
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
            // The same text as above, but another component.
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

/// `blueprints.md` 3.7.2: documents of components see their own component and nothing of the blueprint. B-19.
#[test]
fn references_to_components() {
    let definition = definition(
        json!({"port": {"type": "integer"}, "far": {"$ref": "cd://resources/own#/definitions/s"}}),
    );
    let check = |reference: &str, value: Value, expected: Result<&str, &str>| {
        let result =
            Schema::compile(&json!({"$ref": reference}), &definition, &files(), Some(&Source("a:1")))
                .map(|schema| {
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

/// The longest chain that is let through fits the stack that workers have.
#[test]
fn chains_fit_the_stack() {
    let follow = || {
        let rules: serde_json::Map<_, _> = (0..995)
            .map(|index| (format!("a{index}"), json!({"$ref": format!("#/$defs/a{}", index + 1)})))
            .collect();
        let mut schema = json!({"$defs": rules, "$ref": "#/$defs/a0"});
        schema["$defs"]["a995"] = json!({"type": "string"});
        assert_eq!(violations(&schema, &json!("a")).as_deref(), Ok(""));
        assert_ne!(violations(&schema, &json!(1)).as_deref(), Ok(""));
    };
    std::thread::Builder::new().stack_size(4 << 20).spawn(follow).unwrap().join().unwrap();
}

/// Rules that refer to the next one twice have no end.
#[test]
fn checks_that_would_not_end_are_not_made() {
    let rules: serde_json::Map<_, _> = (0..60)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            (format!("a{level}"), json!({"allOf": [next, next]}))
        })
        .collect();
    let mut schema = json!({"$defs": rules, "$ref": "#/$defs/a0"});
    schema["$defs"]["a60"] = json!({"type": "string"});
    assert_eq!(
        violations(&schema, &json!("a")).as_deref(),
        Ok(
            "(root): Invalid value: <redacted>: the check would take more than 100000000 steps: its rules refer to one another too often"
        )
    );
}
