//! Charts in the cluster of a Target, as releases and without (`helm.md` 8 to 10).

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_api::{Context, DataObject, DeployItem, Installation};
use groundwork_testkit::{Registry, RegistryOptions, Server, find, servers_or_skip};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::outcome as outcome_of;
use crate::target_cluster::{TargetCluster, cluster, give_job, job_over, outcome, run_job};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  color: {{ .Values.color }}\n";

/// Packs a chart for `chart.archive.raw`.
pub(crate) fn archive(files: &[(&str, &str)]) -> Result<String> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("web/{path}"), text.as_bytes())?;
    }
    Ok(BASE64.encode(&builder.into_inner()?.finish()?))
}

/// Packs a chart with a colour and further templates.
pub(crate) fn chart(version: &str, templates: &[(&str, &str)]) -> Result<String> {
    let description = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    let mut files = vec![
        ("Chart.yaml", description.as_str()),
        ("values.yaml", "color: blue\n"),
        ("templates/config.yaml", CONFIG_MAP),
    ];
    files.extend(templates);
    archive(&files)
}

/// Returns a DeployItem of the helm type.
pub(crate) fn item(case: &Case<'_>, chart: &str, namespace: &str, more: &Value) -> Value {
    let mut config = json!({
        "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "chart": {"archive": {"raw": chart}}, "name": "shop", "namespace": namespace,
    });
    for (member, value) in more.as_object().into_iter().flatten() {
        config[member] = value.clone();
    }
    json!({"spec": {
        "type": "landscaper.gardener.cloud/helm", "target": {"name": "dev", "namespace": case.namespace}, "config": config,
    }})
}

async fn change(case: &Case<'_>, name: &str, chart: &str, namespace: &str, more: &Value) -> Result<()> {
    let config = item(case, chart, namespace, more)["spec"]["config"].clone();
    // A merge patch must set a member to null to remove it.
    let mut change = json!({"spec": {"config": config}});
    for member in ["values", "helmDeploymentConfig", "helmDeployment"] {
        if change["spec"]["config"].get(member).is_none() {
            change["spec"]["config"][member] = Value::Null;
        }
    }
    case.change::<DeployItem>(name, &change).await?;
    Ok(())
}

/// Returns revision, status and content of every record of the release.
pub(crate) async fn records(cluster: &TargetCluster, namespace: &str) -> Result<Vec<(i64, String, Value)>> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm,name%3Dshop");
    let list = cluster.get(&path).await?.unwrap_or_default();
    let mut found = Vec::new();
    for secret in list["items"].as_array().into_iter().flatten() {
        let data = BASE64.decode(secret["data"]["release"].as_str().unwrap_or_default().as_bytes())?;
        let packed = BASE64.decode(&data)?;
        let record: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed.as_slice()))?;
        let labels = &secret["metadata"]["labels"];
        ensure!(labels["status"] == record["info"]["status"], "{labels}: {}", record["info"]);
        let version = record["version"].to_string();
        ensure!(labels["version"].as_str() == Some(version.as_str()), "{labels}");
        let status = record["info"]["status"].as_str().unwrap_or_default().to_owned();
        found.push((record["version"].as_i64().unwrap_or_default(), status, record));
    }
    found.sort_by_key(|(revision, ..)| *revision);
    Ok(found)
}

