//! Items wait until their objects are ready (`installations.md` 7.9, `helm.md` 9.3 and 10.6): by
//! default for every object with a status, or for workloads only, and for the conditions of
//! expressions.

use anyhow::{Result, ensure};
use groundwork_api::DeployItem;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item, records};
use crate::shared;
use crate::target_cluster::{
    TargetCluster, cluster, create_item, create_item_with, give_job, job_over, outcome, run_job,
};

const GROUP: &str = "ready.example.org";

/// Defines a kind whose objects have a status, as operators do.
async fn define(cluster: &TargetCluster) -> Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("databases.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "databases", "singular": "database", "kind": "Database", "listKind": "DatabaseList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let path = format!("{definitions}/databases.{GROUP}");
    if cluster.get(&path).await?.is_none() {
        // Another test may create it at the same time, so an error is fine.
        let _ = cluster.create(definitions, &definition).await;
    }
    let is_there = |found: Option<&Value>| found.is_some();
    cluster.until("the kind is served", &format!("/apis/{GROUP}/v1/databases"), is_there).await
}

fn address(namespace: &str, name: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/databases/{name}")
}

fn database(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Database", "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 1}})
}

/// Sets the status of a database as its operator would.
async fn say(
    cluster: &TargetCluster,
    namespace: &str,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
) -> Result<()> {
    let path = address(namespace, name);
    cluster.until("the object is there", &path, |found| found.is_some()).await?;
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": "canary"});
    let said = json!({"status": {"observedGeneration": 1, "conditions": [condition]}});
    cluster.change(&format!("{path}/status"), &said).await?;
    Ok(())
}

/// Returns a chart with one database.
fn database_chart(name: &str) -> Result<String> {
    let template =
        format!("apiVersion: {GROUP}/v1\nkind: Database\nmetadata: {{name: {name}}}\nspec: {{size: 1}}\n");
    chart("0.1.0", &[("templates/database.yaml", &template)])
}

/// Creates an item with a database for each way of deployment. Returns the names of the items.
async fn create_items(case: &Case<'_>, namespace: &str, rules: &Value) -> Result<[&'static str; 4]> {
    let checks = |more: Value| {
        let mut said = json!({"readinessChecks": rules});
        said.as_object_mut()
            .into_iter()
            .for_each(|said| said.extend(more.as_object().cloned().unwrap_or_default()));
        said
    };
    let waiting = json!({"install": {"wait": true}});
    for (name, more) in [
        ("release", json!({"name": "release"})),
        ("waiting-release", json!({"name": "shop", "helmDeploymentConfig": waiting})),
        ("rendered", json!({"name": "rendered", "helmDeployment": false})),
    ] {
        let said = item(case, &database_chart(name)?, namespace, &checks(more));
        case.create::<DeployItem>(name, &said).await?;
    }
    let manifests = json!([{"manifest": database(namespace, "objects")}]);
    create_item(case, "objects", "dev", &checks(json!({"manifests": manifests}))).await?;
    Ok(["release", "waiting-release", "rendered", "objects"])
}

