//! Items wait for their clusters by watches if they have the right, by polling if they do not, and
//! with no request while a server is busy.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::{Asked, Front, wait_for};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item, records};
use crate::shared;
use crate::support::PATIENCE;
use crate::target_cluster::{TargetCluster, cluster, create_item, give_job, job_over, outcome, target};

/// Creates a Target for the cluster behind a front.
async fn create_target(case: &Case<'_>, cluster: &TargetCluster, name: &str, front: &Front) -> Result<()> {
    case.create::<Target>(name, &target(&behind(cluster, front)?)).await?;
    Ok(())
}

fn behind(cluster: &TargetCluster, front: &Front) -> Result<Value> {
    let mut config = cluster.kubeconfig()?;
    config["clusters"][0]["cluster"] = json!({"server": front.url()});
    Ok(json!({"kubeconfig": config.to_string()}))
}

fn deployment(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }})
}

fn address(namespace: &str, name: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
}

/// Sets the status that a controller would set, since the cluster has none.
async fn set_ready(cluster: &TargetCluster, namespace: &str, name: &str) -> Result<()> {
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
    cluster.change(&format!("{}/status", address(namespace, name)), &json!({"status": status})).await?;
    Ok(())
}

async fn until_watches(front: &Front, number: usize) -> Result<()> {
    wait_for(&format!("{number} watches go to the cluster"), PATIENCE, async || {
        let found = front.watches();
        if found == number { Ok(()) } else { Err(format!("{found}: {:#?}", front.asked())) }
    })
    .await
}

/// Waits until the deployer has renewed its report on an item, and therefore has checked it several
/// times.
async fn until_renewed(case: &Case<'_>, name: &str) -> Result<()> {
    let time = |item: &DeployItem| item.status.clone().unwrap_or_default().last_reconcile_time;
    let before = time(&case.get(name).await?);
    case.until("the deployer still works on it", name, |item: &DeployItem| time(item) > before).await?;
    Ok(())
}

fn reads<'a>(asked: &'a [Asked], path: &str) -> Vec<&'a Asked> {
    asked.iter().filter(|one| one.method == "GET" && one.path == path).collect()
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

/// While an item waits, its cluster gets no request, however long the wait is and whatever
/// unrelated objects change. After the awaited change, the deployer reads each object once and ends
/// the job.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_waits_by_a_watch() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "watching").await?, cluster().await?);
    cluster.plane.create_namespace("watching").await?;
    let front = Front::start(cluster.plane.client().await?).await?;
    create_target(&case, &cluster, "dev", &front).await?;
    let names: Vec<String> = (0..12).map(|number| format!("web-{number}")).collect();
    let manifests: Vec<Value> =
        names.iter().map(|name| json!({"manifest": deployment("watching", name)})).collect();
    create_item(&case, "web", "dev", &json!({"manifests": manifests})).await?;
    give_job(&case, "web", "1").await?;
    // One watch serves all of the objects.
    until_watches(&front, 1).await?;
    let before = front.asked().len();
    for name in &names[1..] {
        set_ready(&cluster, "watching", name).await?;
    }
    until_renewed(&case, "web").await?;
    let meanwhile = front.asked().split_off(before);
    ensure!(meanwhile.is_empty(), "it waited, and asked for {meanwhile:#?}");
    set_ready(&cluster, "watching", &names[0]).await?;
    succeeded(&job_over(&case, "web", "1").await?)?;
    let last = front.asked().split_off(before);
    for name in &names {
        ensure!(reads(&last, &address("watching", name)).len() == 1, "{name}: {last:#?}");
    }
    until_watches(&front, 0).await?;

    // The deployer waits for a deletion in the same way.
    let path = address("watching", &names[0]);
    cluster.change(&path, &json!({"metadata": {"finalizers": ["example.org/slow"]}})).await?;
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "2").await?;
    until_watches(&front, 1).await?;
    let before = front.asked().len();
    until_renewed(&case, "web").await?;
    ensure!(front.asked().len() == before, "{:#?}", front.asked().split_off(before));
    cluster.change(&path, &json!({"metadata": {"finalizers": null}})).await?;
    case.gone::<DeployItem>("web").await?;
    until_watches(&front, 0).await
}

