use serde_json::{Value, json};

use super::*;
use crate::package::tests::revision;

const UID: &str = "0d1e";

fn variant(policy: &str) -> PackageVariant {
    serde_json::from_value(json!({
        "metadata": {"name": "edge7-dns", "namespace": "fleet", "uid": UID},
        "spec": {
            "downstream": {"repo": "edge", "package": "dns"}, "adoptionPolicy": policy,
            "labels": {"tier": "edge", "new": "1"}, "annotations": {"note": "n"},
        },
    }))
    .unwrap()
}

fn owned(mut revision: PackageRevision) -> PackageRevision {
    revision.metadata.owner_references = Some(vec![owner_reference(&variant(""))]);
    revision
}

fn of_others(mut revision: PackageRevision) -> PackageRevision {
    let owner = json!([{"apiVersion": "v1", "kind": "Robot", "name": "r2", "uid": "x", "controller": true}]);
    revision.metadata.owner_references = serde_json::from_value(owner).unwrap();
    revision
}

fn going(mut revision: PackageRevision) -> PackageRevision {
    revision.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    revision
}

/// Returns the names of workspaces of targets, adopted and released revisions, and then the
/// problems.
fn shown(policy: &str, revisions: &[PackageRevision]) -> [String; 4] {
    let selection = select(&variant(policy), revisions);
    let names = |found: Vec<&PackageRevision>| {
        let names: Vec<&str> = found.into_iter().map(crate::package::workspace).collect();
        names.join(" ")
    };
    let problems: Vec<String> = selection.problems.iter().map(ToString::to_string).collect();
    assert_eq!(selection.is_new(), selection.targets.is_empty() && problems.is_empty());
    [
        names(selection.targets),
        names(selection.adoptions.iter().map(|adoption| adoption.revision).collect()),
        names(selection.released),
        problems.join("; "),
    ]
}

fn check(what: &str, policy: &str, revisions: &[PackageRevision], expected: [&str; 4]) {
    assert_eq!(shown(policy, revisions), expected.map(str::to_owned), "{what}");
}

const EXISTS: &str = "`clone` cannot create a new revision for package \"dns\" that already exists in repo \"edge\"; make \
                      subsequent revisions using `copy`";

/// V-036, V-038, V-039: every row of the table of `packagevariants.md` 2.7, and the rules of 2.6
/// for existing packages.
#[test]
fn every_row() {
    let ours = |workspace: &str, number, lifecycle: &str| {
        owned(revision(&format!("edge/dns:{workspace}"), number, lifecycle))
    };
    let foreign = |workspace: &str, number, lifecycle: &str| {
        revision(&format!("edge/dns:{workspace}"), number, lifecycle)
    };
    let elsewhere = revision("edge/web:w", 1, "Published");
    check("nothing", "", &[], [""; 4]);
    check("another package", "adoptExisting", std::slice::from_ref(&elsewhere), [""; 4]);
    check("a foreign Draft", "adoptNone", &[foreign("a", 0, "Draft")], [""; 4]);
    check("a foreign proposed one", "", &[foreign("a", 0, "Proposed")], [""; 4]);
    check("a foreign published one", "", &[foreign("a", 1, "Published")], ["", "", "", EXISTS]);
    check("going, but there", "", &[foreign("a", 1, "DeletionProposed")], ["", "", "", EXISTS]);
    check(
        "ours beside foreign ones",
        "",
        &[foreign("a", 1, "Published"), ours("b", 0, "Draft")],
        ["b", "", "", ""],
    );
    check("adopted", "adoptExisting", &[foreign("a", 0, "Draft")], ["a", "a", "", ""]);
    check(
        "all lifecycles are adopted, drafts are worked on",
        "adoptExisting",
        &[
            foreign("d", 0, "Draft"),
            foreign("c", 0, "Proposed"),
            foreign("b", 2, "Published"),
            foreign("a", 1, "DeletionProposed"),
            foreign("e", 0, ""),
            foreign("f", 0, "Unheard"),
        ],
        ["c d e", "a b c d e", "", ""],
    );
    check("re-pointed", "adoptExisting", &[owned(elsewhere.clone())], ["", "", "w", ""]);
    check("re-pointed, nothing adopted", "adoptNone", &[owned(elsewhere)], ["", "", "w", ""]);
    check("the other repository", "adoptExisting", &[revision("far/dns:w", 0, "Draft")], [""; 4]);
}

