//! Settings of a manifest item beside its objects (`installations.md` 7.9): order of deletion,
//! readiness checks, and sources of exports.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::target_cluster::{
    TargetCluster, cluster, configuration, create_item, create_item_with, give_job, job_over, outcome,
    run_job, target,
};

const SLOW: &str = "example.org/slow";

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}})
}

fn slow(namespace: &str, name: &str) -> Value {
    let mut object = config_map(namespace, name);
    object["metadata"]["finalizers"] = json!([SLOW]);
    object
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

/// Returns a deletion group that deletes the ConfigMap of this name.
fn group_of(name: &str) -> Value {
    json!({"customResourceGroup": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap", "names": [name]}]}})
}

async fn is_being_deleted(cluster: &TargetCluster, path: &str) -> Result<Value> {
    let is_so =
        |found: Option<&Value>| found.is_some_and(|found| !found["metadata"]["deletionTimestamp"].is_null());
    cluster.until(&format!("{path} is being deleted"), path, is_so).await?;
    cluster.get(path).await?.context("the object is held by its finalizer")
}

async fn let_go(cluster: &TargetCluster, path: &str) -> Result<()> {
    cluster.change(path, &json!({"metadata": {"finalizers": null}})).await?;
    Ok(())
}

/// The item's deletion groups determine the order in which objects are deleted, both dropped
/// objects and those of a deleted item. Annotations and patches come first. Dropped objects stay if
/// their policy is `keep` or if no group covers them.
#[tokio::test(flavor = "multi_thread")]
async fn objects_go_as_their_item_says() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "going").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("going").await?;
    let first = json!({"manifest": slow("going", "first"), "annotateBeforeDelete": {"goes": "soon"}, "patchBeforeDelete": {"data": {"a": "patched"}}});
    let all = json!([
        {"manifest": config_map("going", "second")}, first, {"policy": "keep", "manifest": config_map("going", "kept")},
        {"manifest": slow("going", "third")}, {"manifest": config_map("going", "fourth")}, {"manifest": config_map("going", "unfit")},
    ]);
    let during = json!([group_of("first"), {"predefinedResourceGroup": {"type": "namespaced-resources"}}]);
    let after = json!([group_of("third"), group_of("fourth")]);
    let config = |manifests: &Value| json!({"manifests": manifests, "deletionGroups": after, "deletionGroupsDuringUpdate": during});
    create_item(&case, "item", "dev", &config(&all)).await?;
    succeeded(&run_job(&case, "item", "1").await?)?;

    let fewer = json!([all[3], all[4], all[5]]);
    case.change::<DeployItem>("item", &json!({"spec": {"config": configuration(&config(&fewer))}})).await?;
    give_job(&case, "item", "2").await?;
    let found = is_being_deleted(&cluster, &address("going", "first")).await?;
    ensure!(found["data"]["a"] == "patched" && found["metadata"]["annotations"]["goes"] == "soon", "{found}");
    // The next group waits for the one before it.
    case.until("it is told", "item", |item: &DeployItem| outcome(item).0 == "Progressing").await?;
    let second = cluster.get(&address("going", "second")).await?.context("the next group has gone before")?;
    ensure!(second["metadata"]["deletionTimestamp"].is_null(), "{second}");
    let_go(&cluster, &address("going", "first")).await?;
    succeeded(&job_over(&case, "item", "2").await?)?;
    for (name, is_there) in [("first", false), ("second", false), ("kept", true), ("third", true)] {
        ensure!(cluster.get(&address("going", name)).await?.is_some() == is_there, "{name}");
    }

    case.delete::<DeployItem>("item").await?;
    give_job(&case, "item", "3").await?;
    is_being_deleted(&cluster, &address("going", "third")).await?;
    let fourth = cluster.get(&address("going", "fourth")).await?.context("the next group has gone before")?;
    ensure!(fourth["metadata"]["deletionTimestamp"].is_null(), "{fourth}");
    let_go(&cluster, &address("going", "third")).await?;
    case.gone::<DeployItem>("item").await?;
    for (name, is_there) in [("third", false), ("fourth", false), ("kept", true), ("unfit", true)] {
        ensure!(cluster.get(&address("going", name)).await?.is_some() == is_there, "{name}");
    }
    Ok(())
}

/// A group may delete all objects of a kind, whoever created them, in the cluster of another
/// Target.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_takes_all_objects_of_a_kind() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "taking-all").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.create_target(&case, "other").await?;
    for namespace in ["taking-all", "taking-none"] {
        cluster.plane.create_namespace(namespace).await?;
        let foreign = config_map(namespace, "foreign");
        cluster.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &foreign).await?;
    }
    let all = json!({"customResourceGroup": {
        "resources": [{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["taking-all"]}, {"apiVersion": "example.org/v1", "kind": "None"}],
        "deleteAllResources": true, "targetName": "other",
    }});
    let config =
        json!({"manifests": [{"manifest": config_map("taking-none", "own")}], "deletionGroups": [all]});
    create_item(&case, "item", "dev", &config).await?;
    succeeded(&run_job(&case, "item", "1").await?)?;
    case.delete::<DeployItem>("item").await?;
    give_job(&case, "item", "2").await?;
    case.gone::<DeployItem>("item").await?;
    for (namespace, name, is_there) in
        [("taking-all", "foreign", false), ("taking-none", "foreign", true), ("taking-none", "own", true)]
    {
        ensure!(cluster.get(&address(namespace, name)).await?.is_some() == is_there, "{namespace}/{name}");
    }
    Ok(())
}