fn states(records: &[(i64, String, Value)]) -> Vec<(i64, &str)> {
    records.iter().map(|(revision, status, _)| (*revision, status.as_str())).collect()
}

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// A release from its first revision to its end: the item creates the namespace and exports values.
/// A job without changes writes nothing and adds no revision, changed values add one, and drift is
/// repaired. After the deletion only the namespace is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_lives() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "charts").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let more = (
        "templates/more.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: more}\nspec: {ports: [{port: 80}]}\n",
    );
    let first = chart("0.1.0", &[more])?;
    let exports = json!({"exports": [
        {"key": "color", "jsonPath": ".Values.color"},
        {"key": "data.live", "jsonPath": ".data.color",
            "fromResource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "shop-config", "namespace": "charts-target"}},
    ]});
    let said = json!({"createNamespace": true, "values": {"color": "red"}, "exports": exports});
    case.create::<DeployItem>("web", &item(&case, &first, "charts-target", &said)).await?;
    let found = run_job(&case, "web", "1").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let reads = cluster.requests("charts-target/configmaps/shop-config")?;
    let reads = reads.iter().filter(|(verb, _)| verb == "get").count();
    ensure!(reads == 1, "an install has read an object {reads} times");
    let config = cluster.get(&address("charts-target", "shop-config")).await?.context("the ConfigMap")?;
    ensure!(config["data"] == json!({"color": "red"}), "{config}");
    ensure!(config["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", "{config}");
    ensure!(config["metadata"]["annotations"]["meta.helm.sh/release-name"] == "shop", "{config}");
    let records_now = records(&cluster, "charts-target").await?;
    ensure!(states(&records_now) == [(1, "deployed")], "{:?}", states(&records_now));
    let record = &records_now[0].2;
    ensure!(
        record["config"] == json!({"color": "red"}) && record["info"]["description"] == "Install complete",
        "{}",
        record["info"]
    );
    let secret = case.get::<Secret>("web-export").await?;
    let exported = secret.data.unwrap_or_default().remove("config").map(|bytes| bytes.0).unwrap_or_default();
    let exported: Value = serde_json::from_slice(&exported)?;
    ensure!(exported == json!({"color": "red", "data": {"live": "red"}}), "{exported}");

    let before = cluster.requests("charts-target")?.len();
    let found = run_job(&case, "web", "2").await?;
    ensure!(outcome(&found).0 == "Succeeded", "{:?}", outcome(&found));
    let new = cluster.requests("charts-target")?.split_off(before);
    ensure!(new.iter().all(|(verb, _)| verb == "get" || verb == "list"), "{new:?}");
    let drift = json!({"data": {"color": "drift"}});
    cluster.change(&address("charts-target", "shop-config"), &drift).await?;
    run_job(&case, "web", "3").await?;
    let config = cluster.get(&address("charts-target", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"] == json!({"color": "red"}), "{config}");
    ensure!(
        states(&records(&cluster, "charts-target").await?) == [(1, "deployed")],
        "a job without a change made a revision"
    );

    change(
        &case,
        "web",
        &chart("0.2.0", &[])?,
        "charts-target",
        &json!({"createNamespace": true, "exports": exports}),
    )
    .await?;
    let found = run_job(&case, "web", "4").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let records_now = records(&cluster, "charts-target").await?;
    ensure!(states(&records_now) == [(1, "superseded"), (2, "deployed")], "{:?}", states(&records_now));
    ensure!(records_now[1].2.get("config").is_none(), "empty values are empty (R11)");
    let config = cluster.get(&address("charts-target", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"] == json!({"color": "blue"}), "{config}");
    ensure!(
        cluster.get("/api/v1/namespaces/charts-target/services/more").await?.is_none(),
        "what has left the chart is there"
    );

    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "5").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(records(&cluster, "charts-target").await?.is_empty(), "records are left");
    ensure!(cluster.get(&address("charts-target", "shop-config")).await?.is_none(), "an object is left");
    ensure!(cluster.get("/api/v1/namespaces/charts-target").await?.is_some(), "the namespace is gone");
    Ok(())
}

/// L3, L4 and L5: an item takes objects of other owners only if it says so. A failed revision
/// leaves the earlier one deployed, and `atomic` restores it.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_taken_back_or_told() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "failing-charts").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("failing").await?;
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop-config"}, "data": {"foreign": "yes"}});
    cluster.create("/api/v1/namespaces/failing/configmaps", &foreign).await?;
    let good = chart("0.1.0", &[])?;
    case.create::<DeployItem>("web", &item(&case, &good, "failing", &json!({}))).await?;
    let found = run_job(&case, "web", "1").await?;
    ensure!(
        outcome(&found)
            .1
            .contains("exists and cannot be imported into the current release: invalid ownership metadata"),
        "{:?}",
        outcome(&found)
    );
    ensure!(records(&cluster, "failing").await?.is_empty(), "something was written before all was checked");
    let taking = json!({"helmDeploymentConfig": {"install": {"takeOwnership": true}}});
    change(&case, "web", &good, "failing", &taking).await?;
    let found = run_job(&case, "web", "1b").await?;
    ensure!(outcome(&found).0 == "Succeeded", "{:?}", outcome(&found));
    let config = cluster.get(&address("failing", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"] == json!({"color": "blue", "foreign": "yes"}), "{config}");

    // The API server rejects the second object.
    let bad = chart(
        "0.2.0",
        &[(
            "templates/z.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 99999}]}\n",
        )],
    )?;
    change(&case, "web", &bad, "failing", &json!({"values": {"color": "green"}})).await?;
    let found = run_job(&case, "web", "2").await?;
    let (phase, error) = outcome(&found);
    ensure!(
        phase == "Failed" && error.contains("unable to upgrade") && !error.contains("99999"),
        "{phase} {error}"
    );
    let records_now = records(&cluster, "failing").await?;
    ensure!(states(&records_now) == [(1, "deployed"), (2, "failed")], "{:?}", states(&records_now));
    change(&case, "web", &good, "failing", &json!({"values": {"color": "white"}})).await?;
    let found = run_job(&case, "web", "2b").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let records_now = records(&cluster, "failing").await?;
    ensure!(
        states(&records_now) == [(1, "superseded"), (2, "failed"), (3, "deployed")],
        "{:?}",
        states(&records_now)
    );

    let atomic = json!({"values": {"color": "black"}, "helmDeploymentConfig": {"upgrade": {"atomic": true}}});
    change(&case, "web", &bad, "failing", &atomic).await?;
    let found = run_job(&case, "web", "3").await?;
    ensure!(
        outcome(&found).0 == "Failed" && outcome(&found).1.contains("rolled back"),
        "{:?}",
        outcome(&found)
    );
    let records_now = records(&cluster, "failing").await?;
    ensure!(
        states(&records_now)
            == [(1, "superseded"), (2, "failed"), (3, "superseded"), (4, "failed"), (5, "deployed")],
        "{:?}",
        states(&records_now)
    );
    let config = cluster.get(&address("failing", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"]["color"] == "white", "{config}");

    // A chart that can never be rendered fails at once.
    let broken = chart("0.3.0", &[("templates/a.yaml", "{{ fail \"no such luck\" }}")])?;
    change(&case, "web", &broken, "failing", &json!({})).await?;
    let found = run_job(&case, "web", "4").await?;
    ensure!(
        outcome(&found).0 == "Failed" && outcome(&found).1.contains("no such luck"),
        "{:?}",
        outcome(&found)
    );
    Ok(())
}

/// L1: hooks run before and after the release, each by its policies. The release waits for a hook's
/// Job, and fails if the Job fails.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_run() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "hooks").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("hooks").await?;
    let hook = |name: &str, kind: &str, events: &str, policy: &str, spec: &str| {
        format!(
            "apiVersion: {}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    helm.sh/hook: {events}\n    \
             helm.sh/hook-delete-policy: {policy}\n{spec}",
            if kind == "Job" { "batch/v1" } else { "v1" }
        )
    };
    let spec = "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    let before =
        hook("before", "ConfigMap", "pre-install,pre-delete", "before-hook-creation", "data: {a: b}\n");
    let job = hook("job", "Job", "post-install", "hook-succeeded", spec);
    let templates = [("templates/before.yaml", before.as_str()), ("templates/job.yaml", job.as_str())];
    case.create::<DeployItem>("web", &item(&case, &chart("0.1.0", &templates)?, "hooks", &json!({}))).await?;
    give_job(&case, "web", "1").await?;
    let path = "/apis/batch/v1/namespaces/hooks/jobs/job";
    cluster.until("the job is there", path, |found| found.is_some()).await?;
    ensure!(cluster.get(&address("hooks", "before")).await?.is_some(), "the hook before did not run");
    ensure!(
        cluster.get(&address("hooks", "shop-config")).await?.is_some(),
        "the release comes before its last hooks"
    );
    let found = case.get::<DeployItem>("web").await?;
    ensure!(outcome(&found).0 != "Succeeded", "{:?}", outcome(&found));
    let complete = json!({"status": {
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "succeeded": 1, "uncountedTerminatedPods": {},
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        ],
    }});
    cluster.change(&format!("{path}/status"), &complete).await?;
    let found = job_over(&case, "web", "1").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    ensure!(cluster.get(path).await?.is_none(), "a hook that succeeded was to go");
    let records_now = records(&cluster, "hooks").await?;
    let phases: Vec<_> = records_now[0].2["hooks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|hook| hook["last_run"]["phase"].clone())
        .collect();
    ensure!(phases == ["Succeeded", "Succeeded"], "{phases:?}");
    // The pre-delete hook runs again, although the same hook ran before the installation.
    let old = cluster.get(&address("hooks", "before")).await?.unwrap_or_default();
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "2").await?;
    case.gone::<DeployItem>("web").await?;
    let new = cluster.get(&address("hooks", "before")).await?.context("hooks stay")?;
    ensure!(new["metadata"]["uid"] != old["metadata"]["uid"], "the hook did not run again");
    ensure!(cluster.get(&address("hooks", "shop-config")).await?.is_none(), "an object is left");
    Ok(())
}

/// Without releases: the item deploys only the objects, with definitions and namespace. An item
/// that changes its mode keeps its objects (R27b).
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_rendered_and_applied() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "render-only").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: wheels.render.example.org}\nspec:\n  \
               group: render.example.org\n  scope: Namespaced\n  names: {plural: wheels, singular: wheel, kind: Wheel, listKind: WheelList}\n  \
               versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, \
               x-kubernetes-preserve-unknown-fields: true}}}\n";
    let wheel = "apiVersion: render.example.org/v1\nkind: Wheel\nmetadata: {name: one}\nspec: {of: {{ .Capabilities.KubeVersion.Version | quote }}}\n";
    let with_crd = chart("0.1.0", &[("crds/wheel.yaml", crd), ("templates/wheel.yaml", wheel)])?;
    let said = json!({"createNamespace": true, "helmDeployment": false});
    case.create::<DeployItem>("web", &item(&case, &with_crd, "rendered", &said)).await?;
    let found = run_job(&case, "web", "1").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let wheel = "/apis/render.example.org/v1/namespaces/rendered/wheels/one";
    let made = cluster.get(wheel).await?.unwrap_or_default();
    ensure!(made["spec"]["of"].as_str().is_some_and(|version| version.starts_with("v1.")), "{made}");
    ensure!(records(&cluster, "rendered").await?.is_empty(), "nobody keeps a release");
    let config = cluster.get(&address("rendered", "shop-config")).await?.unwrap_or_default();
    ensure!(
        config["metadata"]["labels"]["helm.deployer.landscaper.gardener.cloud/deployitem"] == "web",
        "{config}"
    );

    change(&case, "web", &with_crd, "rendered", &json!({"createNamespace": true})).await?;
    let found = run_job(&case, "web", "2").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    ensure!(
        states(&records(&cluster, "rendered").await?) == [(1, "deployed")],
        "{:?}",
        records(&cluster, "rendered").await?
    );
    let same = cluster.get(&address("rendered", "shop-config")).await?.unwrap_or_default();
    ensure!(same["metadata"]["uid"] == config["metadata"]["uid"], "the object was made anew");
    // The job deletes the release records at its end, however many rounds it takes.
    let waiting = json!({"createNamespace": true, "helmDeployment": false, "exports": {"exports": [{"key": "late", "jsonPath": ".data.a",
        "fromResource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "late", "namespace": "rendered"}}]}});
    change(&case, "web", &with_crd, "rendered", &waiting).await?;
    give_job(&case, "web", "3").await?;
    case.until("it waits", "web", |item: &DeployItem| outcome(item).0 == "Progressing").await?;
    ensure!(!records(&cluster, "rendered").await?.is_empty(), "the records went before the end");
    let late =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"a": "b"}});
    cluster.create("/api/v1/namespaces/rendered/configmaps", &late).await?;
    let found = job_over(&case, "web", "3").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    ensure!(records(&cluster, "rendered").await?.is_empty(), "the records are left");
    let same = cluster.get(&address("rendered", "shop-config")).await?.unwrap_or_default();
    ensure!(same["metadata"]["uid"] == config["metadata"]["uid"], "the object was made anew");
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "4").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(cluster.get(&address("rendered", "shop-config")).await?.is_none(), "an object is left");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/wheels.render.example.org";
    cluster.until("the definition goes with the item", definition, |found| found.is_none()).await?;
    Ok(())
}

