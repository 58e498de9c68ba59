use serde_json::json;

use super::*;

const RECONCILE: (&str, &str) = ("landscaper.gardener.cloud/operation", "reconcile");

/// Cases B-02, I-14: the order of the writes printed in bold in `installations.md` 2.5, for an item
/// without exports.
#[test]
fn writes_of_a_first_job() {
    let mut cluster = cluster(&["echo"]);
    cluster.run(None);
    assert_eq!(
        cluster.log,
        [
            "finalizer Installation",
            "status Installation Init",
            "create Execution",
            "status Installation Progressing",
            "status Execution Init",
            "create DeployItem",
            "status Execution Progressing",
            "status DeployItem ",
            "status Execution Succeeded",
            "status Installation Succeeded",
        ]
    );
    let status = cluster.server().status.clone().unwrap();
    assert_eq!(status.job_id, status.job_id_finished);
    assert_eq!(status.execution_ref.unwrap().name, "server");
    let condition = |name: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == name).unwrap();
        (found.status.clone(), found.observed_generation)
    };
    assert_eq!(condition("Ready"), ("True".to_owned(), Some(1)));
    assert_eq!(condition("Reconciling"), ("False".to_owned(), Some(1)));
    assert_eq!(condition("Stalled"), ("False".to_owned(), Some(1)));
}

/// `installations.md` 2.1: the status is written before the annotation is removed.
#[test]
fn a_request_starts_a_job_and_is_removed_after_that() {
    let mut cluster = cluster(&["echo"]);
    cluster.run(None);
    let first = cluster.server().status.clone().unwrap().job_id;
    cluster.log.clear();
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    assert_eq!(
        cluster.log[..3],
        ["status Installation Init", "annotate Installation", "status Installation Progressing"]
    );
    assert_eq!(cluster.phase(), "Succeeded");
    assert_ne!(cluster.server().status.clone().unwrap().job_id, first);
    assert!(
        !cluster.log.iter().any(|line| line.starts_with("create") || line.starts_with("replace")),
        "{:?}",
        cluster.log
    );
    assert_eq!(cluster.log.iter().filter(|line| **line == "annotate Installation").count(), 1);
}

/// `installations.md` 2.1: a new object with a request gets the finalizer in the write that removes
/// the request, before the job creates any object.
#[test]
fn a_request_of_a_new_object_is_removed_with_the_finalizer_set() {
    let mut object = installation(&["echo"], &json!({}));
    object["metadata"]["annotations"] = json!({RECONCILE.0: RECONCILE.1});
    let mut cluster = Cluster::new(object);
    cluster.run(None);
    assert_eq!(
        cluster.log[..3],
        ["status Installation Init", "finalizer Installation", "create Execution"],
        "{:?}",
        cluster.log
    );
    assert_eq!(cluster.phase(), "Succeeded");
    let metadata = &cluster.server().metadata;
    assert!(metadata.annotations.iter().flatten().next().is_none() && metadata.finalizers.is_some());
}

#[test]
fn nothing_starts_by_itself() {
    let mut object = installation(&["echo"], &json!({}));
    object["metadata"]["annotations"] = json!({});
    let mut cluster = Cluster::new(object);
    cluster.run(None);
    assert_eq!(cluster.log, ["finalizer Installation", "status Installation "]);
    // The status explains once that the object waits for a request.
    let status = cluster.server().status.clone().unwrap();
    let told = |name: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == name).unwrap();
        (found.status.clone(), found.reason.clone(), found.message.contains("operation to reconcile"))
    };
    assert_eq!(told("Ready"), ("False".to_owned(), "NotRequested".to_owned(), true));
    assert_eq!(told("Stalled"), ("False".to_owned(), "NotRequested".to_owned(), false));
    cluster.annotate("landscaper.gardener.cloud/ignore", "true");
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    assert_eq!(cluster.log.len(), 2);
}

