//! Items whose Target leads to a different cluster than the one that they were deployed to
//! (clusters, `installations.md` 7.9).

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::Front;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item};
use crate::shared;
use crate::target_cluster::{
    TargetCluster, cluster, create_item, give_job, job_over, outcome, run_job, target,
};

const ANNOTATION: &str = "landscaper.gardener.cloud/other-cluster";

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"from": "item"}})
}

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// Returns the kubeconfig of the home cluster, which serves as the different one.
fn elsewhere(case: &Case<'_>) -> Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(case.system.plane.kubeconfig())?)?)
}

async fn lead(case: &Case<'_>, kubeconfig: &Value) -> Result<()> {
    let config = json!({"kubeconfig": kubeconfig.to_string()});
    case.change::<Target>("dev", &target(&config)).await?;
    Ok(())
}

async fn say(case: &Case<'_>, name: &str, value: Option<&str>) -> Result<()> {
    case.change::<DeployItem>(name, &json!({"metadata": {"annotations": {ANNOTATION: value}}})).await?;
    Ok(())
}

fn place(item: &DeployItem) -> Value {
    let status = item.status.as_ref().and_then(|status| status.provider_status.get().cloned());
    status.unwrap_or_default()["cluster"].clone()
}

fn refused(item: &DeployItem, parts: &[&str]) -> Result<()> {
    let (phase, error) = outcome(item);
    let is_so =
        phase.ends_with("Failed") && error.starts_with("OtherCluster: the target leads to another cluster");
    ensure!(is_so && parts.iter().all(|part| error.contains(part)), "{phase} {error}");
    Ok(())
}

fn succeeded(item: &DeployItem) -> Result<()> {
    ensure!(outcome(item) == ("Succeeded".into(), String::new()), "{:?}", outcome(item));
    Ok(())
}

/// Creates namespaces of this name in both clusters, and in the different one an object with the
/// name of the item's object.
async fn both(case: &Case<'_>, cluster: &TargetCluster, name: &str) -> Result<()> {
    cluster.create_target(case, "dev").await?;
    cluster.plane.create_namespace(&case.namespace).await?;
    let client = case.system.client().await?;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"from": "others"}});
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, &case.namespace);
    maps.create(&kube::api::PostParams::default(), &serde_json::from_value(theirs)?).await?;
    Ok(())
}

async fn theirs(case: &Case<'_>, name: &str) -> Result<Option<String>> {
    let client = case.system.client().await?;
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, &case.namespace);
    let found = maps.get_opt(name).await?;
    Ok(found.and_then(|found| found.data?.get("from").cloned()))
}

/// A job and a deletion are rejected and change neither cluster, until the Target leads back.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_elsewhere() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "elsewhere").await?, cluster().await?);
    both(&case, &cluster, "cfg").await?;
    create_item(&case, "web", "dev", &json!({"manifests": [{"manifest": config_map("elsewhere", "cfg")}]}))
        .await?;
    let found = run_job(&case, "web", "1").await?;
    succeeded(&found)?;
    ensure!(place(&found)["uid"].is_string() && place(&found)["server"].is_string(), "{}", place(&found));

    lead(&case, &elsewhere(&case)?).await?;
    refused(&run_job(&case, "web", "2").await?, &["elsewhere/cfg of type ConfigMap", "other-cluster: move"])?;
    ensure!(theirs(&case, "cfg").await?.as_deref() == Some("others"), "an object of others was written");
    // `abandon`, which permits a deletion, does not permit a job.
    say(&case, "web", Some("abandon")).await?;
    refused(&run_job(&case, "web", "3").await?, &["other-cluster: move"])?;
    say(&case, "web", None).await?;
    case.delete::<DeployItem>("web").await?;
    refused(
        &run_job(&case, "web", "4").await?,
        &["elsewhere/cfg of type ConfigMap", "other-cluster: abandon"],
    )?;
    ensure!(theirs(&case, "cfg").await?.is_some(), "an object of others is gone");
    ensure!(cluster.get(&address("elsewhere", "cfg")).await?.is_some(), "it has gone without a word");

    lead(&case, &cluster.kubeconfig()?).await?;
    give_job(&case, "web", "5").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(cluster.get(&address("elsewhere", "cfg")).await?.is_none(), "it outlived its item");
    ensure!(theirs(&case, "cfg").await?.as_deref() == Some("others"), "an object of others is gone");
    Ok(())
}

