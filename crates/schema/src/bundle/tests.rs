#![allow(clippy::needless_pass_by_value)]

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::Schema;

const NEWEST: &str = "https://json-schema.org/draft/2020-12/schema";

/// Checks the findings about a value, in lines, or the error of the schema. The expected texts are
/// those of Helm's library with the same documents.
fn check(root: Value, files: &[(&str, Value)], value: &Value, expected: &str) {
    let files: BTreeMap<&str, &Value> = files.iter().map(|(address, file)| (*address, file)).collect();
    let bundled = bundle(root.clone(), NEWEST, &mut |address| files.get(address).map(|file| (*file).clone()));
    let got = match bundled {
        Ok(Bundle { document, dialect, formats, .. }) => {
            let schema = Schema::compile_with(document, dialect, formats).expect("a bundle is a schema");
            let mut lines = String::new();
            schema.findings(value).iter().for_each(|finding| finding.write(&mut lines, 0));
            lines
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(got, expected, "{root}");
}

#[test]
fn references_lead_to_documents_that_are_held() {
    let text = json!({"type": "string"});
    let of_string = "- at '/v': got number, want string";
    let value = json!({"v": 1});
    for (root, address, file) in [
        (json!({"properties": {"v": {"$ref": "https://a.ex/1.json"}}}), "https://a.ex/1.json", text.clone()),
        (json!({"properties": {"v": {"$ref": "https://a.ex/1.json#"}}}), "https://a.ex/1.json", text.clone()),
        // Addresses are relative to the id of the root, or to the nearest one above.
        (
            json!({"$id": "https://a.ex/d/root.json", "properties": {"v": {"$ref": "../1.json"}}}),
            "https://a.ex/1.json",
            text.clone(),
        ),
        (
            json!({"$id": "https://a.ex/root.json", "properties": {"v": {"$id": "/d/", "allOf": [{"$ref": "1.json"}]}}}),
            "https://a.ex/d/1.json",
            json!({"$id": "https://a.ex/d/1.json", "$ref": "#own", "$defs": {"t": {"$anchor": "own", "type": "string"}}}),
        ),
        // A reference may lead to a part that is not a schema to any draft, and its address may
        // need escapes.
        (
            json!({"$ref": "https://a.ex/a~b.json#/x/y%20z"}),
            "https://a.ex/a~b.json",
            json!({"x": {"y z": {"properties": {"v": {"$ref": "#/t"}}}}, "t": {"type": "string"}}),
        ),
    ] {
        let expected = if root["properties"]["v"].get("allOf").is_some() {
            "- at '/v': 'allOf' failed\n  - at '/v': got number, want string"
        } else {
            of_string
        };
        check(root.clone(), &[(address, file.clone())], &value, expected);
        check(root, &[(address, file)], &json!({"v": "x"}), "");
    }
}

/// Case from the schema of HULL: Helm's library accepts references that are not valid fragments.
#[test]
fn pointers_with_odd_characters() {
    for draft in ["http://json-schema.org/draft-07/schema#", NEWEST] {
        let root = json!({
            "$schema": draft, "properties": {"v": {"$ref": "#/definitions/x^.v1 é"}},
            "definitions": {"x^.v1 é": {"type": "string"}},
        });
        check(root, &[], &json!({"v": 1}), "- at '/v': got number, want string");
    }
    let root = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "properties": {"v": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"$id": "#/definitions/x^.v1", "type": "string"}},
    });
    check(root, &[], &json!({"v": 1}), "- at '/v': got number, want string");
}

#[test]
fn parts_with_addresses_of_their_own() {
    let root = |reference: &str| {
        json!({
            "$id": "https://a.ex/root.json", "properties": {"v": {"$ref": reference}},
            "$defs": {"x": {"$id": "d/x.json", "$ref": "#/$defs/y", "$defs": {"y": {"$anchor": "y", "type": "string"}}}},
        })
    };
    for reference in
        ["d/x.json", "https://a.ex/d/x.json#", "d/x.json#y", "d/x.json#/$defs/y", "root.json#/$defs/x"]
    {
        check(root(reference), &[], &json!({"v": 1}), "- at '/v': got number, want string");
        check(root(reference), &[], &json!({"v": ""}), "");
    }
}

