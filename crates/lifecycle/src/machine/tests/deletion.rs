use groundwork_api::ResourceExt as _;

use super::*;
use crate::machine::Tree;

#[test]
fn a_deletion_goes_from_the_items_up() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    cluster.log.clear();
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.executions.is_empty() && cluster.items.is_empty());
    assert_eq!(
        cluster.log,
        [
            "status Installation InitDelete",
            "delete Execution",
            "status Installation Deleting",
            "status Execution InitDelete",
            "delete DeployItem",
            "delete DeployItem",
            "status Execution Deleting",
            "status DeployItem Succeeded",
            "status DeployItem Succeeded",
            "release Execution",
            "release Installation",
        ]
    );
}

/// `installations.md` 8.1: a delayed request of another replica, or of a dead process, creates the
/// Execution again after its deletion.
#[test]
fn what_is_made_late_goes_too() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let mut late = cluster.execution().unwrap().clone();
    (late.metadata.uid, late.status) = (Some("late".to_owned()), None);
    cluster.delete();
    cluster.has_no_deployer = true;
    cluster.run(None);
    cluster.items.clear();
    let mut tree = Tree::new("team", "server");
    cluster.replica("server", &mut tree, |cluster| cluster.execution().is_some());
    assert_eq!((cluster.phase().as_str(), cluster.executions.len()), ("Deleting", 0));
    cluster.executions.insert("server".to_owned(), late);
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.executions.is_empty(), "{:?}", cluster.log);
}

#[test]
fn an_installation_that_never_ran_just_goes() {
    let mut object = installation(&["a"], &json!({}));
    object["metadata"]["annotations"] = json!({});
    let mut cluster = Cluster::new(object);
    cluster.run(None);
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{:?}", cluster.log);
}

/// `installations.md` 8.3, case I-116: a failed deletion stays failed, and a request starts it
/// again.
#[test]
fn a_failed_deletion_can_be_repeated() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    cluster.verdicts.insert("a".to_owned(), "DeleteFailed");
    cluster.delete();
    cluster.run(None);
    assert_eq!(cluster.phase(), "DeleteFailed");
    cluster.run(None);
    assert_eq!(cluster.phase(), "DeleteFailed", "it is not repeated by itself");
    cluster.verdicts.clear();
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert!(cluster.installations.is_empty());
}

/// `installations.md` 8.4: with the annotation, no deployer has to act.
#[test]
fn deleting_without_uninstalling_asks_no_deployer() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    cluster.has_no_deployer = true;
    cluster.annotate("landscaper.gardener.cloud/delete-without-uninstall", "true");
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty());
}

/// `installations.md` 8.6: an Execution that a user deletes goes with the next job, which creates a
/// new one.
#[test]
fn an_execution_deleted_by_hand_is_made_anew() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let execution = cluster.execution_mut();
    execution.metadata.deletion_timestamp =
        Some(groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap()));
    cluster.run(None);
    assert!(cluster.execution().is_some(), "it waits for a job");
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert!(cluster.execution().unwrap().metadata.deletion_timestamp.is_none());
}

/// An Execution with the same name but another owner stays.
#[test]
fn a_foreign_execution_is_left_alone() {
    let mut cluster = cluster(&["a"]);
    let foreign = serde_json::json!({
        "metadata": {"name": "server", "namespace": "team", "uid": "foreign", "resourceVersion": "1", "finalizers": ["x"]},
        "spec": {"deployItems": [{"name": "theirs", "type": "t"}]},
    });
    cluster.executions.insert("server".to_owned(), serde_json::from_value(foreign).unwrap());
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    assert!(cluster.error().contains("belongs to another owner"), "{}", cluster.error());
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty());
    assert!(cluster.execution().unwrap().metadata.deletion_timestamp.is_none());
}

/// `installations.md` 8.6: an item that a user deletes and that cannot go ends the job that waits
/// for it.
#[test]
fn an_item_deleted_by_hand_that_cannot_go_fails_the_job() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    cluster.verdicts.insert("a".to_owned(), "DeleteFailed");
    for item in cluster.items.values_mut() {
        item.metadata.deletion_timestamp =
            Some(groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap()));
    }
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    cluster.verdicts.clear();
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
}

