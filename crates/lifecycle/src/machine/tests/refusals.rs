//! Refusals for the sake of objects that are there already: items of another type (`installations.md` 1.3).

use super::*;

/// `cluster`, whose blueprint is the same but for a text.
fn with(items: &[&str], from: &str, to: &str) -> Value {
    let mut object = installation(items, &json!({}));
    let text = blueprint(items).replace(from, to);
    object["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"] = json!(text);
    object
}

const MOCK: &str = "type: landscaper.gardener.cloud/mock";
const MANIFEST: &str = "type: landscaper.gardener.cloud/kubernetes-manifest";

/// 1.3: neither items nor orphans are touched by a job that would change a type; the message, which has both, stands at the root, too.
#[test]
fn a_type_that_changes_is_refused_before_anything_is_written() {
    let mut cluster = cluster(&["x", "old"]);
    cluster.run(None);
    let before = json!(cluster.items);
    cluster.log.clear();
    cluster.change_spec(with(&["x", "new"], MOCK, MANIFEST));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let told = "item x was a landscaper.gardener.cloud/mock and cannot become a landscaper.gardener.cloud/kubernetes-manifest; give it \
                another name";
    let error = cluster.execution().unwrap().status.clone().unwrap().last_error.unwrap();
    assert_eq!((error.reason.as_str(), error.message.as_str()), ("CreateOrUpdateDeployItem", told));
    assert_eq!(error.codes[..], ["ERR_CONFIGURATION_PROBLEM".to_owned()]);
    assert_eq!(
        cluster.error(),
        format!("buildErrorIfFailedChild/children failed: Execution is failed: {told}")
    );
    assert_eq!(json!(cluster.items), before, "{:?}", cluster.log);
    // The former type is as good as it was, and what has to go goes then.
    cluster.change_spec(installation(&["x"], &json!({})));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
    assert_eq!(cluster.items.len(), 1);
}

/// Under another name an item may be of any type, and a job that was refused bars no deletion.
#[test]
fn a_new_name_makes_way_for_a_new_type() {
    let mut cluster = cluster(&["x"]);
    cluster.run(None);
    cluster.change_spec(with(&["x"], MOCK, MANIFEST));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let mut other = cluster.dump();
    assert!(other["items"].take().to_string().contains("landscaper.gardener.cloud/mock"));
    cluster.change_spec(with(&["y"], MOCK, MANIFEST));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
    let types: Vec<_> = cluster.items.values().map(|item| item.spec.type_.as_str()).collect();
    assert_eq!(types, ["landscaper.gardener.cloud/kubernetes-manifest"]);
    cluster.change_spec(with(&["y"], "", ""));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed", "and back is a change, too");
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty() && cluster.items.is_empty(), "{:?}", cluster.log);
}

/// 8.6: what is being deleted goes by its old type.
#[test]
fn an_item_deleted_by_hand_comes_back_with_another_type() {
    let mut cluster = cluster(&["x"]);
    cluster.run(None);
    for item in cluster.items.values_mut() {
        item.metadata.deletion_timestamp =
            Some(groundwork_api::Time(jiff::Timestamp::from_second(1_780_000_000).unwrap()));
    }
    cluster.change_spec(with(&["x"], MOCK, MANIFEST));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
    assert_eq!(
        cluster.items.values().next().unwrap().spec.type_,
        "landscaper.gardener.cloud/kubernetes-manifest"
    );
}