/// A release without changes that is not ready is rendered once per job, however many rounds the
/// job waits.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_not_rendered_again() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "unready-charts").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("unready").await?;
    let probe = (
        "templates/probe.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: probed}\ndata: {found: \"{{ len (lookup \"v1\" \"ConfigMap\" .Release.Namespace \
         \"elsewhere\") }}\"}\n",
    );
    let deployment = (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    \
         metadata: {labels: {app: web}}\n    spec: {containers: [{name: a, image: a}]}\n",
    );
    let chart = chart("0.1.0", &[probe, deployment])?;
    let mut object = item(&case, &chart, "unready", &json!({}));
    object["spec"]["timeout"] = json!("5s");
    case.create::<DeployItem>("web", &object).await?;
    let (_, error) = outcome(&run_job(&case, "web", "1").await?);
    ensure!(error.contains("of type Deployment"), "{error}");
    let count = |part: &str| -> Result<usize> { Ok(cluster.requests(part)?.len()) };
    let before = (count("unready/configmaps/elsewhere")?, count("unready/deployments/web")?);
    let (_, error) = outcome(&run_job(&case, "web", "2").await?);
    ensure!(error.contains("of type Deployment"), "{error}");
    let after = (count("unready/configmaps/elsewhere")?, count("unready/deployments/web")?);
    let (rendered, rounds) = (after.0 - before.0, after.1 - before.1);
    ensure!(rounds > 1, "there were {rounds} rounds");
    ensure!(rendered == 1, "it was rendered {rendered} times in {rounds} rounds");
    Ok(())
}

