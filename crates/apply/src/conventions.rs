//! Readiness of an object by the conventions for statuses, as kstatus reads them
//! (`installations.md` 7.9): by its generation, by its conditions, and by the rules of the built-in
//! kinds.
//!
//! ```text
//! deletionTimestamp ──> observedGeneration ──> Reconciling, Stalled ──> rules of a built-in kind
//!                                                                  └──> Ready ──> Available ──> nothing against it
//! ```

use serde_json::Value;

use crate::object::{Reference, is_being_deleted};

/// State of an object. Reasons are parts of sentences for users. They name conditions with their
/// reasons, and no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The controller has realised the spec, or the object does not say otherwise.
    Current,
    /// The controller is still at work.
    InProgress(String),
    /// The controller reports that it cannot proceed.
    Failed(String),
    /// The deletion of the object was requested.
    Terminating,
}

impl Standing {
    /// Returns the reason why the object is not current; `None` if it is.
    pub fn problem(self) -> Option<String> {
        match self {
            Self::Current => None,
            Self::InProgress(reason) => Some(reason),
            Self::Failed(reason) => Some(format!("it has failed: {reason}")),
            Self::Terminating => Some("it is being deleted".to_owned()),
        }
    }
}

/// Returns the state of an object, as its own status shows it.
pub fn standing(object: &Value) -> Standing {
    if is_being_deleted(object) {
        return Standing::Terminating;
    }
    // A status for an older generation says nothing about the current spec.
    if let Some((generation, observed)) = generations(object).filter(|(generation, seen)| generation != seen)
    {
        return unobserved(generation, Some(observed));
    }
    for condition in conditions(object).filter(|condition| condition["status"] == "True") {
        match condition["type"].as_str() {
            Some("Reconciling") => return Standing::InProgress(named(condition)),
            Some("Stalled") => return Standing::Failed(named(condition)),
            _ => {}
        }
    }
    let reference = Reference::of(object);
    match (reference.group(), reference.kind.as_str()) {
        ("apps" | "extensions", "Deployment") => deployment(object),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object),
        ("", "Pod") => pod(object),
        ("batch", "Job") => job(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => {
            Standing::Current
        }
        _ => by_conditions(object),
    }
}

