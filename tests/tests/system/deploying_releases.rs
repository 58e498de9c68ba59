//! Releases in the states in which users and programs leave them (`helm.md` 8 to 10 and 13.7).

use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_api::DeployItem;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{archive, chart, item, records};
use crate::shared;
use crate::target_cluster::{TargetCluster, cluster, give_job, job_over, outcome, run_job};

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

async fn states(cluster: &TargetCluster, namespace: &str) -> Result<Vec<String>> {
    let records = records(cluster, namespace).await?;
    Ok(records.into_iter().map(|(revision, status, _)| format!("{revision} {status}")).collect())
}

/// Changes only the values of an item.
async fn set_values(case: &Case<'_>, name: &str, values: Value) -> Result<()> {
    case.change::<DeployItem>(name, &json!({"spec": {"config": {"values": values}}})).await?;
    Ok(())
}

/// `helm.md` 16, item 9, and R39: if two items of one release start at the same time, one of them
/// installs it, and the other fails with the name of the first. The deletion of the second item
/// does not affect the release. That of the first one removes it.
#[tokio::test(flavor = "multi_thread")]
async fn two_items_of_one_release() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "one-release").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("one-release").await?;
    let chart = chart("0.1.0", &[])?;
    for name in ["left", "right"] {
        let said = item(&case, &chart, "one-release", &json!({"values": {"color": name}}));
        case.create::<DeployItem>(name, &said).await?;
    }
    tokio::try_join!(give_job(&case, "left", "1"), give_job(&case, "right", "1"))?;
    let mut found = Vec::new();
    for name in ["left", "right"] {
        found.push((name, outcome(&job_over(&case, name, "1").await?)));
    }
    found.sort_by(|left, right| right.1.0.cmp(&left.1.0));
    let [(winner, (first, _)), (loser, (second, error))] = &found[..] else { unreachable!("there are two") };
    ensure!(first == "Succeeded" && second == "Failed", "{found:?}");
    ensure!(
        error.contains(&format!("release shop is managed by DeployItem one-release/{winner}")),
        "{error}"
    );
    ensure!(
        states(&cluster, "one-release").await? == ["1 deployed"],
        "{:?}",
        states(&cluster, "one-release").await?
    );
    let object = cluster.get(&address("one-release", "shop-config")).await?.context("the ConfigMap")?;
    ensure!(object["data"]["color"] == *winner, "{object}");

    case.delete::<DeployItem>(loser).await?;
    give_job(&case, loser, "2").await?;
    case.gone::<DeployItem>(loser).await?;
    ensure!(states(&cluster, "one-release").await? == ["1 deployed"], "the release went with the wrong item");
    case.delete::<DeployItem>(winner).await?;
    give_job(&case, winner, "2").await?;
    case.gone::<DeployItem>(winner).await?;
    ensure!(states(&cluster, "one-release").await?.is_empty(), "records are left");
    ensure!(cluster.get(&address("one-release", "shop-config")).await?.is_none(), "an object is left");
    Ok(())
}