async fn start(namespace: &str) -> Result<Option<(Case<'static>, TargetCluster)>> {
    let Some(system) = shared::system().await? else { return Ok(None) };
    let (case, cluster) = (Case::new(system, namespace).await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace(namespace).await?;
    define(&cluster).await?;
    Ok(Some((case, cluster)))
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

/// Waits until the deployer has renewed the time of its last reconcile of an item.
async fn until_renewed(case: &Case<'_>, name: &str) -> Result<()> {
    let time = |item: &DeployItem| item.status.clone().unwrap_or_default().last_reconcile_time;
    let before = time(&case.get(name).await?);
    case.until("the deployer still works on it", name, |item: &DeployItem| time(item) > before).await?;
    Ok(())
}

/// A release with and without `wait`, a rendered chart and a manifest item succeed only after their
/// databases are ready. Until then the record of a release with `wait` is pending.
#[tokio::test(flavor = "multi_thread")]
async fn items_wait_for_custom_resources() -> Result<()> {
    let namespace = "ready-databases";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let names = create_items(&case, namespace, &json!({})).await?;
    for name in names {
        give_job(&case, name, "1").await?;
    }
    for name in names {
        say(&cluster, namespace, name, "Ready", "False", "Creating").await?;
    }
    for name in names {
        until_renewed(&case, name).await?;
        let found: DeployItem = case.get(name).await?;
        ensure!(outcome(&found) == ("Progressing".into(), String::new()), "{name}: {:?}", outcome(&found));
    }
    let record = records(&cluster, namespace).await?.pop();
    ensure!(record.is_some_and(|(_, status, _)| status == "pending-install"), "the release does not wait");
    for name in names {
        say(&cluster, namespace, name, "Ready", "True", "Created").await?;
        succeeded(&job_over(&case, name, "1").await?)?;
    }
    let record = records(&cluster, namespace).await?.pop();
    ensure!(record.is_some_and(|(_, status, _)| status == "deployed"), "the release is not deployed");
    Ok(())
}

/// With the rules by kind, an item waits for workloads only.
#[tokio::test(flavor = "multi_thread")]
async fn by_the_table_of_kinds_custom_resources_only_exist() -> Result<()> {
    let namespace = "ready-kinds";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    for name in create_items(&case, namespace, &json!({"rules": "kinds"})).await? {
        // The default rules would wait at least 30 s for an operator, longer than this timeout.
        case.change::<DeployItem>(name, &json!({"spec": {"timeout": "25s"}})).await?;
        succeeded(&run_job(&case, name, "1").await?)?;
        ensure!(cluster.get(&address(namespace, name)).await?.is_some(), "{name} has no object");
    }
    let checks = json!({"readinessChecks": {"rules": "canary"}, "manifests": []});
    create_item(&case, "odd", "dev", &checks).await?;
    let (phase, error) = outcome(&run_job(&case, "odd", "1").await?);
    let is_told = error.contains("a word is unknown, expected `conventions` or `kinds`");
    ensure!(phase == "Failed" && is_told && !error.contains("canary"), "{phase} {error}");
    Ok(())
}

/// An object without a status is waited for as long as an operator needs to see it. If its operator
/// reports a failure, the item shows the reason.
#[tokio::test(flavor = "multi_thread")]
async fn silence_and_failures() -> Result<()> {
    let namespace = "ready-failures";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let manifests = |name: &str| json!({"manifests": [{"manifest": database(namespace, name)}]});
    create_item(&case, "silent", "dev", &manifests("silent")).await?;
    give_job(&case, "silent", "1").await?;
    create_item_with(&case, "stalled", "dev", &manifests("stalled"), &json!({"timeout": "12s"})).await?;
    give_job(&case, "stalled", "1").await?;
    say(&cluster, namespace, "stalled", "Stalled", "True", "QuotaExceeded").await?;
    let (phase, error) = outcome(&job_over(&case, "stalled", "1").await?);
    let reason = "of type Database: it has failed: condition Stalled is True (QuotaExceeded)";
    ensure!(phase == "Failed" && error.contains(reason) && !error.contains("canary"), "{phase} {error}");
    let silent: DeployItem = case.get("silent").await?;
    ensure!(outcome(&silent) == ("Progressing".into(), String::new()), "{:?}", outcome(&silent));
    succeeded(&job_over(&case, "silent", "1").await?)
}

/// Two checks, one in CEL and one with a path, must both be true. An invalid expression ends the
/// job at once, and the error names its position.
#[tokio::test(flavor = "multi_thread")]
async fn checks_in_cel() -> Result<()> {
    let namespace = "ready-cel";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}});
    let said = |name: &str, cel: &str| {
        let selected = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": namespace});
        let requirements =
            json!([{"jsonPath": ".data.a", "operator": "==", "values": [{"value": "b"}]}, {"cel": cel}]);
        let check = json!({"name": "said", "resourceSelector": [selected], "requirements": requirements});
        json!({"manifests": [{"manifest": map(name)}], "readinessChecks": {"custom": [check]}})
    };
    let expression = "int(object.data.replicas) >= 2 && metadata.name.startsWith('in-')";
    create_item(&case, "item", "dev", &said("in-time", expression)).await?;
    create_item_with(&case, "late", "dev", &said("in-vain", expression), &json!({"timeout": "3s"})).await?;
    create_item(&case, "wrong", "dev", &said("wrong", "data.replicas == 'canary'")).await?;
    give_job(&case, "item", "1").await?;
    let (phase, error) = outcome(&run_job(&case, "late", "1").await?);
    let reason =
        "said: resource ready-cel/in-vain of type ConfigMap: requirements[1].cel is neither true nor false";
    ensure!(phase == "Failed" && error.contains(reason), "{phase} {error}");
    let (phase, error) = outcome(&run_job(&case, "wrong", "1").await?);
    let reason = "readinessChecks.custom[0].requirements[1].cel: undeclared reference to 'data'";
    ensure!(phase == "Failed" && error.contains(reason) && !error.contains("canary"), "{phase} {error}");

    let path = format!("/api/v1/namespaces/{namespace}/configmaps/in-time");
    cluster.change(&path, &json!({"data": {"replicas": "1"}})).await?;
    let found: DeployItem = case.get("item").await?;
    ensure!(outcome(&found) == ("Progressing".into(), String::new()), "{:?}", outcome(&found));
    cluster.change(&path, &json!({"data": {"replicas": "2"}})).await?;
    succeeded(&job_over(&case, "item", "1").await?)
}