/// Reports whether an object has no status at all, perhaps because its controller has not seen it
/// yet.
pub(crate) fn is_silent(object: &Value) -> bool {
    match &object["status"] {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Reports whether a group belongs to Kubernetes itself. Other groups belong to operators.
pub(crate) fn is_built_in(group: &str) -> bool {
    const WITHOUT_DOT: [&str; 6] = ["", "apps", "autoscaling", "batch", "extensions", "policy"];
    // Other groups of `k8s.io`, such as those of gateways and snapshots, come from CRDs like any
    // custom kind.
    const OF_KUBERNETES: [&str; 17] = [
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "internal.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
    ];
    WITHOUT_DOT.contains(&group)
        || group.strip_suffix(".k8s.io").is_some_and(|name| OF_KUBERNETES.contains(&name))
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn generations(object: &Value) -> Option<(i64, i64)> {
    let read = |path: &str| object.pointer(path).and_then(Value::as_i64);
    Some((read("/metadata/generation")?, read("/status/observedGeneration")?))
}

fn unobserved(generation: i64, observed: Option<i64>) -> Standing {
    Standing::InProgress(match observed {
        Some(observed) => format!("generation {generation} is not observed yet ({observed})"),
        None => format!("generation {generation} is not observed yet"),
    })
}

/// Returns "in progress" for a workload without `observedGeneration`. Controllers of workloads
/// always set it, so without it the numbers of the status are meaningless.
fn unseen(object: &Value) -> Option<Standing> {
    let is_seen = object.pointer("/status/observedGeneration").is_some_and(Value::is_i64);
    (!is_seen).then(|| unobserved(number(object, "/metadata/generation"), None))
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).find(|condition| condition["type"] == kind)
}

fn is(condition: &Value, status: &str) -> bool {
    condition["status"] == status
}

/// Formats a condition as `condition Ready is False (Creating)`. Leaves out messages, and reasons
/// that are not a single word, because both may quote values.
fn named(condition: &Value) -> String {
    let word = |member: &str| {
        let text = condition[member].as_str().unwrap_or_default();
        let is_word = !text.is_empty()
            && text.len() <= 128
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-,:./".contains(&byte));
        is_word.then_some(text)
    };
    let (kind, status) = (word("type").unwrap_or("?"), word("status").unwrap_or("?"));
    match word("reason") {
        Some(reason) => format!("condition {kind} is {status} ({reason})"),
        None => format!("condition {kind} is {status}"),
    }
}

/// Returns the problem of the first count that is below the wanted number. Each count has the name
/// that the message shows, such as `ready`.
fn too_few(wanted: i64, counts: &[(&str, i64)]) -> Option<Standing> {
    let (name, found) = counts.iter().find(|(_, found)| *found < wanted)?;
    Some(Standing::InProgress(format!("{found} of {wanted} replicas are {name}")))
}

fn too_many(wanted: i64, there: i64) -> Option<Standing> {
    (there > wanted)
        .then(|| Standing::InProgress(format!("{} surplus replicas are still running", there - wanted)))
}

fn deployment(object: &Value) -> Standing {
    // A paused Deployment keeps its pods until a user resumes it, so waiting would not end.
    if object["spec"]["paused"] == true {
        return Standing::Current;
    }
    let progressing = condition(object, "Progressing");
    if let Some(progressing) = progressing.filter(|found| found["reason"] == "ProgressDeadlineExceeded") {
        return Standing::Failed(named(progressing));
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let there = number(object, "/status/replicas");
    let updated = [("there", there), ("updated", number(object, "/status/updatedReplicas"))];
    let good = [
        ("available", number(object, "/status/availableReplicas")),
        ("ready", number(object, "/status/readyReplicas")),
    ];
    let by_counts = unseen(object)
        .or_else(|| too_few(wanted, &updated))
        .or_else(|| too_many(wanted, there))
        .or_else(|| too_few(wanted, &good));
    let unavailable = condition(object, "Available").filter(|available| !is(available, "True"));
    by_counts
        .or_else(|| unavailable.map(|available| Standing::InProgress(named(available))))
        .unwrap_or(Standing::Current)
}

fn replica_set(object: &Value) -> Standing {
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|failure| is(failure, "True")) {
        return Standing::InProgress(named(failure));
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let counts = [
        ("labelled", number(object, "/status/fullyLabeledReplicas")),
        ("available", number(object, "/status/availableReplicas")),
        ("ready", number(object, "/status/readyReplicas")),
    ];
    unseen(object)
        .or_else(|| too_few(wanted, &counts))
        .or_else(|| too_many(wanted, number(object, "/status/replicas")))
        .unwrap_or(Standing::Current)
}

fn stateful_set(object: &Value) -> Standing {
    // With `OnDelete`, users replace the pods themselves.
    if object.pointer("/spec/updateStrategy/type").is_some_and(|kind| kind == "OnDelete") {
        return Standing::Current;
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let there = number(object, "/status/replicas");
    let by_counts = unseen(object)
        .or_else(|| too_few(wanted, &[("there", there), ("ready", number(object, "/status/readyReplicas"))]))
        .or_else(|| too_many(wanted, there));
    if let Some(standing) = by_counts {
        return standing;
    }
    let updated = number(object, "/status/updatedReplicas");
    let partition = object.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64);
    // The API server defaults the partition of every set to 0, which means a rollout of all pods.
    if let Some(partition) = partition.filter(|partition| *partition > 0) {
        return too_few(wanted - partition, &[("updated", updated)]).unwrap_or(Standing::Current);
    }
    let is_mixed = object.pointer("/status/currentRevision") != object.pointer("/status/updateRevision");
    let rolling =
        is_mixed.then(|| Standing::InProgress(format!("{updated} of {wanted} replicas are updated")));
    rolling.or_else(|| too_few(wanted, &[("updated", updated)])).unwrap_or(Standing::Current)
}

fn daemon_set(object: &Value) -> Standing {
    let desired = object.pointer("/status/desiredNumberScheduled").and_then(Value::as_i64);
    let Some(desired) = desired else {
        return unseen(object).unwrap_or_else(|| {
            Standing::InProgress("the number of nodes that it runs on is not known yet".to_owned())
        });
    };
    let counts = [
        ("scheduled", number(object, "/status/currentNumberScheduled")),
        ("updated", number(object, "/status/updatedNumberScheduled")),
        ("available", number(object, "/status/numberAvailable")),
        ("ready", number(object, "/status/numberReady")),
    ];
    unseen(object).or_else(|| too_few(desired, &counts)).unwrap_or(Standing::Current)
}

fn pod(object: &Value) -> Standing {
    let ready = condition(object, "Ready");
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if phase == "Succeeded" || (phase != "Failed" && ready.is_some_and(|ready| is(ready, "True"))) {
        return Standing::Current;
    }
    if phase == "Failed" {
        return Standing::Failed("its phase is Failed".to_owned());
    }
    let containers = object.pointer("/status/containerStatuses").and_then(Value::as_array);
    let is_looping = |container: &Value| {
        container.pointer("/state/waiting/reason").is_some_and(|reason| reason == "CrashLoopBackOff")
    };
    if containers.into_iter().flatten().any(is_looping) {
        return Standing::Failed("a container crashes repeatedly (CrashLoopBackOff)".to_owned());
    }
    let unscheduled = condition(object, "PodScheduled").filter(|scheduled| is(scheduled, "False"));
    Standing::InProgress(match (unscheduled, ready) {
        (Some(scheduled), _) => named(scheduled),
        (None, Some(ready)) => named(ready),
        (None, None) => "it is not running yet".to_owned(),
    })
}

/// Returns the state of a Job. A running Job counts as current; a chart that must wait for its end
/// makes it a hook.
fn job(object: &Value) -> Standing {
    for found in conditions(object).filter(|found| is(found, "True")) {
        match found["type"].as_str() {
            Some("Complete") => return Standing::Current,
            Some("Failed") => return Standing::Failed(named(found)),
            _ => {}
        }
    }
    let is_started = object.pointer("/status/startTime").is_some_and(Value::is_string);
    // A suspended Job starts only when a user resumes it.
    match is_started || object["spec"]["suspend"] == true {
        true => Standing::Current,
        false => Standing::InProgress("it has not started yet".to_owned()),
    }
}

fn claim(object: &Value) -> Standing {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Bound") => Standing::Current,
        Some("Lost") => Standing::InProgress("its volume is lost".to_owned()),
        _ => Standing::InProgress("it is not bound to a volume yet".to_owned()),
    }
}

fn service(object: &Value) -> Standing {
    let has_address =
        object.pointer("/spec/clusterIP").and_then(Value::as_str).is_some_and(|address| !address.is_empty());
    match object["spec"]["type"] == "LoadBalancer" && !has_address {
        true => Standing::InProgress("it has no address in the cluster yet".to_owned()),
        false => Standing::Current,
    }
}

fn definition(object: &Value) -> Standing {
    for found in conditions(object) {
        match (found["type"].as_str(), found["status"].as_str()) {
            (Some("NamesAccepted"), Some("False")) => return Standing::Failed(named(found)),
            (Some("Established"), Some("True")) => return Standing::Current,
            (Some("Established"), Some("False")) if found["reason"] != "Installing" => {
                return Standing::Failed(named(found));
            }
            _ => {}
        }
    }
    Standing::InProgress("the definition is not established yet".to_owned())
}

/// Returns the state by the conditions of the object. Most controllers set `Ready`; some set
/// `Available` instead.
fn by_conditions(object: &Value) -> Standing {
    let says = |kind: &str| {
        let known = |found: &&Value| ["True", "False", "Unknown"].iter().any(|status| is(found, status));
        condition(object, kind).filter(known)
    };
    match says("Ready").or_else(|| says("Available")) {
        Some(found) if !is(found, "True") => Standing::InProgress(named(found)),
        _ => Standing::Current,
    }
}

#[cfg(test)]
mod tests;
