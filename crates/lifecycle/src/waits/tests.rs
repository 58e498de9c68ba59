use groundwork_api::metadata::{FINALIZER, annotation, label};
use groundwork_api::{Installation, PackageRevision, PackageVariant};
use serde_json::{Value, json};

use super::*;
use crate::overview::{Members, Node};

/// Returns a clock ten minutes after the creation of the objects below.
fn clock() -> Clock {
    Clock { now: at("00:10:00"), pickup_timeout: None }
}

fn at(time: &str) -> Timestamp {
    stamp(time).parse().unwrap()
}

fn stamp(time: &str) -> String {
    format!("2026-01-01T{time}Z")
}

/// Merges the members of one JSON object over those of another one.
fn over(mut base: Value, changes: &Value) -> Value {
    match (&mut base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (name, change) in changes {
                let old = base.remove(name).unwrap_or(Value::Null);
                base.insert(name.clone(), over(old, change));
            }
        }
        (base, changes) => *base = changes.clone(),
    }
    base
}

fn object(kind: &str, name: &str, changes: &Value) -> Value {
    let base = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "team", "finalizers": [FINALIZER], "generation": 1,
            "creationTimestamp": stamp("00:00:00")},
        "spec": {}});
    over(base, changes)
}

/// Returns an Installation whose job `j` waits for the objects below it, with changes.
fn installation(name: &str, parent: Option<&str>, changes: &Value) -> Installation {
    let mut base = object(
        "Installation",
        name,
        &json!({"spec": {"blueprint": {}}, "status": {
        "phase": "Progressing", "jobID": "j", "observedGeneration": 1,
        "transitionTimes": {"triggerTime": stamp("00:01:00"), "waitTime": stamp("00:02:00")}}}),
    );
    if let Some(parent) = parent {
        base["metadata"]["ownerReferences"] = json!([{"apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "Installation", "name": parent, "uid": "u"}]);
        base["metadata"]["annotations"] = json!({annotation::SUBINSTALLATION_NAME: name});
    }
    serde_json::from_value(over(base, changes)).unwrap()
}

/// Returns a status whose job has finished.
fn over_with(phase: &str) -> Value {
    json!({"status": {"phase": phase, "jobIDFinished": "j", "transitionTimes": {"finishedTime": stamp("00:08:00")}}})
}

fn error(operation: &str, reason: &str, message: &str) -> Value {
    json!({"operation": operation, "reason": reason, "message": message, "codes": [],
        "lastTransitionTime": stamp("00:09:00"), "lastUpdateTime": stamp("00:09:50")})
}

/// Returns an item of the Execution `shop` that its deployer works on, with changes.
fn item(name: &str, changes: &Value) -> Value {
    let base = object(
        "DeployItem",
        name,
        &json!({"spec": {"type": "example.org/x"}, "status": {
        "phase": "Progressing", "jobID": "j", "lastReconcileTime": stamp("00:09:50"),
        "deployer": {"identity": "a", "name": "x", "version": "1"},
        "transitionTimes": {"initTime": stamp("00:03:00")}}}),
    );
    let labels = json!({"metadata": {"labels": {label::MANAGED_BY: "shop", label::DEPLOY_ITEM_NAME: name}}});
    over(over(base, &labels), changes)
}

fn members(installations: &[Installation], items: &[Value]) -> Members {
    let mut members = Members::default();
    for installation in installations {
        members.insert_installation(installation.clone());
    }
    let execution = object(
        "Execution",
        "shop",
        &json!({"status": {"phase": "Progressing", "jobID": "j",
        "transitionTimes": {"triggerTime": stamp("00:01:00"), "waitTime": stamp("00:02:30")}}}),
    );
    if !items.is_empty() {
        members.insert_execution(serde_json::from_value(execution).unwrap());
    }
    for item in items {
        members.insert_item(serde_json::from_value(item.clone()).unwrap());
    }
    members
}

/// Returns the sentences of a tree with their names, in display order.
fn told(members: &Members, clock: &Clock) -> Vec<String> {
    fn collect(node: &Node, clock: &Clock, told: &mut Vec<String>) {
        let wait = node.waits_for.as_ref().map_or_else(|| "-".to_owned(), |wait| wait.sentence(clock.now));
        told.push(format!("{} {}: {wait}", node.kind, node.name));
        for below in &node.nodes {
            collect(below, clock, told);
        }
    }
    let mut sentences = Vec::new();
    collect(&members.tree("shop", clock).unwrap(), clock, &mut sentences);
    sentences
}

/// Returns the sentence about the Installation `shop`, with these other Installations around it.
fn told_of(changes: &Value, others: &[Installation]) -> String {
    let mut all = vec![installation("shop", None, changes)];
    all.extend_from_slice(others);
    let first = told(&members(&all, &[]), &clock()).into_iter().next().unwrap_or_default();
    first.strip_prefix("Installation shop: ").unwrap_or_default().to_owned()
}

/// Returns the sentences about one item, its Execution and its Installation.
fn told_above(changes: &Value) -> [String; 3] {
    let shop = installation("shop", None, &json!({}));
    let all = told(&members(&[shop], &[item("web", changes)]), &clock());
    let after = |line: &String| line.split_once(": ").unwrap().1.to_owned();
    [after(&all[2]), after(&all[1]), after(&all[0])]
}

#[test]
fn items_tell_what_their_deployers_wait_for() {
    let error = error("Reconcile", "ApplyManifests", "the cluster does not answer\nat all");
    let waiting = json!([{"type": "Waiting", "status": "True", "reason": "Unfinished",
        "message": "readiness of shop/web of type Deployment: it does not exist",
        "lastTransitionTime": stamp("00:05:00"), "lastUpdateTime": stamp("00:09:50")}]);
    let given = json!({"status": {"phase": null, "lastReconcileTime": null, "jobIDGenerationTime": stamp("00:07:00")}});
    for (changes, expected) in [
        (
            given,
            "a deployer for items of the type example.org/x to pick it up, since 3m00s (looked at again within 5m)",
        ),
        (
            json!({"status": {"conditions": waiting}}),
            "readiness of shop/web of type Deployment: it does not exist, since 5m00s (looked at again within 10s)",
        ),
        (
            json!({"status": {"conditions": waiting, "lastReconcileTime": stamp("00:08:59")}}),
            "readiness of shop/web of type Deployment: it does not exist, since 5m00s (looked at again within 5m)",
        ),
        (
            json!({"status": {"lastError": error}}),
            "another attempt after ApplyManifests: the cluster does not answer, since 1m00s (looked at again within 30s)",
        ),
        (json!({}), "the deployer x to finish its work, since 7m00s (looked at again within 10s)"),
        (
            json!({"status": {"deployer": null}}),
            "its deployer to finish its work, since 7m00s (looked at again within 10s)",
        ),
        (
            json!({"metadata": {"annotations": {annotation::IGNORE: "true"}}}),
            "a user to remove the annotation landscaper.gardener.cloud/ignore",
        ),
        (
            json!({"metadata": {"deletionTimestamp": stamp("00:09:00"), "finalizers": ["example.org/a"]}}),
            "the finalizers that hold it to be removed: example.org/a, since 1m00s",
        ),
    ] {
        let [own, execution, installation] = told_above(&changes);
        assert_eq!(own, format!("waits for {expected}"));
        // The Execution and the Installation show the same cause, with the start of their own wait.
        let (what, _) = expected.split_once(", since").unwrap_or((expected, ""));
        for (above, since) in [(execution, "7m30s"), (installation, "8m00s")] {
            assert!(above.starts_with(&format!("waits for item web: {what}, since {since}")), "{above}");
        }
    }
    assert_eq!(told_above(&over_with("Succeeded")), ["-", "-", "-"]);
}

/// `installations.md` 7.6: with a known limit, the time is exact.
#[test]
fn a_pick_up_has_its_time() {
    let given = json!({"status": {"phase": "Succeeded", "jobIDGenerationTime": stamp("00:07:00")}});
    let members = members(&[installation("shop", None, &json!({}))], &[item("web", &given)]);
    let clock = Clock { pickup_timeout: Some(SignedDuration::from_mins(5)), ..clock() };
    let tree = members.tree("shop", &clock).unwrap();
    let item = &tree.nodes[0].nodes[0];
    assert_eq!(item.waits_for.as_ref().unwrap().next_look, Some(Look::By(at("00:12:05"))));
    assert_eq!(tree.waits_for.as_ref().unwrap().next_look, Some(Look::By(at("00:12:05"))));
    let words = item.waits_for.as_ref().unwrap().times(clock.now);
    assert_eq!(words, "since 3m00s (looked at again in 2m05s, by 2026-01-01T00:12:05Z)");
    assert_eq!(item.waits_for.as_ref().unwrap().times(at("00:12:05")), "since 5m05s (due now)");
}

/// `installations.md` 7.3: an item names those that go before it. The objects above it name the
/// items that go first.
#[test]
fn items_wait_for_one_another() {
    let waits = |needs: &str| json!({"metadata": {"annotations": {annotation::DEPENDS_ON: needs}}, "status": {"jobID": "i", "jobIDFinished": "i", "phase": "Succeeded"}});
    let shop = installation("shop", None, &json!({}));
    let items =
        [item("a", &json!({})), item("b", &waits("a")), item("c", &waits("a,b")), item("d", &waits(""))];
    assert_eq!(
        told(&members(std::slice::from_ref(&shop), &items), &clock()),
        [
            "Installation shop: waits for item a: the deployer x to finish its work, since 8m00s (looked at again within 10s)",
            "Execution shop: waits for item a: the deployer x to finish its work, since 7m30s (looked at again within 10s)",
            "DeployItem a: waits for the deployer x to finish its work, since 7m00s (looked at again within 10s)",
            "DeployItem b: waits for item a, which it depends on, since 7m30s (looked at again within 5m)",
            "DeployItem c: waits for 2 items: a, b, which it depends on, since 7m30s (looked at again within 5m)",
            "DeployItem d: waits for its turn in the job of its Execution, since 7m30s (looked at again within 5m)",
        ]
    );
    let deleted = |name: &str, needs: &str| {
        item(name, &over(waits(needs), &json!({"metadata": {"deletionTimestamp": stamp("00:04:00")}})))
    };
    let told = told(&members(&[shop], &[deleted("a", ""), deleted("b", "a"), deleted("c", "a")]), &clock());
    assert!(
        told[2].starts_with("DeployItem a: waits for the deletion of 2 items: b, c, which need it, since"),
        "{told:?}"
    );
}

#[test]
fn several_causes_are_counted() {
    let items: Vec<Value> = "abcdefg".chars().map(|name| item(&name.to_string(), &json!({}))).collect();
    let idle =
        installation("db", Some("shop"), &json!({"metadata": {"annotations": {annotation::IGNORE: "true"}}}));
    let all = told(&members(&[installation("shop", None, &json!({})), idle], &items), &clock());
    assert_eq!(
        all[0],
        "Installation shop: waits for 7 items: a, b, c, d, e and 2 more, and Installation db, since 8m00s (looked at again within 10s)"
    );
}

/// `installations.md` 5.2, 8.2: siblings are named with the values that connect them, if those are
/// known.
#[test]
fn installations_wait_for_siblings() {
    let imports = json!({"imports": {"data": [{"name": "url", "dataRef": "url"}]}});
    let exports = json!({"exports": {"data": [{"name": "url", "dataRef": "url"}]}});
    let unfinished = "Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: predecessors are not finished: ";
    let waits = |names: &str| {
        json!({"spec": imports, "status": {"phase": "Init",
            "lastError": error("init", "AllPredecessorsFinished", &format!("{unfinished}{names}"))}})
    };
    let db = installation("db", None, &json!({"spec": exports}));
    let times = "since 1m00s (looked at again within 30s)";
    assert_eq!(
        told_of(&waits("db"), std::slice::from_ref(&db)),
        format!("waits for Installation db, whose export `url` it imports, {times}")
    );
    assert_eq!(
        told_of(&waits("db"), &[]),
        format!("waits for Installation db, from which it imports, {times}")
    );
    assert_eq!(
        told_of(&waits("cache, db"), &[db]),
        format!("waits for 2 Installations: cache, db, from which it imports, {times}")
    );
    let deleting = |name: &str, names: &str| {
        let message = format!("a sibling still imports some of the exports: {names}");
        installation(
            name,
            None,
            &json!({"metadata": {"deletionTimestamp": stamp("00:04:00")}, "spec": exports, "status": {
            "phase": "InitDelete", "lastError": error("CheckSuccessorSibling", "SiblingImport", &message)}}),
        )
    };
    let web = installation("web", None, &json!({"spec": imports}));
    let told =
        |names: &str| told(&members(&[deleting("shop", names), web.clone()], &[]), &clock()).swap_remove(0);
    assert_eq!(
        told("web"),
        format!(
            "Installation shop: waits for the deletion of Installation web, which imports its export `url`, {times}"
        )
    );
    assert_eq!(
        told("job, web"),
        format!(
            "Installation shop: waits for the deletion of 2 Installations: job, web, which import from it, {times}"
        )
    );
}

/// A parent names the children that go first, not those behind them, and a child that waits for
/// something outside the tree.
#[test]
fn parents_tell_the_deepest_causes() {
    let unfinished = "Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: predecessors are not finished: db";
    let db = json!({"spec": {"exports": {"data": [{"name": "url", "dataRef": "url"}]}}, "status": {"phase": "Init",
        "lastError": error("InitPrerequisites", "Resolve", "the resolver cannot be asked")}});
    let web = json!({"spec": {"imports": {"data": [{"name": "url", "dataRef": "url"}]}}, "status": {"phase": "Init",
        "lastError": error("init", "AllPredecessorsFinished", unfinished)}});
    let late = json!({"status": {"jobID": "i", "jobIDFinished": "i", "phase": "Succeeded"}});
    let all = [
        installation("shop", None, &json!({})),
        installation("db", Some("shop"), &db),
        installation("late", Some("shop"), &late),
        installation("web", Some("shop"), &web),
    ];
    assert_eq!(
        told(&members(&all, &[]), &clock()),
        [
            "Installation shop: waits for Installation db: another attempt after Resolve: the resolver cannot be asked, since 8m00s (looked at again within 30s)",
            "Installation db: waits for another attempt after Resolve: the resolver cannot be asked, since 1m00s (looked at again within 30s)",
            "Installation late: waits for its turn in the job of Installation shop, since 9m00s (looked at again within 5m)",
            "Installation web: waits for Installation db, whose export `url` it imports, since 1m00s (looked at again within 30s)",
        ]
    );
}

/// Installations also wait without a job, or with a job that does not wait for objects below.
#[test]
fn installations_wait_by_themselves() {
    let annotated = |name: &str, value: &str| json!({"metadata": {"annotations": {name: value}}});
    let with = |one: &Value, other: &Value| over(one.clone(), other);
    let done = over_with("Succeeded");
    let failed = over_with("Failed");
    let deleted = json!({"metadata": {"deletionTimestamp": stamp("00:09:00")}});
    let automatic = json!({"spec": {"automaticReconcile": {"failedReconcile": {"interval": "5m"}}}, "status": {
        "automaticReconcileStatus": {"generation": 1, "numberOfReconciles": 1, "onFailed": true,
            "lastReconcileTime": stamp("00:08:00")}}});
    let interrupt = annotated(annotation::OPERATION, "interrupt");
    for (changes, expected) in [
        (done.clone(), "-"),
        (json!({}), "-"),
        (json!({"status": {"phase": "Completing"}}), "-"),
        (json!({"status": {"phase": "Init"}}), "-"),
        (
            json!({"status": {"phase": "Succeeded"}}),
            "waits for its job to begin, since 9m00s (looked at again within 5m)",
        ),
        (
            json!({"status": {"lastError": error("handlePhaseProgressing", "Forbidden", "may not get secrets")}}),
            "waits for another attempt after Forbidden: may not get secrets, since 1m00s (looked at again within 30s)",
        ),
        (
            json!({"status": {"phase": "Strange"}}),
            "waits for a user to correct its phase, which has a value that no service writes",
        ),
        (interrupt.clone(), "waits for its interruption to be taken up (looked at again within 5m)"),
        (
            annotated(annotation::IGNORE, "true"),
            "waits for a user to remove the annotation landscaper.gardener.cloud/ignore",
        ),
        (with(&done, &annotated(annotation::IGNORE, "true")), "-"),
        (
            with(&done, &annotated(annotation::OPERATION, "reconcile")),
            "waits for its request reconcile to be taken up (looked at again within 5m)",
        ),
        (
            with(
                &with(&done, &annotated(annotation::RECONCILE_IF_CHANGED, "true")),
                &json!({"metadata": {"generation": 2}}),
            ),
            "waits for the job for its changed spec to begin (looked at again within 5m)",
        ),
        (with(&done, &json!({"metadata": {"generation": 2}})), "-"),
        (
            json!({"metadata": {"finalizers": null}, "status": null}),
            "waits for the renderer to take it up, since 10m00s (looked at again within 5m)",
        ),
        (
            json!({"status": null}),
            "waits for a user to request a job, by the annotation landscaper.gardener.cloud/operation: reconcile, \
             since 10m00s",
        ),
        (
            with(&done, &json!({"status": {"dependentsToTrigger": [{"name": "web"}]}})),
            "waits for Installation web to be triggered, since 2m00s (looked at again within 5m)",
        ),
        (
            with(&failed, &automatic),
            "waits for its next automatic job, since 2m00s (looked at again in 3m00s, by 2026-01-01T00:13:00Z)",
        ),
        (failed.clone(), "-"),
        (
            with(&done, &deleted),
            "waits for the job that deletes it to begin, since 1m00s (looked at again within 5m)",
        ),
        (with(&over_with("DeleteFailed"), &deleted), "-"),
        (
            with(
                &deleted,
                &json!({"metadata": {"finalizers": ["example.org/a"]}, "status": {"phase": "Deleting"}}),
            ),
            "waits for the finalizers that hold it to be removed: example.org/a, since 1m00s",
        ),
    ] {
        assert_eq!(told_of(&changes, &[]), expected, "{changes}");
    }
}

/// `installations.md` 8.6: an object that a user has deleted goes with the next job of its parents.
#[test]
fn what_was_deleted_by_hand_waits_for_a_job() {
    let done = over_with("Succeeded");
    let deleted = over(done.clone(), &json!({"metadata": {"deletionTimestamp": stamp("00:09:00")}}));
    let all = [installation("shop", None, &done), installation("db", Some("shop"), &deleted)];
    assert_eq!(
        told(&members(&all, &[]), &clock())[1],
        "Installation db: waits for the next job of the Installation that it belongs to, which deletes it, since 1m00s"
    );
    let mut alone = members(&all[..1], &[]);
    let over = json!({"status": {"phase": "Succeeded", "jobID": "j", "jobIDFinished": "j"}});
    alone.insert_execution(serde_json::from_value(object("Execution", "shop", &over)).unwrap());
    alone.insert_item(serde_json::from_value(item("web", &deleted)).unwrap());
    assert_eq!(
        told(&alone, &clock())[1..],
        [
            "Execution shop: -",
            "DeployItem web: waits for the next job of its Installation, which deletes it, since 1m00s"
        ]
    );
}

#[test]
fn executions_wait_by_themselves() {
    let told = |changes: &Value| {
        let mut all = members(&[installation("shop", None, &json!({}))], &[]);
        let base = object(
            "Execution",
            "shop",
            &json!({"status": {"phase": "Progressing", "jobID": "j",
            "transitionTimes": {"triggerTime": stamp("00:01:00")}}}),
        );
        all.insert_execution(serde_json::from_value(over(base, changes)).unwrap());
        told(&all, &clock()).join(" | ")
    };
    let above = "Installation shop: waits for Execution shop: ";
    for (changes, expected) in [
        (
            json!({"metadata": {"annotations": {annotation::OPERATION: "interrupt"}}}),
            "its interruption to be taken up (looked at again within 5m)",
        ),
        (json!({"status": {"phase": "Failed"}}), "its job to begin, since 9m00s (looked at again within 5m)"),
        (
            json!({"metadata": {"annotations": {annotation::IGNORE: "true"}}}),
            "a user to remove the annotation landscaper.gardener.cloud/ignore",
        ),
    ] {
        let all = told(&changes);
        assert!(
            all.starts_with(above) && all.ends_with(&format!("Execution shop: waits for {expected}")),
            "{all}"
        );
    }
    assert_eq!(told(&json!({})), "Installation shop: - | Execution shop: -");
}

#[test]
fn packages_wait() {
    let variant = |metadata: Value, conditions: Value| {
        let object = json!({"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant",
            "metadata": over(json!({"name": "a", "namespace": "n", "creationTimestamp": stamp("00:00:00")}), &metadata),
            "spec": {}, "status": {"conditions": conditions}});
        let variant: PackageVariant = serde_json::from_value(object).unwrap();
        let conditions = variant.status.map(|status| status.conditions.to_vec()).unwrap_or_default();
        of_variant(&variant.metadata, &conditions).map(|wait| wait.sentence(at("00:10:00")))
    };
    let ready = |status: &str| json!([{"type": "Ready", "status": status, "reason": "DownstreamProposed", "message": "m", "lastTransitionTime": stamp("00:04:00")}]);
    assert_eq!(variant(json!({}), ready("True")), None);
    assert_eq!(
        variant(json!({}), ready("False")).as_deref(),
        Some("waits for its condition Ready (DownstreamProposed), since 6m00s (looked at again within 5m)")
    );
    assert_eq!(
        variant(json!({}), json!([])).as_deref(),
        Some("waits for the variant service to take it up, since 10m00s (looked at again within 5m)")
    );
    let deleted = json!({"deletionTimestamp": stamp("00:09:00"), "finalizers": ["example.org/a"]});
    assert_eq!(
        variant(deleted, ready("True")).as_deref(),
        Some("waits for the finalizers that hold it to be removed: example.org/a, since 1m00s")
    );
    let revision = |wanted: &str, stage| {
        let object = json!({"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"lifecycle": wanted}});
        let revision: PackageRevision = serde_json::from_value(object).unwrap();
        of_revision(&revision, stage).map(|wait| wait.sentence(at("00:10:00")))
    };
    use groundwork_api::Lifecycle::{Draft, Proposed, Published};
    assert_eq!(revision("Draft", Some(Draft)), None);
    assert_eq!(revision("Published", Some(Published)), None);
    assert_eq!(
        revision("Proposed", Some(Proposed)).as_deref(),
        Some("waits for approval or rejection by a user")
    );
    assert_eq!(
        revision("Published", Some(Proposed)).as_deref(),
        Some("waits for its store to make it Published")
    );
}

#[test]
fn a_wait_in_json() {
    let wait = |next_look| {
        let wait = Wait { what: "a".into(), since: Some(at("00:01:00")), next_look };
        serde_json::to_value(wait).unwrap()
    };
    let within = wait(Some(Look::Within(SIBLING_LOOK)));
    assert_eq!(within, json!({"what": "a", "since": stamp("00:01:00"), "lookedAtWithinSeconds": 30}));
    let by = wait(Some(Look::By(at("00:02:00"))));
    assert_eq!(by, json!({"what": "a", "since": stamp("00:01:00"), "lookedAtBy": stamp("00:02:00")}));
    assert_eq!(wait(None), json!({"what": "a", "since": stamp("00:01:00")}));
}

#[test]
fn times_are_short() {
    let shown = |seconds| elapsed(SignedDuration::from_secs(seconds));
    assert_eq!(
        [shown(0), shown(59), shown(90), shown(3_700), shown(90_000)],
        ["0s", "59s", "1m30s", "1h01m", "1d01h"]
    );
}