/// Readiness checks by label in the cluster of another Target replace those by kind. An export
/// reads an object to which another object refers.
#[tokio::test(flavor = "multi_thread")]
async fn checks_and_exports_of_other_objects() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "looking-around").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.create_target(&case, "other").await?;
    cluster.plane.create_namespace("looking").await?;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "looking"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "named", "namespace": "looking"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "naming", "namespace": "looking"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "named"}});
    let ready = json!({"jsonPath": ".data.ready", "operator": "in", "values": [{"value": "yes"}, {"value": "maybe"}]});
    let checks = json!({"disableDefault": true, "custom": [
        {"name": "switched-off", "disabled": true, "resourceSelector": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "namespace": "looking"}],
            "requirements": [{"jsonPath": ".data", "operator": "exists"}]},
        {"name": "all-are-ready", "targetName": "other", "labelSelector": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"looked-at": "yes"}},
            "requirements": [ready]},
    ]});
    let exports = json!({"exports": [
        {"key": "role.verb", "jsonPath": ".rules[0].verbs[0]", "targetName": "other",
            "fromResource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "name": "naming", "namespace": "looking"},
            "fromObjectRef": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "jsonPath": ".roleRef"}},
        {"key": "role.image", "jsonPath": ".spec.template.spec.containers[0].image",
            "fromResource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "looking"}},
    ]});
    let manifests: Vec<Value> =
        [deployment, role, binding].into_iter().map(|manifest| json!({"manifest": manifest})).collect();
    create_item(
        &case,
        "item",
        "dev",
        &json!({"manifests": manifests, "readinessChecks": checks, "exports": exports}),
    )
    .await?;
    give_job(&case, "item", "1").await?;
    // No object has the labels yet, which counts as not ready.
    cluster
        .until(
            "the objects are there",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/looking/rolebindings/naming",
            |found| found.is_some(),
        )
        .await?;
    for name in ["one", "two"] {
        let mut object = config_map("looking", name);
        object["metadata"]["labels"] = json!({"looked-at": "yes"});
        object["data"]["ready"] = json!("no");
        cluster.create("/api/v1/namespaces/looking/configmaps", &object).await?;
    }
    cluster.change(&address("looking", "one"), &json!({"data": {"ready": "maybe"}})).await?;
    case.until("it waits for the other one", "item", |item: &DeployItem| outcome(item).0 == "Progressing")
        .await?;
    cluster.change(&address("looking", "two"), &json!({"data": {"ready": "yes"}})).await?;
    succeeded(&job_over(&case, "item", "1").await?)?;
    let secret = case.get::<Secret>("item-export").await?;
    let exported = secret.data.unwrap_or_default().remove("config").map(|bytes| bytes.0).unwrap_or_default();
    let exported: Value = serde_json::from_slice(&exported)?;
    ensure!(exported == json!({"role": {"verb": "list", "image": "a"}}), "{exported}");
    Ok(())
}

/// A cluster accepts connections and never answers. Its items report this and fail at their
/// timeout. Items of other Targets do not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_hangs() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "hanging").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("hanging").await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let mut config = cluster.kubeconfig()?;
    config["clusters"][0]["cluster"] = json!({"server": format!("http://{}", listener.local_addr()?)});
    let hanging = tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            taken.push(connection);
        }
    });
    case.create::<Target>("silent", &target(&json!({"kubeconfig": config.to_string()}))).await?;
    let object = json!({"manifests": [{"manifest": config_map("hanging", "a")}]});
    let names: Vec<String> = (0..3).map(|number| format!("silent-{number}")).collect();
    for name in &names {
        create_item_with(&case, name, "silent", &object, &json!({"timeout": "20s"})).await?;
        give_job(&case, name, "1").await?;
    }
    for name in &names {
        case.until("it is picked up", name, |item: &DeployItem| !outcome(item).0.is_empty()).await?;
    }
    create_item(&case, "own", "dev", &object).await?;
    give_job(&case, "own", "1").await?;
    wait_for("items of other Targets do not wait for it", Duration::from_secs(20), async || {
        let item = case.get::<DeployItem>("own").await.map_err(|error| error.to_string())?;
        if outcome(&item).0 == "Succeeded" { Ok(()) } else { Err(format!("{:?}", outcome(&item))) }
    })
    .await?;
    let mut told = 0;
    for name in &names {
        let (phase, error) = outcome(&job_over(&case, name, "1").await?);
        ensure!(phase == "Failed" && error.starts_with("ProgressingTimeout: "), "{name}: {phase} {error}");
        told += usize::from(
            error.contains("no answer within 30 s")
                || error.contains("the server does not answer; it is asked again in a moment"),
        );
    }
    ensure!(told == names.len(), "{told} of {} items say what is wrong", names.len());
    hanging.abort();
    Ok(())
}