/// V-120, V-121, V-122: Draft and Proposed revisions are updated before the highest published one.
#[test]
fn drafts_come_before_the_highest_published_one() {
    let ours = |workspace: &str, number, lifecycle: &str| {
        owned(revision(&format!("edge/dns:{workspace}"), number, lifecycle))
    };
    let published = [ours("a", 2, "Published"), ours("b", 10, "DeletionProposed"), ours("c", 9, "Published")];
    check("published", "", &published, ["b", "", "", ""]);
    let drafts = [ours("packagevariant-10", 0, "Draft"), ours("packagevariant-9", 0, "Proposed")];
    check(
        "drafts",
        "",
        &[&published[..], &drafts].concat(),
        ["packagevariant-9 packagevariant-10", "", "", ""],
    );
    check("an unknown stage", "", &[ours("a", 0, "Unheard")], [""; 4]);
}

/// The head of a branch and tags are never candidates. A revision that is being deleted is left
/// alone (`packagevariants.md` 5.1).
#[test]
fn what_is_no_candidate() {
    for policy in ["adoptNone", "adoptExisting"] {
        check("unowned", policy, &[revision("edge/dns:main", -1, "Published")], [""; 4]);
        check("owned", policy, &[owned(revision("edge/dns:stable", -1, "Published"))], [""; 4]);
        check("elsewhere", policy, &[owned(revision("edge/web:main", -1, "Published"))], [""; 4]);
        check("a dying Draft", policy, &[going(owned(revision("edge/dns:a", 0, "Draft")))], [""; 4]);
        let dying = going(owned(revision("edge/dns:a", 1, "DeletionProposed")));
        check("a dying published one", policy, &[dying], ["", "", "", EXISTS]);
    }
}

#[test]
fn nothing_has_two_controllers() {
    let conflict = "package revision \"edge.dns.a\" is controlled by Robot \"r2\"";
    let taken = of_others(revision("edge/dns:a", 1, "Published"));
    check("alone", "adoptExisting", std::slice::from_ref(&taken), ["", "", "", conflict]);
    check(
        "the others go on",
        "adoptExisting",
        &[taken.clone(), revision("edge/dns:b", 0, "Draft")],
        ["b", "b", "", conflict],
    );
    check("nobody wants it", "adoptNone", &[taken], ["", "", "", EXISTS]);
}

/// V-011, V-012: an adoption merges its metadata over the present metadata.
#[test]
fn an_adoption_lies_over_what_is_there() {
    let mut foreign = revision("edge/dns:a", 0, "Draft");
    foreign
        .labels_mut()
        .extend([("tier".to_owned(), "core".to_owned()), ("mine".to_owned(), "yes".to_owned())]);
    let plain = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "y"}]);
    foreign.metadata.owner_references = serde_json::from_value(plain).unwrap();
    let revisions = [foreign];
    let selection = select(&variant("adoptExisting"), &revisions);
    let [adoption] = selection.adoptions.as_slice() else { panic!("{selection:?}") };
    assert_eq!(json!(adoption.labels), json!({"mine": "yes", "new": "1", "tier": "edge"}));
    assert_eq!(json!(adoption.annotations), json!({"note": "n"}));
    let expected: Value = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "y"},
        {"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant", "name": "edge7-dns", "uid": UID,
            "controller": true},
    ]);
    assert_eq!(json!(adoption.owner_references), expected);
}

#[test]
fn an_orphan_loses_its_owner_and_nothing_else() {
    let mut revision = owned(revision("edge/dns:a", 1, "Published"));
    revision.labels_mut().insert("tier".to_owned(), "edge".to_owned());
    let metadata = orphaned(&revision, UID);
    assert_eq!(metadata.owner_references, None);
    assert_eq!(metadata.labels, revision.metadata.labels);
    assert_eq!(orphaned(&revision, "other"), revision.metadata);
    assert!(is_owned(&revision, UID) && !is_owned(&revision, "other") && !is_owned(&revision, ""));
}
