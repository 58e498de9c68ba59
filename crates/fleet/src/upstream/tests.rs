use serde_json::{Value, json};

use super::*;

fn of(name: &str, number: i64, workspace: &str, lifecycle: &str, commit: &str) -> PackageRevision {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"packageName": "p", "repository": "r", "revision": number, "workspaceName": workspace,
            "lifecycle": lifecycle},
        "status": {"selfLock": {"git": {"commit": commit, "tree": commit.trim_end_matches('b')}}},
    }))
    .unwrap()
}

fn check(upstream: &Value, expected: Result<&str, &str>) {
    let mut revisions = vec![
        of("one", 1, "w1", "Published", "c1"),
        of("three", 3, "w3", "DeletionProposed", "c3"),
        of("two", 2, "w2", "Published", "c2"),
        of("draft", 0, "w4", "Draft", "c4"),
        of("head", -1, "main", "Published", "c9"),
        of("stable", -1, "stable", "Published", "c2"),
        of("hand", -1, "v4.0.0", "Published", "c8"),
    ];
    revisions[0].annotations_mut().insert(FLOATING_TAGS.to_owned(), "beta, alpha".to_owned());
    let mut read: Upstream = serde_json::from_value(upstream.clone()).unwrap();
    read.repo.get_or_insert("r".to_owned());
    read.package = Some("p".to_owned());
    let found = resolve(&read, &revisions)
        .map(groundwork_api::ResourceExt::name_any)
        .map_err(|error| error.to_string());
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{upstream}");
}

#[test]
fn numbers_workspaces_and_tags() {
    check(&json!({"revision": "v2"}), Ok("two"));
    check(&json!({"revision": 3}), Ok("three"));
    check(&json!({"revision": "latest"}), Ok("three"));
    check(&json!({"revision": "main"}), Ok("head"));
    check(&json!({"revision": 9, "workspaceName": "w4"}), Ok("draft"));
    check(&json!({"revision": "stable"}), Ok("two"));
    check(&json!({"revision": "v4.0.0"}), Ok("hand"));
    check(&json!({"revision": "alpha"}), Ok("one"));
    let missing = "could not find upstream package revision 'p/v4' in repo 'r'";
    check(&json!({"revision": "v4"}), Err(missing));
    check(
        &json!({"workspaceName": "w4", "repo": "other"}),
        Err("could not find upstream package revision 'p/w4' in repo 'other'"),
    );
    check(
        &json!({"revision": "gamma"}),
        Err("floating tag \"gamma\" not found for package \"p\" in repo \"r\""),
    );
}

fn variant(spec: &Value, metadata: &Value, status: &Value) -> PackageVariant {
    serde_json::from_value(json!({"metadata": metadata, "spec": {"upstream": spec}, "status": status}))
        .unwrap()
}

fn world() -> Vec<PackageRevision> {
    vec![
        of("one", 1, "w1", "Published", "c1"),
        of("two", 2, "w2", "Published", "c2"),
        of("three", 3, "w3", "DeletionProposed", "c3"),
        of("head", -1, "trunk", "Published", "c9"),
        of("stable", -1, "stable", "Published", "c2"),
        of("moved", -1, "moved", "Published", "c1b"),
        of("hand", -1, "v4.0.0", "Published", "c8"),
    ]
}

/// Resolves an upstream. Commits c1 and c1b have the same tree.
fn found(variant: &PackageVariant, revisions: &[PackageRevision]) -> String {
    let repositories: Vec<groundwork_api::Repository> = serde_json::from_value(
        json!([{"metadata": {"name": "r"}, "spec": {"git": {"repo": "u", "branch": "trunk"}}}]),
    )
    .unwrap();
    match resolve_upstream(variant, revisions, Repositories(&repositories)) {
        Ok(found) => {
            let tag = found.floating_tag.map(|tag| format!(" by {tag}")).unwrap_or_default();
            let warnings: String = found.warnings.iter().map(|text| format!("; {text}")).collect();
            format!("{}{tag}{warnings}", found.revision.name_any())
        }
        Err(error) => error.to_string(),
    }
}

/// V-027, V-032, V-050, V-109: the ways of `packagevariants.md` 2.5 and 5.3; a revision is a number
/// or a text.
#[test]
fn upstreams_of_variants() {
    for (upstream, expected) in [
        (json!({"revision": "v1"}), "one"),
        (json!({"revision": 1}), "one"),
        (json!({"revision": "v2"}), "two"),
        (json!({"revision": 3}), "three; upstream \"three\" is proposed for deletion"),
        (json!({"revision": "latest"}), "three by latest; upstream \"three\" is proposed for deletion"),
        (json!({"revision": "stable"}), "two by stable"),
        (json!({"revision": "moved"}), "one by moved"),
        (json!({"revision": "v4.0.0"}), "hand by v4.0.0"),
        (json!({"workspaceName": "stable"}), "stable"),
        (json!({"revision": "none"}), "floating tag \"none\" not found for package \"p\" in repo \"r\""),
        (json!({"revision": "v9"}), "could not find upstream package revision 'p/v9' in repo 'r'"),
        (
            json!({"revision": "v9", "repo": "q"}),
            "could not find upstream package revision 'p/v9' in repo 'q'",
        ),
        (json!({"revision": "trunk"}), "head"),
        (json!({"revision": "main"}), "head"),
        (json!({"revision": -1}), "head"),
        (json!({"workspaceName": "trunk"}), "head"),
    ] {
        let mut spec = json!({"repo": "r", "package": "p"});
        spec.as_object_mut().unwrap().extend(upstream.as_object().unwrap().clone());
        assert_eq!(found(&variant(&spec, &json!({}), &json!({})), &world()), expected, "{spec}");
    }
}

