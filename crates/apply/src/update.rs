//! How an object that exists is brought to what its manifest says (`installations.md` 7.9, update strategies).

use serde_json::{Map, Value};

use crate::configuration::UpdateStrategy;
use crate::object::{Reference, is_of_the_cluster, member, merge_over, without_server_fields};

/// The write that an update comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// The object is as it should be.
    Nothing,
    /// The whole object, on the version that was read.
    Replace(Value),
    /// A JSON merge patch.
    Patch(Value),
}

/// The write that makes `live` what `manifest` says, by a strategy. The manifest carries the label of its owner.
pub(crate) fn update(strategy: UpdateStrategy, manifest: &Value, live: &Value) -> Write {
    let current = without_server_fields(live);
    let mut wanted = match strategy {
        UpdateStrategy::Update | UpdateStrategy::Patch => carried_over(manifest, live),
        UpdateStrategy::Merge => {
            let mut wanted = current.clone();
            fill(&mut wanted, &without_server_fields(manifest));
            owned(&mut wanted, manifest);
            wanted
        }
        UpdateStrategy::MergeOverwrite => {
            let mut wanted = current.clone();
            merge_over(&mut wanted, &without_empty(&without_server_fields(manifest)));
            wanted
        }
    };
    if wanted == current {
        return Write::Nothing;
    }
    if strategy == UpdateStrategy::Patch {
        return Write::Patch(difference(&current, &wanted));
    }
    // A status that has no subresource is a field like any other, and not the manifest's to take away.
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = live["metadata"].get(field) {
            member(&mut wanted, "metadata").insert(field.to_owned(), value.clone());
        }
    }
    if let (Value::Object(wanted), Some(status)) = (&mut wanted, live.get("status")) {
        wanted.entry("status").or_insert_with(|| status.clone());
    }
    Write::Replace(wanted)
}

/// Labels of the manifest win in every strategy, or the object would not be known as the item's.
fn owned(wanted: &mut Value, manifest: &Value) {
    let Some(Value::Object(labels)) = manifest["metadata"].get("labels") else { return };
    let mut metadata = Value::Object(std::mem::take(member(wanted, "metadata")));
    let target = member(&mut metadata, "labels");
    for (key, value) in labels.iter().filter(|(key, _)| key.ends_with("/deployitem")) {
        target.insert(key.clone(), value.clone());
    }
    if let Value::Object(members) = metadata {
        *member(wanted, "metadata") = members;
    }
}

/// The manifest with the fields of the living object that cannot be changed, or that the cluster has chosen.
fn carried_over(manifest: &Value, live: &Value) -> Value {
    let mut wanted = without_server_fields(manifest);
    let reference = Reference::of(live);
    let fields: &[&[&str]] = match (reference.group(), reference.kind.as_str()) {
        ("", "Service") => &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "ipFamilies"],
            &["spec", "ipFamilyPolicy"],
            &["spec", "healthCheckNodePort"],
        ],
        ("", "ServiceAccount") => &[&["secrets"], &["imagePullSecrets"]],
        ("", "PersistentVolumeClaim") => {
            &[&["spec", "volumeName"], &["spec", "storageClassName"], &["spec", "volumeMode"]]
        }
        // Who asks for a token would otherwise take it away again as soon as it is there.
        ("", "Secret") if live["type"] == "kubernetes.io/service-account-token" => {
            &[&["data", "token"], &["data", "ca.crt"], &["data", "namespace"]]
        }
        ("batch", "Job") => &[&["spec", "selector"], &["spec", "template", "metadata", "labels"]],
        ("", "Pod") => {
            fill(&mut wanted, &without_server_fields(live));
            &[]
        }
        _ => &[],
    };
    for path in fields {
        carry(&mut wanted, live, path);
    }
    if let Some(Value::Object(annotations)) = live["metadata"].get("annotations") {
        for (name, value) in annotations.iter().filter(|(name, _)| is_of_the_cluster(name)) {
            let mut metadata = Value::Object(std::mem::take(member(&mut wanted, "metadata")));
            member(&mut metadata, "annotations").entry(name.clone()).or_insert_with(|| value.clone());
            if let Value::Object(members) = metadata {
                *member(&mut wanted, "metadata") = members;
            }
        }
    }
    wanted
}

