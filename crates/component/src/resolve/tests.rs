use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::overwrite::{Attributes, Rule};

/// In-memory repositories: `baseUrl` to component versions with their references.
#[derive(Clone, Default)]
struct Stores(BTreeMap<String, Store>);

#[derive(Clone, Default)]
struct Store(BTreeMap<String, Vec<u8>>);

impl Repository for Store {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.0.get(&format!("{name}:{version}")).cloned())
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        Err(RepositoryError::Missing { address: access.to_string() })
    }
}

impl Repositories for Stores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let store = self.0.get(&context.to_string()).cloned();
        store
            .map(|store| Arc::new(store) as Arc<dyn Repository>)
            .ok_or_else(|| RepositoryError::UnknownType { type_name: context.type_name().to_owned() })
    }
}

fn context(base_url: &str) -> RepositoryContext {
    RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": base_url})).unwrap()
}

/// Parses stores: `R1: a:1 -> b:1 c:1` means that repository R1 contains version 1 of `a`, which
/// refers to `b:1` and `c:1`.
fn stores(lines: &[&str]) -> Stores {
    let mut stores = Stores::default();
    for line in lines {
        let (repository, rest) = line.split_once(": ").unwrap();
        let (id, references) = rest.split_once(" ->").unwrap_or((rest, ""));
        let (name, version) = id.split_once(':').unwrap();
        let references: Vec<_> = references
            .split_whitespace()
            .map(|reference| {
                let (name, version) = reference.split_once(':').unwrap();
                json!({"name": format!("ref-{}", name.replace('/', "-")), "componentName": name, "version": version})
            })
            .collect();
        let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": name, "version": version, "provider": "p", "sources": [], "resources": [],
            "repositoryContexts": [], "componentReferences": references,
        }});
        let store = stores.0.entry(repository.to_owned()).or_default();
        store.0.insert(id.to_owned(), document.to_string().into_bytes());
    }
    stores
}

/// Parses half of a rule: any of `R=<repository>`, `n=<name>`, `v=<version>`.
fn attributes(text: &str) -> Attributes {
    let mut attributes = Attributes::default();
    for part in text.split_whitespace() {
        match part.split_once('=').unwrap() {
            ("R", base_url) => attributes.repository = Some(context(base_url)),
            ("n", name) => attributes.name = Some(name.to_owned()),
            (_, version) => attributes.version = Some(version.to_owned()),
        }
    }
    attributes
}

fn closure(stores: &Stores, rules: &[(&str, &str)], root: &str) -> Result<String, String> {
    let overwrites: Overwrites = rules
        .iter()
        .map(|(source, substitution)| Rule {
            source: attributes(source),
            substitution: attributes(substitution),
        })
        .collect();
    let (name, version) = root.split_once(':').unwrap();
    let original =
        Reference { repository: Some(context("R1")), name: name.to_owned(), version: version.to_owned() };
    let substitution = overwrites.apply(&original);
    let inline = InlineSet::default();
    let resolver = Resolver::new(stores, &overwrites, &inline, &substitution);
    let versions = resolver.lookup(&substitution.effective).and_then(|root| resolver.closure(&root));
    let show = |version: &ComponentVersion| {
        let repository = version.reference.repository.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{}:{}@{repository}", version.descriptor.name(), version.descriptor.version())
    };
    versions
        .map(|versions| versions.iter().map(show).collect::<Vec<_>>().join(" "))
        .map_err(|error| error.to_string())
}

#[track_caller]
fn check(lines: &[&str], rules: &[(&str, &str)], root: &str, expected: &str) {
    assert_eq!(closure(&stores(lines), rules, root).as_deref(), Ok(expected));
}

/// Rows T1 to T8 of `components.md` 2.6; cases O-02 and O-04 (T1), O-05 (T2), O-43 (T3, T4).
#[test]
fn transitive_application() {
    check(&["R1: a:1 -> b:1", "R1: b:2"], &[("n=b", "v=2")], "a:1", "a:1@R1 b:2@R1");
    check(&["R1: a:2 -> b:5", "R1: b:5"], &[("n=a", "v=2")], "a:1", "a:2@R1 b:5@R1");
    check(&["R1: a:1 -> b:1", "R2: a:1 -> b:1", "R2: b:1"], &[("R=R1 n=a", "R=R2")], "a:1", "a:1@R2 b:1@R2");
    check(
        &["R1: a:1 -> b:1", "R2: b:1 -> c:1", "R1: c:1"],
        &[("n=b", "R=R2")],
        "a:1",
        "a:1@R1 b:1@R2 c:1@R1",
    );
    check(
        &["R1: a:1 -> b:1 c:1", "R1: b:2", "R1: c:1 -> b:1"],
        &[("n=b", "v=2")],
        "a:1",
        "a:1@R1 b:2@R1 c:1@R1",
    );
    check(&["R1: x:1 -> y:2 z:1", "R1: x:2"], &[("", "n=x")], "a:1", "x:1@R1 x:2@R1");
    check(&["R2: a:1 -> b:1", "R2: b:1"], &[("R=R1", "R=R2")], "a:1", "a:1@R2 b:1@R2");
    check(
        &["R1: a:1 -> b:1 b:3", "R1: b2:1", "R1: b:3"],
        &[("n=b v=1", "n=b2")],
        "a:1",
        "a:1@R1 b2:1@R1 b:3@R1",
    );
}

