//! Unchanged objects are read, and not written (`helm.md` 16, item 12).

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use groundwork_api::DeployItem;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item};
use crate::shared;
use crate::support::requests;
use crate::target_cluster::{TargetCluster, cluster, outcome, run_job};

const RELEASES: usize = 100;
/// Number of jobs that run side by side.
const SIDE_BY_SIDE: usize = 25;
const NAMESPACE: &str = "unchanged-releases";

/// Gives all items a job, and waits for its end.
async fn run_all(case: &Case<'_>, names: &[String], job: &str) -> Result<()> {
    let run = async |name: &String| {
        let found = run_job(case, name, job).await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
        Ok(())
    };
    stream::iter(names.iter().map(run)).buffer_unordered(SIDE_BY_SIDE).try_collect().await
}

/// Returns the resource versions of all objects of a kind in the cluster of the Target. Every write
/// changes the version.
async fn versions(cluster: &TargetCluster, kind: &str) -> Result<BTreeMap<String, String>> {
    let list = cluster.get(&format!("/api/v1/namespaces/{NAMESPACE}/{kind}")).await?.unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let objects = list["items"].as_array().into_iter().flatten().map(|object| &object["metadata"]);
    Ok(objects.map(|metadata| (text(&metadata["name"]), text(&metadata["resourceVersion"]))).collect())
}

/// A hundred releases get a job without changes. The deployer writes no object in the Target's
/// cluster, not even a release record, and only the start and the end of each job in the home
/// cluster. It reads each object and each history once.
#[tokio::test(flavor = "multi_thread")]
async fn releases_that_nobody_has_changed_are_not_written() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, NAMESPACE).await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace(NAMESPACE).await?;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {ports: [{port: 80}]}\n";
    let chart = chart("0.1.0", &[("templates/service.yaml", service)])?;
    let names: Vec<String> = (0..RELEASES).map(|number| format!("web-{number}")).collect();
    let exports = json!({"exports": [{"key": "color", "jsonPath": ".Values.color"}]});
    for name in &names {
        let said = json!({"name": name, "values": {"color": name}, "exports": exports});
        case.create::<DeployItem>(name, &item(&case, &chart, NAMESPACE, &said)).await?;
    }
    run_all(&case, &names, "1").await?;

    let kinds = ["configmaps", "services", "secrets"];
    let mut before = Vec::new();
    for kind in kinds {
        before.push(versions(&cluster, kind).await?);
    }
    ensure!(before.iter().all(|found| found.len() >= RELEASES), "{before:?}");
    let asked_before = cluster.requests(NAMESPACE)?.len();
    let written_before = home_writes(&case)?.len();
    let exported_before = exports_of(&case).await?;
    ensure!(exported_before.len() == RELEASES, "{} exports", exported_before.len());
    run_all(&case, &names, "2").await?;

    let mut asked: BTreeMap<(String, String), usize> = BTreeMap::new();
    for request in cluster.requests(NAMESPACE)?.split_off(asked_before) {
        // Skip the lists that the test itself made for the comparison.
        let is_own = request.0 == "list" && !request.1.contains("labelSelector");
        if !is_own {
            *asked.entry(request).or_default() += 1;
        }
    }
    let more: Vec<_> = asked
        .iter()
        .filter(|((verb, address), times)| {
            // The deployer lists only the records of a release.
            let is_read = verb == "get" || (verb == "list" && address.contains("owner"));
            !is_read || **times > 1
        })
        .collect();
    ensure!(more.is_empty(), "beside one look at each object: {more:#?}");
    ensure!(asked.len() == 3 * RELEASES, "{} things were looked at", asked.len());
    for (kind, before) in kinds.iter().zip(before) {
        ensure!(versions(&cluster, kind).await? == before, "{kind} were written");
    }
    let written = home_writes(&case)?.split_off(written_before);
    let mut of_items: BTreeMap<String, usize> = BTreeMap::new();
    for (verb, resource, name) in &written {
        ensure!(verb == "update" && resource == "deployitems/status", "{verb} {resource} {name}");
        *of_items.entry(name.clone()).or_default() += 1;
    }
    ensure!(of_items.len() == RELEASES && of_items.values().all(|times| *times == 2), "{of_items:?}");
    ensure!(exports_of(&case).await? == exported_before, "exports were written");
    Ok(())
}

/// Returns verb, resource and name of the deployer's writes in the namespace of a test, in order of
/// time.
fn home_writes(case: &Case<'_>) -> Result<Vec<(String, String, String)>> {
    const DEPLOYER: &str = "system:serviceaccount:groundwork-system:groundwork-deployer";
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut written = Vec::new();
    for request in requests(case.system, "")? {
        let (verb, object) = (text(&request["verb"]), &request["objectRef"]);
        let is_write = ["create", "update", "patch", "delete"].contains(&verb.as_str());
        if is_write
            && request["user"]["username"] == DEPLOYER
            && object["namespace"] == case.namespace.as_str()
        {
            let part = object["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
            written.push((verb, text(&object["resource"]) + &part, text(&object["name"])));
        }
    }
    Ok(written)
}

/// Returns the resource versions of the Secrets with exports.
async fn exports_of(case: &Case<'_>) -> Result<BTreeMap<String, String>> {
    let secrets = case.list::<Secret>("").await?.into_iter().map(|secret| secret.metadata);
    let exports = secrets.filter_map(|metadata| metadata.name.zip(metadata.resource_version));
    Ok(exports.filter(|(name, _)| name.ends_with("-export")).collect())
}
