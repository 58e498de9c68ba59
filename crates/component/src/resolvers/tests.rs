use serde_json::json;

use super::*;

const CONFIG: &str = "
type: generic.config.ocm.software/v1
configurations:
- type: credentials.config.ocm.software
  consumers: []
- type: ocm.config.ocm.software
  aliases: {}
  resolvers:
  - {repository: {type: OCIRegistry, baseUrl: everything}}
  - {prefix: example.org/shop, priority: 20, repository: {type: OCIRegistry, baseUrl: shop}}
  - {prefix: example.org, repository: {type: OCIRegistry, baseUrl: domain}}
  - {prefix: example.org/shop, priority: 20, repository: {type: OCIRegistry, baseUrl: shop2}}
";

fn places(component: &str) -> Vec<String> {
    let (rules, _) = ResolverRules::parse(CONFIG).unwrap();
    rules.of(component, "1.0.0").map(|rule| rule.repository.to_string()).collect()
}

/// `components.md` 1.6: prefixes match whole segments, higher priorities come first, equal ones in
/// the written order.
#[test]
fn rules_by_prefix_and_priority() {
    assert_eq!(places("example.org/shop"), ["shop", "shop2", "everything", "domain"]);
    assert_eq!(places("example.org/shop/cart"), ["shop", "shop2", "everything", "domain"]);
    assert_eq!(places("example.org/shopping"), ["everything", "domain"]);
    assert_eq!(places("example.com/shop"), ["everything"]);
}

#[test]
fn other_parts_are_warned_of() {
    let (_, warnings) = ResolverRules::parse(CONFIG).unwrap();
    let starts = [
        "configurations[0].type \"credentials.config.ocm.software\" is ignored",
        "configurations[1].aliases is ignored",
    ];
    assert_eq!(warnings.len(), starts.len());
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
    let (rules, warnings) = ResolverRules::parse("type: credentials.config.ocm.software").unwrap();
    assert_eq!((rules, warnings.len()), (ResolverRules::default(), 1));
}

const PATTERNS: &str = "
type: generic.config.ocm.software/v1
configurations:
- type: resolvers.config.ocm.software/v1alpha1
  resolvers:
  - {repository: {type: OCIRepository/v1, baseUrl: core}, componentNamePattern: 'example.org/core/*'}
  - {repository: {type: OCIRepository/v1, baseUrl: first}, componentNamePattern: '*.org/**', versionConstraint: '<2.0.0'}
  - {repository: {type: OCIRepository/v1, baseUrl: choice}, componentNamePattern: 'example.{org,com}/[st]hop'}
  - {repository: {type: OCIRepository/v1, baseUrl: everything}}
";

/// `components.md` 1.6: patterns match whole names, `*` matches slashes, and rules keep their
/// order.
#[test]
fn rules_by_pattern_and_version() {
    let (rules, warnings) = ResolverRules::parse(PATTERNS).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let sent: ResolverRules = serde_json::from_str(&serde_json::to_string(&rules).unwrap()).unwrap();
    assert_eq!(sent, rules);
    let places = |component: &str, version: &str| -> Vec<String> {
        sent.of(component, version).map(|rule| rule.repository.to_string()).collect()
    };
    assert_eq!(places("example.org/core/a/b", "1.0.0"), ["core", "first", "everything"]);
    assert_eq!(places("example.org/core", "2.1.0"), ["everything"]);
    assert_eq!(places("example.com/shop", "1.0.0"), ["choice", "everything"]);
    assert_eq!(places("example.org/shop", "v1.9.9"), ["first", "choice", "everything"]);
    assert_eq!(places("example.org/shop", "latest"), ["choice", "everything"]);
    assert_eq!(places("example.org/shops", "2.0.0"), ["everything"]);
    for (rule, path) in [
        ("{repository: {type: x}, componentNamePattern: 'a['}", "resolvers[0].componentNamePattern"),
        ("{repository: {type: x}, versionConstraint: 'new'}", "resolvers[0].versionConstraint"),
        ("{repository: {type: x}, versionConstraint: 1}", "resolvers[0].versionConstraint"),
        ("{componentNamePattern: a}", "resolvers[0].repository"),
    ] {
        let text = format!("{{type: resolvers.config.ocm.software, resolvers: [{rule}]}}");
        let error = ResolverRules::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(path), "{error}");
    }
}

#[test]
fn short_forms() {
    for text in [
        "",
        "\n",
        "# nothing",
        "type: generic.config.ocm.software",
        "{type: ocm.config.ocm.software/v1, resolvers: null}",
    ] {
        assert_eq!(ResolverRules::parse(text), Ok((ResolverRules::default(), Vec::new())), "{text}");
    }
    let (rules, _) =
        ResolverRules::parse("{type: ocm.config.ocm.software, resolvers: [{repository: {type: x}}]}")
            .unwrap();
    let repository = RepositoryContext::new(json!({"type": "x"})).unwrap();
    let scope = Scope::Prefix(String::new());
    assert_eq!(rules.rules, [ResolverRule { scope, priority: 10, repository }]);
}

#[test]
fn malformed_configurations() {
    let resolver = |rule: &str| format!("{{type: ocm.config.ocm.software, resolvers: [{rule}]}}");
    for (text, start) in [
        ("a: [".to_owned(), "not valid YAML: line 1"),
        ("[]".to_owned(), "document: a map is expected"),
        ("{}".to_owned(), "type: must be set"),
        ("{type: generic.config.ocm.software/v1, configurations: {}}".to_owned(), "configurations: a list"),
        (
            "{type: generic.config.ocm.software/v1, configurations: [1]}".to_owned(),
            "configurations[0]: a map",
        ),
        (resolver("1"), "resolvers[0]: a map"),
        (resolver("{}"), "resolvers[0].repository: a map with a type"),
        (resolver("{prefix: 1, repository: {}}"), "resolvers[0].prefix: a text"),
        (resolver("{priority: high, repository: {}}"), "resolvers[0].priority: an integer"),
    ] {
        let error = ResolverRules::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    }
}
