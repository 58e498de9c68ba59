//! Jobs that fail to protect existing objects: items of another type, exports under names of other
//! owners (`installations.md` 1.3, 4.3).

use super::roots::root;
use super::*;

const RECONCILE: (&str, &str) = ("landscaper.gardener.cloud/operation", "reconcile");

/// Returns `cluster` with one text of its blueprint replaced.
fn with(items: &[&str], from: &str, to: &str) -> Value {
    let mut object = installation(items, &json!({}));
    let text = blueprint(items).replace(from, to);
    object["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"] = json!(text);
    object
}

const MOCK: &str = "type: landscaper.gardener.cloud/mock";
const MANIFEST: &str = "type: landscaper.gardener.cloud/kubernetes-manifest";

/// `installations.md` 1.3: a job that would change a type touches neither items nor orphans. The
/// message names both types, also at the root.
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
    // With the old type the job succeeds again, and the orphans are deleted.
    cluster.change_spec(installation(&["x"], &json!({})));
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
    assert_eq!(cluster.items.len(), 1);
}

/// An item with a new name may have any type, and a failed job does not block the deletion.
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

/// `installations.md` 8.6: an item that is being deleted goes with its old type.
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

fn by_hand(cluster: &mut Cluster, metadata: &Value) {
    let mut object = json!({"metadata": metadata, "data": "by hand"});
    object["metadata"]["name"] = json!("one");
    object["metadata"]["namespace"] = json!("team");
    cluster.data_objects.insert("one".to_owned(), serde_json::from_value(object).unwrap());
}

/// `installations.md` 4.3: otherwise the deletion of the root would delete an object that a user
/// wrote by hand.
#[test]
fn an_export_takes_nothing_that_was_written_by_hand() {
    let mut cluster = Cluster::new(root("server: > one"));
    by_hand(&mut cluster, &json!({}));
    cluster.run(None);
    let told = "handlePhaseCompleting/CreateOrUpdateExports: the data object one cannot be exported: an object of this \
                name exists";
    assert!(cluster.phase() == "Failed" && cluster.error().starts_with(told), "{}", cluster.error());
    let condition = cluster.server().status.clone().unwrap().conditions;
    let condition = condition.iter().find(|one| one.type_ == "CreateExports").cloned().unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "CreateDataObjects"));
    assert_eq!(cluster.data("one"), Some(json!("by hand")));
    // A further job leaves the object alone too, and so does the deletion.
    cluster.annotate(RECONCILE.0, RECONCILE.1);
    cluster.run(None);
    assert_eq!((cluster.phase().as_str(), cluster.data("one")), ("Failed", Some(json!("by hand"))));
    cluster.delete();
    cluster.run(None);
    assert!(cluster.installations.is_empty());
    assert_eq!(cluster.data("one"), Some(json!("by hand")));
}

#[test]
fn what_was_written_by_hand_is_handed_over_by_an_annotation() {
    let mut cluster = Cluster::new(root("server: > one"));
    by_hand(&mut cluster, &json!({"annotations": {"landscaper.gardener.cloud/adopt": "true"}}));
    for _ in 0..2 {
        cluster.run(None);
        assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
        assert_eq!(cluster.data("one"), Some(json!("server([])")));
        cluster.annotate(RECONCILE.0, RECONCILE.1);
    }
    cluster.delete();
    cluster.run(None);
    assert_eq!(cluster.data("one"), None, "it is the root's now");
}

/// `installations.md` 4.3: objects that Landscaper exported for the same Installation are updated,
/// with or without an owner.
#[test]
fn exports_of_the_reference_are_updated() {
    let labels = json!({
        "data.landscaper.gardener.cloud/key": "one", "data.landscaper.gardener.cloud/source": "Inst.server",
        "data.landscaper.gardener.cloud/sourceType": "export", "data.landscaper.gardener.cloud/jobid": "old",
    });
    let owner = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "name": "server", "uid": "uid-server",
    });
    for owners in [json!([]), json!([owner])] {
        let mut cluster = Cluster::new(root("server: > one"));
        by_hand(&mut cluster, &json!({"labels": labels, "ownerReferences": owners}));
        cluster.run(None);
        assert_eq!((cluster.phase().as_str(), cluster.error().as_str()), ("Succeeded", ""));
        assert_eq!(cluster.data("one"), Some(json!("server([])")));
    }
}
