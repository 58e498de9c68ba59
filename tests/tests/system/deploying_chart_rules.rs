//! Settings of a helm item beside its chart (`helm.md` 10): exports of both lists, strategies, and
//! the timeout.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::Proxy;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item, records};
use crate::shared;
use crate::target_cluster::{TargetCluster, cluster, give_job, outcome, run_job, target};

/// Delay that exceeds the timeout of a [`HURRIED`] item.
const SLOWNESS: Duration = Duration::from_millis(1500);
const HURRIED: &str = "1s";
const ENOUGH: &str = "5m";

fn config_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/shop-config")
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

/// An item exports the members of both lists, merged if they have members in common (`helm.md`
/// 10.5).
#[tokio::test(flavor = "multi_thread")]
async fn exports_of_both_lists_are_merged() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "export-lists").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("export-lists").await?;
    let of_values = |key: &str, path: &str| json!({"key": key, "jsonPath": format!(".Values.{path}")});
    let of_object = |key: &str, path: &str| {
        json!({"key": key, "jsonPath": path, "fromResource": {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "shop-config", "namespace": "export-lists"}})
    };
    let said = json!({
        "values": {"color": "red", "one": 1, "two": 2},
        "exports": {"exports": [
            of_values("new", "one"), of_values("values", "one"), of_object("object", ".data.color"), of_object("over", ".data.color"),
        ]},
        "exportsFromManifests": [
            of_values("old", "two"), of_values("values", "two"), of_object("object", ".metadata.name"), of_values("over", "two"),
        ],
    });
    let expected = json!({"new": 1, "old": 2, "values": 1, "object": "shop-config", "over": "red"});
    for keeps_release in [true, false] {
        let name = format!("web-{keeps_release}");
        let mut said = said.clone();
        said["helmDeployment"] = json!(keeps_release);
        case.create::<DeployItem>(&name, &item(&case, &chart("0.1.0", &[])?, "export-lists", &said)).await?;
        succeeded(&run_job(&case, &name, "1").await?)?;
        let secret = case.get::<Secret>(&format!("{name}-export")).await?;
        let data = secret.data.unwrap_or_default();
        let exported: Value = serde_json::from_slice(&data.get("config").context("the key config")?.0)?;
        ensure!(exported == expected, "{name}: {exported}");
        case.delete::<DeployItem>(&name).await?;
        give_job(&case, &name, "2").await?;
        case.gone::<DeployItem>(&name).await?;
    }
    Ok(())
}

/// Returns the verbs of the writes to an object.
fn writes(cluster: &TargetCluster, path: &str) -> Result<Vec<String>> {
    let verbs = cluster.requests(path)?.into_iter().map(|(verb, _)| verb);
    Ok(verbs.filter(|verb| verb != "get").collect())
}

/// Without a release, both strategies use server-side apply. Before it, the fields of the creation
/// are moved to the field manager of the apply (`installations.md` 7.9).
#[tokio::test(flavor = "multi_thread")]
async fn strategies_of_rendered_charts() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "chart-strategies").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let chart = chart("0.1.0", &[])?;
    for strategy in ["update", "patch"] {
        let namespace = format!("chart-strategy-{strategy}");
        cluster.plane.create_namespace(&namespace).await?;
        let said = |color: &str| json!({"helmDeployment": false, "updateStrategy": strategy, "values": {"color": color}});
        case.create::<DeployItem>(strategy, &item(&case, &chart, &namespace, &said("red"))).await?;
        succeeded(&run_job(&case, strategy, "1").await?)?;
        case.change::<DeployItem>(strategy, &item(&case, &chart, &namespace, &said("blue"))).await?;
        succeeded(&run_job(&case, strategy, "2").await?)?;
        let path = config_of(&namespace);
        let found = cluster.get(&path).await?.unwrap_or_default();
        ensure!(found["data"]["color"] == "blue", "{found}");
        let written = writes(&cluster, &path)?;
        ensure!(written == ["patch", "patch"], "{strategy}: {written:?}");
    }
    Ok(())
}

