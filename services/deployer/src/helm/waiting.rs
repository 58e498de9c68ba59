//! Readiness of the objects of a release, as `helm --wait` defines it (`helm.md` 9.3): by the
//! conventions of Helm 4, or by the table of kinds of Helm 3.

use groundwork_apply::{
    ApplyError, Awaited, Cluster, ReadinessRules, Reference, ResourceKind, Waiting, has_condition, unready,
};
use serde_json::Value;

/// Number of unready objects that a round collects, so that a change of any of them ends the wait.
const LOOKED_AT: usize = 8;

/// Returns the wait for objects that are not ready; `None` if all are ready. The message names the
/// first object. By the conventions of Helm 4, it also gives the reason.
pub(super) async fn first_unready<'a>(
    cluster: &Cluster,
    rules: ReadinessRules,
    objects: impl Iterator<Item = (&'a Reference, &'a Value)>,
) -> Result<Option<Waiting>, ApplyError> {
    let mut waiting: Option<Waiting> = None;
    for (reference, live) in objects {
        let (awaited, reason, until) = match rules {
            ReadinessRules::Kinds => match missing(cluster, live).await? {
                Some(awaited) => (awaited, String::new(), None),
                None => continue,
            },
            ReadinessRules::Conventions => match unready(cluster, rules, reference, Some(live)).await {
                Some(found) => {
                    (found.awaited.into_iter().collect(), format!(": {}", found.reason), found.until)
                }
                None => continue,
            },
        };
        let waiting = waiting.get_or_insert_with(|| {
            format!("helm deployer: readiness of resource {reference}{reason}").into()
        });
        waiting.awaited.extend(awaited);
        waiting.until = waiting.until.into_iter().chain(until).min();
        if waiting.awaited.len() >= LOOKED_AT {
            break;
        }
    }
    Ok(waiting)
}

/// Returns the objects to watch while one is not ready; `None` if it is ready.
async fn missing(cluster: &Cluster, object: &Value) -> Result<Option<Vec<Awaited>>, ApplyError> {
    if object["kind"] == "Deployment" {
        return deployment(cluster, object).await;
    }
    if by_itself(object) {
        return Ok(None);
    }
    let awaited = Awaited::object(cluster, &Reference::of(object), Some(object), by_itself).await;
    Ok(Some(awaited.into_iter().collect()))
}

fn number(object: &Value, path: &str) -> Option<i64> {
    object.pointer(path).and_then(Value::as_i64)
}

fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration").unwrap_or_default()
        >= number(object, "/metadata/generation").unwrap_or_default()
}

fn is_rolling(object: &Value) -> bool {
    object
        .pointer("/spec/updateStrategy/type")
        .and_then(Value::as_str)
        .is_none_or(|kind| kind == "RollingUpdate")
}

/// Parses an absolute number or a percentage of a whole.
fn part(value: Option<&Value>, whole: i64, rounds_up: bool) -> Option<i64> {
    match value? {
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some((whole * percent + if rounds_up { 99 } else { 0 }) / 100)
        }
        number => number.as_i64(),
    }
}

fn by_itself(object: &Value) -> bool {
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => has_condition(object, "Ready", "True"),
        "ReplicaSet" | "ReplicationController" => {
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            is_observed(object) && number(object, "/status/readyReplicas").unwrap_or_default() >= wanted
        }
        "DaemonSet" => {
            let desired = number(object, "/status/desiredNumberScheduled").unwrap_or_default();
            let tolerated =
                part(object.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), desired, true)
                    .unwrap_or(1);
            is_observed(object)
                && (!is_rolling(object)
                    || (number(object, "/status/updatedNumberScheduled").unwrap_or_default() == desired
                        && number(object, "/status/numberReady").unwrap_or_default() >= desired - tolerated))
        }
        "StatefulSet" => {
            let replicas = number(object, "/spec/replicas").unwrap_or(1);
            let partition =
                number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default();
            is_observed(object)
                && (!is_rolling(object)
                    || (number(object, "/status/updatedReplicas").unwrap_or_default()
                        >= replicas - partition
                        && number(object, "/status/readyReplicas").unwrap_or_default() == replicas
                        && (partition > 0
                            || object.pointer("/status/currentRevision")
                                == object.pointer("/status/updateRevision"))))
        }
        "PersistentVolumeClaim" => object.pointer("/status/phase").is_some_and(|phase| phase == "Bound"),
        "Service" => {
            let is = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_filled = |path: &str| {
                object.pointer(path).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
            };
            is("/spec/type") == "ExternalName"
                || (!is("/spec/clusterIP").is_empty()
                    && (is("/spec/type") != "LoadBalancer"
                        || is_filled("/spec/externalIPs")
                        || is_filled("/status/loadBalancer/ingress")))
        }
        "CustomResourceDefinition" => {
            has_condition(object, "Established", "True") || has_condition(object, "NamesAccepted", "False")
        }
        _ => true,
    }
}