/// The process dies after each single write of a life in turn. The result is the same, and no
/// object is created twice.
#[test]
fn every_crash_ends_the_same() {
    let life = |deaths: [Option<usize>; 3]| {
        let imports = json!({"data": [{"name": "greeting", "dataRef": "greeting"}]});
        let mut cluster = Cluster::new(installation(&["a", "b>a", "c>a"], &imports));
        let greeting = json!({"metadata": {"name": "greeting", "namespace": "team"}, "data": "hello"});
        cluster.data_objects.insert("greeting".to_owned(), serde_json::from_value(greeting).unwrap());
        cluster.run(deaths[0]);
        assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
        let created = (cluster.dump(), cluster.creates());
        cluster.change_spec(installation(&["a", "d>a"], &imports));
        cluster.run(deaths[1]);
        assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
        let changed = (cluster.dump(), cluster.creates());
        cluster.delete();
        cluster.run(deaths[2]);
        assert!(
            cluster.installations.is_empty() && cluster.executions.is_empty() && cluster.items.is_empty()
        );
        (created, changed, cluster.log.len())
    };
    let (created, changed, writes) = life([None; 3]);
    assert_eq!((created.1, changed.1), (4, 5));
    for stage in 0..3 {
        for death in 0..writes {
            let mut deaths = [None; 3];
            deaths[stage] = Some(death);
            let (other_created, other_changed, _) = life(deaths);
            assert_eq!(other_created, created, "killed in stage {stage} after write {death}");
            assert_eq!(other_changed, changed, "killed in stage {stage} after write {death}");
        }
    }
}

#[test]
fn items_run_in_order_and_a_failure_stops_what_comes_after() {
    let mut cluster = cluster(&["a", "b>a", "c"]);
    cluster.verdicts.insert("a".to_owned(), "Failed");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let phase = |name: &str| {
        let item = cluster
            .items
            .values()
            .find(|item| item.metadata.name.as_ref().unwrap().contains(&format!("-{name}-")));
        item.unwrap().status.clone().unwrap_or_default().phase.unwrap_or_default()
    };
    assert_eq!((phase("a"), phase("b"), phase("c")), ("Failed".into(), String::new(), "Succeeded".into()));
    let execution = cluster.execution().unwrap().status.clone().unwrap();
    let item = cluster.items.keys().find(|name| name.contains("-a-")).unwrap();
    let told = format!("item a ({item}) failed: a is broken");
    assert_eq!(execution.last_error.unwrap().message, format!("has failed or missing deploy items: {told}"));
    assert_eq!(
        cluster.error(),
        format!("buildErrorIfFailedChild/children failed: Execution is failed: {told}")
    );
}

/// `installations.md` 6.2, `blueprints.md` 7.4: an Execution is emptied if its blueprint no longer
/// renders items.
#[test]
fn items_without_template_go() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.run(None);
    assert_eq!(cluster.items.len(), 2);
    cluster.change_spec(installation(&[], &json!({})));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.items.len()), ("Succeeded", 0));
    assert!(cluster.execution().is_some());
}

#[test]
fn a_missing_import_fails_the_job_and_says_so() {
    let imports = json!({"data": [{"name": "greeting", "dataRef": "greeting"}]});
    let mut cluster = Cluster::new(installation(&["a"], &imports));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    assert!(cluster.error().starts_with("init/ImportsSatisfied: "), "{}", cluster.error());
    let status = cluster.server().status.clone().unwrap();
    let stalled = status.conditions.iter().find(|condition| condition.type_ == "Stalled").unwrap();
    assert_eq!((stalled.status.as_str(), stalled.reason.as_str()), ("True", "ImportsSatisfied"));
    assert!(cluster.execution().is_none());
}

