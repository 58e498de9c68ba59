#![allow(clippy::needless_pass_by_value)]

use serde_json::json;

use super::*;

fn violations(schema: &Value, value: &Value) -> Result<String, String> {
    let compile = |dialect| Schema::compile(schema.clone(), dialect);
    let schema = Dialect::of(schema, DEFAULT_DIALECT).and_then(compile).map_err(|error| error.to_string())?;
    let texts = schema.violations(value).iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(texts.join("; "))
}

#[track_caller]
fn check(schema: Value, value: Value, expected: &str) {
    assert_eq!(violations(&schema, &value).as_deref(), Ok(expected), "{schema} {value}");
}

/// The texts of `blueprints.md` 3.7.3. The value never occurs in them.
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

/// Case: spellings of older drafts are accepted if no dialect is named.
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
fn what_is_no_schema_is_found() {
    let check = |schema: Value| {
        let checked = Dialect::of(&schema, DEFAULT_DIALECT).and_then(|dialect| dialect.check(&schema));
        checked.map_err(|error| error.to_string())
    };
    let foreign = Dialect::of(&Value::Null, "https://example.org/mine").unwrap_err();
    assert_eq!(foreign.to_string(), "the dialect \"https://example.org/mine\" is not known");
    assert_eq!(check(json!({"$schema": "https://example.org/mine"})), Ok(()));
    assert_eq!(check(json!("x")), Err("a map or a boolean is expected".to_owned()));
    assert!(check(json!({"type": "strin"})).is_err());
    assert!(check(json!({"minimum": 1, "exclusiveMinimum": true})).is_ok());
    assert!(check(json!(true)).is_ok());
}

/// Case of `blueprints.md` 3.7.1: these formats are asserted in all dialects.
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
            ("date-time", "2024-01-01T10:00:00Z", "2024-01-01 10:00"),
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

/// Case: the longest allowed chain fits on the stack of workers.
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

/// Case: rules that refer to the next one twice would never end.
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
            "(root): Invalid value: <redacted>: the check would take more than 20000000 steps: its rules refer to one another too often, or its patterns are searched in too much text"
        )
    );
}

/// Case of `helm.md` 5: faults as a tree, in the structure of Go's validator.
#[test]
fn faults_are_explained_as_a_tree() {
    let check = |schema: Value, value: Value, expected: &str| {
        let dialect = Dialect::of(&schema, "https://json-schema.org/draft/2020-12/schema").unwrap();
        let formats = if dialect.is_before_2019() { Formats::Helm } else { Formats::Ignored };
        let schema = Schema::compile_with(schema, dialect, formats).unwrap();
        let mut lines = String::new();
        schema.findings(&value).iter().for_each(|finding| finding.write(&mut lines, 0));
        assert_eq!(lines, expected);
    };
    let port = json!({"type": "integer", "minimum": 1, "maximum": 65_535});
    check(json!({"properties": {"p": port}}), json!({"p": 8080}), "");
    check(
        json!({"properties": {"p": port}}),
        json!({"p": 70_000}),
        "- at '/p': maximum: got 70,000, want 65,535",
    );
    let nested = json!({"properties": {"a": {"required": ["x", "y"], "properties": {"b": {"type": ["string", "null"]}}}, "c": {"const": 1}}});
    check(
        nested.clone(),
        json!({"a": {"b": 1}}),
        "- at '/a': missing properties 'x', 'y'\n- at '/a/b': got number, want null or string",
    );
    check(
        nested,
        json!({"a": {"b": 1}, "c": 2}),
        "- at '/a': validation failed\n  - at '/a': missing properties 'x', 'y'\n  - at '/a/b': got number, want null or string\n\
         - at '/c': value must be 1",
    );
    let choice = json!({"oneOf": [{"type": "string"}, {"required": ["k"]}], "additionalProperties": false});
    check(
        choice,
        json!({"it's": 1}),
        "- at '': additional properties 'it\\'s' not allowed\n- at '': 'oneOf' failed, none matched\n  \
         - at '': got object, want string\n  - at '': missing property 'k'",
    );
}

/// Case: each of twenty thousand rules would report the same megabyte.
#[test]
fn what_is_said_has_an_end() {
    let options: Vec<String> = (0..20_000).map(|number| format!("{number:050}")).collect();
    let rules: Vec<Value> = (0..20_000).map(|_| json!({"$ref": "#/$defs/a"})).collect();
    let document = json!({"$defs": {"a": {"enum": options}}, "allOf": rules});
    let schema = Schema::compile(
        document,
        Dialect::of(&json!({}), "https://json-schema.org/draft/2020-12/schema").unwrap(),
    )
    .unwrap();
    let violations = schema.violations(&json!(1));
    assert_eq!(violations.len(), 2);
    assert!(violations[1].problem.starts_with("further violations are not listed"), "{}", violations[1]);
    let document = json!({"items": {"type": "string"}});
    let schema = Schema::compile(
        document,
        Dialect::of(&json!({}), "https://json-schema.org/draft/2020-12/schema").unwrap(),
    )
    .unwrap();
    let numbers: Vec<usize> = (0..50_000).collect();
    assert_eq!(schema.violations(&json!(numbers)).len(), 50_000, "each place is told");
}
