use serde_json::{Value, json};

use super::*;
use crate::{Inputs, Objects, expand};

const UID: &str = "7f3c";

fn set(targets: &Value) -> PackageVariantSet {
    serde_json::from_value(json!({
        "metadata": {"name": "s", "namespace": "fleet", "uid": UID, "generation": 2},
        "spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets},
        "status": {"observedGeneration": 1},
    }))
    .unwrap()
}

fn listed(pairs: &[(&str, &[&str])]) -> PackageVariantSet {
    let entries: Vec<Value> =
        pairs.iter().map(|(name, packages)| json!({"name": name, "packageNames": packages})).collect();
    set(&json!([{"repositories": entries}]))
}

fn expansion(set: &PackageVariantSet) -> Expansion {
    let others = BTreeMap::new();
    expand(&Inputs {
        set,
        revisions: None,
        objects: Objects { revision_sets: &[], repositories: &[], others: &others },
    })
    .unwrap()
}

fn planned(set: &PackageVariantSet, children: &[PackageVariant], taken: &[&str]) -> Plan {
    plan(set, &expansion(set), children, |name| taken.contains(&name)).unwrap()
}

fn shown(plan: &Plan) -> Vec<String> {
    let line = |action: &Action| match action {
        Action::Create(child) => format!("create {}", child.name_any()),
        Action::Adopt(child) => format!("adopt {}", child.name_any()),
        Action::Update(child) => format!("update {}", child.name_any()),
        Action::Delete(child) => format!("delete {}", child.name_any()),
    };
    plan.actions.iter().map(line).collect()
}

/// Returns the children after the writes of a plan.
fn after(children: &[PackageVariant], plan: &Plan) -> Vec<PackageVariant> {
    let mut children = children.to_vec();
    for action in &plan.actions {
        match action {
            Action::Create(child) => children.push((**child).clone()),
            Action::Adopt(child) | Action::Update(child) => {
                children.retain(|other| other.name_any() != child.name_any());
                children.push((**child).clone());
            }
            Action::Delete(child) => children.retain(|other| other.name_any() != child.name_any()),
        }
    }
    children
}

fn made(set: &PackageVariantSet) -> Vec<PackageVariant> {
    after(&[], &planned(set, &[], &[]))
}

/// V-042: metadata and spec of a new child.
#[test]
fn a_new_child() {
    let children = made(&listed(&[("a", &["x"])]));
    assert_eq!(
        serde_json::to_value(&children[0]).unwrap(),
        json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant",
            "metadata": {
                "name": "s-a-x", "namespace": "fleet", "finalizers": [FINALIZER], "labels": {OWNER_LABEL: UID},
                "ownerReferences": [{"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet",
                    "name": "s", "uid": UID, "controller": true}],
            },
            "spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"},
                "downstream": {"repo": "a", "package": "x"}},
        })
    );
    assert!(is_child(&children[0], &listed(&[])));
    let offline = PackageVariantSet { metadata: ObjectMeta::default(), ..listed(&[("a", &["x"])]) };
    let child = &made(&offline)[0];
    assert_eq!((child.labels().len(), child.owner_references().len()), (0, 0));
    assert!(!is_child(child, &offline));
}

#[test]
fn creates_come_first_and_deletes_last() {
    let children = made(&listed(&[("a", &["x", "y"]), ("b", &["x"])]));
    let mut changed = listed(&[("a", &["x"]), ("c", &["z"])]);
    changed.spec.upstream.as_mut().unwrap().revision = Some("v2".into());
    let plan = planned(&changed, &children, &[]);
    assert_eq!(shown(&plan), ["create s-c-z", "update s-a-x", "delete s-a-y", "delete s-b-x"]);
    let settled = planned(&changed, &after(&children, &plan), &[]);
    assert_eq!((shown(&settled).len(), settled.kept), (0, 2));
}

