//! Heavy and hostile Installations: they harm no other, and their jobs end.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DeployItem, Installation};
use groundwork_tests::{System, SystemOptions, wait_for};
use serde_json::json;

use crate::case::Case;
use crate::support::{PATIENCE, blueprint, outcome};

/// Templates that use up nearly all steps that each of them has: minutes of work.
const TEMPLATES: usize = 400;
const STEPS: usize = 49_000_000;
/// As many as the renderer works on at the same time.
const CROWD: usize = 16;

/// A blueprint whose rendering takes longer than anybody waits, though it comes to an end.
fn endless() -> String {
    let execution = |index: usize| {
        let template = format!("{{{{ range {STEPS} }}}}{{{{ end }}}}");
        json!({"name": format!("e{index}"), "type": "GoTemplate", "template": template})
    };
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "deployExecutions": (0..TEMPLATES).map(execution).collect::<Vec<_>>(),
    })
    .to_string()
}

/// As many Installations whose rendering takes too long as there are slots: a small one is done all the same, their jobs end, and readiness tells
/// what runs on.
#[tokio::test(flavor = "multi_thread")]
async fn endless_renderings_are_given_up() -> Result<()> {
    let variables = vec![("GROUNDWORK_RENDER_TIMEOUT".to_owned(), "2s".to_owned())];
    let options = SystemOptions { variables, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    let case = Case::new(&system, "endless").await?;
    for index in 0..CROWD {
        case.begin_with(&format!("endless-{index:02}"), &endless(), &json!({})).await?;
    }
    let done = case.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    for index in 0..CROWD {
        let ended = case.finished(&format!("endless-{index:02}")).await?;
        let (phase, error) = outcome(&ended);
        ensure!(phase == "Failed" && error.starts_with("RenderTimeout: "), "{phase} {error}");
    }
    wait_for("readiness tells", PATIENCE, async || {
        let (code, body) = system.admin("renderer", "/readyz").await.map_err(|error| error.to_string())?;
        if code == 503 && body.contains("run on beyond their limit") {
            Ok(())
        } else {
            Err(format!("{code} {body}"))
        }
    })
    .await
}

/// A rendering during which the process dies again and again is given up, and its deletion needs none.
#[tokio::test(flavor = "multi_thread")]
async fn a_rendering_that_ends_the_process_is_given_up() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    system.plane.create_namespace("poison").await?;
    {
        let case = Case::existing(&system, "poison").await?;
        case.begin_with("poison", &endless(), &json!({})).await?;
        case.begin_with("poison-deleted", &endless(), &json!({})).await?;
    }
    for attempt in 1..=3_i64 {
        {
            let case = Case::existing(&system, "poison").await?;
            wait_for(&format!("attempt {attempt} is counted"), PATIENCE, async || {
                let found: Installation = case.get("poison").await.map_err(|error| error.to_string())?;
                let status = found.status.unwrap_or_default();
                if status.rendering_attempts == Some(attempt) {
                    Ok(())
                } else {
                    Err(json!(status).to_string())
                }
            })
            .await
            .with_context(|| system.logs())?;
            if attempt == 1 {
                case.delete::<Installation>("poison-deleted").await?;
            }
        }
        system.service_mut("renderer")?.program.kill().await?;
        system.service_mut("renderer")?.program.start_again()?;
    }
    let case = Case::existing(&system, "poison").await?;
    let (phase, error) = outcome(&case.finished("poison").await?);
    ensure!(phase == "Failed" && error.starts_with("RenderingEndsProcess: "), "{phase} {error}");
    wait_for("what was deleted is gone", PATIENCE, async || {
        match case.get::<Installation>("poison-deleted").await {
            Ok(found) => Err(json!(found.status).to_string()),
            Err(_) => Ok(()),
        }
    })
    .await
    .with_context(|| system.logs())?;
    case.delete::<Installation>("poison").await?;
    Ok(())
}

/// An Installation with many more items than there are slots: a small one beside it does not wait for its end, and a request to interrupt
/// it is seen while it works.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_installation_delays_no_small_one() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "large").await?;
    let names: Vec<String> = (0..600).map(|index| format!("i{index:04}")).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), json!({}))).collect();
    case.begin_with("large", &blueprint(&items), &json!({})).await?;
    wait_for("the large one is at work", PATIENCE, async || {
        let items = case.list::<DeployItem>("").await.map_err(|error| error.to_string())?;
        if items.is_empty() { Err("it has no items yet".to_owned()) } else { Ok(()) }
    })
    .await?;
    let small = case.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&small), ("Succeeded".to_owned(), String::new()));
    let large: Installation = case.get("large").await?;
    let phase = large.status.unwrap_or_default().phase.unwrap_or_default();
    ensure!(phase != "Succeeded", "the small one was done first");
    case.ask("large", "interrupt").await?;
    let (phase, _) = outcome(&case.finished("large").await?);
    ensure!(phase == "Failed", "it was interrupted: {phase}");
    let done = case.list::<DeployItem>("").await?;
    let untouched = done.iter().filter(|item| {
        let error = item.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.reason == "InterruptOperation")
    });
    ensure!(untouched.count() > 0, "the interruption came before the end");
    Ok(())
}
