//! Jobs: their start, the order of their work, and their end.

use std::pin::pin;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use groundwork_api::{DeployItem, Execution, Installation};
use kube::ResourceExt;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::case::{Case, error, job};
use crate::shared;
use crate::support::{blueprint, outcome, requests};

const IF_CHANGED: &str = "landscaper.gardener.cloud/reconcile-if-changed";

fn one_item(config: &Value) -> String {
    blueprint(&[("item", config.clone())])
}

fn inline(blueprint: &str) -> Value {
    json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}}})
}

fn annotations(installation: &Installation) -> Vec<&str> {
    installation.annotations().keys().map(String::as_str).collect()
}

/// I-113 to I-115, I-117: `reconcile` starts a job even if the Installation has nothing to do, and
/// the annotation is removed (`installations.md` 3.1).
#[tokio::test(flavor = "multi_thread")]
async fn reconcile_starts_a_job() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "reconcile").await?;
    let first = case.install("server", &one_item(&json!({}))).await?;
    let second = case.reconcile("server").await?;
    assert_eq!(outcome(&second), ("Succeeded".to_owned(), String::new()));
    assert_ne!(job(&first), job(&second));
    assert_eq!(annotations(&second), [IF_CHANGED]);
    let item = case.item("server", "item").await?.status.unwrap_or_default();
    assert_eq!(item.job_id_finished, Some(job(&second)));
    let execution = case.get::<Execution>("server").await?.status.unwrap_or_default();
    assert_eq!(execution.job_id_finished, Some(job(&second)));
    Ok(())
}

/// I-53: a blueprint without any content is valid, and its job succeeds without items.
#[tokio::test(flavor = "multi_thread")]
async fn a_blueprint_of_nothing_succeeds_with_no_items() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "nothing").await?;
    let nothing = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    let ended = case.install("server", nothing).await?;
    assert_eq!(outcome(&ended), ("Succeeded".to_owned(), String::new()));
    assert_eq!((case.list::<Execution>("").await?.len(), case.list::<DeployItem>("").await?.len()), (0, 0));
    Ok(())
}

/// I-135 to I-137: with the annotation, a change of the spec starts exactly one job, and without it
/// none (`installations.md` 3.4).
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_starts_one_job_if_that_is_wanted() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "if-changed").await?;
    let first = case.install("server", &one_item(&json!({}))).await?;
    let parameters = WatchParams::default().fields("metadata.name=server");
    let version = first.resource_version().unwrap_or_default();
    let api = case.api::<Installation>();
    let mut watch = pin!(api.watch(&parameters, &version).await?);
    case.change::<Installation>("server", &inline(&one_item(&json!({"export": {"a": 1}})))).await?;
    let second = case.finished_after("server", &job(&first)).await?;
    assert_eq!(outcome(&second).0, "Succeeded");

    // Without the annotation, no further job must start. The change that ends the watch comes after
    // a whole job of another Installation.
    let change = json!({"metadata": {"annotations": {IF_CHANGED: null}}});
    case.change::<Installation>("server", &change).await?;
    case.change::<Installation>("server", &inline(&one_item(&json!({"export": {"a": 2}})))).await?;
    case.install("other", &one_item(&json!({}))).await?;
    case.change::<Installation>("server", &json!({"metadata": {"labels": {"watch": "ends"}}})).await?;
    let mut jobs = Vec::new();
    while let Some(event) = watch.try_next().await? {
        let WatchEvent::Modified(installation) = event else { continue };
        jobs.push(job(&installation));
        if installation.labels().contains_key("watch") {
            break;
        }
    }
    jobs.dedup();
    assert_eq!(jobs, [job(&first), job(&second)]);
    let last: Installation = case.get("server").await?;
    let observed = last.status.as_ref().map(|status| status.observed_generation);
    ensure!(observed < last.metadata.generation, "the status tells that it is about an older spec");

    let third = case.reconcile("server").await?;
    assert_eq!(outcome(&third).0, "Succeeded");
    let item = case.item("server", "item").await?;
    assert_eq!(item.spec.config.get().map(|config| &config["export"]), Some(&json!({"a": 2})));
    Ok(())
}