/// An update replaces the spec only, so metadata that users added stays.
#[test]
fn updates_keep_the_metadata() {
    let mut children = made(&listed(&[("a", &["x"])]));
    children[0].labels_mut().insert("mine".to_owned(), "yes".to_owned());
    children[0].spec.deletion_policy = Some("orphan".to_owned());
    let plan = planned(&listed(&[("a", &["x"])]), &children, &[]);
    let [Action::Update(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(
        (update.labels().get("mine").map(String::as_str), &update.spec.deletion_policy),
        (Some("yes"), &None)
    );
}

#[test]
fn colliding_names_are_two_variants() {
    let both = listed(&[("a", &["b-c"]), ("a-b", &["c"])]);
    let children = made(&both);
    let names: Vec<String> = children.iter().map(groundwork_api::ResourceExt::name_any).collect();
    assert_eq!(names, ["s-a-b-c".to_owned(), hashed_name("s", "a-b", "c")]);
    assert!(shown(&planned(&both, &children, &[])).is_empty());
    // The child with the plain name is deleted, and the other one keeps its hashed name.
    let plan = planned(&listed(&[("a-b", &["c"])]), &children, &[]);
    assert_eq!(shown(&plan), ["delete s-a-b-c"]);
    // An object of another owner has the plain name.
    let taken = planned(&listed(&[("a", &["x"])]), &[], &["s-a-x"]);
    assert_eq!(shown(&taken), [format!("create {}", hashed_name("s", "a", "x"))]);
    let set = listed(&[("a", &["x"])]);
    let none = plan_error(&set, &["s-a-x", &hashed_name("s", "a", "x")]);
    assert!(none.contains("both names"), "{none}");
}

fn plan_error(set: &PackageVariantSet, taken: &[&str]) -> String {
    plan(set, &expansion(set), &[], |name| taken.contains(&name)).unwrap_err().to_string()
}

#[test]
fn a_child_without_owner_is_adopted_and_one_of_others_left_alone() {
    let set = listed(&[("a", &["x"])]);
    let mut children = made(&set);
    children[0].metadata.owner_references = None;
    assert!(is_child(&children[0], &set));
    let plan = planned(&set, &children, &[]);
    assert_eq!(shown(&plan), ["adopt s-a-x"]);
    assert!(shown(&planned(&set, &after(&children, &plan), &[])).is_empty());
    let mut others = made(&set);
    others[0].metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
    assert!(!is_child(&others[0], &set));
}

#[test]
fn a_child_that_is_going_is_waited_for() {
    let set = listed(&[("a", &["x"])]);
    let mut children = made(&set);
    children[0].metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let plan = planned(&set, &children, &[]);
    assert_eq!((shown(&plan).len(), plan.kept), (0, 0));
    assert!(
        shown(&planned(&listed(&[("b", &["x"])]), &children, &[])).iter().all(|line| line == "create s-b-x")
    );
}

#[test]
fn of_two_children_for_one_package_the_older_stays() {
    let set = listed(&[("a", &["x"])]);
    let mut children = [made(&set), made(&set)].concat();
    children[0].metadata.name = Some("younger".to_owned());
    for (child, time) in children.iter_mut().zip(["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"]) {
        child.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
    }
    assert_eq!(shown(&planned(&set, &children, &[])), ["delete younger"]);
}

/// A mistyped label must not delete all children (`packagevariants.md` 4.7).
#[test]
fn losing_everything_is_confirmed() {
    let five = listed(&[("a", &["1", "2", "3", "4", "5"])]);
    let children = made(&five);
    let mut empty = set(&json!([{"repositorySelector": {}}]));
    assert_eq!(planned(&empty, &children, &[]).actions.len(), 5, "the set itself was changed");
    empty.status.as_mut().unwrap().observed_generation = Some(2);
    let guarded = planned(&empty, &children, &[]);
    assert!(guarded.actions.is_empty() && guarded.guarded.unwrap().contains("groundwork/confirm-delete"));
    assert_eq!(planned(&empty, &children[1..], &[]).actions.len(), 4, "few go unasked");
    empty.annotations_mut().insert(CONFIRM_DELETE.to_owned(), "1".to_owned());
    assert!(planned(&empty, &children, &[]).guarded.is_some());
    empty.annotations_mut().insert(CONFIRM_DELETE.to_owned(), "2".to_owned());
    assert_eq!(planned(&empty, &children, &[]).actions.len(), 5);
}

/// With `maxDeletePercent`, deletions above this share need a confirmation, even after an edit of
/// the spec (`packagevariants.md` 4.7).
#[test]
fn losing_more_than_a_given_share_is_confirmed() {
    let children = made(&listed(&[("a", &["1", "2", "3", "4"])]));
    let three = |percent: Option<i32>| {
        let mut set = listed(&[("a", &["1", "2"])]);
        set.spec.max_delete_percent = percent;
        set
    };
    for (percent, expected) in [(None, 2), (Some(100), 2), (Some(50), 2), (Some(49), 0), (Some(0), 0)] {
        let plan = planned(&three(percent), &children, &[]);
        assert_eq!((plan.actions.len(), plan.guarded.is_some()), (expected, expected == 0), "{percent:?}");
    }
    let mut guarded = three(Some(49));
    assert_eq!(
        planned(&guarded, &children, &[]).guarded.unwrap(),
        "2 of 4 package variants would be deleted, but spec.maxDeletePercent is 49: to allow it, set the annotation \
         groundwork/confirm-delete to \"2\""
    );
    guarded.annotations_mut().insert(CONFIRM_DELETE.to_owned(), "2".to_owned());
    assert_eq!(planned(&guarded, &children, &[]).actions.len(), 2);
    let mut same = listed(&[("a", &["1", "2", "3", "4"])]);
    same.spec.max_delete_percent = Some(0);
    assert_eq!(planned(&same, &children, &[]).guarded, None, "nothing goes");
}

/// A failing target may want any of the children, so none is deleted until the target succeeds
/// (`packagevariants.md` 4.7).
#[test]
fn nothing_is_deleted_while_a_target_fails() {
    let children = made(&listed(&[("a", &["1", "2"])]));
    let mut isolated = set(&json!([
        {"repositories": [{"name": "a", "packageNames": ["1", "3"]}]},
        {"repositories": [{"name": "b"}], "template": {"downstream": {"packageExpr": "target.labels['x']"}}},
    ]));
    isolated.spec.failure_policy = Some("Isolate".to_owned());
    let plan = planned(&isolated, &children, &[]);
    assert_eq!((shown(&plan), plan.held), (vec!["create s-a-3".to_owned()], 1));
    isolated.spec.targets = serde_json::from_value(json!([
        {"repositories": [{"name": "a", "packageNames": ["1", "3"]}]},
    ]))
    .unwrap();
    let plan = planned(&isolated, &children, &[]);
    assert_eq!((shown(&plan), plan.held), (vec!["create s-a-3".to_owned(), "delete s-a-2".to_owned()], 0));
}

#[test]
fn ready_children_are_counted() {
    let set = listed(&[("a", &["x", "y"])]);
    let mut children = made(&set);
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m",
        "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    children[0].metadata.generation = Some(3);
    children[0].status = serde_json::from_value(ready.clone()).unwrap();
    children[1].metadata.generation = Some(4);
    children[1].status = serde_json::from_value(ready).unwrap();
    let plan = planned(&set, &children, &[]);
    assert_eq!((plan.kept, plan.ready), (2, 1));
}
