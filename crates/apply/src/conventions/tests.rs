use serde_json::json;

use super::*;

fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status})
}

/// Returns the problem of an object; `None` for a current object.
fn problem(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Option<String> {
    standing(&object(api_version, kind, spec, status)).problem()
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "canary"})
}

fn check(api_version: &str, kind: &str, cases: &[(Value, Value, Option<&str>)]) {
    for (spec, status, expected) in cases {
        let found = problem(api_version, kind, spec, status);
        assert_eq!(found.as_deref(), *expected, "{kind} {spec} {status}");
    }
}

#[test]
fn custom_resources_go_by_their_conditions() {
    let with = |conditions: &[Value]| json!({"conditions": conditions});
    let ready = |status: &str| condition("Ready", status, "Creating");
    let cases = [
        (json!({}), None),
        (with(&[]), None),
        (with(&[ready("True")]), None),
        (with(&[ready("False")]), Some("condition Ready is False (Creating)")),
        (with(&[ready("Unknown")]), Some("condition Ready is Unknown (Creating)")),
        (with(&[ready("Perhaps")]), None),
        (with(&[json!({"type": "Ready", "status": "False"})]), Some("condition Ready is False")),
        (with(&[condition("Ready", "False", "has the value canary")]), Some("condition Ready is False")),
        (with(&[condition("Synced", "False", "Odd")]), None),
        (
            with(&[condition("Reconciling", "True", "Scaling"), ready("True")]),
            Some("condition Reconciling is True (Scaling)"),
        ),
        (with(&[condition("Reconciling", "False", "Done"), ready("True")]), None),
        (
            with(&[ready("False"), condition("Stalled", "True", "QuotaExceeded")]),
            Some("it has failed: condition Stalled is True (QuotaExceeded)"),
        ),
        (
            with(&[condition("Available", "False", "NoEndpoints")]),
            Some("condition Available is False (NoEndpoints)"),
        ),
        (with(&[condition("Available", "False", "NoEndpoints"), ready("True")]), None),
        (
            json!({"observedGeneration": 1, "conditions": [ready("True")]}),
            Some("generation 2 is not observed yet (1)"),
        ),
        (json!({"observedGeneration": 2, "conditions": [ready("True")]}), None),
        (json!({"conditions": "none"}), None),
        (json!("none"), None),
    ];
    for (status, expected) in cases {
        let found = problem("example.org/v1", "Database", &json!({}), &status);
        assert_eq!(found.as_deref(), expected, "{status}");
    }
}

