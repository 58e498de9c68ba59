use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::inline::InlineSet;
use crate::overwrite::{Attributes, Overwrites, Rule};
use crate::reference::{Reference, RepositoryContext};
use crate::repository::{Repositories, Repository, RepositoryError};
use crate::resolve::Resolver;

#[track_caller]
fn check_error(text: &str, error: &str) {
    assert_eq!(CdUri::parse(text).unwrap_err().to_string(), error, "{text}");
}

/// Error E22 (`components.md` 8): the table of `components.md` 4.8 (`components.md` 11, item 11).
#[test]
fn malformed_uris() {
    check_error(
        &format!("cd://resources/{}", "x".repeat(2100)),
        "too long uri, got 2115 but expected max 2083",
    );
    for (text, scheme) in [
        ("local://resources/a", "local"),
        ("CD://resources/a", "CD"),
        ("resources/a", ""),
        ("", ""),
        ("a/b:c", ""),
    ] {
        check_error(text, &format!("scheme must be cd but given {scheme}"));
    }
    for text in [
        "cd://",
        "cd:",
        "cd:resources/a",
        "cd://resources",
        "cd://resources/",
        "cd://resources/a/b",
        "cd://resources/a/..",
        "cd://.",
        "cd:///resources/a",
    ] {
        check_error(text, "even number of path arguments expected");
    }
    for keyword in [
        "localResources",
        "localResource",
        "externalResources",
        "sources",
        "Resources",
        "componentreferences",
    ] {
        check_error(&format!("cd://{keyword}/a"), &format!("unknown keyword {keyword}"));
        check_error(
            &format!("cd://componentReferences/x/{keyword}/a"),
            &format!("unknown keyword {keyword}"),
        );
    }
    check_error("cd:///", "unknown keyword ");
    check_error("cd://%72esources/a", "unknown keyword %72esources");
    for rest in ["resources/b", "componentReferences/b"] {
        check_error(
            &format!("cd://resources/a/{rest}"),
            "the selector seems to contain more path segments after a resource",
        );
    }
    for escape in ["%", "%z1", "%4", "%ff"] {
        let text = format!("cd://resources/a{escape}");
        assert!(matches!(CdUri::parse(&text), Err(CdUriError::Escape(_))), "{text}");
    }
}

#[test]
fn well_formed_uris() {
    let plain = CdUri {
        references: vec!["a b".into(), "c".into()],
        resource: Some("d".into()),
        fragment: "/x".into(),
    };
    for text in [
        "cd://componentReferences/a%20b/componentReferences/c/resources/d#/x",
        "cd://componentReferences//a%20b/./componentReferences/z/../c/resources/d/?q=1#/x",
        "cd://componentReferences/a%20b%2FcomponentReferences/c/resources/d#/%78",
    ] {
        assert_eq!(CdUri::parse(text), Ok(plain.clone()), "{text}");
    }
    let component = CdUri::parse("cd://componentReferences/a").unwrap();
    assert_eq!((component.resource.as_deref(), component.fragment()), (None, ""));
}

/// Repositories that cannot be opened, for inline descriptors only.
struct Nowhere;

impl Repositories for Nowhere {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Err(RepositoryError::UnknownType { type_name: context.type_name().to_owned() })
    }
}

fn component(name: &str, version: &str, resource: &str, references: &[Value]) -> Value {
    json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": name, "version": version, "componentReferences": references,
        "resources": [{"name": resource, "type": "text", "access": {"type": "none"}}],
    }})
}

fn reference(name: &str, target: (&str, &str), nested: &Value) -> Value {
    json!({"name": name, "componentName": target.0, "version": target.1,
        "labels": [{"name": "landscaper.gardener.cloud/component-descriptor", "value": nested}]})
}

