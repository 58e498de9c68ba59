//! `groundwork up`: all services and the bus in one process.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use groundwork_api::DeployItem;
use groundwork_testkit::Program;
use groundwork_tests::{System, get, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::case::Case;
use crate::echo_server::{applied, deleted, options};
use crate::support::{PATIENCE, blueprint, outcome};

/// Creates a fresh lease of Landscaper's controller.
async fn original_leads(system: &System) -> Result<()> {
    system.plane.create_namespace("ls-system").await?;
    let api = Api::<Lease>::namespaced(system.client().await?, "ls-system");
    let renewed = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    let lease = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "landscaper-controller"},
        "spec": {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
    }))?;
    api.create(&PostParams::default(), &lease).await?;
    Ok(())
}

/// An item without a deployer fails after the pick-up timeout that was given to this process.
async fn settings_reach_their_service(system: &System) -> Result<()> {
    let case = Case::new(system, "settings").await?;
    let nobody =
        blueprint(&[("item", json!({}))]).replace("landscaper.gardener.cloud/mock", "example.org/nobody");
    let (phase, _) = outcome(&case.install("orphaned", &nobody).await?);
    let items = case.list::<DeployItem>("").await?;
    let error =
        items.first().and_then(|item| item.status.clone()?.last_error).context("the item has an error")?;
    ensure!(phase == "Failed" && error.message.contains("within 1 seconds"), "{phase} {}", error.message);
    Ok(())
}

fn requests_name_their_service(system: &System) -> Result<()> {
    let log = std::fs::read_to_string(system.plane.audit_log().context("there is an audit log")?)?;
    // The variant service has no work here.
    for service in ["watcher", "resolver", "renderer", "deployer"] {
        ensure!(
            log.contains(&format!("\"userAgent\":\"groundwork-{service}/")),
            "no request of the {service}"
        );
    }
    Ok(())
}

/// Returns a copy of a command, to run it again.
fn command_again(command: &Command) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    again.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    again
}

/// `groundwork up` does not start while a Landscaper is running, unless an option permits it.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_does_it_all() -> Result<()> {
    let options = options();
    let repositories = options.repositories.clone().context("the example has a repository map")?;
    let Some(system) = System::servers(options).await? else { return Ok(()) };
    original_leads(&system).await?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(system.binary("groundwork")?);
    command
        .arg("up")
        .arg("--repositories")
        .arg(repositories)
        .env("GROUNDWORK_PICKUP_TIMEOUT", "1s")
        .env("KUBECONFIG", system.plane.kubeconfig())
        .env("GROUNDWORK_ADMIN_ADDRESS", format!("127.0.0.1:{port}"));
    let refused = tokio::process::Command::from(command_again(&command)).output().await?;
    let told =
        String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && told.contains("ls-system/landscaper-controller"), "{told}");
    ensure!(
        told.contains("Landscaper is running on the same objects: pod-1") && told.contains("--takeover"),
        "{told}"
    );

    let up = Program::start("up", command.arg("--takeover"))?;
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
    settings_reach_their_service(&system).await.with_context(log)?;
    requests_name_their_service(&system)?;
    up.signal("TERM")?;
    wait_for("it ends", PATIENCE, async || {
        if up.is_running() { Err("it runs") } else { Ok(()) }.map_err(str::to_owned)
    })
    .await?;
    assert_eq!(std::fs::read_to_string(up.folder().join("exit"))?.trim(), "0", "{}", log());
    Ok(())
}