/// Case O-03: overwrite of the component that the Installation itself names.
#[test]
fn root_is_substituted() {
    check(&["R1: a:9"], &[("n=a v=1", "v=9")], "a:1", "a:9@R1");
}

/// `components.md` 4.5 and 4.6 (`components.md` 11, item 14): depth first in the order of the
/// references, each version once, and cycles end.
#[test]
fn order_and_cycles() {
    let diamond = ["R1: root:1 -> a:1 b:1", "R1: a:1 -> ab:1", "R1: b:1 -> ab:1", "R1: ab:1"];
    check(&diamond, &[], "root:1", "root:1@R1 a:1@R1 ab:1@R1 b:1@R1");
    check(&["R1: a:1 -> b:1", "R1: b:1 -> a:1"], &[], "a:1", "a:1@R1 b:1@R1");
    check(&["R1: a:1 -> a:1"], &[], "a:1", "a:1@R1");
}

/// Error E8 (`components.md` 8): a dangling reference fails the closure.
#[test]
fn one_dangling_reference_fails_the_closure() {
    let error = closure(&stores(&["R1: a:1 -> b:1", "R1: b:1 -> c:7"]), &[], "a:1").unwrap_err();
    assert_eq!(
        error,
        "unable to resolve component reference ref-b with component name b and version 1: \
         unable to resolve component reference ref-c with component name c and version 7: \
         component version \"c:7\" not found in R1"
    );
}