/// Case: documents of several drafts together. Each counts by the rules of its own draft.
#[test]
fn drafts_are_mixed() {
    let old = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {
            "l": {"items": [{"type": "string"}], "additionalItems": false},
            "f": {"format": "ipv4"},
            "r": {"$ref": "#/definitions/n", "type": "string"},
            "u": {"unevaluatedProperties": false},
        },
        "definitions": {"n": {"type": "integer"}},
    });
    let root = json!({"properties": {"f": {"format": "ipv4"}}, "allOf": [{"$ref": "https://a.ex/old.json"}]});
    let one = |inner: &str| format!("- at '': 'allOf' failed\n  - at {inner}");
    let files = [("https://a.ex/old.json", old)];
    check(root.clone(), &files, &json!({"l": ["a"], "r": 1, "u": {"a": 1}, "f": "1.2.3.4"}), "");
    check(
        root.clone(),
        &files,
        &json!({"f": "x"}),
        &one("'/f': 'x' is not valid ipv4: expected four decimals"),
    );
    check(root.clone(), &files, &json!({"r": "x"}), &one("'/r': got string, want integer"));
    check(root, &files, &json!({"l": [1]}), &one("'/l/0': got number, want string"));
    let root = json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"minimum": 1, "exclusiveMinimum": true}}, "allOf": [{"$ref": "https://a.ex/new.json"}], "$defs": {"x": {"exclusiveMinimum": true}}});
    let new = json!({"$schema": NEWEST, "properties": {"f": {"format": "ipv4"}}, "unevaluatedProperties": {"const": 1}});
    let files = [("https://a.ex/new.json", new)];
    check(root.clone(), &files, &json!({"f": "x"}), "");
    check(root, &files, &json!({"n": 1}), "- at '/n': exclusiveMinimum: got 1, want 1");
}

