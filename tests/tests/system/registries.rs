//! Components that live in registries.

use std::fs;

use anyhow::{Context, Result};
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use groundwork_tests::{System, SystemOptions, workspace};
use serde_json::json;

use crate::echo_server::{applied, deleted};

/// The example of the overwrites document, with its components in two registries: the reference leads to the one, the overwrite to the other,
/// and the blueprint really comes from there.
#[tokio::test(flavor = "multi_thread")]
async fn an_overwrite_leads_from_one_registry_to_another() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let components = workspace().join("examples/echo-server/components");
    let released = Registry::start(&RegistryOptions::default()).await?;
    let own = Registry::start(&RegistryOptions::default()).await?;
    tokio::task::block_in_place(|| {
        released.push(&components.join("released"), "tutorials", None)?;
        own.push(&components.join("own"), "mine", None)
    })
    .context("the components of the example are pushed")?;
    let entry = |base: &str, registry: &Registry, below: &str| {
        json!({
            "context": {"type": "ociRegistry", "baseUrl": base},
            "url": format!("http://{}/{below}", registry.address()),
        })
    };
    let map = json!({"repositories": [
        entry("eu.gcr.io/gardener-project/landscaper/tutorials/components", &released, "tutorials"),
        entry("example.org/my-own-registry/components", &own, "mine"),
    ]});
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("repositories.yaml");
    fs::write(&path, map.to_string())?;
    let options = SystemOptions { repositories: Some(path), ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    applied(&system).await.with_context(|| system.logs())?;
    deleted(&system).await.with_context(|| system.logs())
}