/// Checks a Deployment by the ReplicaSet of its newest template.
async fn deployment(cluster: &Cluster, object: &Value) -> Result<Option<Vec<Awaited>>, ApplyError> {
    if object["spec"]["paused"] == true {
        return Ok(None);
    }
    let namespace = object["metadata"]["namespace"].as_str();
    let kind = ResourceKind {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        plural: "replicasets".to_owned(),
        is_namespaced: true,
        has_status: true,
    };
    let sets = cluster.list(&kind, namespace, "").await?;
    if deployment_is_ready(object, &sets) {
        return Ok(None);
    }
    if !is_observed(object) {
        let awaited = Awaited::object(cluster, &Reference::of(object), Some(object), is_observed).await;
        return Ok(Some(awaited.into_iter().collect()));
    }
    let deployment = object.clone();
    let is_ready = move |set: &Value| deployment_is_ready(&deployment, std::slice::from_ref(set));
    let awaited =
        selected_labels(object).map(|labels| Awaited::any(cluster, kind, namespace, labels, is_ready));
    Ok(Some(awaited.into_iter().collect()))
}

/// Returns the selector for all ReplicaSets of a Deployment.
fn selected_labels(object: &Value) -> Option<String> {
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object)?;
    let labels: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

fn deployment_is_ready(object: &Value, sets: &[Value]) -> bool {
    let uid = &object["metadata"]["uid"];
    let template = |object: &Value| {
        let mut template = object["spec"]["template"].clone();
        if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
            labels.remove("pod-template-hash");
        }
        if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
            metadata.retain(|_, value| !value.is_null());
        }
        template
    };
    let is_own = |set: &&Value| {
        let owners = set.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().any(|owner| owner["uid"] == *uid)
    };
    let wanted = template(object);
    let newest = sets.iter().filter(is_own).filter(|set| template(set) == wanted);
    let made = |set: &&Value| set["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
    let Some(newest) = newest.min_by_key(made) else { return false };
    let replicas = number(object, "/spec/replicas").unwrap_or(1);
    let is_rolling = object
        .pointer("/spec/strategy/type")
        .and_then(Value::as_str)
        .is_none_or(|kind| kind == "RollingUpdate");
    let rolling = object.pointer("/spec/strategy/rollingUpdate");
    let unavailable = part(rolling.and_then(|rolling| rolling.get("maxUnavailable")), replicas, false);
    let surge = part(rolling.and_then(|rolling| rolling.get("maxSurge")), replicas, true);
    let tolerated = match (is_rolling, unavailable.unwrap_or_default(), surge.unwrap_or_default()) {
        (false, ..) => 0,
        (true, 0, 0) => 1,
        (true, unavailable, _) => unavailable,
    };
    is_observed(object)
        && is_observed(newest)
        && number(newest, "/status/readyReplicas").unwrap_or_default() >= replicas - tolerated
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds() {
        let service = |spec: Value, status: Value| json!({"kind": "Service", "spec": spec, "status": status});
        for (object, expected) in [
            (json!({"kind": "ConfigMap"}), true),
            (json!({"kind": "Job"}), true),
            (json!({"kind": "Pod", "status": {"phase": "Running"}}), false),
            (json!({"kind": "PersistentVolumeClaim", "status": {"phase": "Bound"}}), true),
            (json!({"kind": "PersistentVolumeClaim"}), false),
            (service(json!({"type": "ExternalName"}), json!({})), true),
            (service(json!({"clusterIP": "10.0.0.1"}), json!({})), true),
            (service(json!({"clusterIP": "10.0.0.1", "type": "LoadBalancer"}), json!({})), false),
            (
                service(
                    json!({"clusterIP": "10.0.0.1", "type": "LoadBalancer"}),
                    json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
                ),
                true,
            ),
            (json!({"kind": "StatefulSet", "status": {"updatedReplicas": 1, "readyReplicas": 1}}), true),
            (
                json!({"kind": "StatefulSet", "spec": {"replicas": 2}, "status": {"updatedReplicas": 2, "readyReplicas": 1}}),
                false,
            ),
            (
                json!({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberReady": 2}}),
                true,
            ),
        ] {
            assert_eq!(by_itself(&object), expected, "{object}");
        }
    }

    #[test]
    fn deployments_go_by_their_newest_replica_set() {
        let template = |image: &str| json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": image}]}});
        let object = json!({"kind": "Deployment", "metadata": {"uid": "u"}, "spec": {"replicas": 2, "template": template("new"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}});
        let set = |image: &str, ready: i64| {
            let mut template = template(image);
            template["metadata"]["labels"]["pod-template-hash"] = json!("x");
            json!({"metadata": {"ownerReferences": [{"uid": "u"}]}, "spec": {"template": template}, "status": {"readyReplicas": ready}})
        };
        assert!(!deployment_is_ready(&object, &[set("old", 2)]));
        assert!(!deployment_is_ready(&object, &[set("old", 2), set("new", 1)]));
        assert!(deployment_is_ready(&object, &[set("old", 0), set("new", 2)]));
    }
}