/// Charts come from a registry with authentication by the pull secrets of the Context, and from an
/// HTTP chart repository with its own credentials. An item waits for a missing chart, and no
/// message contains credentials.
#[tokio::test(flavor = "multi_thread")]
async fn charts_come_from_registries_and_repositories() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let (case, cluster) = (Case::new(system, "chart-sources").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("sources").await?;
    let options = RegistryOptions { htpasswd: Some(HTPASSWD.to_owned()), tls: None };
    let registry = Registry::start(&options).await?;
    let layer = BASE64.decode(chart("0.1.0+a", &[])?.as_bytes())?;
    let content = ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", layer.as_slice());
    registry.push_artifact("charts/web", "0.1.0_a", content, Some(&basic()))?;
    let auth = json!({"auths": {registry.address(): {"auth": BASE64.encode(LOGIN.as_bytes())}}});
    case.create::<Secret>("pull", &json!({"stringData": {".dockerconfigjson": auth.to_string()}, "type": "kubernetes.io/dockerconfigjson"})).await?;
    let repository =
        Repository::start("web", "1.2.0", &BASE64.decode(chart("1.2.0", &[])?.as_bytes())?).await?;
    let credentials = json!({"auths": [
        {"url": "http://elsewhere.example.org", "authHeader": "Basic canary"},
        {"url": repository.url, "secretRef": {"name": "repository", "key": "header"}},
    ]});
    case.create::<Secret>("repository", &json!({"stringData": {"header": basic()}})).await?;
    case.create::<Context>(
        "charts",
        &json!({"registryPullSecrets": [{"name": "pull"}],
        "configurations": {"helmChartRepoCredentials": credentials}}),
    )
    .await?;
    let by_reference = json!({"ref": format!("{}/charts/web:0.1.0+a", registry.address())});
    let by_repository = json!({"helmChartRepo": {
        "helmChartRepoUrl": repository.url, "helmChartName": "web", "helmChartVersion": "^1.0.0"}});
    let by_address =
        json!({"archive": {"remote": {"url": format!("{}/public/web-1.2.0.tgz", repository.url)}}});
    for (name, source, version) in [
        ("ref", by_reference, "0.1.0+a"),
        ("repository", by_repository, "1.2.0"),
        ("address", by_address, "1.2.0"),
    ] {
        let mut object = item(&case, "", "sources", &json!({"chart": source, "name": name}));
        object["spec"]["context"] = json!("charts");
        case.create::<DeployItem>(name, &object).await?;
        let found = run_job(&case, name, "1").await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
        let status = found.status.unwrap_or_default().provider_status.get().cloned().unwrap_or_default();
        ensure!(status["releases"][0]["chartVersion"] == version, "{status}");
    }

    // Without the Context, the servers reject each request, and the message names the credentials
    // that the deployer sent.
    for (name, source, part) in [
        ("refused", json!({"ref": format!("{}/charts/web:0.1.0+a", registry.address())}), "denied"),
        ("unknown", json!({"ref": format!("{}/charts/web", registry.address())}), "no tag specified"),
        ("nothing", json!({"resourceRef": "a"}), "chart.resourceRef: it is not valid base64"),
        (
            "other",
            json!({"archive": {"remote": {"url": format!("{}/public/none.tgz", repository.url)}}}),
            "404",
        ),
    ] {
        let mut object = item(&case, "", "sources", &json!({"chart": source, "name": name}));
        object["spec"]["timeout"] = json!("1s");
        case.create::<DeployItem>(name, &object).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(phase == "Failed" && error.contains(part), "{name}: {phase} {error}");
        ensure!(!error.contains("canary") && !error.contains(LOGIN), "{error}");
    }
    Ok(())
}

