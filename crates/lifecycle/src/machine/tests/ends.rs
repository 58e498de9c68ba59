//! Every job ends, even after crashes and rejected writes, and its status shows the progress.

use super::*;

const INTERRUPT: (&str, &str) = ("landscaper.gardener.cloud/operation", "interrupt");
const RECONCILE: (&str, &str) = ("landscaper.gardener.cloud/operation", "reconcile");

/// A rendering that kills the process is attempted three times. Then the job fails with the reason.
#[test]
fn rendering_that_ends_the_process_is_given_up() {
    let mut cluster = cluster(&["a"]);
    cluster.dies_of_rendering = true;
    let mut told = Vec::new();
    for _ in 0..5 {
        cluster.run(None);
        told.push((cluster.phase(), cluster.error()));
    }
    assert_eq!(cluster.renderings, 3);
    assert_eq!(told[0], ("Init".to_owned(), String::new()));
    let attempt = "handlePhaseInit/RenderingEndsProcess: the renderer ended while it rendered this installation; attempt 3 of 3";
    assert_eq!(told[2], ("Init".to_owned(), attempt.to_owned()));
    assert_eq!(told[3].0, "Failed");
    assert!(
        told[3].1.contains("the renderer ended 3 times while it rendered this installation"),
        "{}",
        told[3].1
    );
    assert_eq!(told[4], told[3], "and stays over");
    // The next job counts from zero, and a successful job removes the count.
    cluster.dies_of_rendering = false;
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert_eq!(cluster.server().status.clone().unwrap().rendering_attempts, None);
}

/// The machine checks for a deletion before it renders.
#[test]
fn what_is_being_deleted_is_not_rendered() {
    let mut cluster = cluster(&["a"]);
    cluster.dies_of_rendering = true;
    cluster.run(None);
    assert_eq!(cluster.renderings, 1);
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{:?}", cluster.log);
    assert_eq!(cluster.renderings, 1);
}