#[test]
fn conditions_go_before_the_rules_of_a_kind() {
    let stalled = json!({"phase": "Bound", "conditions": [condition("Stalled", "True", "Broken")]});
    let found = problem("v1", "PersistentVolumeClaim", &json!({}), &stalled);
    assert_eq!(found.as_deref(), Some("it has failed: condition Stalled is True (Broken)"));
    let mut going = object("example.org/v1", "Database", &json!({}), &json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(standing(&going), Standing::Terminating);
}

#[test]
fn deployments() {
    let full = |more: &Value| {
        let mut status = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        status
    };
    let three = json!({"replicas": 3});
    let with = |conditions: &[Value]| full(&json!({"conditions": conditions}));
    let cases = [
        (three.clone(), full(&json!({})), None),
        (three.clone(), json!({}), Some("generation 2 is not observed yet")),
        (
            three.clone(),
            full(&json!({"observedGeneration": 1})),
            Some("generation 2 is not observed yet (1)"),
        ),
        (json!({}), full(&json!({})), Some("2 surplus replicas are still running")),
        (json!({"replicas": 4}), full(&json!({})), Some("3 of 4 replicas are there")),
        (three.clone(), full(&json!({"updatedReplicas": 1})), Some("1 of 3 replicas are updated")),
        (three.clone(), full(&json!({"replicas": 4})), Some("1 surplus replicas are still running")),
        (three.clone(), full(&json!({"availableReplicas": 0})), Some("0 of 3 replicas are available")),
        (three.clone(), full(&json!({"readyReplicas": 2})), Some("2 of 3 replicas are ready")),
        (json!({"replicas": 0}), json!({"observedGeneration": 2}), None),
        (json!({"replicas": 0}), json!({}), Some("generation 2 is not observed yet")),
        (json!({"replicas": 3, "paused": true}), json!({"observedGeneration": 2}), None),
        (
            three.clone(),
            with(&[
                condition("Available", "True", "MinimumReplicasAvailable"),
                condition("Progressing", "True", "NewReplicaSetAvailable"),
            ]),
            None,
        ),
        (
            three.clone(),
            with(&[condition("Available", "False", "MinimumReplicasUnavailable")]),
            Some("condition Available is False (MinimumReplicasUnavailable)"),
        ),
        (
            three,
            with(&[condition("Progressing", "False", "ProgressDeadlineExceeded")]),
            Some("it has failed: condition Progressing is False (ProgressDeadlineExceeded)"),
        ),
    ];
    check("apps/v1", "Deployment", &cases);
    assert_eq!(problem("example.org/v1", "Deployment", &json!({"replicas": 3}), &json!({})), None);
}

#[test]
fn replica_sets() {
    let status = |good: i64| json!({"observedGeneration": 2, "replicas": good, "fullyLabeledReplicas": good, "availableReplicas": good, "readyReplicas": good});
    let mut failing = status(0);
    failing["conditions"] = json!([condition("ReplicaFailure", "True", "FailedCreate")]);
    let cases = [
        (json!({"replicas": 2}), status(2), None),
        (json!({}), status(1), None),
        (json!({"replicas": 2}), status(1), Some("1 of 2 replicas are labelled")),
        (json!({"replicas": 1}), status(2), Some("1 surplus replicas are still running")),
        (json!({"replicas": 1}), failing, Some("condition ReplicaFailure is True (FailedCreate)")),
        (json!({"replicas": 0}), json!({}), Some("generation 2 is not observed yet")),
    ];
    check("apps/v1", "ReplicaSet", &cases);
    check("v1", "ReplicationController", &cases);
}

#[test]
fn stateful_sets() {
    let status = |ready: i64, updated: i64, revision: &str| {
        json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": ready, "updatedReplicas": updated,
            "currentRevision": "one", "updateRevision": revision})
    };
    let three = json!({"replicas": 3});
    let partition =
        |count: i64| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": count}}});
    check(
        "apps/v1",
        "StatefulSet",
        &[
            (three.clone(), status(3, 3, "one"), None),
            (three.clone(), status(2, 3, "one"), Some("2 of 3 replicas are ready")),
            (three.clone(), status(3, 1, "two"), Some("1 of 3 replicas are updated")),
            (three, json!({}), Some("generation 2 is not observed yet")),
            (partition(0), status(3, 1, "two"), Some("1 of 3 replicas are updated")),
            (partition(2), status(3, 1, "two"), None),
            (partition(1), status(3, 1, "two"), Some("1 of 2 replicas are updated")),
            (json!({"updateStrategy": {"type": "OnDelete"}}), json!({}), None),
        ],
    );
}

#[test]
fn daemon_sets() {
    let status = |count: i64| {
        json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": count,
            "numberAvailable": count, "numberReady": count})
    };
    check(
        "apps/v1",
        "DaemonSet",
        &[
            (json!({}), status(2), None),
            (json!({}), status(1), Some("1 of 2 replicas are updated")),
            (json!({}), json!({}), Some("generation 2 is not observed yet")),
            (
                json!({}),
                json!({"observedGeneration": 2}),
                Some("the number of nodes that it runs on is not known yet"),
            ),
            (json!({}), json!({"observedGeneration": 2, "desiredNumberScheduled": 0}), None),
        ],
    );
}

