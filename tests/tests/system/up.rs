//! `groundwork up`: everything in one process, with the bus in it.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result};
use groundwork_testkit::Program;
use groundwork_tests::{System, get, wait_for};

use crate::echo_server::{applied, deleted, options};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn one_process_does_it_all() -> Result<()> {
    let options = options();
    let repositories = options.repositories.clone().context("the example has a repository map")?;
    let Some(system) = System::servers(options).await? else { return Ok(()) };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(system.binary("groundwork")?);
    command
        .arg("up")
        .arg("--repositories")
        .arg(repositories)
        .env("KUBECONFIG", system.plane.kubeconfig())
        .env("GROUNDWORK_ADMIN_ADDRESS", format!("127.0.0.1:{port}"));
    let up = Program::start("up", &command)?;
    let log = || std::fs::read_to_string(up.log()).unwrap_or_default();
    wait_for("groundwork up is ready", PATIENCE, async || match get(port, "/readyz").await {
        Ok((200, _)) => Ok(()),
        Ok((_, problems)) => Err(problems),
        Err(error) => Err(error.to_string()),
    })
    .await
    .with_context(log)?;
    applied(&system).await.with_context(log)?;
    deleted(&system).await.with_context(log)?;
    up.signal("TERM")?;
    wait_for("it ends", PATIENCE, async || {
        if up.is_running() { Err("it runs") } else { Ok(()) }.map_err(str::to_owned)
    })
    .await?;
    assert_eq!(std::fs::read_to_string(up.folder().join("exit"))?.trim(), "0", "{}", log());
    Ok(())
}
