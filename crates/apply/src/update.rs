//! Merges an existing object with its manifest (`installations.md` 7.9, update strategies `merge`
//! and `mergeOverwrite`).

use serde_json::Value;

use crate::configuration::UpdateStrategy;
use crate::object::{member, merge_over, set_metadata, without_server_fields};
use crate::ownership::Owner;

/// Returns the replacement for `live` by one of the merging strategies; `None` if the object needs
/// no change. The manifest carries the label of its owner.
pub(crate) fn merge(
    strategy: UpdateStrategy,
    owner: &Owner,
    manifest: &Value,
    live: &Value,
) -> Option<Value> {
    let current = without_server_fields(live);
    let mut wanted = current.clone();
    if strategy == UpdateStrategy::Merge {
        fill(&mut wanted, &without_server_fields(manifest));
    } else {
        merge_over(&mut wanted, &without_empty(&without_server_fields(manifest)));
    }
    // Set the label in every strategy, or the object would not be recognised as the item's.
    set_metadata(&mut wanted, "labels", owner.label, &owner.item);
    owner.claim(&mut wanted, manifest);
    if wanted == current {
        return None;
    }
    // A status without a subresource is a normal field, and the manifest must not remove it.
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = live["metadata"].get(field) {
            member(&mut wanted, "metadata").insert(field.to_owned(), value.clone());
        }
    }
    if let (Value::Object(wanted), Some(status)) = (&mut wanted, live.get("status")) {
        wanted.entry("status").or_insert_with(|| status.clone());
    }
    Some(wanted)
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

/// Adds the members of `from` that `into` does not have.
fn fill(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(existing) if !existing.is_null() => fill(existing, value),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// Returns the members that are not empty.
fn without_empty(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let left = members.iter().map(|(key, value)| (key.clone(), without_empty(value)));
    Value::Object(left.filter(|(_, value)| !is_empty(value)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::UpdateStrategy::{Merge, MergeOverwrite};
    use crate::object::difference;
    use crate::ownership::{HELM_ITEM, MANIFEST_ITEM};

    fn owner() -> Owner {
        Owner { label: MANIFEST_ITEM, item: "i".into(), releases: Vec::new(), keeps_release: false }
    }

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
        let merged = merge(Merge, &owner(), &manifest(), &live()).unwrap();
        assert_eq!(merged["data"], json!({"a": "1", "b": "2", "c": "3", "d": ""}));
        assert_eq!(merged["metadata"]["labels"]["foreign"], "x");
        assert_eq!(merged["metadata"]["resourceVersion"], "7");

        let merged = merge(MergeOverwrite, &owner(), &manifest(), &live()).unwrap();
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
        for strategy in [Merge, MergeOverwrite] {
            assert_eq!(merge(strategy, &owner(), &wanted, &same), None, "{strategy:?}");
        }
    }

    /// An object that is taken over carries only the new owner's mark.
    #[test]
    fn marks_of_the_one_before_go() {
        let mut of_another = live();
        of_another["metadata"]["labels"] = json!({HELM_ITEM: "before", "a": "b"});
        for strategy in [Merge, MergeOverwrite] {
            let merged = merge(strategy, &owner(), &manifest(), &of_another).unwrap();
            assert_eq!(merged["metadata"]["labels"], json!({MANIFEST_ITEM: "i", "a": "b"}), "{strategy:?}");
        }
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
                if let Some(once) = merge(strategy, &owner(), &manifest, &live) {
                    prop_assert_eq!(merge(strategy, &owner(), &manifest, &once), None);
                }
            }
        }
    }
}
