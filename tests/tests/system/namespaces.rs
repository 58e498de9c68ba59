//! Services that watch selected namespaces, and have rights only in these.

use anyhow::{Context, Result, ensure};
use groundwork_api::{Context as LandscaperContext, DataObject, Installation};
use groundwork_tests::{System, SystemOptions, files_below};
use serde_json::{Value, json};

use crate::case::Case;
use crate::console::browser::Browser;
use crate::console::says;
use crate::grpc::account_of_admin;
use crate::support::{blueprint, installation, outcome, requests};

const ELSEWHERE: &str = "elsewhere-2b41f";

/// With the Roles of `k8s/namespaced`, the services work on an Installation from its creation to
/// its deletion, and see no object of another namespace.
#[tokio::test(flavor = "multi_thread")]
async fn roles_suffice_for_services_that_are_told_their_namespaces() -> Result<()> {
    let options = SystemOptions { namespaces: vec!["mine".to_owned()], ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.run("console").await?;
    system.until_ready("console").await?;
    let elsewhere = Case::new(&system, ELSEWHERE).await?;
    elsewhere.create::<LandscaperContext>("default", &json!({})).await?;
    let text = blueprint(&[("item", json!({"export": {"a": 1}}))]);
    let stranger = installation(ELSEWHERE, "server", &text);
    elsewhere.create::<Installation>("server", &json!(stranger)).await?;

    let case = Case::existing(&system, "mine").await?;
    case.create::<DataObject>("colour", &json!({"data": "red"})).await?;
    let importing = text
        .replace("kind: Blueprint\n", "kind: Blueprint\nimports: [{name: colour, type: data, schema: {}}]\n");
    let imports = json!({"imports": {"data": [{"name": "colour", "dataRef": "colour"}]}});
    let done = case.install_with("server", &importing, &imports).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    the_console_shows(&system).await?;
    case.delete::<Installation>("server").await?;
    case.gone::<Installation>("server").await?;

    let untouched: Installation = elsewhere.get("server").await?;
    ensure!(untouched.metadata.finalizers.is_none() && untouched.status.is_none(), "{untouched:?}");
    let is_wrong = |request: &Value| {
        request["responseStatus"]["code"] == 403 || request["objectRef"]["namespace"] == ELSEWHERE
    };
    let wrong: Vec<Value> = requests(&system, "")?.into_iter().filter(is_wrong).collect();
    ensure!(wrong.is_empty(), "{wrong:#?}");
    let mut holds_mine = false;
    for file in files_below(system.nats.folder())? {
        let content = std::fs::read(&file).context("a file of NATS")?;
        let holds = |text: &str| content.windows(text.len()).any(|window| window == text.as_bytes());
        ensure!(!holds(ELSEWHERE), "{} tells of another namespace", file.display());
        holds_mine |= holds(".mine.");
    }
    ensure!(holds_mine, "the stream tells of the namespace");
    Ok(())
}

/// The console shows only the namespaces that the services watch, even to a user who may see all.
async fn the_console_shows(system: &System) -> Result<()> {
    let admin = Browser::signed_in(system.grpc_port("console"), &account_of_admin(system).await?).await?;
    let page = says(&admin, "/installations", "mine/server").await?;
    ensure!(!page.contains(ELSEWHERE), "{page}");
    says(&admin, "/installations/mine/server", "Objects of this Installation").await?;
    Ok(())
}
