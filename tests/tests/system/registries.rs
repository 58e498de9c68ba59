//! Components that live in registries.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use groundwork_tests::{System, SystemOptions, workspace};
use serde_json::json;

use crate::command::run;
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
    // The one from its archive, the other from its sources: what reaches the registry is the same.
    for (source, registry, below) in [("released", &released, "tutorials"), ("sources/own", &own, "mine")] {
        let source = components.join(source);
        push(&source, registry, below, " written").await?;
        push(&source, registry, below, " unchanged").await?;
    }
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
    explained(&system).await?;
    deleted(&system).await.with_context(|| system.logs())
}

/// B-18, and `components.md` 11, item 9: the command writes component versions into a registry, and nothing that is there already.
async fn push(source: &Path, registry: &Registry, below: &str, state: &str) -> Result<()> {
    let to = format!("http://{}/{below}", registry.address());
    let output = tokio::process::Command::new(System::program("groundwork")?)
        .args(["component", "push"])
        .arg(source)
        .args(["--to", &to])
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let are_all = text.lines().count() > 0 && text.lines().all(|line| line.ends_with(state));
    ensure!(output.status.success() && are_all, "{text} {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// O-33: the command asks the service why this component is used, and hears that rule 2 was blocked by rule 1.
async fn explained(system: &System) -> Result<()> {
    let server = format!("http://127.0.0.1:{}", system.grpc_port("resolver"));
    let arguments = ["explain", "overwrites", "--installation", "my-namespace/server", "--server", &server];
    let (code, text, error) = run(system, &arguments).await?;
    let expected = "\
Installation my-namespace/server

  component my-own-echo-server:v0.2.0 from example.org/my-own-registry/components
    written: github.com/gardener/landscaper/echo-server:v0.2.0 from eu.gcr.io/gardener-project/landscaper/tutorials/components
    rule 1: applied
    rule 2: ignored (componentName has been set by rule 1; a rule applies as a whole or not at all)
";
    assert_eq!((code, text.as_str()), (0, expected), "{error}");
    Ok(())
}