/// L7, R14, R18: objects with the policy `keep` stay. Other objects of the release are deleted,
/// except those that another release has taken. A post-delete hook that fails is reported and does
/// not block the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_uninstallation_leaves() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "uninstalled").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("uninstalled").await?;
    let map = |name: &str, policy: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/resource-policy: {policy}}}\n"
        )
    };
    let (kept, other) = (map("kept", "\" Keep \""), map("other", "other"));
    let taken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: taken}\n";
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: after, annotations: {helm.sh/hook: post-delete}}\n\
                spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    let templates = [
        ("templates/kept.yaml", kept.as_str()),
        ("templates/other.yaml", other.as_str()),
        ("templates/taken.yaml", taken),
        ("templates/hook.yaml", hook),
    ];
    case.create::<DeployItem>("web", &item(&case, &chart("0.1.0", &templates)?, "uninstalled", &json!({})))
        .await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    let of_another = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "another"}}});
    cluster.change(&address("uninstalled", "taken"), &of_another).await?;

    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "2").await?;
    let path = "/apis/batch/v1/namespaces/uninstalled/jobs/after";
    cluster.until("the hook runs", path, |found| found.is_some()).await?;
    let now = "2026-01-01T00:00:01Z";
    let failed = json!({"status": {"startTime": now, "failed": 1, "uncountedTerminatedPods": {}, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now},
    ]}});
    cluster.change(&format!("{path}/status"), &failed).await?;
    case.gone::<DeployItem>("web").await?;
    let warnings = case.warnings_with::<DeployItem>("web", "ChartWarning").await?;
    let told = |part: &str| warnings.iter().any(|(_, message)| message.contains(part));
    ensure!(
        told("uninstallation completed with 1 error(s): ") && told("job after failed: BackoffLimitExceeded"),
        "{warnings:?}"
    );
    ensure!(told("belongs to another release and was left"), "{warnings:?}");
    for (name, is_there) in [("kept", true), ("other", false), ("shop-config", false), ("taken", true)] {
        ensure!(cluster.get(&address("uninstalled", name)).await?.is_some() == is_there, "{name}");
    }
    ensure!(states(&cluster, "uninstalled").await?.is_empty(), "records are left");
    Ok(())
}

/// L2, R17: an upgrade restores fields of the chart that users changed, for built-in kinds and for
/// custom ones. Fields that users added stay.
#[tokio::test(flavor = "multi_thread")]
async fn drift_is_put_right() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "drift").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("drift").await?;
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: wheels.drift.example.org}\nspec:\n  \
               group: drift.example.org\n  scope: Namespaced\n  names: {plural: wheels, singular: wheel, kind: Wheel, listKind: WheelList}\n  \
               versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, \
               x-kubernetes-preserve-unknown-fields: true}}}\n";
    let wheel = "apiVersion: drift.example.org/v1\nkind: Wheel\nmetadata: {name: one}\nspec: {size: 1, color: {{ .Values.color }}}\n";
    let chart = chart("0.1.0", &[("crds/wheel.yaml", crd), ("templates/wheel.yaml", wheel)])?;
    case.create::<DeployItem>("web", &item(&case, &chart, "drift", &json!({"values": {"color": "red"}})))
        .await?;
    // The definition and its object are in one item.
    succeeded(&run_job(&case, "web", "1").await?)?;
    let wheel = "/apis/drift.example.org/v1/namespaces/drift/wheels/one";
    let by_hand = json!({"data": {"color": "drift", "extra": "x"}, "metadata": {"labels": {"mine": "yes"}}});
    for (job, values) in [("2", json!({"color": "red"})), ("3", json!({"color": "green"}))] {
        cluster.change(&address("drift", "shop-config"), &by_hand).await?;
        cluster.change(wheel, &json!({"spec": {"size": 7, "extra": "x"}})).await?;
        set_values(&case, "web", values.clone()).await?;
        succeeded(&run_job(&case, "web", job).await?)?;
        let object = cluster.get(&address("drift", "shop-config")).await?.context("the ConfigMap")?;
        ensure!(object["data"] == json!({"color": values["color"], "extra": "x"}), "{object}");
        ensure!(object["metadata"]["labels"]["mine"] == "yes", "{object}");
        let object = cluster.get(wheel).await?.context("the wheel")?;
        ensure!(object["spec"] == json!({"size": 1, "color": values["color"], "extra": "x"}), "{object}");
    }
    ensure!(
        states(&cluster, "drift").await? == ["1 superseded", "2 deployed"],
        "{:?}",
        states(&cluster, "drift").await?
    );
    // `force` replaces objects, so the additions of users are lost.
    let forced = json!({"values": {"color": "blue"}, "helmDeploymentConfig": {"upgrade": {"force": true}}});
    case.change::<DeployItem>("web", &json!({"spec": {"config": forced}})).await?;
    succeeded(&run_job(&case, "web", "forced").await?)?;
    let object = cluster.get(&address("drift", "shop-config")).await?.context("the ConfigMap")?;
    ensure!(object["data"] == json!({"color": "blue"}), "{object}");
    // CRDs stay after the deletion of the release.
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "4").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(cluster.get(wheel).await?.is_none(), "an object is left");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/wheels.drift.example.org";
    ensure!(cluster.get(definition).await?.is_some(), "the definition has gone with the release");
    Ok(())
}

