use groundwork_api::PackageVariant;
use serde_json::{Value, json};

use super::*;
use crate::bundle::{Bundle, Expanded};

const PORCH: &str = "config.porch.kpt.dev/v1alpha1";

fn revision(repo: &str, package: &str, number: i64) -> Value {
    json!({
        "apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision",
        "metadata": {"name": format!("{repo}.{package}.v{number}"), "labels": {"of": package}},
        "spec": {"repository": repo, "packageName": package, "revision": number, "workspaceName": format!("w{number}"),
            "lifecycle": "Published"},
    })
}

fn revision_set(name: &str, upstreams: &Value) -> Value {
    json!({"apiVersion": PORCH, "kind": "PackageRevisionSet", "metadata": {"name": name}, "spec": {"upstreams": upstreams}})
}

fn upstream(package: &str) -> Value {
    json!({"repo": "catalog", "package": package, "revision": "v1"})
}

fn set(spec: &Value, targets: &Value) -> PackageVariantSet {
    let mut set = json!({"metadata": {"name": "s", "namespace": "fleet"}, "spec": spec});
    set["spec"]["targets"] = targets.clone();
    serde_json::from_value(set).unwrap()
}

/// Returns a bundle with three repositories, and revision 1 of `a`, `b` and `c`.
fn bundle(revision_sets: &[Value]) -> Bundle {
    let mut bundle = Bundle::new("fleet");
    for name in ["one", "three", "two"] {
        bundle.add(&json!({"apiVersion": PORCH, "kind": "Repository", "metadata": {"name": name}})).unwrap();
    }
    for package in ["a", "b", "c"] {
        bundle.add(&revision("catalog", package, 1)).unwrap();
    }
    revision_sets.iter().for_each(|set| bundle.add(set).unwrap());
    bundle
}

fn expanded(
    spec: &Value,
    targets: &Value,
    revision_sets: &[Value],
) -> Result<Expanded<PackageVariant>, String> {
    let expanded = bundle(revision_sets).expand(&set(spec, targets));
    expanded.map_err(|error| format!("{}: {error}", error.reason()))
}

/// Returns repository and package of each variant, with the package that it derives from.
fn made(spec: &Value, targets: &Value, revision_sets: &[Value]) -> Vec<String> {
    let variants = expanded(spec, targets, revision_sets).unwrap().variants;
    let shown = |variant: PackageVariant| {
        let (downstream, upstream) = (variant.spec.downstream.unwrap(), variant.spec.upstream.unwrap());
        let text = |text: Option<String>| text.unwrap_or_default();
        assert_eq!(upstream.package_revision_set, None);
        format!("{}/{} {}", text(downstream.repo), text(downstream.package), text(upstream.package))
    };
    variants.into_iter().map(shown).collect()
}

/// V-178: two upstreams and three repositories make six variants, each named after its own
/// upstream.
#[test]
fn each_target_is_made_for_each_upstream() {
    let all = json!([{"repositorySelector": {}}]);
    let upstreams = json!({"upstreams": [upstream("b"), upstream("a")]});
    let expected = ["one/a a", "one/b b", "three/a a", "three/b b", "two/a a", "two/b b"];
    assert_eq!(made(&upstreams, &all, &[]), expected);
    assert_eq!(expanded(&upstreams, &all, &[]).unwrap().target_counts, [3]);
    // The order is by upstreams, then by targets.
    let ordered = bundle(&[]).expand_in_order(&set(&upstreams, &all)).unwrap().variants;
    let ordered: Vec<&str> = ordered.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(ordered, ["s-one-b", "s-three-b", "s-two-b", "s-one-a", "s-three-a", "s-two-a"]);

    // Expressions see the upstream that they are evaluated for.
    let computed = json!([{"repositories": [{"name": "one"}], "template": {
        "downstream": {"packageExpr": "'x-' + upstream.labels['of']"}}}]);
    let upstreams = json!({"upstreams": [upstream("a"), upstream("b")]});
    assert_eq!(made(&upstreams, &computed, &[]), ["one/x-a a", "one/x-b b"]);

    // A list with one upstream gives the same variants as `upstream`.
    let alone = expanded(&json!({"upstreams": [upstream("a")]}), &all, &[]);
    assert_eq!(alone, expanded(&json!({"upstream": upstream("a")}), &all, &[]));
}

