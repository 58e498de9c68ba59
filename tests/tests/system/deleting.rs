//! Deletion: its order, its failure and its repair, and objects that were deleted by hand.

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Execution, Installation};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::case::{Case, error, job};
use crate::shared;
use crate::support::{blueprint, outcome};

/// A failed deletion is reported, and repeated when a user requests it (`installations.md` 8.3).
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_deletion_is_told_and_can_be_repeated() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "delete-failed").await?;
    let text = blueprint(&[("sticky", json!({"deletePhase": "DeleteFailed", "export": {"a": 1}}))]);
    let installed = case.install("server", &text).await?;
    assert_eq!(outcome(&installed).0, "Succeeded");
    case.delete::<Installation>("server").await?;
    let failed = case.finished_after("server", &job(&installed)).await?;
    assert_eq!(outcome(&failed).0, "DeleteFailed");
    let (operation, reason, _) = error(&failed);
    assert_eq!((operation.as_str(), reason.as_str()), ("handlePhaseDeleting", "UndeletedSubobjects"));
    let execution = case.get::<Execution>("server").await?.status.unwrap_or_default();
    let told = execution.last_error.unwrap_or_default();
    let sticky = case.item("server", "sticky").await?.name_any();
    let message = format!("has failed items: item sticky ({sticky}) failed");
    assert_eq!((told.reason.as_str(), told.message), ("handlePhaseDeleting", message));
    let wait =
        ["wait", "-n", "delete-failed", "--for=condition=Stalled", "installation/server", "--timeout=20s"];
    system.kubectl(&wait).await?;

    let again = case.reconcile("server").await?;
    assert_eq!(outcome(&again).0, "DeleteFailed", "nothing was put right yet");
    let item = case.item("server", "sticky").await?.name_any();
    case.change::<DeployItem>(&item, &json!({"spec": {"config": {"deletePhase": null}}})).await?;
    case.ask("server", "reconcile").await?;
    case.gone::<Installation>("server").await?;
    case.gone::<Execution>("server").await?;
    case.gone::<DeployItem>(&item).await?;
    case.gone::<Secret>(&format!("{item}-export")).await
}

/// Deletion without uninstall does not involve the deployer, so an item whose uninstallation would
/// fail does not block it (`installations.md` 8.4).
#[tokio::test(flavor = "multi_thread")]
async fn deletion_without_uninstall_asks_no_deployer() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "no-uninstall").await?;
    let sticky = json!({"deletePhase": "DeleteFailed"});
    let text = blueprint(&[("one", sticky.clone()), ("two", sticky)]);
    assert_eq!(outcome(&case.install("server", &text).await?).0, "Succeeded");
    let annotations = json!({"landscaper.gardener.cloud/delete-without-uninstall": "true"});
    case.change::<Installation>("server", &json!({"metadata": {"annotations": annotations}})).await?;
    case.delete::<Installation>("server").await?;
    case.gone::<Installation>("server").await?;
    case.gone::<Execution>("server").await?;
    assert_eq!(case.list::<DeployItem>("").await?.len(), 0);
    Ok(())
}

/// An object that was deleted by hand waits for a job. The next job completes the deletion and
/// creates the object again (`installations.md` 8.6).
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_were_deleted_by_hand_come_back() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "by-hand").await?;
    let first = case.install("server", &blueprint(&[("one", json!({})), ("two", json!({}))])).await?;
    let one = case.item("server", "one").await?;
    case.delete::<DeployItem>(&one.name_any()).await?;
    let second = case.reconcile("server").await?;
    assert_eq!(outcome(&second), ("Succeeded".to_owned(), String::new()));
    assert_ne!(case.item("server", "one").await?.uid(), one.uid());

    let execution: Execution = case.get("server").await?;
    case.delete::<Execution>("server").await?;
    // Without a job, the deleted Execution stays.
    assert_eq!(outcome(&case.install("other", &blueprint(&[("one", json!({}))])).await?).0, "Succeeded");
    let waiting: Execution = case.get("server").await?;
    ensure!(waiting.metadata.deletion_timestamp.is_some() && waiting.uid() == execution.uid(), "it waits");
    let third = case.reconcile("server").await?;
    assert_eq!(outcome(&third), ("Succeeded".to_owned(), String::new()));
    let made_anew: Execution = case.get("server").await?;
    assert_ne!(made_anew.uid(), execution.uid());
    assert_eq!(made_anew.status.unwrap_or_default().job_id_finished, Some(job(&third)));
    for template in ["one", "two"] {
        let item = case.item("server", template).await?;
        assert_eq!(
            item.metadata.owner_references.unwrap_or_default()[0].uid,
            made_anew.metadata.uid.clone().unwrap_or_default()
        );
    }
    assert_ne!(job(&first), job(&third));
    Ok(())
}

/// If the spec has fewer items, the item without a template is uninstalled before the others run
/// again (`installations.md` 2.3 and 6.2).
#[tokio::test(flavor = "multi_thread")]
async fn items_without_a_template_go_and_an_empty_blueprint_uninstalls_all() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "fewer").await?;
    let first = case.install("server", &blueprint(&[("one", json!({})), ("two", json!({}))])).await?;
    let change =
        |text: &str| json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": text}}}}});
    case.change::<Installation>("server", &change(&blueprint(&[("two", json!({}))]))).await?;
    let second = case.finished_after("server", &job(&first)).await?;
    assert_eq!(outcome(&second), ("Succeeded".to_owned(), String::new()));
    let left = case.list::<DeployItem>("").await?;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].name_any(), case.item("server", "two").await?.name_any());
    let empty = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    case.change::<Installation>("server", &change(empty)).await?;
    let third = case.finished_after("server", &job(&second)).await?;
    assert_eq!(outcome(&third), ("Succeeded".to_owned(), String::new()));
    assert_eq!(case.list::<DeployItem>("").await?.len(), 0);
    Ok(())
}
