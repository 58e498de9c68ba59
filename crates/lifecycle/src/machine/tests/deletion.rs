use super::*;

#[test]
fn a_deletion_goes_from_the_items_up() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    cluster.log.clear();
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installation.is_none() && cluster.execution.is_none() && cluster.items.is_empty());
    assert_eq!(
        cluster.log,
        [
            "status Installation InitDelete",
            "delete Execution",
            "status Installation TriggerDelete",
            "status Execution Succeeded",
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

#[test]
fn an_installation_that_never_ran_just_goes() {
    let mut object = installation(&["a"], &json!({}));
    object["metadata"]["annotations"] = json!({});
    let mut cluster = Cluster::new(object);
    cluster.run(None);
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installation.is_none(), "{:?}", cluster.log);
}

/// 8.3: a failed deletion stays, and a request starts it again.
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
    assert!(cluster.installation.is_none());
}

/// 8.4.
#[test]
fn deleting_without_uninstalling_asks_no_deployer() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    cluster.has_no_deployer = true;
    cluster.annotate("landscaper.gardener.cloud/delete-without-uninstall", "true");
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installation.is_none() && cluster.items.is_empty());
}

/// 8.6: an Execution deleted by hand goes with the next job, and comes back.
#[test]
fn an_execution_deleted_by_hand_is_made_anew() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let execution = cluster.execution.as_mut().unwrap();
    execution.metadata.deletion_timestamp =
        Some(groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap()));
    cluster.run(None);
    assert!(cluster.execution.is_some(), "it waits for a job");
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert!(cluster.execution.unwrap().metadata.deletion_timestamp.is_none());
}
