use anyhow::{Context, Result, ensure};
use groundwork_api::{DataObject, DeployItem, Execution, Installation};
use groundwork_tests::{System, SystemOptions, wait_for, workspace};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::metrics;
use crate::support::{PATIENCE, outcome, requests};

const NAMESPACE: &str = "my-namespace";
const MESSAGE: &str = "Component reference has been overwritten:\n\
    eu.gcr.io/gardener-project/landscaper/tutorials/components () -> example.org/my-own-registry/components ()\n\
    github.com/gardener/landscaper/echo-server -> my-own-echo-server\n\
    Version has not been overwritten";

/// Returns the options of a system that finds the components of the example.
pub(crate) fn options() -> SystemOptions {
    let repositories = workspace().join("examples/echo-server/components/repositories.yaml");
    SystemOptions { repositories: Some(repositories), ..SystemOptions::default() }
}

/// O-30, O-31, O-32, O-37, O-38: the unchanged example of the overwrites document passes through
/// all services, and its deletion leaves no object.
#[tokio::test(flavor = "multi_thread")]
async fn echo_server_from_apply_to_delete() -> Result<()> {
    let Some(system) = System::start(options()).await? else { return Ok(()) };
    applied(&system).await.map_err(|error| system.explained(error))?;
    deleted(&system).await.map_err(|error| system.explained(error))?;
    metrics::are_documented(&system).await?;
    let refused: Vec<_> = requests(&system, "")?
        .into_iter()
        .filter(|request| request["responseStatus"]["code"] == 403)
        .collect();
    ensure!(refused.is_empty(), "rights are missing in k8s/base: {refused:#?}");
    Ok(())
}

/// Applies the example and waits for it.
pub(crate) async fn apply(system: &System) -> Result<()> {
    system.kubectl(&["apply", "-f", "examples/echo-server"]).await?;
    let wait = ["wait", "-n", NAMESPACE, "--for=condition=Ready", "installation/server", "--timeout=90s"];
    system.kubectl(&wait).await?;
    Ok(())
}

/// Applies the example and checks its visible results.
pub(crate) async fn applied(system: &System) -> Result<()> {
    apply(system).await?;
    let client = system.client().await?;
    let installation = Api::<Installation>::namespaced(client.clone(), NAMESPACE).get("server").await?;
    let status = installation.status.clone().unwrap_or_default();
    assert_eq!(outcome(&installation), ("Succeeded".to_owned(), String::new()));
    assert!(status.job_id.is_some());
    assert_eq!(status.job_id, status.job_id_finished);
    let found = status.conditions.iter().find(|found| found.type_ == "ComponentReferenceOverwrite");
    let found = found.context("the condition about the overwrite is there")?;
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("True", "FoundOverwrite"));
    assert_eq!(found.message, MESSAGE);
    // The services leave the spec as the user wrote it, so `kubectl diff` finds no difference.
    system.kubectl(&["diff", "-f", "examples/echo-server"]).await?;

    let items =
        Api::<DeployItem>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?.items;
    assert_eq!(items.len(), 1);
    let item = items[0].status.clone().unwrap_or_default();
    assert_eq!((item.phase.as_deref(), item.job_id), (Some("Succeeded"), status.job_id.clone()));
    let export = item.export_ref.context("the item exports something")?;
    Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(&export.name).await?;
    let execution = Api::<Execution>::namespaced(client.clone(), NAMESPACE).get("server").await?;
    let holder =
        execution.status.and_then(|status| status.export_ref).context("the Execution collects exports")?;
    let holder = Api::<DataObject>::namespaced(client, NAMESPACE).get(&holder.name).await?;
    assert_eq!(
        holder.data.get().and_then(|exports| exports.get("echo")),
        Some(&json!({
            "component": "my-own-echo-server:v0.2.0",
            "image": "example.org/my-own-registry/http-echo",
            "tag": "dev",
            "text": "good morning from my own echo server",
        }))
    );
    Ok(())
}

/// Deletes the example and waits until no object of ours is left.
pub(crate) async fn deleted(system: &System) -> Result<()> {
    system.kubectl(&["delete", "-n", NAMESPACE, "installation/server", "--timeout=90s"]).await?;
    let kinds = "installations,executions,deployitems,secrets";
    wait_for("objects of the Installation are gone", PATIENCE, async || {
        let left = system.kubectl(&["get", "-n", NAMESPACE, kinds, "-o", "name"]).await;
        let left = left.map_err(|error| error.to_string())?;
        let data = system.kubectl(&["get", "-n", NAMESPACE, "dataobjects", "-o", "name"]).await;
        let data = data.map_err(|error| error.to_string())?;
        let is_clean = left.is_empty() && data.trim() == "dataobject.landscaper.gardener.cloud/greeting";
        if is_clean { Ok(()) } else { Err(format!("{left}{data}")) }
    })
    .await?;
    system.kubectl(&["delete", "-f", "examples/echo-server", "--ignore-not-found", "--wait=false"]).await?;
    Ok(())
}