/// The example that deploys the shop works as its page describes: it deploys to its own cluster,
/// with a service account that the Target names.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_deploys() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    system.kubectl(&["apply", "-f", "examples/deploy/access"]).await?;
    system.kubectl(&["apply", "-f", "examples/deploy"]).await?;
    let case = Case::existing(system, "deploy").await?;
    for name in ["shop", "monitor"] {
        let installation = case.finished(name).await?;
        ensure!(outcome_of(&installation).0 == "Succeeded", "{name}: {:?}", outcome_of(&installation));
    }
    let url = case.get::<DataObject>("shop-url").await?;
    ensure!(url.data.get() == Some(&json!("https://www.shop.example.org")), "{url:?}");
    let text = async |name: &str, key: &str| -> Result<String> {
        let found = case.get::<ConfigMap>(name).await?;
        found.data.and_then(|mut data| data.remove(key)).with_context(|| format!("{name} has no {key}"))
    };
    let page = text("web-page", "index.html").await?;
    ensure!(page == "2 servers on database.deploy.svc:5432, says revision 1.\n", "{page}");
    ensure!(text("monitor", "probes").await? == "https://www.shop.example.org/healthz", "the monitor");
    case.get::<ConfigMap>("database-settings").await?;

    case.delete::<Service>("web").await?;
    case.reconcile("shop").await?;
    case.get::<Service>("web").await?;
    let unchanged = text("web-page", "index.html").await?;
    ensure!(unchanged == page, "a job that changes nothing made a revision: {unchanged}");

    case.change::<DataObject>("shop-settings", &json!({"data": {"domain": "test.example.org"}})).await?;
    case.reconcile("shop").await?;
    let page = text("web-page", "index.html").await?;
    ensure!(page.contains("says revision 2"), "{page}");
    case.reconcile("monitor").await?;
    ensure!(
        text("monitor", "probes").await? == "https://www.test.example.org/healthz",
        "the monitor after it"
    );

    for name in ["monitor", "shop"] {
        case.delete::<Installation>(name).await?;
    }
    for name in ["monitor", "shop"] {
        case.gone::<Installation>(name).await?;
    }
    for gone in ["web-page", "database-settings", "monitor"] {
        case.gone::<ConfigMap>(gone).await?;
    }
    Ok(())
}