/// A deletion does not wait for items that have not started: running items finish, the others never
/// start.
#[test]
fn what_is_being_deleted_starts_no_more_items() {
    let mut cluster = cluster(&["a", "b>a", "c>b"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    cluster.delete();
    cluster.log.clear();
    cluster.has_no_deployer = false;
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{:?}", cluster.log);
    assert!(cluster.log.iter().any(|line| line == "status Execution Failed"), "{:?}", cluster.log);
}

/// `installations.md` 1.3, 7.6: an item that the renderer ends has its errors in all three fields,
/// and a missing Target is named.
#[test]
fn items_ended_by_the_core_tell_their_errors() {
    for (target, told) in
        [(None, "within 300 seconds"), (Some("gone"), "within 300 seconds; its target gone does not exist")]
    {
        let mut cluster = cluster(&["a"]);
        cluster.has_no_deployer = true;
        cluster.run(None);
        for item in cluster.items.values_mut() {
            item.spec.target = target.map(|name| groundwork_api::ObjectReference {
                name: name.to_owned(),
                namespace: Some("team".to_owned()),
            });
        }
        cluster.advance(400);
        cluster.run(None);
        let status = cluster.items.values().next().unwrap().status.clone().unwrap();
        let error = status.last_error.clone().unwrap();
        assert!(error.message.ends_with(told), "{}", error.message);
        assert_eq!(status.first_error.as_ref(), Some(&error));
        assert_eq!(status.last_errors[..], [error]);
    }
    let mut cluster = cluster(&["a"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    cluster.annotate(INTERRUPT.0, INTERRUPT.1);
    cluster.run(None);
    let status = cluster.items.values().next().unwrap().status.clone().unwrap();
    assert_eq!(status.first_error.unwrap().reason, "InterruptOperation");
    assert_eq!(status.last_errors.len(), 1);
}

/// `installations.md` 1.7, 7.2: a removed dependency is removed from the item, so that a reversed
/// dependency does not block the deletion.
#[test]
fn dependencies_can_be_reversed() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    cluster.change_spec(installation(&["a>b", "b"], &json!({})));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    let depends = |name: &str| {
        let mut items = cluster.items.values();
        let item =
            items.find(|item| item.metadata.name.as_ref().unwrap().contains(&format!("-{name}-"))).unwrap();
        item.metadata
            .annotations
            .as_ref()
            .unwrap()
            .get("execution.landscaper.gardener.cloud/dependsOn")
            .cloned()
    };
    assert_eq!((depends("a"), depends("b")), (Some("b".to_owned()), None));
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{:?}", cluster.log);
}

/// `installations.md` 7.3: items with cyclic dependencies are deleted. A job that dies while it
/// reverses a dependency leaves such items behind.
#[test]
fn a_circle_of_dependencies_does_not_bar_the_deletion() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    for (name, item) in &mut cluster.items {
        let other = if name.contains("-a-") { "b" } else { "a" };
        let annotations = item.metadata.annotations.get_or_insert_default();
        annotations.insert("execution.landscaper.gardener.cloud/dependsOn".to_owned(), other.to_owned());
    }
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{:?}", cluster.log);
}

/// `installations.md` 1.6: the finalizer prevents items from losing their owner.
#[test]
fn a_finalizer_taken_away_by_hand_comes_back() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    cluster.execution_mut().metadata.finalizers = None;
    cluster.items.values_mut().for_each(|item| item.metadata.finalizers = None);
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    let ours = Some(vec!["finalizer.landscaper.gardener.cloud".to_owned()]);
    assert_eq!(cluster.execution().unwrap().metadata.finalizers, ours);
    assert!(cluster.items.values().all(|item| item.metadata.finalizers == ours));
}

/// `installations.md` 2.2, 2.3: while a job waits, the statuses name the awaited objects. At the
/// end these entries are gone.
#[test]
fn what_is_waited_for_is_told() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.run(None);
    cluster.change_spec(installation(&["a"], &json!({})));
    cluster.has_no_deployer = true;
    cluster.run(None);
    assert_eq!(cluster.error(), "handlePhaseProgressing/JobIDFinished: the execution is not finished");
    let error = cluster.execution().unwrap().status.clone().unwrap().last_error.unwrap();
    assert_eq!(
        (error.operation.as_str(), error.reason.as_str(), error.message.as_str()),
        ("handleReconcilePhase", "handlePhaseProgressing", "some running items")
    );
    assert_eq!(error.codes[..], ["ERR_UNFINISHED", "ERR_FOR_INFO_ONLY", "ERR_NO_RETRY"].map(str::to_owned));
    cluster.has_no_deployer = false;
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
    let status = cluster.execution().unwrap().status.clone().unwrap();
    assert_eq!(status.last_error, None);
    let cache = status.deploy_item_cache.unwrap();
    assert!(cache.orphaned_dis.is_empty(), "2.3: {cache:?}");
    assert_eq!(status.export_ref, None, "nothing is exported");
}

/// `installations.md` 9: the condition about the Execution exists only if there is an Execution
/// with items.
#[test]
fn nothing_is_said_about_items_when_there_are_none() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    let condition = |cluster: &Cluster| {
        let status = cluster.server().status.clone().unwrap();
        status.conditions.iter().find(|one| one.type_ == "ReconcileExecution").map(|one| one.reason.clone())
    };
    assert_eq!(condition(&cluster).as_deref(), Some("ExecutionDeployed"));
    cluster.change_spec(installation(&[], &json!({})));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), condition(&cluster)), ("Succeeded", None));
}

/// A message of any length fits into the status.
#[test]
fn long_messages_do_not_bar_the_end_of_a_job() {
    let mut object = installation(&["a"], &json!({}));
    let blueprint = format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: x\n  type: GoTemplate\n  \
         template: '{{{{ fail (repeat {} \"long \") }}}}'\n",
        60_000
    );
    object["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"] = json!(blueprint);
    let mut cluster = Cluster::new(object);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let status = serde_json::to_string(&cluster.server().status).unwrap();
    assert!(status.len() < 60_000, "{}", status.len());
    assert!(status.contains("bytes in all, sha256 "));
}