/// B-71: an item with `updateOnChangeOnly` does not touch the cluster in a job without a change of
/// its spec, even if a user has changed an object. Without the flag, each job repairs such a
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_deployed_on_change_only() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "on-change").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let chart = chart("0.1.0", &[])?;
    for (name, is_on_change) in [("lazy", true), ("eager", false)] {
        let namespace = format!("on-change-{name}");
        cluster.plane.create_namespace(&namespace).await?;
        let mut object = item(&case, &chart, &namespace, &json!({}));
        object["spec"]["updateOnChangeOnly"] = json!(is_on_change);
        case.create::<DeployItem>(name, &object).await?;
        succeeded(&run_job(&case, name, "1").await?)?;
        let path = config_of(&namespace);
        cluster.change(&path, &json!({"data": {"color": "drift"}})).await?;
        let asked = cluster.requests(&format!("/namespaces/{namespace}/"))?.len();
        succeeded(&run_job(&case, name, "2").await?)?;
        if is_on_change {
            let after = cluster.requests(&format!("/namespaces/{namespace}/"))?.len();
            ensure!(after == asked, "{} requests of a job that has nothing to do", after - asked);
        }
        let color = |found: &Value| found["data"]["color"].as_str().map(ToOwned::to_owned);
        let found = cluster.get(&path).await?.unwrap_or_default();
        ensure!(color(&found).as_deref() == Some(if is_on_change { "drift" } else { "blue" }), "{found}");
        // A changed spec is deployed, with and without the flag.
        let red = item(&case, &chart, &namespace, &json!({"values": {"color": "red"}}));
        case.change::<DeployItem>(name, &json!({"spec": {"config": red["spec"]["config"]}})).await?;
        succeeded(&run_job(&case, name, "3").await?)?;
        let found = cluster.get(&path).await?.unwrap_or_default();
        ensure!(color(&found).as_deref() == Some("red"), "{found}");
    }
    Ok(())
}

/// An item whose timeout is over starts no further step, and its error names the next one
/// (`helm.md` 10.2). A first release leaves no record behind, and an existing release stays as it
/// is.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_when_the_time_is_over() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "late").await?, cluster().await?);
    cluster.plane.create_namespace("late").await?;
    let proxy = Proxy::start(cluster.plane.client().await?).await?;
    let mut config = cluster.kubeconfig()?;
    config["clusters"][0]["cluster"] = json!({"server": proxy.url()});
    case.create::<Target>("dev", &target(&json!({"kubeconfig": config.to_string()}))).await?;
    let chart = chart("0.1.0", &[])?;
    let expect = async |name: &str, job: &str, step: &str| {
        let found = run_job(&case, name, job).await?;
        let error = format!("ProgressingTimeout: timeout at: \"helm deployer: {step}\"");
        ensure!(outcome(&found).1 == error, "{name}, {step}: {:?}", outcome(&found));
        Ok(())
    };
    let hurried = |said: &Value| {
        let mut object = item(&case, &chart, "late", said);
        object["spec"]["timeout"] = json!(HURRIED);
        object
    };
    proxy.set_slow(SLOWNESS);
    case.create::<DeployItem>("rendered", &hurried(&json!({"helmDeployment": false}))).await?;
    expect("rendered", "1", "start create manifests").await?;
    case.create::<DeployItem>("release", &hurried(&json!({}))).await?;
    expect("release", "1", "before installing release").await?;
    ensure!(records(&cluster, "late").await?.is_empty(), "a record was left");
    ensure!(cluster.get(&config_of("late")).await?.is_none(), "an object was made");

    proxy.set_slow(Duration::ZERO);
    let given = async |time: &str| {
        case.change::<DeployItem>("release", &json!({"spec": {"timeout": time}})).await.map(drop)
    };
    given(ENOUGH).await?;
    succeeded(&run_job(&case, "release", "2").await?)?;
    let installed = records(&cluster, "late").await?;
    proxy.set_slow(SLOWNESS);
    given(HURRIED).await?;
    case.change::<DeployItem>("release", &item(&case, &chart, "late", &json!({"values": {"color": "red"}})))
        .await?;
    expect("release", "3", "before upgrading release").await?;
    case.delete::<DeployItem>("release").await?;
    expect("release", "4", "before deleting release").await?;
    ensure!(records(&cluster, "late").await? == installed, "the release was touched");

    proxy.set_slow(Duration::ZERO);
    given(ENOUGH).await?;
    give_job(&case, "release", "5").await?;
    case.gone::<DeployItem>("release").await?;
    ensure!(records(&cluster, "late").await?.is_empty(), "a record is left");
    Ok(())
}