#[test]
fn pods() {
    let ready = |status: &str| json!([condition("Ready", status, "ContainersNotReady")]);
    let looping = json!([{"name": "canary", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    check(
        "v1",
        "Pod",
        &[
            (json!({}), json!({}), Some("it is not running yet")),
            (json!({}), json!({"phase": "Succeeded"}), None),
            (json!({}), json!({"phase": "Failed"}), Some("it has failed: its phase is Failed")),
            (json!({}), json!({"phase": "Running", "conditions": ready("True")}), None),
            (
                json!({}),
                json!({"phase": "Running", "conditions": ready("False")}),
                Some("condition Ready is False (ContainersNotReady)"),
            ),
            (
                json!({}),
                json!({"phase": "Running", "conditions": ready("False"), "containerStatuses": looping}),
                Some("it has failed: a container crashes repeatedly (CrashLoopBackOff)"),
            ),
            (
                json!({}),
                json!({"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable")]}),
                Some("condition PodScheduled is False (Unschedulable)"),
            ),
        ],
    );
}

#[test]
fn jobs() {
    let started = json!({"startTime": "2026-01-01T00:00:00Z"});
    let ended = |kind: &str, reason: &str| json!({"conditions": [condition(kind, "True", reason)]});
    check(
        "batch/v1",
        "Job",
        &[
            (json!({}), json!({}), Some("it has not started yet")),
            (json!({"suspend": true}), json!({}), None),
            (json!({}), started, None),
            (json!({}), ended("Complete", ""), None),
            (
                json!({}),
                ended("Failed", "BackoffLimitExceeded"),
                Some("it has failed: condition Failed is True (BackoffLimitExceeded)"),
            ),
        ],
    );
}

#[test]
fn other_built_in_kinds() {
    let none = || json!({});
    let bound = |phase: &str| json!({"phase": phase});
    check(
        "v1",
        "PersistentVolumeClaim",
        &[
            (none(), bound("Bound"), None),
            (none(), bound("Pending"), Some("it is not bound to a volume yet")),
            (none(), bound("Lost"), Some("its volume is lost")),
            (none(), none(), Some("it is not bound to a volume yet")),
        ],
    );
    check(
        "v1",
        "Service",
        &[
            (none(), none(), None),
            (json!({"type": "LoadBalancer"}), none(), Some("it has no address in the cluster yet")),
            (json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), none(), None),
        ],
    );
    check(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            (none(), none(), None),
            (none(), json!({"observedGeneration": 1}), Some("generation 2 is not observed yet (1)")),
        ],
    );
    let definition =
        |kind: &str, status: &str, reason: &str| json!({"conditions": [condition(kind, status, reason)]});
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[
            (none(), none(), Some("the definition is not established yet")),
            (none(), definition("Established", "True", "InitialNamesAccepted"), None),
            (
                none(),
                definition("Established", "False", "Installing"),
                Some("the definition is not established yet"),
            ),
            (
                none(),
                definition("NamesAccepted", "False", "ListKindConflict"),
                Some("it has failed: condition NamesAccepted is False (ListKindConflict)"),
            ),
        ],
    );
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Namespace"),
        ("batch/v1", "CronJob"),
        ("networking.k8s.io/v1", "Ingress"),
        ("rbac.authorization.k8s.io/v1", "Role"),
    ] {
        assert_eq!(problem(api_version, kind, &none(), &none()), None, "{kind}");
    }
}

#[test]
fn groups_of_operators_are_told_apart() {
    for group in ["", "apps", "policy", "batch", "rbac.authorization.k8s.io", "networking.k8s.io"] {
        assert!(is_built_in(group), "{group}");
    }
    for group in ["example.org", "gateway.networking.k8s.io", "snapshot.storage.k8s.io", "postgresql.cnpg.io"]
    {
        assert!(!is_built_in(group), "{group}");
    }
}

proptest::proptest! {
    /// Any form of a status must be handled without a panic.
    #[test]
    fn any_status(path in "/(conditions|phase|replicas|observedGeneration)", kind in "Pod|Job|Deployment|DaemonSet|StatefulSet|Thing", text in ".{0,8}") {
        let mut status = json!({});
        status[path.trim_start_matches('/')] = json!([{"type": text, "status": [text]}, text, null]);
        for group in ["v1", "apps/v1", "batch/v1", "example.org/v1"] {
            let _ = problem(group, &kind, &json!(text), &status);
        }
    }
}