/// Case of `helm.md` 15, R8: the error names the first reference without a document, by its place,
/// each time.
#[test]
fn what_nobody_holds_is_refused() {
    let refused = |reference: &str| format!("schema reference {reference} is not allowed");
    for (root, reference) in [
        (
            json!({"$id": "https://a.ex/root.json", "properties": {"a": {"$ref": "1.json"}, "b": {"$ref": "2.json"}}}),
            "https://a.ex/1.json",
        ),
        (json!({"$ref": "other.json"}), "other.json"),
        (json!({"$ref": "https://a.ex/x.json#/a"}), "https://a.ex/x.json#/a"),
        (json!({"$id": "https://a.ex/r", "$ref": "https://b.ex/x#/a"}), "https://b.ex/x#/a"),
        (json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd"),
        (json!({"$schema": "https://a.ex/mine"}), "https://a.ex/mine"),
        // References of the root come first, at any depth, then those of the documents that it
        // refers to.
        (
            json!({"$ref": "#/$defs/a", "properties": {"z": {"items": {"$ref": "z.json"}}}, "$defs": {"a": {"$ref": "a.json"}}}),
            "z.json",
        ),
        (json!({"allOf": [{"$ref": "https://a.ex/held.json"}]}), "https://a.ex/in/no.json#x"),
    ] {
        let held = json!({"$ref": "in/no.json#x"});
        check(root, &[("https://a.ex/held.json", held)], &json!({}), &refused(reference));
    }
    // These are never applied, so their references do not count.
    for root in [
        json!({"$defs": {"x": {"$ref": "https://a.ex/x.json"}}}),
        json!({"enum": [{"$ref": "https://a.ex/x.json"}]}),
        json!({"x-own": {"$ref": "x.json"}, "properties": {"$ref": {"type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "$defs": {"x": {"$ref": "https://a.ex/x.json"}}}),
    ] {
        check(root, &[], &json!({"$ref": "https://a.ex/x.json"}), "");
    }
}

#[test]
fn what_is_no_schema_says_where() {
    let no = |place: &str, draft: &str, lines: &str| {
        format!(
            "\"{place}\" is not valid against metaschema: jsonschema validation failed with '{draft}#'\n{lines}"
        )
    };
    let seven = "http://json-schema.org/draft-07/schema";
    let old = |schema: Value| {
        let mut schema = schema;
        schema["$schema"] = seven.into();
        schema
    };
    check(
        old(json!({"properties": {"a": {"pattern": "^(?!x)"}}})),
        &[],
        &json!(1),
        &no(
            "file:///values.schema.json#",
            seven,
            "- at '/properties/a/pattern': '^(?!x)' is not valid regex: error parsing regexp: invalid or unsupported Perl syntax: `(?!`",
        ),
    );
    check(
        old(json!({"enum": []})),
        &[],
        &json!(1),
        &no("file:///values.schema.json#", seven, "- at '/enum': minItems: got 0, want 1"),
    );
    check(
        json!({"$ref": "https://a.ex/x.json"}),
        &[("https://a.ex/x.json", json!({"required": "a"}))],
        &json!(1),
        &no(
            "https://a.ex/x.json#",
            NEWEST,
            "- at '': 'allOf' failed\n  - at '/required': got string, want array",
        ),
    );
    check(
        json!({"$ref": "#/x", "x": 5}),
        &[],
        &json!(1),
        &no("file:///values.schema.json#/x", NEWEST, "- at '': got number, want boolean or object"),
    );
    check(
        json!({"$ref": "#/$defs/no"}),
        &[],
        &json!(1),
        "json-pointer in \"file:///values.schema.json#/$defs/no\" not found",
    );
    check(
        json!({"$ref": "#no"}),
        &[],
        &json!(1),
        "anchor in \"file:///values.schema.json#no\" not found in schema \"file:///values.schema.json\"",
    );
    check(json!({"$id": "::"}), &[], &json!(1), "error in parsing id at \"file:///values.schema.json#\"");
    let six =
        json!({"$schema": "http://json-schema.org/draft-06/schema#", "patternProperties": {"(?!x)": {}}});
    check(
        six,
        &[],
        &json!(1),
        "invalid regex \"(?!x)\" at \"file:///values.schema.json#/patternProperties\": error parsing regexp: invalid or unsupported Perl syntax: `(?!`",
    );
}

#[test]
fn metaschemas_and_names_are_known() {
    let wrong = json!({"minLength": "x"});
    let seven = "http://json-schema.org/draft-07/schema#";
    let expected = "- at '/minLength': 'allOf' failed\n  - at '/minLength': got string, want integer";
    check(json!({"$ref": seven}), &[], &wrong, expected);
    let expected = "- at '': 'allOf' failed\n  - at '/minLength': got string, want integer";
    check(json!({"$ref": NEWEST}), &[], &wrong, expected);
    for reference in [seven, NEWEST] {
        check(json!({"$ref": reference}), &[], &json!({"minLength": 1}), "");
    }
    check(json!({"$ref": "urn:x:y"}), &[], &json!(1), "");
    check(json!({"$ref": "urn:x:y"}), &[("urn:x:y", json!(false))], &json!(1), "- at '': false schema");
    let warnings = bundle(json!({"$ref": "urn:x:y"}), NEWEST, &mut |_| None).map(|bundle| bundle.warnings);
    let expected = "WARNING: unresolved URN reference ignored; using permissive schema: urn:x:y".to_owned();
    assert_eq!(warnings, Ok(vec![expected]));
}

#[test]
fn documents_have_an_end() {
    let mut next = |address: &str| {
        let number: usize = address.strip_prefix("https://a.ex/")?.parse().ok()?;
        Some(json!({"$ref": format!("https://a.ex/{}", number + 1)}))
    };
    let error = bundle(json!({"$ref": "https://a.ex/0"}), NEWEST, &mut next).map(drop);
    assert_eq!(error, Err(BundleError::TooMany));
}

/// Case: Helm's library treats a rule that leads back to itself as a fault.
#[test]
fn rings_of_rules() {
    let ring = |second: &str, first: &str, target: &str| {
        format!("both {second} and {first} resolve to \"{target}\" causing reference cycle")
    };
    let place = "file:///values.schema.json#";
    let own = ring("/$ref", "", place);
    check(json!({"$ref": "#"}), &[], &json!({"a": 1}), &format!("- at '': {own}"));
    let defs = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}});
    let root = json!({"$defs": defs, "properties": {"v": {"$ref": "#/$defs/a"}}});
    let target = format!("{place}/$defs/a");
    let text = ring("/properties/v/$ref/$ref/$ref", "/properties/v/$ref", &target);
    check(root.clone(), &[], &json!({"v": 1}), &format!("- at '/v': {text}"));
    check(root, &[], &json!({"w": 1}), "");
    let either = json!({"anyOf": [{"type": "object"}, {"$ref": "#"}]});
    check(either.clone(), &[], &json!({}), "");
    let text = ring("/anyOf/1/$ref", "", place);
    check(
        either,
        &[],
        &json!(1),
        &format!("- at '': 'anyOf' failed\n  - at '': got number, want object\n  - at '': {text}"),
    );
    check(json!({"not": {"$ref": "#"}}), &[], &json!(1), "");
    let file = json!({"items": {"$ref": "#/items"}});
    let text = ring("/$ref/items/$ref", "/$ref/items", "https://a.ex/x.json#/items");
    check(
        json!({"$ref": "https://a.ex/x.json"}),
        &[("https://a.ex/x.json", file)],
        &json!([1]),
        &format!("- at '/0': {text}"),
    );
    // There are many ways through these rules.
    let rules: Vec<Value> = (0..12).map(|rule| json!({"$ref": format!("#/$defs/{rule}")})).collect();
    let defs: Map<String, Value> = (0..12).map(|rule| (rule.to_string(), json!({"allOf": rules}))).collect();
    let root = json!({"$defs": defs, "$ref": "#/$defs/0"});
    let bundled = bundle(root, NEWEST, &mut |_| None).expect("it is a schema");
    let schema =
        Schema::compile_with(bundled.document, bundled.dialect, bundled.formats).expect("it compiles");
    let findings = schema.findings(&json!(1));
    assert!(findings[0].message.starts_with("the check would take more than"), "{findings:?}");
}

#[test]
fn what_is_unevaluated() {
    let all = |findings: &[&str]| findings.join("\n");
    let root = |more: Value| {
        let mut root = json!({"properties": {"a": {"type": "string"}}, "unevaluatedProperties": false});
        root.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        root
    };
    let unknown = "- at '/zz': false schema";
    check(root(json!({})), &[], &json!({"a": "x", "zz": 1}), unknown);
    check(
        root(json!({})),
        &[],
        &json!({"a": 1, "zz": 1}),
        &all(&["- at '/a': got number, want string", unknown]),
    );
    check(root(json!({"allOf": [{"properties": {"zz": {}}}]})), &[], &json!({"zz": 1}), "");
    check(
        root(json!({"allOf": [{"properties": {"zz": {"type": "string"}}}]})),
        &[],
        &json!({"zz": 1}),
        &all(&["- at '': 'allOf' failed\n  - at '/zz': got number, want string", unknown]),
    );
    check(
        root(json!({"if": {"required": ["a"]}, "then": {"properties": {"zz": {}}}})),
        &[],
        &json!({"a": "", "zz": 1}),
        "",
    );
    check(
        root(json!({"if": {"required": ["a"]}, "then": {"properties": {"zz": {}}}})),
        &[],
        &json!({"zz": 1}),
        unknown,
    );
    check(
        json!({"prefixItems": [{}], "contains": {"type": "string"}, "unevaluatedItems": false}),
        &[],
        &json!([1, "x", 2]),
        "- at '/2': false schema",
    );
    check(
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "items": [{}], "unevaluatedItems": {"type": "null"}}),
        &[],
        &json!([1, 2]),
        "- at '/1': got number, want null",
    );
}

#[test]
fn dynamic_references_are_followed() {
    let root = json!({
        "$defs": {"x": {"$dynamicAnchor": "x", "required": ["p"], "properties": {"z": {"$dynamicRef": "#x"}}}},
        "properties": {"v": {"$dynamicRef": "#x"}},
    });
    let expected = "- at '/v': validation failed\n  - at '/v': missing property 'p'\n  - at '/v/z': missing property 'p'";
    check(root, &[], &json!({"v": {"z": {}}}), expected);
    let root = json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"v": {"$recursiveRef": "#"}, "w": {"type": "string"}}});
    check(root, &[], &json!({"v": {"w": 1}}), "- at '/v/w': got number, want string");
}