/// V-180, V-181: the lists of several PackageRevisionSets are combined, and duplicates count once.
#[test]
fn lists_of_packages_are_shared() {
    let all = json!([{"repositories": [{"name": "one"}]}]);
    let sets = [
        revision_set("base", &json!([upstream("a"), upstream("b")])),
        revision_set("more", &json!([upstream("b"), upstream("c")])),
    ];
    let one = json!({"upstream": {"packageRevisionSet": "base"}});
    assert_eq!(made(&one, &all, &sets), ["one/a a", "one/b b"]);
    let both =
        json!({"upstreams": [{"packageRevisionSet": "base"}, {"packageRevisionSet": "more"}, upstream("a")]});
    assert_eq!(made(&both, &all, &sets), ["one/a a", "one/b b", "one/c c"]);
    assert_eq!(revision_set_names(&set(&both, &all)).into_iter().collect::<Vec<_>>(), ["base", "more"]);
    let there: Vec<PackageRevisionSet> =
        sets.iter().map(|set| serde_json::from_value(set.clone()).unwrap()).collect();
    let packages: Vec<String> =
        upstream_packages(&set(&both, &all), &there).into_iter().map(|(_, package)| package).collect();
    assert_eq!(packages, ["a", "b", "c"]);
    // A change of the list changes all sets that refer to it.
    let edited = [revision_set("base", &json!([upstream("c")]))];
    assert_eq!(made(&one, &all, &edited), ["one/c c"]);
}

#[test]
fn what_is_missing_is_told_with_its_place() {
    let all = json!([{"repositories": [{"name": "one"}]}]);
    let fixed = json!([{"repositories": [{"name": "one", "packageNames": ["p"]}]}]);
    let invalid =
        revision_set("bad", &json!([{"repo": "catalog", "revision": "v1"}, {"packageRevisionSet": "base"}]));
    let sets = [
        revision_set("base", &json!([upstream("a"), upstream("z")])),
        revision_set("none", &json!([])),
        invalid,
    ];
    for (spec, targets, expected) in [
        (
            json!({"upstreams": [upstream("a"), upstream("z")]}),
            &all,
            "UpstreamNotFound: spec.upstreams[1]: could not find upstream package revision 'z/v1' in repo 'catalog'",
        ),
        (
            json!({"upstream": {"packageRevisionSet": "base"}}),
            &all,
            "UpstreamNotFound: spec.upstreams[1] of package revision set \"base\": could not find upstream package revision 'z/v1' in repo 'catalog'",
        ),
        (
            json!({"upstream": {"packageRevisionSet": "gone"}}),
            &all,
            "UpstreamNotFound: package revision set \"gone\" not found",
        ),
        (
            json!({"upstreams": [upstream("a"), {"packageRevisionSet": "gone"}]}),
            &all,
            "UpstreamNotFound: spec.upstreams[1]: package revision set \"gone\" not found",
        ),
        (
            json!({"upstream": {"packageRevisionSet": "none"}}),
            &all,
            "ValidationError: package revision set \"none\": must specify at least one item in spec.upstreams",
        ),
        (
            json!({"upstream": {"packageRevisionSet": "bad"}}),
            &all,
            "ValidationError: package revision set \"bad\": spec.upstreams[0].package is a required field; \
             package revision set \"bad\": spec.upstreams[1].packageRevisionSet may only be used in a PackageVariantSet",
        ),
        (
            json!({"upstreams": [upstream("a"), upstream("b")]}),
            &fixed,
            "DuplicateTargets: targets produce conflicting package variants for one/p \
             (targets[0] with spec.upstreams[0], targets[0] with spec.upstreams[1])",
        ),
    ] {
        assert_eq!(expanded(&spec, targets, &sets).unwrap_err(), expected, "{spec}");
    }
}

/// V-182: a PackageVariant has one upstream; a set has either one or a list.
#[test]
fn what_is_wrong_with_upstreams() {
    let check = |spec: &Value, expected: &[&str]| {
        let set = set(spec, &json!([{"repositories": [{"name": "one"}]}]));
        assert_eq!(errors(&set), expected, "{spec}");
    };
    check(&json!({}), &["spec.upstream is a required field"]);
    check(
        &json!({"upstream": upstream("a"), "upstreams": [upstream("b")]}),
        &["spec must specify exactly one of `upstream` and `upstreams`"],
    );
    check(&json!({"upstreams": []}), &["must specify at least one item in spec.upstreams"]);
    check(
        &json!({"upstreams": [{"repo": "r", "package": "p", "revision": "0"}, {}]}),
        &[
            "spec.upstreams[0].revision: Invalid value: \"0\": must be a revision number (v1, v2, ...) or a tag name",
            "spec.upstreams[1].package is a required field",
            "spec.upstreams[1].repo is a required field",
            "either spec.upstreams[1].revision or spec.upstreams[1].workspaceName must be specified",
        ],
    );
    check(&json!({"upstreams": vec![upstream("a"); 1_001]}), &["spec.upstreams has more than 1000 items"]);
    check(
        &json!({"upstream": {"packageRevisionSet": "base", "repo": "r"}}),
        &["spec.upstream may specify `packageRevisionSet` only without other fields"],
    );
    check(
        &json!({"upstream": {"packageRevisionSet": ""}}),
        &["spec.upstream.packageRevisionSet cannot be empty"],
    );
    let variant =
        json!({"upstream": {"packageRevisionSet": "base"}, "downstream": {"repo": "r", "package": "p"}});
    assert_eq!(
        crate::validate_variant(&serde_json::from_value(variant).unwrap()),
        ["spec.upstream.packageRevisionSet may only be used in a PackageVariantSet"]
    );
}