/// User and password of the registry and of the repository.
const LOGIN: &str = "reader:secret";
/// The same user and password in the format of the registry.
const HTPASSWD: &str = "reader:$2b$04$/uaF/uaF/uaF/uaF/uaF/uyUa5B4sNev9rTvA6TvEBWYO4koffwMy\n";

pub(crate) fn basic() -> String {
    format!("Basic {}", BASE64.encode(LOGIN.as_bytes()))
}

/// Chart repository that requires a password, except for public charts.
pub(crate) struct Repository {
    pub(crate) url: String,
}

impl Repository {
    pub(crate) async fn start(name: &str, version: &str, archive: &[u8]) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let index = format!(
            "apiVersion: v1\nentries:\n  {name}:\n  - {{name: {name}, version: {version}, urls: [charts/{name}-{version}.tgz]}}\n"
        );
        let (path, archive) = (format!("/{name}-{version}.tgz"), archive.to_vec());
        let answer = move |request: axum::extract::Request| {
            let is_let_in =
                request.headers().get("authorization").is_some_and(|header| header == basic().as_str());
            let wanted = request.uri().path().to_owned();
            let answer = match wanted.as_str() {
                public if public == format!("/public{path}") => (200, archive.clone()),
                other if other.starts_with("/public") => (404, Vec::new()),
                _ if !is_let_in => (401, Vec::new()),
                "/index.yaml" => (200, index.clone().into_bytes()),
                other if other == format!("/charts{path}") => (200, archive.clone()),
                _ => (404, Vec::new()),
            };
            async move { (http::StatusCode::from_u16(answer.0).unwrap_or_default(), answer.1) }
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url })
    }
}