/// Another address, other credentials or a proxy may lead to the same cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_cluster_by_another_way() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "same-cluster").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("same-cluster").await?;
    create_item(
        &case,
        "web",
        "dev",
        &json!({"manifests": [{"manifest": config_map("same-cluster", "cfg")}]}),
    )
    .await?;
    let found = run_job(&case, "web", "1").await?;
    succeeded(&found)?;
    let front = Front::start(cluster.plane.client().await?).await?;
    let kubeconfig = crate::target_sync_source::kubeconfig(front.url(), &json!({"token": "another"}));
    lead(&case, &kubeconfig).await?;
    let found = run_job(&case, "web", "2").await?;
    succeeded(&found)?;
    ensure!(place(&found)["server"] == front.url(), "{}", place(&found));
    // The deployer reads the identity of the cluster once for all rounds of both jobs.
    succeeded(&run_job(&case, "web", "3").await?)?;
    let asked = front.asked();
    let times = asked.iter().filter(|one| one.path.starts_with("/api/v1/namespaces/kube-system")).count();
    ensure!(times == 1, "{asked:#?}");
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "4").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(cluster.get(&address("same-cluster", "cfg")).await?.is_none(), "it outlived its item");
    Ok(())
}

/// `move` deploys to the new cluster, and `abandon` forgets the objects. The objects in the former
/// cluster stay, and the message names them.
#[tokio::test(flavor = "multi_thread")]
async fn users_say_what_is_to_become_of_it() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "moved").await?, cluster().await?);
    both(&case, &cluster, "other").await?;
    for name in ["moves", "goes"] {
        create_item(&case, name, "dev", &json!({"manifests": [{"manifest": config_map("moved", name)}]}))
            .await?;
        succeeded(&run_job(&case, name, "1").await?)?;
    }
    let release = item(&case, &chart("0.1.0", &[])?, "moved", &json!({}));
    case.create::<DeployItem>("release", &release).await?;
    succeeded(&run_job(&case, "release", "1").await?)?;
    lead(&case, &elsewhere(&case)?).await?;

    say(&case, "moves", Some("move")).await?;
    let found = run_job(&case, "moves", "2").await?;
    succeeded(&found)?;
    ensure!(theirs(&case, "moves").await?.as_deref() == Some("item"), "it was not deployed");
    let status =
        found.status.and_then(|status| status.provider_status.get().cloned()).context("the status")?;
    ensure!(status["leftBehind"][0]["objects"] == json!(["moved/moves of type ConfigMap"]), "{status}");
    let told = case.warnings_with::<DeployItem>("moves", "ObjectsLeftBehind").await?;
    ensure!(told.iter().any(|(_, message)| message.contains("moved/moves of type ConfigMap")), "{told:?}");
    let found = run_job(&case, "moves", "3").await?;
    succeeded(&found)?;
    ensure!(
        !found.metadata.annotations.unwrap_or_default().contains_key(ANNOTATION),
        "the word is still there"
    );

    refused(&run_job(&case, "release", "2").await?, &["the release moved/shop"])?;
    for name in ["goes", "release"] {
        say(&case, name, Some("abandon")).await?;
        case.delete::<DeployItem>(name).await?;
        give_job(&case, name, "4").await?;
        case.gone::<DeployItem>(name).await?;
        let told = case.warnings_with::<DeployItem>(name, "ObjectsLeftBehind").await?;
        let left = told.iter().filter(|(reason, _)| reason == "ObjectsLeftBehind");
        ensure!(left.count() == 1, "{name}: {told:?}");
    }
    for name in ["moves", "goes", "shop-config"] {
        ensure!(cluster.get(&address("moved", name)).await?.is_some(), "{name} is gone");
    }
    ensure!(theirs(&case, "other").await?.as_deref() == Some("others"), "an object of others is gone");
    Ok(())
}

/// A record from before cluster identities gets the identity of the cluster in which the next job
/// succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_before() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "no-identity").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("no-identity").await?;
    create_item(&case, "web", "dev", &json!({"manifests": [{"manifest": config_map("no-identity", "cfg")}]}))
        .await?;
    let found = run_job(&case, "web", "1").await?;
    let known = place(&found);
    let mut before = json!(found);
    before["status"]["providerStatus"]["cluster"] = Value::Null;
    let before: DeployItem = serde_json::from_value(before)?;
    case.api::<DeployItem>().replace_status("web", &kube::api::PostParams::default(), &before).await?;
    give_job(&case, "web", "2").await?;
    let found = job_over(&case, "web", "2").await?;
    succeeded(&found)?;
    ensure!(place(&found) == known, "{}", place(&found));
    Ok(())
}
