//! Pages of the journal, which explain the course of jobs, and their rights: the same as those of
//! the gRPC call behind them.

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_tests::{System, wait_for};
use serde_json::{Value, json};

use super::browser::Browser;
use super::{INSTALLATIONS, TREE, account_with, says};
use crate::case::{Case, job};
use crate::grpc::account;
use crate::support::PATIENCE;

const PATH: &str = "/journal/broken/shop";

/// Returns the entries of all jobs in the JSON twin of a page.
fn entries(page: &Value) -> impl Iterator<Item = &Value> {
    let jobs = page["jobs"].as_array().into_iter().flatten();
    jobs.flat_map(|job| job["entries"].as_array().into_iter().flatten())
}

/// The pages show the last job, a job by its own address, and entries of one sort. If the journal
/// has no entry, the page says so in a sentence.
pub(super) async fn tells_why(system: &System, broken: &Case<'_>) -> Result<()> {
    let port = system.grpc_port("console");
    let reader = account_with(broken, "historian", &[("get", TREE)]).await?;
    let reader = Browser::signed_in(port, &reader).await?;
    let page = reader.page("/installations/broken/shop").await?;
    ensure!(page.contains(&format!("href=\"{PATH}\"")), "the page of the Installation leads there: {page}");
    let page = says(&reader, PATH, "ends the job: Failed").await?;
    ensure!(page.contains("begins the job") && page.contains("creates it"), "{page}");

    let shop: Installation = broken.get("shop").await?;
    let last = job(&shop);
    let ends = |entry: &&Value| {
        entry["kind"] == "Installation"
            && entry["name"] == "shop"
            && entry["text"].as_str().unwrap_or_default().starts_with("ends the job")
    };
    // The entries take a moment to arrive.
    let twin = wait_for("the journal tells of the end of the job", PATIENCE, async || {
        let twin = reader.json("/journal/broken/shop.json").await.map_err(|error| error.to_string())?;
        if entries(&twin).any(|entry| ends(&entry)) { Ok(twin) } else { Err(twin.to_string()) }
    })
    .await?;
    assert_eq!(twin["jobs"][0]["jobID"], json!(last), "{twin}");
    let end = entries(&twin).find(ends).with_context(|| twin.to_string())?;
    let error = shop.status.context("a status")?.last_error.context("an error")?;
    assert_eq!((&end["reason"], &end["message"]), (&json!(error.reason), &json!(error.message)));

    let at = twin["jobs"][0]["at"].as_str().context("a job has an address of its own")?;
    let alone = reader.json(&format!("/journal/broken/shop.json?at={at}")).await?;
    assert_eq!(alone["jobs"][0]["jobID"], json!(last), "{alone}");
    let decisions = reader.json("/journal/broken/shop.json?jobs=all&what=decision").await?;
    ensure!(entries(&decisions).count() > 0, "{decisions}");
    ensure!(entries(&decisions).all(|entry| entry["what"] == "decision"), "{decisions}");
    let before = reader.page(&format!("{PATH}?at=2020-01-01T00:00:00Z")).await?;
    ensure!(
        before.contains("The journal has no entry about a job of this Installation at or before 2020"),
        "{before}"
    );
    let gone = reader.page("/journal/broken/never").await?;
    ensure!(gone.contains("has no entry about a job"), "{gone}");
    assert_eq!(reader.get(&format!("{PATH}?at=yesterday")).await?.status, 400);

    // The page of the Installation shows where its items are written in the blueprint.
    says(&reader, "/installations/broken/shop", "from deployExecutions[").await?;
    let twin = reader.json("/installations/broken/shop.json").await?;
    let items = twin["nodes"][0]["nodes"].as_array().context("items below the Execution")?;
    ensure!(items.len() == 2, "{twin}");
    for item in items {
        let source = item["source"].as_str().with_context(|| twin.to_string())?;
        ensure!(source.contains("line "), "{source}");
    }

    // The journal also describes the objects that an Installation owns, so the right to see the
    // Installation alone does not suffice.
    let clerk = Browser::signed_in(port, &account(broken, "clerk", &[INSTALLATIONS]).await?).await?;
    let page = clerk.page("/installations/broken/shop").await?;
    ensure!(!page.contains(PATH), "nothing is offered that one may not see: {page}");
    ensure!(!page.contains("deployExecutions["), "nothing is told that one may not see: {page}");
    let refused = clerk.get(PATH).await?;
    ensure!(refused.status == 403 && refused.body.contains("Executions and"), "{refused:?}");
    let nobody = Browser::signed_in(port, &account(broken, "nobody", &[]).await?).await?;
    for path in [PATH, "/journal/broken/shop.json", "/journal/my-namespace/server"] {
        let refused = nobody.get(path).await?;
        ensure!(refused.status == 403 && !refused.body.contains("ends the job"), "{path}: {refused:?}");
    }
    assert_eq!(reader.get("/journal/my-namespace/server").await?.status, 403);
    Ok(())
}

/// Without the renderer, the page shows a sentence instead, and the browser tries again.
pub(super) async fn says_that_the_renderer_is_away(reader: &Browser) -> Result<()> {
    let away = reader.get("/journal/team/shop").await?;
    ensure!(away.status == 503 && away.body.contains("The renderer cannot answer now"), "{away:?}");
    ensure!(away.headers.contains_key("retry-after"), "{away:?}");
    // The page explains why the sources of the items are missing.
    says(reader, "/installations/team/shop", "The journal could not be read in time").await?;
    Ok(())
}