/// `installations.md` 7.6: an item that no deployer picks up fails after the timeout, and the job
/// fails with it.
#[test]
fn an_item_without_deployer_fails_in_the_end() {
    let mut cluster = cluster(&["a"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    assert_eq!(cluster.phase(), "Progressing");
    cluster.advance(400);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let item = cluster.items.values().next().unwrap().status.clone().unwrap();
    let error = item.last_error.unwrap();
    assert_eq!((error.reason.as_str(), &error.codes[..]), ("PickupTimeout", &["ERR_TIMEOUT".to_owned()][..]));
}

/// `installations.md` 3.2: the operation `interrupt` ends the job.
#[test]
fn an_interrupt_ends_the_job() {
    let mut cluster = cluster(&["a", "b>a"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    cluster.annotate("landscaper.gardener.cloud/operation", "interrupt");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let reasons: Vec<String> =
        cluster.items.values().map(|item| item.status.clone().unwrap().last_error.unwrap().reason).collect();
    assert_eq!(reasons, ["InterruptOperation", "InterruptOperation"]);
    assert_eq!(cluster.server().metadata.annotations.as_ref().unwrap().len(), 1, "the request is gone");
}

/// `installations.md` 2.5, 7.5: exports of items are stored in the Execution's DataObject.
#[test]
fn exports_of_items_are_collected() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    for item in cluster.items.values_mut() {
        let status = item.status.as_mut().unwrap();
        status.phase = Some("Succeeded".to_owned());
        status.job_id_finished = status.job_id.clone();
        if item.metadata.name.as_ref().unwrap().contains("-a-") {
            let name = "a-export".to_owned();
            status.export_ref = Some(groundwork_api::ObjectReference { name, namespace: None });
        }
    }
    cluster.log.clear();
    cluster.run(None);
    assert_eq!(
        cluster.log[..3],
        ["ensure DataObject", "status Execution Succeeded", "status Installation Succeeded"]
    );
    let holder = cluster.data_objects.values().next().unwrap();
    assert_eq!(holder.data.get(), Some(&json!({"a": {"secret": "a-export"}, "b": null})));
    let reference = cluster.execution().unwrap().status.clone().unwrap().export_ref.unwrap();
    assert_eq!(Some(reference.name), holder.metadata.name);
}

/// `installations.md` 2.1, 2.2: a permanently rejected write ends the job, so that the next job or
/// a deletion can begin.
#[test]
fn a_final_no_ends_the_job() {
    for (kind, condition) in [
        ("Execution", Some(("ReconcileExecution", "CreateOrUpdateExecution"))),
        ("DataObject", Some(("CreateImports", "CreateDataObjects"))),
        ("DeployItem", None),
    ] {
        let imports = json!({"data": [{"name": "greeting", "dataRef": "greeting"}]});
        let mut cluster = Cluster::new(installation(&["a"], &imports));
        let greeting = json!({"metadata": {"name": "greeting", "namespace": "team"}, "data": "hello"});
        cluster.data_objects.insert("greeting".to_owned(), serde_json::from_value(greeting).unwrap());
        cluster.refuses = Some(kind);
        cluster.run(None);
        assert_eq!(cluster.phase(), "Failed", "{kind}");
        let status = cluster.server().status.clone().unwrap();
        let found = status
            .conditions
            .iter()
            .find(|found| found.status == "False" && found.message == "it is refused");
        let found = found.map(|found| (found.type_.as_str(), found.reason.as_str()));
        assert_eq!(found.filter(|(name, _)| !matches!(*name, "Ready" | "Stalled")), condition);
        cluster.refuses = None;
        cluster.annotate(RECONCILE.0, RECONCILE.1);
        cluster.run(None);
        assert_eq!(cluster.phase(), "Succeeded", "{kind}: {}", cluster.error());
    }
}

/// A kept tree forgets objects that other replicas may have changed since.
#[test]
fn a_kept_tree_forgets_what_is_not_the_newest() {
    use super::super::{Known, Part, Tree};
    let object = |version: &str| {
        let metadata =
            json!({"metadata": {"name": "item", "resourceVersion": version}, "spec": {"type": "t"}});
        Known::Present(std::sync::Arc::new(serde_json::from_value(metadata).unwrap()))
    };
    for (newest, is_kept) in [(Some("4"), true), (Some("5"), true), (Some("6"), false), (None, false)] {
        let mut tree = Tree::new("team", "server");
        tree.items.insert("item".to_owned(), object("5"));
        let known =
            |part: Part<'_>| (part == Part::Item("item")).then_some(newest).flatten().map(str::to_owned);
        tree.outdate(known);
        assert_eq!(tree.items.unread().is_empty(), is_kept, "{newest:?}");
        // The event of an object that this attempt has just created may not have arrived yet, so
        // the object is kept.
        tree.items.insert("item".to_owned(), object("5"));
        tree.goes_on = true;
        tree.outdate(known);
        assert_eq!(tree.items.unread().is_empty(), is_kept || newest.is_none(), "{newest:?}");
        assert!(!tree.goes_on, "that holds for one part");
    }
}

/// Case B-71: with `updateOnChangeOnly` in the template, a succeeded item runs again only after a
/// change of its spec. Another item of the same job always runs.
#[test]
fn an_unchanged_item_is_left_alone_where_it_says_so() {
    let careful = |setting: &str| {
        let mut object = installation(&["careful", "eager"], &json!({}));
        let text = &mut object["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"];
        let changed = text.as_str().unwrap().replace(
            "config: {name: careful}",
            &format!("updateOnChangeOnly: true\n        config: {{name: {setting}}}"),
        );
        assert_ne!(*text, json!(changed));
        *text = json!(changed);
        object
    };
    let state = |cluster: &Cluster| {
        let mut items = cluster.items.values();
        let item = items.find(|item| item.metadata.name.as_ref().unwrap().contains("-careful-")).unwrap();
        (item.spec.update_on_change_only, item.metadata.generation, item.status.clone().unwrap())
    };
    let next_job = |cluster: &mut Cluster| {
        cluster.worked.clear();
        cluster.annotate(RECONCILE.0, RECONCILE.1);
        cluster.run(None);
        assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
        cluster.worked.clone()
    };

    let mut cluster = Cluster::new(careful("one"));
    cluster.run(None);
    assert_eq!(cluster.worked, ["careful", "eager"]);
    let (flag, generation, first) = state(&cluster);
    assert_eq!((flag, generation), (Some(true), Some(1)));

    assert_eq!(next_job(&mut cluster), ["eager"]);
    let (_, generation, second) = state(&cluster);
    assert_eq!((generation, second.phase.as_deref()), (Some(1), Some("Succeeded")));
    assert_ne!(second.job_id, first.job_id);
    assert_eq!(second.job_id_finished, second.job_id);

    cluster.worked.clear();
    cluster.change_spec(careful("two"));
    cluster.run(None);
    assert_eq!(cluster.worked, ["careful", "eager"]);
    assert_eq!(state(&cluster).1, Some(2));
    assert_eq!(next_job(&mut cluster), ["eager"]);

    // A failed item is retried even without a change.
    cluster.verdicts.insert("careful".to_owned(), "Failed");
    cluster.change_spec(careful("three"));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    cluster.verdicts.clear();
    assert_eq!(next_job(&mut cluster), ["careful", "eager"]);
}

/// Cases I-118 to I-130 (`installations.md` 3.5): after a failure automatic jobs run at once and
/// then at intervals, up to the limit. A request of a user resets the count. After a success jobs
/// run at the interval.
#[test]
fn automatic_jobs() {
    let mut object = installation(&["a"], &json!({}));
    object["spec"]["automaticReconcile"] = json!({
        "failedReconcile": {"interval": "10m", "numberOfReconciles": 2}, "succeededReconcile": {"interval": "1h"},
    });
    let mut cluster = Cluster::new(object);
    cluster.verdicts.insert("a".to_owned(), "Failed");
    cluster.run(None);
    let jobs =
        |cluster: &Cluster| cluster.log.iter().filter(|line| line.ends_with("Installation Init")).count();
    let runs = |cluster: &Cluster| {
        let status = cluster.server().status.clone().unwrap().automatic_reconcile_status.unwrap();
        (status.number_of_reconciles.unwrap(), status.on_failed.unwrap())
    };
    assert_eq!((jobs(&cluster), runs(&cluster)), (2, (1, true)), "the first one follows at once");
    for (seconds, expected) in [(60, 2), (600, 3), (3_600, 3)] {
        cluster.advance(seconds);
        cluster.run(None);
        assert_eq!(jobs(&cluster), expected, "after {seconds} seconds");
    }
    assert_eq!(runs(&cluster), (2, true));
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    assert_eq!((jobs(&cluster), runs(&cluster)), (5, (1, true)), "asked for, and one by itself");
    cluster.verdicts.clear();
    cluster.advance(700);
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), runs(&cluster)), ("Succeeded", (0, false)));
    cluster.advance(3_700);
    cluster.run(None);
    assert_eq!((jobs(&cluster), runs(&cluster)), (7, (1, false)));
}
