//! Other actors in the model's cluster: users, a deployer, and the garbage collector.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::metadata::FINALIZER;
use groundwork_api::{DeployItem, DeployerInformation, Time};
use groundwork_lifecycle::deployer::{Exports, Verdict, Work, conclude, work_of};
use groundwork_lifecycle::machine::Phase;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::chance::Chance;
use super::cluster::{Cluster, NAMESPACE};
use super::plan::{Act, Life};

pub(super) const OPERATION: &str = "landscaper.gardener.cloud/operation";

/// State that the user wants for an Installation in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The Installation exists, and its items have this size.
    Size(u64),
    Gone,
}

/// Wanted final states, by the name of the Installation.
pub(super) type Wishes = Arc<Mutex<BTreeMap<&'static str, Wanted>>>;

/// Returns a spec whose items have a size.
fn spec(life: &Life, size: u64) -> Value {
    let items = |prefix: &str, count: usize| -> String {
        let item = |index: usize| format!("{{name: {prefix}{index}, type: model, config: {{size: {size}}}}}");
        (0..count).map(item).collect::<Vec<_>>().join(", ")
    };
    let blueprint = |items: &str, children: &str| {
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: d\n  type: GoTemplate\n  \
             template: |\n    deployItems: [{items}]\n{children}"
        )
    };
    let child = blueprint(&items("c", 1), "").replace('\n', "\n        ");
    let children = format!(
        "subinstallations:\n- name: child\n  blueprint:\n    filesystem:\n      blueprint.yaml: |\n        {child}\n"
    );
    let children = if life.has_child { children.as_str() } else { "" };
    json!({"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint(&items("i", life.items), children)}}}})
}

/// Runs the user actions on an Installation. The user sees the result of each action at once, and
/// retries an action that is not possible yet.
pub(super) async fn live(life: Life, cluster: Cluster, wishes: Wishes) {
    let mut size = 0;
    for (pause, act) in &life.acts {
        sleep(*pause).await;
        let by = "people";
        let ask = |object: &mut Value| object["metadata"]["annotations"][OPERATION] = json!("reconcile");
        match act {
            Act::Create => {
                size += 1;
                let metadata = json!({"name": life.name, "annotations": {OPERATION: "reconcile"}});
                let kind = json!({
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "metadata": metadata,
                    "spec": spec(&life, size),
                });
                while cluster.create("installations", kind.clone(), by).is_err() {
                    sleep(std::time::Duration::from_millis(100)).await;
                }
                wish(&wishes, life.name, Wanted::Size(size));
            }
            Act::Change => {
                size += 1;
                let new = spec(&life, size);
                cluster.change("installations", life.name, by, |object| {
                    object["spec"] = new;
                    ask(object);
                });
                wish(&wishes, life.name, Wanted::Size(size));
            }
            Act::Reconcile => {
                cluster.change("installations", life.name, by, ask);
            }
            Act::Delete => {
                let _ = cluster.delete("installations", life.name, &Value::Null, by);
                wish(&wishes, life.name, Wanted::Gone);
            }
        }
    }
}

fn wish(wishes: &Wishes, name: &'static str, wanted: Wanted) {
    wishes.lock().unwrap_or_else(PoisonError::into_inner).insert(name, wanted);
}

/// Objects that the deployer or the garbage collector works on, by action and UID.
type Busy = Arc<Mutex<HashSet<(&'static str, String)>>>;

/// Deploys items, and deletes objects that have lost all owners. Never returns.
pub(super) async fn serve(cluster: Cluster, chance: Arc<Chance>) {
    let (busy, mut changes) = (Busy::default(), cluster.changes());
    let begin = |act, object: &Value| {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        busy.lock().unwrap_or_else(PoisonError::into_inner).insert((act, uid))
    };
    loop {
        let all = cluster.all();
        let uids: HashSet<_> = all.iter().map(|(_, object)| object["metadata"]["uid"].clone()).collect();
        for (plural, object) in all {
            let owners = object["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty());
            let is_left =
                owners.is_some_and(|owners| owners.iter().all(|owner| !uids.contains(&owner["uid"])));
            if is_left && begin("collect", &object) {
                let (cluster, chance) = (cluster.clone(), Arc::clone(&chance));
                tokio::spawn(async move { collect(&cluster, &chance, &plural, &object).await });
            } else if plural == "deployitems" && next_work(&object) != Work::None && begin("deploy", &object)
            {
                let (cluster, chance, busy) = (cluster.clone(), Arc::clone(&chance), Arc::clone(&busy));
                tokio::spawn(async move {
                    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                    deploy(&cluster, &chance, &object).await;
                    busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&("deploy", uid));
                });
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn collect(cluster: &Cluster, chance: &Chance, plural: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    chance.pause(&format!("collects {plural} {name}")).await;
    let _ = cluster.delete(plural, name, &json!({"uid": object["metadata"]["uid"]}), "collector");
}

fn next_work(item: &Value) -> Work {
    let deployer = DeployerInformation { name: "model".to_owned(), ..DeployerInformation::default() };
    serde_json::from_value::<DeployItem>(item.clone())
        .map_or(Work::None, |item| work_of(&item, &deployer, &now()))
}

fn now() -> Time {
    Time(jiff::Timestamp::from_second(1_780_000_000).unwrap_or_default())
}

/// Deploys or deletes an item, step by step, until no work is left.
async fn deploy(cluster: &Cluster, chance: &Chance, item: &Value) {
    let (by, name) = ("deployer", item["metadata"]["name"].as_str().unwrap_or_default());
    loop {
        chance.pause(&format!("deploys {name}")).await;
        let Some(found) = cluster.get("deployitems", name) else { return };
        if found["metadata"]["uid"] != item["metadata"]["uid"] {
            return;
        }
        let write = |item: &DeployItem| {
            let mut object = json!(item);
            object["metadata"]["namespace"] = json!(NAMESPACE);
            let _ = cluster.replace("deployitems", object, true, by);
        };
        match next_work(&found) {
            Work::None => return,
            Work::PickUp { item, .. } => {
                let is_deleting = item.metadata.deletion_timestamp.is_some();
                if !is_deleting {
                    cluster.change("deployitems", name, by, |object| {
                        object["metadata"]["finalizers"] = json!([FINALIZER]);
                    });
                    chance.pause(&format!("picks {name} up")).await;
                }
                // Deployers differ: some write a phase before they delete, others remove the
                // finalizer at once.
                if is_deleting && chance.one_in(2, &format!("deletes {name} at once")) {
                    cluster.change("deployitems", name, by, |object| {
                        object["metadata"]["finalizers"] = json!([]);
                    });
                    return;
                }
                let Some(now) = cluster.get("deployitems", name) else { return };
                if let Work::PickUp { item, .. } = next_work(&now) {
                    write(&item);
                }
            }
            Work::Continue if found["metadata"]["deletionTimestamp"].is_string() => {
                cluster
                    .change("deployitems", name, by, |object| object["metadata"]["finalizers"] = json!([]));
                return;
            }
            Work::Continue => {
                let verdict = Verdict {
                    phase: Phase::Succeeded.as_str().to_owned(),
                    error: None,
                    provider_status: None,
                    exports: Exports::Keep,
                };
                let Ok(item) = serde_json::from_value::<DeployItem>(Value::clone(&found)) else { return };
                write(&conclude(&item, verdict, &now()));
            }
        }
    }
}