/// Error E11 (`components.md` 8): limits of the closure.
#[test]
fn limits_hold() {
    let lines: Vec<String> = (1..6).map(|n| format!("R1: a:{n} -> a:{}", n + 1)).collect();
    let stores = stores(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let original = Reference { repository: Some(context("R1")), name: "a".into(), version: "1".into() };
    let substitution = overwrites.apply(&original);
    for (limits, text) in [
        (Limits { versions: 3, depth: 100 }, "component closure of \"a:1\" exceeds 3 component versions"),
        (Limits { versions: 100, depth: 3 }, "component closure of \"a:1\" exceeds a depth of 3"),
    ] {
        let resolver = Resolver::new(&stores, &overwrites, &inline, &substitution).with_limits(limits);
        let root = resolver.lookup(&original).unwrap();
        assert_eq!(resolver.closure(&root).unwrap_err().to_string(), text);
    }
}

/// Errors E7, E9, E17 and E23 of `components.md` 8, and case I-30.
#[test]
fn lookup_errors() {
    let mut stores = stores(&["R1: a:1", "R1: b:1"]);
    let store = stores.0.get_mut("R1").unwrap();
    let b = store.0["b:1"].clone();
    store.0.insert("c:1".to_owned(), b);
    store.0.insert("d:1".to_owned(), b"[]".to_vec());
    for (root, text) in [
        ("a:2", "component version \"a:2\" not found in R1"),
        ("c:1", "descriptor found at R1 is b:1, expected c:1"),
        ("d:1", "cannot use the descriptor of component version \"d:1\": component descriptor is not a map"),
        ("a:latest", "version \"latest\" of component \"a\" is not a semantic version"),
    ] {
        assert_eq!(closure(&stores, &[], root).unwrap_err(), text);
    }
    assert_eq!(
        closure(&stores, &[("", "R=elsewhere")], "a:1").unwrap_err(),
        "cannot load component version \"a:1\": repository type \"ociRegistry\" is unknown"
    );
}

fn lookup_with_rules(repository: Option<&str>, config: &str, name: &str) -> Result<String, String> {
    let stores = stores(&["R1: a:1", "R2: a:1", "R2: b/x:1", "R3: b/x:1", "R3: c:1 -> b/x:1"]);
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let (rules, _) = ResolverRules::parse(config).unwrap();
    let reference =
        Reference { repository: repository.map(context), name: name.to_owned(), version: "1".to_owned() };
    let substitution = overwrites.apply(&reference);
    let resolver = Resolver::new(&stores, &overwrites, &inline, &substitution).with_rules(&rules);
    let closure = resolver.lookup(&reference).and_then(|root| resolver.closure(&root));
    let place = |version: &ComponentVersion| {
        let context = version.descriptor.repository_context();
        format!(
            "{}@{}",
            version.reference.name,
            context.map_or_else(String::new, |context| context.to_string())
        )
    };
    closure
        .map(|versions| versions.iter().map(place).collect::<Vec<_>>().join(" "))
        .map_err(|error| error.to_string())
}

/// `components.md` 1.6, 4.2: the repository of the reference comes first, then the rules by
/// priority, for each reference separately.
#[test]
fn resolvers_come_after_the_repository() {
    let rule = |prefix: &str, priority: i64, base_url: &str| {
        format!(
            "{{prefix: {prefix:?}, priority: {priority}, repository: {{type: ociRegistry, baseUrl: {base_url}}}}}"
        )
    };
    let config = format!(
        "{{type: ocm.config.ocm.software, resolvers: [{}, {}, {}]}}",
        rule("", 5, "R3"),
        rule("b", 20, "R2"),
        rule("d", 10, "nowhere")
    );
    for (repository, name, expected) in [
        (Some("R1"), "a", Ok("a@R1")),
        (None, "b/x", Ok("b/x@R2")),
        (Some("R1"), "b/x", Ok("b/x@R2")),
        (Some("R1"), "c", Ok("c@R3 b/x@R2")),
        (None, "a", Err("component version \"a:1\" not found in R3 (ocm resolver for prefix \"\")")),
        (
            Some("R1"),
            "b/y",
            Err(
                "component version \"b/y:1\" not found in R1, R2 (ocm resolver for prefix \"b\"), R3 (ocm resolver for prefix \"\")",
            ),
        ),
        (None, "d", Err("cannot load component version \"d:1\": repository type \"ociRegistry\" is unknown")),
    ] {
        let answer = lookup_with_rules(repository, &config, name);
        assert_eq!(answer.as_deref().map_err(String::as_str), expected, "{name} from {repository:?}");
    }
    assert_eq!(
        lookup_with_rules(None, "", "a").unwrap_err(),
        "component version \"a:1\" not found: no repository or ocm resolvers found"
    );
}

/// Each reference is listed with the rules that changed it, even if its version is missing or
/// repeated.
#[test]
fn graph() {
    let stores =
        stores(&["R1: a:1 -> b:1 c:1 gone:1", "R1: c:1 -> b:1 a:1", "R2: b:2 -> d:1", "R1: d:1", "R1: b:1"]);
    let rules = [("n=b", "R=R2 v=2"), ("v=1", "v=1"), ("n=b", "n=x v=3")];
    let overwrites: Overwrites = rules
        .iter()
        .map(|(source, substitution)| Rule {
            source: attributes(source),
            substitution: attributes(substitution),
        })
        .collect();
    let original = Reference { repository: Some(context("R1")), name: "a".into(), version: "1".into() };
    let substitution = overwrites.apply(&original);
    let inline = InlineSet::default();
    let resolver = Resolver::new(&stores, &overwrites, &inline, &substitution);
    let show = |entry: &crate::GraphEntry| {
        let state = match &entry.state {
            crate::GraphState::Followed => "followed".to_owned(),
            crate::GraphState::Repeated => "repeated".to_owned(),
            crate::GraphState::Failed(cause) => cause.clone(),
            crate::GraphState::Limit(limit) => format!("limit {limit}"),
        };
        format!("{}{} {} {state}", " ".repeat(entry.depth), entry.name, entry.substitution.effective)
    };
    let shown: Vec<String> = resolver.graph(&original).iter().map(show).collect();
    assert_eq!(
        shown,
        [
            " a:1 followed",
            " ref-b b:2 followed",
            "  ref-d d:1 followed",
            " ref-c c:1 followed",
            "  ref-b b:2 repeated",
            "  ref-a a:1 repeated",
            " ref-gone gone:1 component version \"gone:1\" not found in R1",
        ]
    );
    let outcomes = &resolver.graph(&original)[1].outcomes;
    assert_eq!(outcomes[0], crate::RuleOutcome::Applied);
    assert!(matches!(outcomes[1], crate::RuleOutcome::Ignored(conflicts) if conflicts.iter().count() == 1));
    let bounded = Resolver::new(&stores, &overwrites, &inline, &substitution)
        .with_limits(Limits { versions: 2, depth: 100 });
    assert_eq!(bounded.graph(&original).len(), 3);
    assert!(show(&bounded.graph(&original)[2]).ends_with("limit 2 component versions"));
}