/// A watch ends when the wait is over: after an interrupted job, after a change of the Target, and
/// after the deletion of the item.
#[tokio::test(flavor = "multi_thread")]
async fn watches_end_with_the_waiting() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "watch-ends").await?, cluster().await?);
    cluster.plane.create_namespace("watch-ends").await?;
    let front = Front::start(cluster.plane.client().await?).await?;
    create_target(&case, &cluster, "dev", &front).await?;
    create_item(&case, "web", "dev", &json!({"manifests": [{"manifest": deployment("watch-ends", "web")}]}))
        .await?;
    give_job(&case, "web", "1").await?;
    until_watches(&front, 1).await?;

    // An Execution interrupts its items in this way.
    let ended = json!({"status": {"jobIDFinished": "1", "phase": "Failed"}});
    interrupt(&case, "web", &ended).await?;
    until_watches(&front, 0).await?;

    give_job(&case, "web", "2").await?;
    until_watches(&front, 1).await?;
    let other = Front::start(cluster.plane.client().await?).await?;
    case.change::<Target>("dev", &json!({"spec": {"config": behind(&cluster, &other)?}})).await?;
    until_watches(&other, 1).await?;
    until_watches(&front, 0).await?;

    let delete =
        json!({"metadata": {"annotations": {"landscaper.gardener.cloud/delete-without-uninstall": "true"}}});
    case.change::<DeployItem>("web", &delete).await?;
    case.delete::<DeployItem>("web").await?;
    case.gone::<DeployItem>("web").await?;
    until_watches(&other, 0).await
}

/// Merges a change into the status of an item, based on its current version.
async fn interrupt(case: &Case<'_>, name: &str, change: &Value) -> Result<()> {
    let parameters = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(change);
    case.api::<DeployItem>().patch_status(name, &parameters, &patch).await?;
    Ok(())
}

/// Creates an account of the cluster with all rights on Deployments of a namespace except `watch`.
pub(crate) async fn without_watch(cluster: &TargetCluster, namespace: &str) -> Result<Value> {
    let folder = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}});
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    cluster.create(&accounts, &account).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "create", "update", "patch", "delete"]}],
    });
    cluster.create(&format!("{folder}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
    });
    cluster.create(&format!("{folder}/rolebindings"), &binding).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = cluster.create(&format!("{accounts}/deployer/token"), &request).await?;
    let mut config = cluster.kubeconfig()?;
    config["users"][0]["user"] = json!({"token": token["status"]["token"]});
    Ok(config)
}

/// Without the right to watch, the deployer polls with pauses. It checks for the right now and
/// then, not with each poll.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_without_the_right_to_watch_looks() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "unwatched").await?, cluster().await?);
    cluster.plane.create_namespace("unwatched").await?;
    let account: Kubeconfig = serde_json::from_value(without_watch(&cluster, "unwatched").await?)?;
    let account = Config::from_custom_kubeconfig(account, &KubeConfigOptions::default()).await?;
    let front = Front::start(Client::try_from(account)?).await?;
    create_target(&case, &cluster, "dev", &front).await?;
    let manifests = json!({"manifests": [{"manifest": deployment("unwatched", "web")}]});
    create_item(&case, "web", "dev", &manifests).await?;
    give_job(&case, "web", "1").await?;
    let path = address("unwatched", "web");
    wait_for("the item has looked several times", PATIENCE, async || {
        let asked = front.asked();
        if reads(&asked, &path).len() >= 5 { Ok(()) } else { Err(format!("{asked:#?}")) }
    })
    .await?;
    set_ready(&cluster, "unwatched", "web").await?;
    succeeded(&job_over(&case, "web", "1").await?)?;
    let asked = front.asked();
    let (watches, looks) = (asked.iter().filter(|one| one.is_watch()), reads(&asked, &path).len());
    let watches: Vec<&Asked> = watches.collect();
    // The right is checked once a minute.
    let is_seldom = !watches.is_empty() && watches.len() * 3 <= looks;
    ensure!(is_seldom && watches.iter().all(|one| one.status == 403), "{looks} looks: {watches:#?}");
    Ok(())
}