/// L6, R26: a release that waits for a Deployment which never becomes ready fails at its own
/// timeout, which is shorter than the item's. With `atomic`, neither an object nor a record is
/// left.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_never_gets_ready() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "never-ready").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: web}}, \
               template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}\n";
    let chart = chart("0.1.0", &[("templates/web.yaml", web)])?;
    for (name, atomic, left) in [("plain", false, vec!["1 failed".to_owned()]), ("atomic", true, Vec::new())]
    {
        let namespace = format!("never-ready-{name}");
        cluster.plane.create_namespace(&namespace).await?;
        let install = json!({"wait": true, "atomic": atomic, "timeout": "2s"});
        let said = json!({"helmDeploymentConfig": {"install": install}});
        case.create::<DeployItem>(name, &item(&case, &chart, &namespace, &said)).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(phase == "Failed" && error.starts_with("ProgressingTimeout: "), "{name}: {phase} {error}");
        ensure!(error.contains("uninstalled due to atomic being set") == atomic, "{name}: {error}");
        ensure!(
            states(&cluster, &namespace).await? == left,
            "{name}: {:?}",
            states(&cluster, &namespace).await?
        );
        let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/web");
        ensure!(cluster.get(&deployment).await?.is_some() != atomic, "{name}: the Deployment");
    }
    Ok(())
}

/// Changes the status in the record of a revision as another client would, without our labels.
async fn set_status(
    cluster: &TargetCluster,
    namespace: &str,
    revision: i64,
    status: &str,
    begun: &str,
) -> Result<()> {
    let all = records(cluster, namespace).await?;
    let (.., mut record) = all.into_iter().find(|(found, ..)| *found == revision).context("the record")?;
    record["info"]["status"] = json!(status);
    record["info"]["last_deployed"] = json!(begun);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(record.to_string().as_bytes())?;
    let packed = BASE64.encode(BASE64.encode(&encoder.finish()?).as_bytes());
    let labels =
        json!({"status": status, "groundwork.dev/deployitem": null, "groundwork.dev/operation": null});
    let change = json!({"metadata": {"labels": labels}, "data": {"release": packed}});
    let path = format!("/api/v1/namespaces/{namespace}/secrets/sh.helm.release.v1.shop.v{revision}");
    cluster.change(&path, &change).await?;
    Ok(())
}

/// L8, R12, R13: an item proceeds from every state in which another client may have left the last
/// record, except from an operation that may still be in progress: it waits for that.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_others_left() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "left-records").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("left-records").await?;
    case.create::<DeployItem>("web", &item(&case, &chart("0.1.0", &[])?, "left-records", &json!({}))).await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    let long_ago = "2026-01-01T00:00:00Z";
    let mut expected = Vec::new();
    for (at, (status, after)) in [
        ("failed", "failed"),
        ("superseded", "superseded"),
        ("unknown", "unknown"),
        ("uninstalling", "uninstalling"),
        ("uninstalled", "uninstalled"),
        ("pending-install", "failed"),
        ("pending-upgrade", "failed"),
        ("pending-rollback", "failed"),
    ]
    .into_iter()
    .enumerate()
    {
        let revision = i64::try_from(at)? + 1;
        set_status(&cluster, "left-records", revision, status, long_ago).await?;
        let color = format!("color-{revision}");
        set_values(&case, "web", json!({"color": color})).await?;
        let found = run_job(&case, "web", &format!("after-{status}")).await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{status}: {:?}", outcome(&found));
        let object = cluster.get(&address("left-records", "shop-config")).await?.context("the ConfigMap")?;
        ensure!(object["data"]["color"] == color.as_str(), "{status}: {object}");
        expected.push(format!("{revision} {after}"));
        let mut now = expected.clone();
        now.push(format!("{} deployed", revision + 1));
        ensure!(
            states(&cluster, "left-records").await? == now,
            "{status}: {:?}",
            states(&cluster, "left-records").await?
        );
    }

    // Another client may be at work on the release: the item reports this, waits, and writes
    // nothing. Afterwards it proceeds.
    let now = jiff::Timestamp::now().to_string();
    set_status(&cluster, "left-records", 9, "pending-upgrade", &now).await?;
    give_job(&case, "web", "waits").await?;
    let busy = "another operation (install/upgrade/rollback) is in progress";
    case.until("it is told", "web", |item: &DeployItem| outcome(item).1.contains(busy)).await?;
    ensure!(
        states(&cluster, "left-records").await?.last().is_some_and(|last| last == "9 pending-upgrade"),
        "it was written"
    );
    set_status(&cluster, "left-records", 9, "deployed", &now).await?;
    succeeded(&job_over(&case, "web", "waits").await?)?;
    ensure!(
        states(&cluster, "left-records").await?.last().is_some_and(|last| last == "9 deployed"),
        "a revision too many"
    );
    Ok(())
}

