//! Exports of DeployItems, and Secrets of other owners.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DeployItem, Kind as _};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::PATIENCE;

/// A user with rights on DeployItems and their status, but not on Secrets, cannot have a Secret
/// deleted: a Secret that the status names as export stays unless the item owns it.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_export_of_an_item_goes_with_it() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "foreign-exports").await?;
    let elsewhere = Case::new(system, "foreign-exports-elsewhere").await?;
    let content = json!({"stringData": {"a": "b"}});
    elsewhere.create::<Secret>("victim", &content).await?;
    case.create::<Secret>("victim", &content).await?;
    let other = create(&case, "other").await?;
    let owner = json!({
        "apiVersion": DeployItem::API_VERSION, "kind": DeployItem::KIND, "name": "other", "uid": other.metadata.uid,
    });
    let owned = json!({"stringData": {"a": "b"}, "metadata": {"ownerReferences": [owner]}});
    case.create::<Secret>("of-another-item", &owned).await?;
    let path = "../../foreign-exports-elsewhere/secrets/victim";
    let names = ["victim", "of-another-item", path, "victim?dryRun=All"];
    for (index, export) in names.iter().enumerate() {
        let name = format!("item-{index}");
        run(&case, &name, export).await.with_context(|| (*export).to_owned())?;
        case.delete::<DeployItem>(&name).await?;
        give_job(&case, &name, export, "second").await?;
        case.gone::<DeployItem>(&name).await?;
    }
    for secret in ["victim", "of-another-item"] {
        let found = case.get::<Secret>(secret).await?;
        ensure!(found.metadata.deletion_timestamp.is_none(), "{secret}");
    }
    elsewhere.get::<Secret>("victim").await?;
    let warnings = case.warnings::<DeployItem>("item-0").await?;
    let told = warnings.iter().find(|(reason, _)| reason == "ForeignObject").context("an Event tells it")?;
    ensure!(told.1.contains("victim") && told.1.contains("was not deleted"), "{told:?}");
    Ok(())
}

async fn create(case: &Case<'_>, name: &str) -> Result<DeployItem> {
    let config = json!({
        "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
    });
    let spec = json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": config}});
    case.create::<DeployItem>(name, &spec).await
}

/// Creates an item whose status names an export, and waits until its job, which exports nothing,
/// has ended.
async fn run(case: &Case<'_>, name: &str, export: &str) -> Result<()> {
    create(case, name).await?;
    give_job(case, name, export, "first").await?;
    case.until("the job has ended", name, |item: &DeployItem| job_is_over(item)).await?;
    Ok(())
}

fn job_is_over(item: &DeployItem) -> bool {
    item.status.as_ref().is_some_and(|status| status.job_id == status.job_id_finished)
}

/// Writes job and export into the status, as a user with the right may.
async fn give_job(case: &Case<'_>, name: &str, export: &str, job: &str) -> Result<()> {
    wait_for("the status is written", PATIENCE, async || {
        let item = case.get::<DeployItem>(name).await.map_err(|error| error.to_string())?;
        let mut changed: Value = json!(item);
        changed["status"]["jobID"] = json!(job);
        changed["status"]["phase"] = json!("Succeeded");
        changed["status"]["exportRef"] = json!({"name": export, "namespace": item.namespace()});
        let changed: DeployItem = serde_json::from_value(changed).map_err(|error| error.to_string())?;
        let written = case.api().replace_status(name, &PostParams::default(), &changed).await;
        written.map(drop).map_err(|error| error.to_string())
    })
    .await
}