/// Resolves a URI in `a:1 -> b:1 -> c:1` and `a:1 -> b:2`, with resources named like the
/// components, and a dangling reference `to-gone`. Returns owner and name of the resource.
fn select(uri: &str, rules: &[(&str, &str)]) -> Result<String, String> {
    let leaf = component("example.org/c", "1.0.0", "cc", &[]);
    let middle =
        component("example.org/b", "1.0.0", "bb", &[reference("to-c", ("example.org/c", "1.0.0"), &leaf)]);
    let newer = component("example.org/b", "2.0.0", "b2", &[]);
    let mut gone = reference("to-gone", ("example.org/gone", "1.0.0"), &Value::Null);
    gone.as_object_mut().unwrap().remove("labels");
    let root = component(
        "example.org/a",
        "1.0.0",
        "aa",
        &[
            reference("to-b", ("example.org/b", "1.0.0"), &middle),
            reference("newer", ("example.org/b", "2.0.0"), &newer),
            gone,
        ],
    );
    let inline = InlineSet::new(&root).unwrap();
    let overwrites: Overwrites = rules
        .iter()
        .map(|(from, to)| Rule {
            source: Attributes {
                version: Some((*from).to_owned()),
                name: Some("example.org/b".to_owned()),
                ..Attributes::default()
            },
            substitution: Attributes { version: Some((*to).to_owned()), ..Attributes::default() },
        })
        .collect();
    let original = Reference { repository: None, name: "example.org/a".into(), version: "1.0.0".into() };
    let substitution = overwrites.apply(&original);
    let resolver = Resolver::new(&Nowhere, &overwrites, &inline, &substitution);
    let root = resolver.lookup(&substitution.effective).unwrap();
    let follow =
        |reference: &ComponentReference| resolver.follow(&reference.component_name, &reference.version);
    let uri = CdUri::parse(uri).unwrap();
    let (owner, resource) = uri.resource(&root, follow).map_err(|error| error.to_string())?;
    // A URI of a resource also denotes the component that owns it.
    assert_eq!(uri.component(&root, follow).unwrap().reference, owner.reference);
    Ok(format!("{} {}", owner.reference, resource.name))
}

#[track_caller]
fn check(uri: &str, rules: &[(&str, &str)], expected: Result<&str, &str>) {
    let answer = select(uri, rules);
    match (&answer, expected) {
        (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{uri}"),
        (Err(answer), Err(start)) => assert!(answer.starts_with(start), "{uri}: {answer}"),
        _ => panic!("{uri}: {answer:?} instead of {expected:?}"),
    }
}

#[test]
fn evaluation() {
    check("cd://resources/aa", &[], Ok("example.org/a:1.0.0 aa"));
    check(
        "cd://componentReferences/to-b",
        &[],
        Err("the selector seems to target a component descriptor but a resource is requested"),
    );
    check("cd://componentReferences/to-b/resources/bb", &[], Ok("example.org/b:1.0.0 bb"));
    check(
        "cd://componentReferences/to-b/componentReferences/to-c/resources/cc",
        &[],
        Ok("example.org/c:1.0.0 cc"),
    );
    check(
        "cd://componentReferences/to-c/resources/cc",
        &[],
        Err("component reference to-c cannot be found in component example.org/a:1.0.0"),
    );
    check(
        "cd://componentReferences/to-gone",
        &[],
        Err("component to-gone cannot be found: component version \"example.org/gone:1.0.0\" not found"),
    );
    check(
        "cd://resources/bb",
        &[],
        Err("local resource bb cannot be found: failed to get resource with name \"bb\""),
    );
}

/// Cases O-07 and O-08: a resource that only the overwriting version has is found, and one of the
/// overwritten version is not.
#[test]
fn overwrites_are_followed() {
    let rule = [("1.0.0", "2.0.0")];
    check("cd://componentReferences/to-b/resources/b2", &rule, Ok("example.org/b:2.0.0 b2"));
    check("cd://componentReferences/to-b/resources/bb", &rule, Err("local resource bb cannot be found"));
    check("cd://componentReferences/newer/resources/b2", &rule, Ok("example.org/b:2.0.0 b2"));
}

proptest! {
    /// A URI with any number of references is parsed to the parts that it was built from.
    #[test]
    fn every_way_is_read_back(
        references in prop::collection::vec("[a-z0-9][-a-z0-9+_]{0,8}", 0..6), resource in "[a-z0-9][-a-z0-9]{0,8}",
    ) {
        let steps: String = references.iter().map(|name| format!("componentReferences/{name}/")).collect();
        let uri = CdUri::parse(&format!("cd://{steps}resources/{resource}")).unwrap();
        prop_assert_eq!(uri, CdUri { references, resource: Some(resource), fragment: String::new() });
    }

    /// Any text is parsed or rejected without a panic, and an accepted URI has at least one pair.
    #[test]
    fn any_text_is_answered(rest in "[a-zR/.%#?:0-9é]{0,40}") {
        if let Ok(uri) = CdUri::parse(&format!("cd://{rest}")) {
            prop_assert!(!uri.references.is_empty() || uri.resource.is_some());
        }
    }
}