/// `helm.md` 16, item 10: invalid values are rejected by the schema before any write, unless the
/// validation is off or there is no release. Lists are expanded in both modes. A deleted namespace
/// is created again (R35).
#[tokio::test(flavor = "multi_thread")]
async fn schemas_and_lists_in_both_modes() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "schemas").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let list = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {size: {{ .Values.size | quote }}}}\n\
                - {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: never.schemas.example.org}\n";
    let chart = archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        (
            "values.schema.json",
            "{\"properties\": {\"size\": {\"type\": \"string\", \"pattern\": \"^[0-9]+$\"}}}",
        ),
        ("templates/list.yaml", list),
    ])?;
    let broken = archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        (
            "values.schema.json",
            "{\"properties\": {\"size\": {\"type\": \"string\", \"pattern\": \"^[0-9]+$\"}}}",
        ),
        ("crds/never.yaml", crd),
        ("templates/list.yaml", list),
    ])?;
    let skipping =
        json!({"install": {"skipSchemaValidation": true}, "upgrade": {"skipSchemaValidation": true}});
    for (name, chart, size, more, error) in [
        ("checked", &broken, "canary", json!({}), Some("installRelease: ")),
        ("fitting", &chart, "7", json!({}), None),
        ("skipped", &chart, "canary", json!({"helmDeploymentConfig": skipping}), None),
        ("rendered", &chart, "canary", json!({"helmDeployment": false}), None),
    ] {
        let namespace = format!("schemas-{name}");
        let mut said = more.clone();
        said["createNamespace"] = json!(true);
        said["values"] = json!({"size": size});
        case.create::<DeployItem>(name, &item(&case, chart, &namespace, &said)).await?;
        let (phase, told) = outcome(&run_job(&case, name, "1").await?);
        let there = cluster.get(&address(&namespace, "one")).await?;
        if let Some(part) = error {
            ensure!(phase == "Failed" && told.starts_with(part), "{name}: {phase} {told}");
            ensure!(told.contains("does not match pattern '^[0-9]+$'") && !told.contains("canary"), "{told}");
            ensure!(
                cluster.get(&format!("/api/v1/namespaces/{namespace}")).await?.is_none(),
                "{name}: something was written"
            );
            let definition =
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/never.schemas.example.org";
            ensure!(cluster.get(definition).await?.is_none(), "R10: the definition was written");
            continue;
        }
        ensure!((phase.as_str(), told.as_str()) == ("Succeeded", ""), "{name}: {phase} {told}");
        ensure!(there.is_some_and(|there| there["data"]["size"] == size), "{name}");
        ensure!(cluster.get(&address(&namespace, "two")).await?.is_some(), "{name}");
        ensure!(states(&cluster, &namespace).await?.is_empty() == (name == "rendered"), "{name}");
        case.delete::<DeployItem>(name).await?;
        give_job(&case, name, "2").await?;
        case.gone::<DeployItem>(name).await?;
        ensure!(cluster.get(&address(&namespace, "two")).await?.is_none(), "{name}: an object is left");
    }
    Ok(())
}