/// A release waits by watches for its hooks, then for its objects by the table of kinds, and
/// finally for their deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_waits_by_watches() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "watching-charts").await?, cluster().await?);
    let namespace = "watching-charts";
    cluster.plane.create_namespace(namespace).await?;
    let front = Front::start(cluster.plane.client().await?).await?;
    create_target(&case, &cluster, "dev", &front).await?;
    let pod = "spec: {restartPolicy: Never, containers: [{name: a, image: a}]}";
    let hook = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: before, annotations: {{helm.sh/hook: pre-install}}}}\nspec: {{template: {{{pod}}}}}\n"
    );
    let web = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\n\
         spec: {{selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, {}}}}}\n",
        "spec: {containers: [{name: a, image: a}]}"
    );
    let chart = chart("0.1.0", &[("templates/hook.yaml", &hook), ("templates/web.yaml", &web)])?;
    let config =
        json!({"helmDeploymentConfig": {"install": {"wait": true}}, "readinessChecks": {"rules": "kinds"}});
    case.create::<DeployItem>("release", &item(&case, &chart, namespace, &config)).await?;
    give_job(&case, "release", "1").await?;

    let stage = async |what: &str| {
        let is_of =
            |asked: &[Asked]| asked.last().is_some_and(|one| one.is_watch() && one.path.contains(what));
        wait_for(&format!("{what} are watched"), PATIENCE, async || {
            let asked = front.asked();
            if front.watches() == 1 && is_of(&asked) { Ok(asked.len()) } else { Err(format!("{asked:#?}")) }
        })
        .await
    };
    let job = format!("/apis/batch/v1/namespaces/{namespace}/jobs/before");
    let before = stage("/jobs?").await?;
    until_renewed(&case, "release").await?;
    ensure!(front.asked().len() == before, "{:#?}", front.asked().split_off(before));
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions: Vec<Value> = ["SuccessCriteriaMet", "Complete"]
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}))
        .collect();
    let status = json!({"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions});
    cluster.change(&format!("{job}/status"), &json!({"status": status})).await?;

    // The controller of the Deployment has to observe it first. After that its ReplicaSet
    // determines the readiness.
    stage("/deployments?").await?;
    set_ready(&cluster, namespace, "web").await?;
    let before = stage("/replicasets?").await?;
    let live = cluster.get(&address(namespace, "web")).await?.context("the Deployment is there")?;
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": live["metadata"]["uid"], "controller": true}]},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": live["spec"]["template"]}});
    let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    cluster.create(&sets, &set).await?;
    ensure!(front.asked().len() == before, "{:#?}", front.asked().split_off(before));
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}});
    cluster.change(&format!("{sets}/web-1/status"), &status).await?;
    succeeded(&job_over(&case, "release", "1").await?)?;
    let records = records(&cluster, namespace).await?;
    ensure!(records.last().is_some_and(|(_, status, _)| status == "deployed"), "the release is not deployed");
    until_watches(&front, 0).await
}

/// If a server reports that it is busy, all items of its Target pause for the requested time. Then
/// they proceed, and the job ends with the usual result.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_left_alone() -> Result<()> {
    const REST: u64 = 5;
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "resting").await?, cluster().await?);
    cluster.plane.create_namespace("resting").await?;
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "resting"}});
    create_manifest_and_release(&case, &config_map).await?;
    for (job, name, status) in [("1", "objects", 429), ("1", "release", 503), ("2", "release", 429)] {
        // A new front makes the deployer use a new client, which has sent no request yet.
        let front = Front::start(cluster.plane.client().await?).await?;
        set_target(&case, &cluster, &front).await?;
        front.refuse_next(status, REST);
        give_job(&case, name, job).await?;
        let waits = case
            .until("the rest is told", name, |item: &DeployItem| {
                outcome(item).1.contains(&format!("asked for a pause of {REST} s (Retry-After)"))
                    || item
                        .status
                        .as_ref()
                        .is_some_and(|status| status.job_id_finished.as_deref() == Some(job))
            })
            .await?;
        ensure!(outcome(&waits).1.contains("Retry-After"), "{name}: {:?}", outcome(&waits));
        let asked = front.asked();
        ensure!(asked.len() == 1 && asked[0].status == status, "{asked:#?}");
        succeeded(&job_over(&case, name, job).await?)?;
        let times: Vec<Instant> = front.asked().iter().map(|one| one.at).collect();
        let pause = times[1] - times[0];
        ensure!(pause >= Duration::from_secs(REST), "{name}: asked again after {pause:?}");
    }
    Ok(())
}

async fn create_manifest_and_release(case: &Case<'_>, object: &Value) -> Result<()> {
    create_item(case, "objects", "dev", &json!({"manifests": [{"manifest": object}]})).await?;
    let release = item(case, &chart("0.1.0", &[])?, "resting", &json!({}));
    case.create::<DeployItem>("release", &release).await?;
    Ok(())
}

/// Replaces the Target's content.
async fn set_target(case: &Case<'_>, cluster: &TargetCluster, front: &Front) -> Result<()> {
    if case.api::<Target>().get_opt("dev").await?.is_some() {
        case.delete::<Target>("dev").await?;
    }
    create_target(case, cluster, "dev", front).await
}