/// A finalizer of another controller keeps an Execution. The Installation waits for it without a
/// write.
#[test]
fn finalizers_of_others_are_waited_for() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    cluster.execution_mut().metadata.finalizers.as_mut().unwrap().push("example.org/theirs".to_owned());
    cluster.delete();
    cluster.run(None);
    assert_eq!(cluster.phase(), "Deleting");
    cluster.executions.clear();
    cluster.run(None);
    assert!(cluster.installations.is_empty());
}

/// `installations.md` 3.2: a delayed request to interrupt does not end a later job.
#[test]
fn an_interrupt_of_a_finished_job_is_dropped() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let annotations = &mut cluster.execution_mut().metadata.annotations;
    annotations
        .get_or_insert_default()
        .insert("landscaper.gardener.cloud/operation".to_owned(), "interrupt".to_owned());
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert!(cluster.execution().unwrap().metadata.annotations.as_ref().unwrap().is_empty());
}

/// Removes the Installation whose finalizer a user has taken away, and lets garbage collection
/// delete the objects that it owned.
fn forced_away(cluster: &mut Cluster) {
    let now = groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap());
    cluster.installations.remove("server");
    cluster.execution_mut().metadata.deletion_timestamp = Some(now.clone());
}

/// `installations.md` 8.7: objects without their owner get a job of their own.
#[test]
fn an_execution_whose_installation_is_gone_goes_with_its_items() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    forced_away(&mut cluster);
    cluster.log.clear();
    cluster.worked.clear();
    for _ in 0..5 {
        cluster.replica("server", &mut Tree::new("team", "server"), |_| true);
        cluster.run(None);
    }
    assert!(cluster.executions.is_empty() && cluster.items.is_empty(), "{:?}", cluster.log);
    assert_eq!(cluster.log[..2], ["annotate Execution", "status Execution InitDelete"]);
    assert!(cluster.worked.is_empty(), "nothing is uninstalled: {:?}", cluster.worked);
}

/// An Execution that a delayed request has created, and that never had a job, is deleted too.
#[test]
fn an_execution_that_comes_too_late_goes() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    forced_away(&mut cluster);
    cluster.execution_mut().status = None;
    cluster.items.clear();
    cluster.replica("server", &mut Tree::new("team", "server"), |_| true);
    assert!(cluster.executions.is_empty(), "{:?}", cluster.log);
}

#[test]
fn a_deletion_without_an_owner_that_has_failed_is_not_repeated() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    forced_away(&mut cluster);
    cluster.execution_mut().status.as_mut().unwrap().phase = Some("DeleteFailed".to_owned());
    cluster.log.clear();
    cluster.replica("server", &mut Tree::new("team", "server"), |_| true);
    assert!(cluster.log.is_empty() && cluster.execution().is_some(), "{:?}", cluster.log);
}

#[test]
fn items_whose_execution_is_gone_go() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.run(None);
    forced_away(&mut cluster);
    let deleted = cluster.execution_mut().metadata.deletion_timestamp.clone();
    cluster.executions.clear();
    for item in cluster.items.values_mut() {
        item.metadata.deletion_timestamp.clone_from(&deleted);
    }
    let mut tree = Tree::new("team", "server");
    for name in cluster.items.keys() {
        tree.items.outdate(name, Some("1"));
    }
    tree.looks_for_left = true;
    while cluster.step("server", &mut tree, &mut None).is_none() {}
    cluster.run(None);
    assert!(cluster.items.is_empty(), "{:?}", cluster.log);
}

/// A nested Installation waits for its parent's job while the parent exists. Without a parent it
/// gets its own job.
#[test]
fn a_child_whose_parent_is_gone_goes() {
    let mut nested = nested::shop(&["db: who > access"]);
    nested.run(None);
    let now = groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap());
    let child = nested.child("db").unwrap().name_any();
    nested.installations.get_mut(&child).unwrap().metadata.deletion_timestamp = Some(now);
    nested.run(None);
    assert!(nested.installations.contains_key(&child), "its parent gives it a job");
    nested.installations.remove("server");
    nested.executions.remove("server");
    nested.run(None);
    assert!(!nested.installations.contains_key(&child), "{}", nested.told());
}