/// R27, R33: an item whose release is renamed keeps the old release until the item itself is
/// deleted, and reports this. It does not install over a release in another storage driver, and
/// reports an unreadable record.
#[tokio::test(flavor = "multi_thread")]
async fn releases_of_other_names_and_drivers() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "renamed").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("renamed").await?;
    case.create::<DeployItem>("web", &item(&case, &chart("0.1.0", &[])?, "renamed", &json!({}))).await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    case.change::<DeployItem>("web", &json!({"spec": {"config": {"name": "store"}}})).await?;
    let found = run_job(&case, "web", "2").await?;
    succeeded(&found)?;
    let status = found.status.unwrap_or_default().provider_status.get().cloned().unwrap_or_default();
    let of = |at: usize| (status["releases"][at]["name"].clone(), status["releases"][at]["current"].clone());
    ensure!((of(0), of(1)) == ((json!("store"), json!(true)), (json!("shop"), json!(false))), "{status}");
    let warnings = case.warnings_with::<DeployItem>("web", "HelmReleaseAbandoned").await?;
    ensure!(warnings.iter().any(|(_, message)| message.contains("\"shop\"")), "{warnings:?}");
    for name in ["shop-config", "store-config"] {
        ensure!(cluster.get(&address("renamed", name)).await?.is_some(), "{name}");
    }
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "3").await?;
    case.gone::<DeployItem>("web").await?;
    for name in ["shop-config", "store-config"] {
        ensure!(cluster.get(&address("renamed", name)).await?.is_none(), "{name} is left");
    }
    ensure!(states(&cluster, "renamed").await?.is_empty(), "records are left");

    let record = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "sh.helm.release.v1.shop.v1", "labels": {"owner": "helm", "name": "shop", "status": "deployed", "version": "1"}}});
    cluster.create("/api/v1/namespaces/renamed/configmaps", &record).await?;
    let mut object = item(&case, &chart("0.1.0", &[])?, "renamed", &json!({}));
    object["spec"]["timeout"] = json!("1s");
    case.create::<DeployItem>("elsewhere", &object).await?;
    let (phase, error) = outcome(&run_job(&case, "elsewhere", "1").await?);
    ensure!(
        phase == "Failed" && error.contains("is stored in ConfigMaps by another storage driver of Helm"),
        "{phase} {error}"
    );
    ensure!(
        cluster.get(&address("renamed", "shop-config")).await?.is_none(),
        "it was installed all the same"
    );

    let labels = json!({"owner": "helm", "name": "torn", "status": "deployed", "version": "1"});
    let torn = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.torn.v1", "labels": labels}, "stringData": {"release": "no record"}});
    cluster.create("/api/v1/namespaces/renamed/secrets", &torn).await?;
    let mut object = item(&case, &chart("0.1.0", &[])?, "renamed", &json!({"name": "torn"}));
    object["spec"]["timeout"] = json!("1s");
    case.create::<DeployItem>("torn", &object).await?;
    let (phase, error) = outcome(&run_job(&case, "torn", "1").await?);
    ensure!(phase == "Failed" && error.contains("release: already exists"), "{phase} {error}");
    let warnings = case.warnings_with::<DeployItem>("torn", "ChartWarning").await?;
    ensure!(
        warnings.iter().any(|(_, message)| message.contains("sh.helm.release.v1.torn.v1")),
        "{warnings:?}"
    );
    Ok(())
}