/// I-135, I-138: applying an unchanged object starts no job and causes no write. The same applies
/// to a foreign label.
#[tokio::test(flavor = "multi_thread")]
async fn applying_the_same_again_writes_nothing() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "same-again").await?;
    let spec = inline(&one_item(&json!({})))["spec"].clone();
    let metadata =
        json!({"name": "server", "namespace": case.namespace, "annotations": {IF_CHANGED: "true"}});
    let manifest = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": metadata, "spec": spec,
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), manifest.to_string())?;
    let path = file.path().display().to_string();
    system.kubectl(&["apply", "-f", &path]).await?;
    let first = case.finished("server").await?;
    let writes = || -> Result<Vec<Value>> {
        let is_write = |request: &Value| {
            let object = &request["objectRef"];
            object["namespace"] == "same-again"
                && object["name"].as_str().is_none_or(|name| name.starts_with("server"))
                && ["create", "update", "patch", "delete"].iter().any(|verb| request["verb"] == *verb)
        };
        Ok(requests(system, "")?.into_iter().filter(is_write).collect())
    };
    let before = writes()?.len();
    ensure!(before > 5, "the job itself wrote");

    system.kubectl(&["apply", "-f", &path]).await?;
    let label = json!({"metadata": {"labels": {"team": "blue"}}});
    case.change::<Installation>("server", &label).await?;
    case.change::<Execution>("server", &label).await?;
    let item = case.item("server", "item").await?.name_any();
    case.change::<DeployItem>(&item, &label).await?;
    // Services receive changes in order, so by the end of this job they have received the changes
    // above.
    case.install("other", &one_item(&json!({}))).await?;
    let after = writes()?;
    ensure!(after.len() == before, "writes of services: {:#?}", &after[before..]);
    assert_eq!(job(&case.get("server").await?), job(&first));
    Ok(())
}

/// B-67: an item starts after its dependencies have finished, and is deleted before them
/// (`installations.md` 7.3).
#[tokio::test(flavor = "multi_thread")]
async fn items_run_in_the_order_of_their_dependencies() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "dependencies").await?;
    let text = blueprint(&[("second", json!({})), ("first", json!({}))]);
    let text = text.replace("- name: second\n", "- name: second\n      dependsOn: [first]\n");
    let api = case.api::<DeployItem>();
    let mut watch = pin!(api.watch(&WatchParams::default(), "0").await?);
    let installation = case.install("server", &text).await?;
    assert_eq!(outcome(&installation).0, "Succeeded");
    case.delete::<Installation>("server").await?;
    case.gone::<Installation>("server").await?;

    let mut steps = Vec::new();
    while let Some(event) = watch.try_next().await? {
        let (item, is_gone) = match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => (item, false),
            WatchEvent::Deleted(item) => (item, true),
            _ => continue,
        };
        let name = item.labels().get("execution.landscaper.gardener.cloud/name").cloned().unwrap_or_default();
        let status = item.status.clone().unwrap_or_default();
        let deletes = item.metadata.deletion_timestamp.is_some();
        let step = match (deletes, is_gone, status.job_id.is_some(), status.job_id == status.job_id_finished)
        {
            (_, true, ..) => "gone",
            (true, _, true, false) => "deleting",
            (false, _, true, true) => "done",
            (false, _, true, false) => "runs",
            _ => continue,
        };
        steps.push(format!("{name} {step}"));
        if steps.iter().filter(|step| step.ends_with("gone")).count() == 2 {
            break;
        }
    }
    steps.dedup();
    let order = ["first runs", "first done", "second runs", "second done"];
    let back = ["second deleting", "second gone", "first deleting", "first gone"];
    assert_eq!(steps, [order, back].concat());
    Ok(())
}

