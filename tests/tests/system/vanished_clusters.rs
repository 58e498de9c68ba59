//! Items that are deleted without uninstall because their cluster is gone (`installations.md` 8.5).

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Installation, Target, TargetSync};
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::outcome as outcome_of;
use crate::target_cluster::outcome;
use crate::target_sync_source::{Garden, next_round};

const NAME: &str = "landscaper.gardener.cloud/clustername";

/// Returns a blueprint with a mock item whose uninstallation never ends.
fn blueprint(on_delete: &str) -> String {
    let config = json!({
        "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "deletePhase": "Deleting",
    });
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n\
         imports:\n- {{name: cluster, type: target, targetType: landscaper.gardener.cloud/kubernetes-cluster}}\n\
         deployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    deployItems:\n    - name: item\n      \
         type: landscaper.gardener.cloud/mock\n      target: {{import: cluster}}\n      onDelete: {on_delete}\n      config: {config}\n"
    )
}

async fn install(case: &Case<'_>, name: &str, target: &str, on_delete: &str) -> Result<DeployItem> {
    let spec = json!({"imports": {"targets": [{"name": "cluster", "target": target}]}});
    let installed = case.install_with(name, &blueprint(on_delete), &spec).await?;
    ensure!(outcome_of(&installed).0 == "Succeeded", "{:?}", outcome_of(&installed));
    case.item(name, "item").await
}

fn cluster_of(item: &DeployItem) -> Option<&str> {
    item.metadata.annotations.as_ref()?.get(NAME).map(String::as_str)
}

async fn until_error(case: &Case<'_>, item: &DeployItem, text: &str) -> Result<()> {
    let name = item.metadata.name.clone().unwrap_or_default();
    let told = |item: &DeployItem| outcome(item).1.contains(text);
    case.until(&format!("{name} says: {text}"), &name, told).await?;
    Ok(())
}

/// Two Installations in clusters of Shoots. While the Shoot exists, the uninstallation is tried. If
/// its existence is unknown, this is an error and does not count as gone. When the Shoot is
/// deleted, together with its Target or before it, the items are deleted without uninstall.
#[tokio::test(flavor = "multi_thread")]
async fn items_go_when_their_cluster_is_gone() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, garden) =
        (Case::new(system, "vanished").await?, Garden::with_shoots("garden-vanished").await?);
    for name in ["dev", "old"] {
        garden.create_shoot(name).await?;
    }
    garden.give_access(&case, "access").await?;
    case.create::<TargetSync>("sync", &garden.sync(&json!({"shootNameExpression": "*"}))).await?;
    for name in ["dev", "old"] {
        case.until("its Target is there", name, |_: &Target| true).await?;
    }
    let skip = "{skipUninstallIfClusterRemoved: true}";
    let first = install(&case, "first", "dev", skip).await?;
    let second = install(&case, "second", "old", skip).await?;
    let plain = install(&case, "plain", "dev", "{skipUninstallIfClusterRemoved: false}").await?;
    assert_eq!([&first, &second, &plain].map(cluster_of), [Some("dev"), Some("old"), None]);

    case.delete::<Installation>("first").await?;
    let name = first.metadata.name.clone().unwrap_or_default();
    case.until("the uninstallation has begun", &name, |item: &DeployItem| outcome(item).0 == "Deleting")
        .await?;
    case.create::<TargetSync>("another", &garden.sync(&json!({}))).await?;
    until_error(&case, &first, "namespace vanished has 2 TargetSyncs").await?;
    case.delete::<TargetSync>("another").await?;
    case.gone::<TargetSync>("another").await?;
    garden.answer(500);
    until_error(&case, &first, "cannot find out whether the cluster dev still exists: the source cluster:")
        .await?;
    garden.answer(0);
    let is_well = |item: &DeployItem| outcome(item) == ("Deleting".to_owned(), String::new());
    case.until("the uninstallation goes on", &name, is_well).await?;

    // A Shoot in deletion counts as gone, although it still exists.
    garden.begin_to_delete_shoot("dev").await?;
    case.gone::<Installation>("first").await?;

    // The Target is deleted before the Installation.
    garden.begin_to_delete_shoot("old").await?;
    garden.end_shoot("old").await?;
    next_round(&case, "sync").await?;
    case.gone::<Target>("old").await?;
    case.delete::<Installation>("second").await?;
    case.gone::<Installation>("second").await?;
    ensure!(case.list::<DeployItem>("").await?.len() == 1, "only the plain one is left");
    Ok(())
}

/// A setting without effect is reported once per job.
#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_nobody_can_ask_for() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "not-asked").await?;
    let kubeconfig = |server: &str| -> Value {
        let config =
            json!({"kubeconfig": crate::target_sync_source::kubeconfig(server, &json!({"token": "t"}))});
        json!({"spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": config}})
    };
    case.create::<Target>("plain", &kubeconfig("https://api.dev.project.invalid")).await?;
    let mut odd = kubeconfig("https://10.0.0.1:6443");
    odd["metadata"] = json!({"labels": {"landscaper.gardener.cloud/targetsync": "ok"}});
    case.create::<Target>("odd", &odd).await?;
    for (target, expected) in [
        ("plain", "does not belong to a TargetSync"),
        ("odd", "does not have the form https://api.NAME.DOMAIN"),
    ] {
        let item = install(&case, target, target, "{skipUninstallIfClusterRemoved: true}").await?;
        assert_eq!(cluster_of(&item), None);
        let warnings = case.warnings::<DeployItem>(&item.metadata.name.clone().unwrap_or_default()).await?;
        let [(reason, message)] = &warnings[..] else { anyhow::bail!("{warnings:?}") };
        ensure!(reason == "OnDeleteWithoutEffect" && message.contains(expected), "{reason}: {message}");
    }
    Ok(())
}