/// A field of `live` that `wanted` does not give.
fn carry(wanted: &mut Value, live: &Value, path: &[&str]) {
    let (Some((first, rest)), Value::Object(members)) = (path.split_first(), &mut *wanted) else { return };
    let Some(found) = live.get(first) else { return };
    if rest.is_empty() {
        if members.get(*first).is_none_or(is_empty) {
            members.insert((*first).to_owned(), found.clone());
        }
        return;
    }
    let slot = members.entry((*first).to_owned()).or_insert_with(|| Value::Object(Map::new()));
    carry(slot, found, rest);
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// What `from` has and `into` has not.
fn fill(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(existing) if !existing.is_null() => fill(existing, value),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// The members that are not empty.
fn without_empty(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let left = members.iter().map(|(key, value)| (key.clone(), without_empty(value)));
    Value::Object(left.filter(|(_, value)| !is_empty(value)).collect())
}

/// The JSON merge patch (RFC 7386) that makes `to` of `from`.
pub(crate) fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old @ Value::Object(_)) if value.is_object() => {
                patch.insert(key.clone(), difference(old, value));
            }
            _ => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::UpdateStrategy::{Merge, MergeOverwrite, Patch, Update};

    fn live() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"foreign": "x"}},
            "data": {"a": "1", "b": "2"},
        })
    }

    fn manifest() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"manifest.deployer.landscaper.gardener.cloud/deployitem": "i"}},
            "data": {"a": "9", "c": "3", "d": ""},
        })
    }

    #[test]
    fn strategies() {
        let Write::Replace(replaced) = update(Update, &manifest(), &live()) else { panic!("no replacement") };
        assert_eq!(replaced["data"], json!({"a": "9", "c": "3", "d": ""}));
        assert_eq!(replaced["metadata"]["resourceVersion"], "7");
        assert_eq!(replaced["metadata"]["labels"].get("foreign"), None);

        let Write::Patch(patch) = update(Patch, &manifest(), &live()) else { panic!("no patch") };
        assert_eq!(patch["data"], json!({"a": "9", "b": null, "c": "3", "d": ""}));
        assert_eq!(patch["metadata"]["labels"]["foreign"], Value::Null);

        let Write::Replace(merged) = update(Merge, &manifest(), &live()) else { panic!("no replacement") };
        assert_eq!(merged["data"], json!({"a": "1", "b": "2", "c": "3", "d": ""}));
        assert_eq!(merged["metadata"]["labels"]["foreign"], "x");

        let Write::Replace(merged) = update(MergeOverwrite, &manifest(), &live()) else { panic!("none") };
        assert_eq!(merged["data"], json!({"a": "9", "b": "2", "c": "3"}));
    }

    #[test]
    fn what_is_in_order_is_not_written() {
        let mut same = manifest();
        same["metadata"]["uid"] = json!("u");
        same["metadata"]["resourceVersion"] = json!("8");
        same["status"] = json!({"x": 1});
        same["data"] = json!({"a": "9", "c": "3"});
        let mut wanted = manifest();
        wanted["data"] = same["data"].clone();
        for strategy in [Update, Patch, Merge, MergeOverwrite] {
            assert_eq!(update(strategy, &wanted, &same), Write::Nothing, "{strategy:?}");
        }
    }

    #[test]
    fn what_cannot_change_is_carried_over() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 1}]}});
        let manifest = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": [{"port": 2}]}});
        let Write::Replace(replaced) = update(Update, &manifest, &service) else { panic!("no replacement") };
        assert_eq!(replaced["spec"]["clusterIP"], "10.0.0.1");
        assert_eq!(replaced["spec"]["ports"][0]["port"], 2);

        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1},
            "metadata": {"name": "d", "annotations": {"deployment.kubernetes.io/revision": "3", "own": "x"}}});
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 2}});
        let Write::Replace(replaced) = update(Update, &manifest, &deployment) else { panic!("none") };
        assert_eq!(replaced["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "3"}));
    }

    /// The token that the cluster writes into a Secret that asks for one is no change of it.
    #[test]
    fn tokens_of_service_accounts_stay() {
        let metadata = json!({"name": "s", "annotations": {"kubernetes.io/service-account.name": "a"}});
        let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "type": "kubernetes.io/service-account-token"});
        let mut live = manifest.clone();
        live["data"] = json!({"token": "dA==", "ca.crt": "Yw==", "namespace": "bg=="});
        assert_eq!(update(Update, &manifest, &live), Write::Nothing);
        live["type"] = json!("Opaque");
        assert_ne!(update(Update, &manifest, &live), Write::Nothing);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_i32).prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn patched(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut members = if let Value::Object(members) = target { members } else { Map::new() };
        for (key, value) in patch {
            if value.is_null() {
                members.remove(key);
            } else {
                let old = members.remove(key).unwrap_or_default();
                members.insert(key.clone(), patched(old, value));
            }
        }
        Value::Object(members)
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_one_of_the_other(from in value(), to in value()) {
            let (from, to) = (json!({"x": from}), json!({"x": to}));
            prop_assert_eq!(patched(from.clone(), &difference(&from, &to)), to);
        }

        #[test]
        fn merging_twice_changes_nothing(live in value(), manifest in value()) {
            for strategy in [Merge, MergeOverwrite] {
                let (live, manifest) = (json!({"data": live.clone()}), json!({"data": manifest.clone()}));
                if let Write::Replace(once) = update(strategy, &manifest, &live) {
                    prop_assert_eq!(update(strategy, &manifest, &once), Write::Nothing);
                }
            }
        }
    }
}