/// `interrupt` ends the running items as failed, and the tree with them (`installations.md` 3.2).
#[tokio::test(flavor = "multi_thread")]
async fn interrupt_ends_a_job() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "interrupt").await?;
    let text = blueprint(&[("endless", json!({"phase": "Progressing"})), ("waiting", json!({}))]);
    let text = text.replace("- name: waiting\n", "- name: waiting\n      dependsOn: [endless]\n");
    let begun = case.begin_with("server", &text, &json!({})).await?;
    case.until("the job waits for its item", "server", |installation: &Installation| {
        outcome(installation).0 == "Progressing"
    })
    .await?;
    let name = |item: DeployItem| item.name_any();
    let has_item = |execution: &Execution| {
        execution.status.as_ref().is_some_and(|status| status.deploy_item_cache.is_some())
    };
    case.until("the items are there", "server", has_item).await?;
    let endless = case.item("server", "endless").await.map(name)?;
    case.until("the item runs", &endless, |item: &DeployItem| {
        item.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Progressing"))
    })
    .await?;
    case.ask("server", "interrupt").await?;
    let ended = case.finished_after("server", &job(&begun)).await?;
    let waiting = case.item("server", "waiting").await.map(name)?;
    let told = format!(
        "children failed: Execution is failed: item endless ({endless}) failed: the job was interrupted; failed or missing, too: waiting \
         ({waiting})"
    );
    assert_eq!(outcome(&ended), ("Failed".to_owned(), told));
    assert_eq!(annotations(&ended), [IF_CHANGED]);
    for template in ["endless", "waiting"] {
        let status = case.item("server", template).await?.status.unwrap_or_default();
        assert_eq!((status.phase.as_deref(), status.job_id_finished), (Some("Failed"), Some(job(&ended))));
        let reason = status.last_error.map(|error| error.reason);
        assert_eq!(reason.as_deref(), Some("InterruptOperation"), "{template}");
    }
    // After the interrupt no service works on the item, so a new job starts from the beginning.
    case.change::<Installation>("server", &inline(&one_item(&json!({})))).await?;
    assert_eq!(outcome(&case.finished_after("server", &job(&ended)).await?).0, "Succeeded");
    Ok(())
}

/// An item keeps its type on a cluster without admission policies as well (`installations.md` 1.3).
/// The job that would change the type writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_keeps_its_type() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "item-type").await?;
    let first = case.install("server", &blueprint(&[("x", json!({})), ("old", json!({}))])).await?;
    let item = case.item("server", "x").await?;
    let other =
        one_item(&json!({})).replace("name: item\n", "name: x\n").replace("cloud/mock\n", "cloud/unknown\n");
    case.change::<Installation>("server", &inline(&other)).await?;
    let failed = case.finished_after("server", &job(&first)).await?;
    let told = "children failed: Execution is failed: item x was a landscaper.gardener.cloud/mock and cannot become a \
                landscaper.gardener.cloud/unknown; give it another name";
    assert_eq!(outcome(&failed), ("Failed".to_owned(), told.to_owned()));
    let after = case.item("server", "x").await?;
    assert_eq!((&after.spec.type_, after.resource_version()), (&item.spec.type_, item.resource_version()));
    let orphan = case.item("server", "old").await?;
    assert_eq!(orphan.metadata.deletion_timestamp, None, "not even an orphan goes");
    case.change::<Installation>("server", &inline(&blueprint(&[("x", json!({}))]))).await?;
    let good = case.finished_after("server", &job(&failed)).await?;
    assert_eq!(outcome(&good), ("Succeeded".to_owned(), String::new()));
    assert_eq!(case.list::<DeployItem>("").await?.len(), 1);
    Ok(())
}

/// An item of a type without a deployer waits, and fails at the pick-up timeout (`installations.md`
/// 7.6).
#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_nobody_serves_waits_for_its_time_out() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "nobody").await?;
    let text = one_item(&json!({})).replace("cloud/mock\n", "cloud/unknown\n");
    case.begin_with("server", &text, &json!({})).await?;
    let waits = |installation: &Installation| outcome(installation).0 == "Progressing";
    let waiting = case.until("the job waits", "server", waits).await?;
    let conditions = waiting.status.unwrap_or_default().conditions;
    let reconciling = conditions.iter().find(|found| found.type_ == "Reconciling").context("Reconciling")?;
    assert_eq!(reconciling.status, "True");
    let ended = case.finished("server").await?;
    let seconds = shared::PICKUP_SECONDS;
    let late = format!("no deployer has reconciled this deployitem within {seconds} seconds");
    let item = case.item("server", "item").await?.name_any();
    let at_root = format!("children failed: Execution is failed: item item ({item}) failed: {late}");
    assert_eq!(outcome(&ended), ("Failed".to_owned(), at_root));
    assert_eq!(error(&ended).0, "buildErrorIfFailedChild");
    let status = case.item("server", "item").await?.status.unwrap_or_default();
    let told = status.last_error.context("the item tells why")?;
    assert_eq!((told.operation.as_str(), told.reason.as_str()), ("WaitingForPickup", "PickupTimeout"));
    assert_eq!(told.message, late);
    assert_eq!(told.codes.to_vec(), ["ERR_TIMEOUT"]);
    assert_eq!((status.phase.as_deref(), status.last_reconcile_time), (Some("Failed"), None));
    Ok(())
}
