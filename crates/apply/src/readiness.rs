//! Readiness of one object (`installations.md` 7.9), by the table of kinds or by the paths of a
//! check.

use serde_json::Value;

use crate::configuration::Requirement;
use crate::json_path::JsonPath;
use crate::object::Reference;

/// Returns the reason why an object is not ready by the table of kinds; `None` if it is ready.
pub(crate) fn not_ready(object: &Value) -> Option<String> {
    let reference = Reference::of(object);
    match (reference.group(), reference.kind.as_str()) {
        ("", "Pod") => pod(object),
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        _ => None,
    }
}

fn number(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn replicas(object: &Value, absent: i64) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(absent)
}

/// Reports whether a condition of an object has this status.
pub fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind && condition["status"] == status)
}

fn not_observed(object: &Value) -> Option<String> {
    let (generation, observed) =
        (number(object, "/metadata/generation"), number(object, "/status/observedGeneration"));
    (observed < generation).then(|| format!("generation {generation} is not observed yet ({observed})"))
}

/// Returns a problem for the first count, each with a name, that is not enough; `None` if all are.
fn counts(wanted: i64, counts: &[(&str, i64)], is_enough: impl Fn(i64) -> bool) -> Option<String> {
    let (name, found) = counts.iter().find(|(_, found)| !is_enough(*found))?;
    Some(format!("{found} of {wanted} replicas are {name}"))
}

fn pod(object: &Value) -> Option<String> {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending");
    let is_ready = has_condition(object, "Ready", "True") || phase == "Succeeded";
    (!is_ready).then(|| format!("the pod is not ready (phase {phase})"))
}

fn deployment(object: &Value) -> Option<String> {
    let wanted = replicas(object, 0);
    let found = [
        ("there", number(object, "/status/replicas")),
        ("updated", number(object, "/status/updatedReplicas")),
        ("available", number(object, "/status/availableReplicas")),
    ];
    not_observed(object).or_else(|| counts(wanted, &found, |count| count == wanted))
}

fn replica_set(object: &Value) -> Option<String> {
    let wanted = replicas(object, 1);
    let failure =
        has_condition(object, "ReplicaFailure", "True").then(|| "replicas cannot be created".to_owned());
    let found = [("ready", number(object, "/status/readyReplicas"))];
    not_observed(object).or(failure).or_else(|| counts(wanted, &found, |count| count >= wanted))
}

fn stateful_set(object: &Value) -> Option<String> {
    let wanted = replicas(object, 1);
    let found = [
        ("updated", number(object, "/status/updatedReplicas")),
        ("available", number(object, "/status/availableReplicas")),
    ];
    not_observed(object).or_else(|| counts(wanted, &found, |count| count >= wanted))
}

fn daemon_set(object: &Value) -> Option<String> {
    let desired = number(object, "/status/desiredNumberScheduled");
    let tolerated = match object.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable") {
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            // Percentages are rounded up, as the controller does.
            (desired * percent + 99) / 100
        }
        Some(count) => count.as_i64().unwrap_or_default(),
        None => 0,
    };
    let wanted = desired - tolerated;
    let found = [("scheduled", number(object, "/status/currentNumberScheduled"))];
    not_observed(object).or_else(|| counts(wanted, &found, |count| count >= wanted))
}

/// Checks an object against a requirement with a path. The operators were validated before.
pub(crate) fn meets(path: &JsonPath, requirement: &Requirement, object: &Value) -> bool {
    let found = path.find(object);
    let wanted = || requirement.values.iter().map(|value| &value.value);
    match requirement.operator.as_str() {
        "!" => found.is_empty(),
        "exists" => !found.is_empty(),
        "=" | "==" | "in" => {
            !found.is_empty() && found.iter().all(|value| wanted().any(|wanted| is_equal(value, wanted)))
        }
        "!=" | "notin" => {
            !found.is_empty() && found.iter().all(|value| wanted().all(|wanted| !is_equal(value, wanted)))
        }
        _ => false,
    }
}

/// Compares JSON values, where 1 equals 1.0.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| is_equal(left, right)))
        }
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status})
    }

    #[test]
    fn kinds() {
        let full = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3});
        let none = json!({});
        let spec = json!({"replicas": 3});
        let daemon = |scheduled: i64| json!({"observedGeneration": 2, "desiredNumberScheduled": 4, "currentNumberScheduled": scheduled});
        let rolling = |value: Value| json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": value}}});
        for (api_version, kind, spec, status, expected) in [
            ("apps/v1", "Deployment", &spec, &full, None),
            ("apps/v1", "Deployment", &spec, &none, Some("generation 2 is not observed yet (0)")),
            ("apps/v1", "Deployment", &none, &json!({"observedGeneration": 2}), None),
            ("apps/v1", "Deployment", &json!({"replicas": 2}), &full, Some("3 of 2 replicas are there")),
            ("apps/v1", "StatefulSet", &json!({"replicas": 2}), &full, None),
            (
                "apps/v1",
                "StatefulSet",
                &none,
                &json!({"observedGeneration": 2}),
                Some("0 of 1 replicas are updated"),
            ),
            ("apps/v1", "ReplicaSet", &spec, &full, None),
            (
                "v1",
                "ReplicationController",
                &json!({"replicas": 4}),
                &full,
                Some("3 of 4 replicas are ready"),
            ),
            (
                "apps/v1",
                "ReplicaSet",
                &spec,
                &json!({"observedGeneration": 2, "readyReplicas": 3, "conditions": [{"type": "ReplicaFailure", "status": "True"}]}),
                Some("replicas cannot be created"),
            ),
            ("apps/v1", "DaemonSet", &none, &daemon(3), Some("3 of 4 replicas are scheduled")),
            ("apps/v1", "DaemonSet", &rolling(json!(1)), &daemon(3), None),
            ("apps/v1", "DaemonSet", &rolling(json!("25%")), &daemon(3), None),
            ("v1", "Pod", &none, &none, Some("the pod is not ready (phase Pending)")),
            ("v1", "Pod", &none, &json!({"phase": "Succeeded"}), None),
            ("v1", "Pod", &none, &json!({"conditions": [{"type": "Ready", "status": "True"}]}), None),
            ("v1", "ConfigMap", &none, &none, None),
            ("example.org/v1", "Deployment", &spec, &none, None),
        ] {
            let found = not_ready(&object(api_version, kind, spec, status));
            assert_eq!(found.as_deref(), expected, "{kind} {spec} {status}");
        }
    }

    #[test]
    fn requirements() {
        let object = json!({"a": 1, "list": [{"v": 1}, {"v": 2}], "text": "x"});
        for (path, operator, values, expected) in [
            (".a", "exists", json!([]), true),
            (".b", "exists", json!([]), false),
            (".b", "!", json!([]), true),
            (".a", "!", json!([]), false),
            (".a", "==", json!([{"value": 1.0}]), true),
            (".a", "=", json!([{"value": "1"}]), false),
            (".a", "!=", json!([{"value": 2}]), true),
            (".b", "!=", json!([{"value": 2}]), false),
            (".list[*].v", "in", json!([{"value": 1}, {"value": 2}]), true),
            (".list[*].v", "in", json!([{"value": 1}]), false),
            (".list[*].v", "notin", json!([{"value": 2}]), false),
            (".text", "notin", json!([{"value": "y"}]), true),
        ] {
            let requirement: Requirement =
                serde_json::from_value(json!({"jsonPath": path, "operator": operator, "values": values}))
                    .unwrap();
            let read = JsonPath::parse(path).unwrap();
            assert_eq!(meets(&read, &requirement, &object), expected, "{path} {operator} {values}");
        }
    }
}