/// L9 and `helm.md` 16, item 6: Helm's client lists, shows and rolls back a release of ours, and an
/// item upgrades it afterwards. An item upgrades a release that the client made, and installs a
/// release again that the client removed, as a first revision.
#[tokio::test(flavor = "multi_thread")]
async fn the_ordinary_client_and_the_deployer_share_releases() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    if !servers_or_skip(&[Server::Helm]) {
        return Ok(());
    }
    let (case, cluster) = (Case::new(system, "shared-releases").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("shared-releases").await?;
    let helm = async |arguments: &[&str]| helm(&cluster, "shared-releases", arguments).await;
    let notes = ("templates/NOTES.txt", "Enjoy {{ .Release.Name }}.");
    let first = chart("0.1.0", &[notes])?;
    case.create::<DeployItem>(
        "web",
        &item(&case, &first, "shared-releases", &json!({"values": {"color": "red"}})),
    )
    .await?;
    run_job(&case, "web", "1").await?;
    ensure!(helm(&["list"]).await? == json!(["shop 1 deployed"]), "{}", helm(&["list"]).await?);
    let status = helm(&["status", "shop"]).await?;
    ensure!(status["chart"] == "web-0.1.0" && status["notes"] == "Enjoy shop.", "{status}");
    ensure!(
        helm(&["values", "shop"]).await? == json!({"color": "red"}),
        "{}",
        helm(&["values", "shop"]).await?
    );
    ensure!(helm(&["manifest", "shop"]).await?.as_str().is_some_and(|text| text.contains("color: red")));

    // A second revision by the item, a rollback by the client, and a third revision by the item,
    // which takes back the fields that the client changed.
    change(&case, "web", &first, "shared-releases", &json!({"values": {"color": "green"}})).await?;
    run_job(&case, "web", "2").await?;
    helm(&["rollback", "shop", "1"]).await?;
    let config = cluster.get(&address("shared-releases", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"] == json!({"color": "red"}), "{config}");
    let found = run_job(&case, "web", "3").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let config = cluster.get(&address("shared-releases", "shop-config")).await?.unwrap_or_default();
    ensure!(config["data"] == json!({"color": "green"}), "{config}");
    let history = helm(&["history", "shop"]).await?;
    ensure!(history == json!(["1 superseded", "2 superseded", "3 superseded", "4 deployed"]), "{history}");
    helm(&["upgrade", "shop", &chart("0.3.0", &[])?, "{\"color\": \"white\"}"]).await?;
    helm(&["uninstall", "shop"]).await?;
    ensure!(
        cluster.get(&address("shared-releases", "shop-config")).await?.is_none(),
        "the client left an object"
    );
    run_job(&case, "web", "4").await?;
    ensure!(helm(&["list"]).await? == json!(["shop 1 deployed"]), "{}", helm(&["list"]).await?);
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "5").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(helm(&["list"]).await? == json!([]), "{}", helm(&["list"]).await?);

    // A release made by the client: the upgrade removes a field that the chart no longer has,
    // although the client is its field manager (R17).
    let theirs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {kept: a, gone: b}\n";
    let ours = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {kept: a}\n";
    helm(&["install", "shop", &chart("0.1.0", &[("templates/two.yaml", theirs)])?, "{}"]).await?;
    let next = chart("0.2.0", &[("templates/two.yaml", ours)])?;
    case.create::<DeployItem>("taken", &item(&case, &next, "shared-releases", &json!({"adopt": true})))
        .await?;
    let found = run_job(&case, "taken", "1").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    let two = cluster.get(&address("shared-releases", "two")).await?.unwrap_or_default();
    ensure!(two["data"] == json!({"kept": "a"}), "{two}");
    let history = helm(&["history", "shop"]).await?;
    ensure!(history == json!(["1 superseded", "2 deployed"]), "{history}");
    Ok(())
}

/// Runs Helm's client and returns its answer.
pub(crate) async fn helm(cluster: &TargetCluster, namespace: &str, arguments: &[&str]) -> Result<Value> {
    let program = find(Server::Helm).map_err(|error| anyhow::anyhow!("{error}"))?.path;
    let mut command = tokio::process::Command::new(program);
    command.arg("client").arg(cluster.plane.kubeconfig()).arg(namespace).args(arguments);
    let output = command.output().await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {error}", arguments.first().copied().unwrap_or_default());
    if output.stdout.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(&output.stdout)?) }
}