/// A head that moves without a change of the package keeps its commit in the status.
#[test]
fn heads_that_only_move() {
    let head = |name: &str| of(name, -1, "main", "Published", "c9");
    let spec = json!({"repo": "r", "package": "p", "workspaceName": "main"});
    for (name, before, expected) in [("head", "c9b", "c9b"), ("head", "c7", "c9"), ("other", "c9b", "c9")] {
        let status = json!({"upstream": {"name": "head", "revision": -1, "commit": before,
            "tree": before.trim_end_matches('b')}});
        let (variant, revisions) = (variant(&spec, &json!({}), &status), [head(name)]);
        let found = resolve_upstream(&variant, &revisions, Repositories::default()).unwrap();
        let now = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(found.status(None, &now).commit.as_deref(), Some(expected), "{name} {before}");
    }
}

/// Without git, annotations of revisions name tags (`packagevariants.md` 5.2).
#[test]
fn of_several_revisions_with_a_tag_the_highest_counts() {
    let mut revisions = world();
    for revision in revisions.iter_mut().take(2) {
        revision.annotations_mut().insert(FLOATING_TAGS.to_owned(), "old, lts".to_owned());
    }
    let lts = variant(&json!({"repo": "r", "package": "p", "revision": "lts"}), &json!({}), &json!({}));
    assert_eq!(
        found(&lts, &revisions),
        "two by lts; floating tag \"lts\" is ambiguous: revisions [1 2] carry it"
    );
}

/// A paused variant keeps its upstream revision, whatever the tag or the spec is by now
/// (`packagevariants.md` 5.4).
#[test]
fn a_pause() {
    let spec = json!({"repo": "r", "package": "p", "revision": "stable"});
    let paused = json!({"annotations": {PAUSE: "true"}});
    for (metadata, upstream, expected) in [
        (
            &paused,
            json!({"name": "one", "revision": 1, "tree": "c2", "floatingTag": "stable"}),
            "one by stable; annotation groundwork/pause-upstream keeps the upstream at \"one\"",
        ),
        (
            &paused,
            json!({"name": "renamed", "revision": 1}),
            "one; annotation groundwork/pause-upstream keeps the upstream at \"one\"",
        ),
        (
            &paused,
            json!({"name": "gone", "revision": 8}),
            "could not find upstream package revision 'p/8' in repo 'r'",
        ),
        (&paused, json!({}), "two by stable"),
        (&json!({"annotations": {PAUSE: "false"}}), json!({"name": "one", "revision": 1}), "two by stable"),
        (&json!({}), json!({"name": "one", "revision": 1}), "two by stable"),
        (
            &json!({"annotations": {PAUSE: PAUSED_BY_SET}}),
            json!({"name": "one", "revision": 1}),
            "one; annotation groundwork/pause-upstream of its set keeps the upstream at \"one\"",
        ),
        (
            &json!({"annotations": {PAUSE: "yes"}}),
            json!({"name": "one", "revision": 1}),
            "two by stable; annotation groundwork/pause-upstream has no effect: it is \"yes\", and must be \"true\"",
        ),
    ] {
        let variant = variant(&spec, metadata, &json!({"upstream": upstream}));
        assert_eq!(found(&variant, &world()), expected, "{metadata} {upstream}");
    }
}

#[test]
fn the_status_keeps_its_time_until_something_changes() {
    let time = |second: i64| -> Time {
        serde_json::from_value(format!("2026-01-01T00:00:0{second}Z").into()).unwrap()
    };
    let world = world();
    let resolved = Resolved { floating_tag: Some("stable".to_owned()), ..Resolved::from(&world[1]) };
    let first = resolved.status(None, &time(1));
    assert_eq!(
        serde_json::to_value(&first).unwrap(),
        json!({"name": "two", "revision": 2, "commit": "c2", "tree": "c2", "floatingTag": "stable", "resolvedAt": "2026-01-01T00:00:01Z"})
    );
    assert_eq!(resolved.status(Some(&first), &time(2)), first);
    let moved = Resolved { floating_tag: Some("stable".to_owned()), ..Resolved::from(&world[0]) };
    assert_eq!(moved.status(Some(&first), &time(3)).resolved_at, Some(time(3)));
}

/// V-035: tags do not affect an upstream with a revision number, whether or not any exist.
#[test]
fn fixed_revisions_know_no_tags() {
    let without: Vec<PackageRevision> =
        world().into_iter().filter(|revision| revision.spec.revision != Some(-1)).collect();
    assert!(without.len() < world().len());
    for revision in ["v1", "v2", "v3", "v9"] {
        let spec = json!({"repo": "r", "package": "p", "revision": revision});
        let variant = variant(&spec, &json!({}), &json!({}));
        assert_eq!(found(&variant, &without), found(&variant, &world()), "{revision}");
    }
}