/// R17: an item takes over a release of Landscaper's deployer (`helm.md` 10.4). Fields that its
/// chart no longer has are removed, although another manager wrote them.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_the_deployer_before() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "predecessor").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("predecessor").await?;
    let chart = chart("0.1.0", &[])?;
    case.create::<DeployItem>("before", &item(&case, &chart, "predecessor", &json!({}))).await?;
    succeeded(&run_job(&case, "before", "1").await?)?;
    let leave =
        json!({"metadata": {"annotations": {"landscaper.gardener.cloud/delete-without-uninstall": "true"}}});
    case.change::<DeployItem>("before", &leave).await?;
    case.delete::<DeployItem>("before").await?;
    give_job(&case, "before", "2").await?;
    case.gone::<DeployItem>("before").await?;
    set_status(&cluster, "predecessor", 1, "deployed", "2026-01-01T00:00:00Z").await?;
    // Create the object again as Landscaper's deployer wrote it.
    let mut object = cluster.get(&address("predecessor", "shop-config")).await?.context("the ConfigMap")?;
    cluster.delete(&address("predecessor", "shop-config")).await?;
    let metadata = json!({"name": "shop-config", "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]});
    object["metadata"] = metadata;
    object["data"]["gone"] = json!("x");
    let folder = "/api/v1/namespaces/predecessor/configmaps?fieldManager=helm-deployer-controller";
    cluster.create(folder, &object).await?;

    let path = "/api/v1/namespaces/predecessor/secrets";
    let name = "sh.helm.release.v1.shop.v1";
    let mut record = cluster.get(&format!("{path}/{name}")).await?.context("the record")?;
    cluster.delete(&format!("{path}/{name}")).await?;
    record["metadata"] = json!({"name": name, "labels": record["metadata"]["labels"]});
    cluster.create(&format!("{path}?fieldManager=helm-deployer-controller"), &record).await?;
    let said = item(&case, &chart, "predecessor", &json!({"values": {"color": "green"}}));
    case.create::<DeployItem>("web", &said).await?;
    leave_status(&case, "web", &json!([])).await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    ensure!(
        states(&cluster, "predecessor").await? == ["1 superseded", "2 deployed"],
        "{:?}",
        states(&cluster, "predecessor").await?
    );
    let object = cluster.get(&address("predecessor", "shop-config")).await?.context("the ConfigMap")?;
    ensure!(object["data"] == json!({"color": "green"}), "{object}");
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "2").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(states(&cluster, "predecessor").await?.is_empty(), "records are left");
    ensure!(cluster.get(&address("predecessor", "shop-config")).await?.is_none(), "an object is left");
    Ok(())
}

/// Writes the status that Landscaper's deployer leaves.
async fn leave_status(case: &Case<'_>, name: &str, managed: &Value) -> Result<()> {
    let mut found = json!(case.get::<DeployItem>(name).await?);
    found["status"]["providerStatus"] = json!({
        "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderStatus", "managedResources": managed,
    });
    let found: DeployItem = serde_json::from_value(found)?;
    case.api::<DeployItem>().replace_status(name, &PostParams::default(), &found).await?;
    Ok(())
}

/// Installs a release with Helm's format and without an item, as Helm's client does.
async fn foreign(case: &Case<'_>, cluster: &TargetCluster, chart: &str) -> Result<()> {
    let namespace = case.namespace.as_str();
    cluster.create_target(case, "dev").await?;
    cluster.plane.create_namespace(namespace).await?;
    case.create::<DeployItem>("before", &item(case, chart, namespace, &json!({}))).await?;
    succeeded(&run_job(case, "before", "1").await?)?;
    let leave =
        json!({"metadata": {"annotations": {"landscaper.gardener.cloud/delete-without-uninstall": "true"}}});
    case.change::<DeployItem>("before", &leave).await?;
    case.delete::<DeployItem>("before").await?;
    give_job(case, "before", "2").await?;
    case.gone::<DeployItem>("before").await?;
    set_status(cluster, namespace, 1, "deployed", "2026-01-01T00:00:00Z").await
}

async fn is_as_it_was(cluster: &TargetCluster, namespace: &str) -> Result<()> {
    let states = states(cluster, namespace).await?;
    let object = cluster.get(&address(namespace, "shop-config")).await?;
    ensure!(states == ["1 deployed"] && object.is_some(), "{states:?} {object:?}");
    Ok(())
}

/// R40: an item of the same name neither upgrades nor uninstalls a release that another client
/// made, in either mode, not even when the item is deleted. With `adopt` the item takes it over.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_others_is_theirs() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "of-others").await?, cluster().await?);
    let chart = chart("0.1.0", &[])?;
    foreign(&case, &cluster, &chart).await?;
    let gone = json!({"chart": {"archive": {"remote": {"url": "http://127.0.0.1:1/web.tgz"}}}});
    for (name, more, error) in [
        // The chart cannot be fetched, so the item never gets as far as the release.
        ("unfetched", gone, "127.0.0.1"),
        ("installed", json!({}), "release shop already exists in namespace of-others"),
        ("rendered", json!({"helmDeployment": false}), "release shop already exists in namespace of-others"),
    ] {
        let mut said = item(&case, &chart, "of-others", &more);
        said["spec"]["timeout"] = json!("2s");
        case.create::<DeployItem>(name, &said).await?;
        let (phase, told) = outcome(&run_job(&case, name, "1").await?);
        ensure!(phase == "Failed" && told.contains(error), "{name}: {phase} {told}");
        is_as_it_was(&cluster, "of-others").await?;
        case.delete::<DeployItem>(name).await?;
        give_job(&case, name, "2").await?;
        case.gone::<DeployItem>(name).await?;
        is_as_it_was(&cluster, "of-others").await?;
    }
    // The item is deleted before its first job, so it has not adopted the release yet.
    case.create::<DeployItem>("later", &item(&case, &chart, "of-others", &json!({"adopt": true}))).await?;
    case.delete::<DeployItem>("later").await?;
    is_as_it_was(&cluster, "of-others").await?;

    let said = item(&case, &chart, "of-others", &json!({"adopt": true, "values": {"color": "green"}}));
    case.create::<DeployItem>("adopts", &said).await?;
    let found = run_job(&case, "adopts", "1").await?;
    succeeded(&found)?;
    let status = found.status.and_then(|status| status.provider_status.get().cloned()).unwrap_or_default();
    ensure!(status["releases"][0]["adopted"] == true, "{status}");
    ensure!(states(&cluster, "of-others").await? == ["1 superseded", "2 deployed"], "it was not upgraded");
    case.delete::<DeployItem>("adopts").await?;
    give_job(&case, "adopts", "2").await?;
    case.gone::<DeployItem>("adopts").await?;
    ensure!(states(&cluster, "of-others").await?.is_empty(), "records are left");
    ensure!(cluster.get(&address("of-others", "shop-config")).await?.is_none(), "an object is left");
    Ok(())
}

/// An item that Landscaper deployed keeps its release, whose record names no item. A workload in
/// the item's status proves the ownership, even if the item is deleted before its first job here.
#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_item_keeps_its_release() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "migrated").await?, cluster().await?);
    let worker = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: worker}\nspec:\n  selector: {matchLabels: {a: b}}\n  \
                  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n";
    let chart = chart("0.1.0", &[("templates/worker.yaml", worker)])?;
    let rules = json!({"readinessChecks": {"disableDefault": true}});
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("migrated").await?;
    case.create::<DeployItem>("web", &item(&case, &chart, "migrated", &rules)).await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    set_status(&cluster, "migrated", 1, "deployed", "2026-01-01T00:00:00Z").await?;
    let resource = |name: &str| json!([{"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "migrated", "name": name}}]);
    leave_status(&case, "web", &resource("worker")).await?;
    case.delete::<DeployItem>("web").await?;
    give_job(&case, "web", "2").await?;
    case.gone::<DeployItem>("web").await?;
    ensure!(states(&cluster, "migrated").await?.is_empty(), "records are left");
    ensure!(cluster.get(&address("migrated", "shop-config")).await?.is_none(), "an object is left");
    Ok(())
}
