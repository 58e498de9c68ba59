//! Installations in a cluster as users see and control them: the command, and the gRPC call with
//! which programs follow an Installation.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{StatusNode, WatchInstallationRequest, WatchInstallationResponse};
use groundwork_tests::System;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tonic::{Code, Streaming};

use crate::case::{Case, job};
use crate::grpc::{account, channel, told};
use crate::shared;
use crate::support::{PATIENCE, blueprint};

/// Returns a command against a cluster with the rights of a kubeconfig.
fn groundwork(kubeconfig: &Path, arguments: &[&str]) -> Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(System::program("groundwork")?);
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    Ok(command)
}

/// Runs a command as the administrator. Returns exit code, standard output and standard error.
pub(crate) async fn run(system: &System, arguments: &[&str]) -> Result<(i32, String, String)> {
    run_as(system.plane.kubeconfig(), arguments).await
}

/// Runs a command with the rights of a kubeconfig. Returns exit code, standard output and standard
/// error.
pub(crate) async fn run_as(kubeconfig: &Path, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = groundwork(kubeconfig, arguments)?.output();
    let output = tokio::time::timeout(PATIENCE, output).await.context(arguments.join(" "))??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
}

/// Splits each line into words.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Returns a blueprint with an item that no deployer picks up.
pub(crate) fn nobody() -> String {
    blueprint(&[("item", json!({}))]).replace("landscaper.gardener.cloud/mock", "example.org/nobody")
}

/// Returns a blueprint with one nested installation, whose item fails while `fails` is true.
fn family(fails: bool) -> String {
    let child = blueprint(&[("server", json!({"initialPhase": if fails { "Failed" } else { "Succeeded" }}))]);
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "subinstallations": [{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "InstallationTemplate",
            "name": "web",
            "blueprint": {"filesystem": {"blueprint.yaml": child}},
        }],
    })
    .to_string()
}

/// I-60, I-61: the command shows the whole tree with phases, times and errors. It starts a job,
/// waits for it, and fails if the job fails.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_and_asks() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "command").await?;
    let first = case.install("shop", &family(false)).await?;
    let (code, text, _) = run(system, &["status", "command/shop"]).await?;
    let lines = words(&text);
    assert_eq!((code, lines.len()), (0, 3), "{text}");
    assert_eq!(lines[0][..2], ["command/shop", "Succeeded"]);
    assert_eq!(lines[1][..3], ["└─", "installation", "web"]);
    assert_eq!(lines[2][..3], ["└─", "item", "server"]);
    assert!(lines[2].ends_with(&["landscaper.gardener.cloud/mock"]), "{text}");

    let (code, text, _) = run(system, &["status", "-n", "command"]).await?;
    assert_eq!((code, words(&text)[1][..2].to_vec()), (0, vec!["command/shop", "Succeeded"]), "{text}");

    let (code, text, _) = run(system, &["reconcile", "shop", "-n", "command", "--wait"]).await?;
    assert_eq!((code, text.as_str()), (0, "command/shop: a job is requested\ncommand/shop: Succeeded\n"));
    let second = case.get::<Installation>("shop").await?;
    assert_ne!(job(&first), job(&second));

    let blueprint =
        json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": family(true)}}}}});
    case.change::<Installation>("shop", &blueprint).await?;
    case.finished_after("shop", &job(&second)).await?;
    let (code, text, _) = run(system, &["reconcile", "command/shop", "--wait", "--timeout", "80s"]).await?;
    ensure!(code == 1 && text.contains("! ") && text.contains("Failed"), "{code} {text}");
    let (code, text, _) = run(system, &["status", "command/shop", "-o", "json"]).await?;
    let tree: Value = serde_json::from_str(&text)?;
    assert_eq!(code, 0);
    let item = &tree["nodes"][0]["nodes"][0]["nodes"][0];
    assert_eq!((&item["kind"], &item["phase"]), (&json!("DeployItem"), &json!("Failed")), "{tree}");
    assert!(item["times"]["finished"].is_string() && tree["error"]["message"].is_string(), "{tree}");

    let child = tree["nodes"][0]["name"].as_str().context("the child has a name")?;
    let (code, _, error) = run(system, &["reconcile", &format!("command/{child}")]).await?;
    ensure!(code == 2 && error.contains("command/shop"), "{code} {error}");
    let (code, _, error) = run(system, &["status", "command/nothing"]).await?;
    ensure!(
        code == 2 && error.contains("Installation nothing does not exist in namespace command"),
        "{error}"
    );
    let (code, text, _) = run(system, &["delete", "command/shop", "--wait"]).await?;
    assert_eq!((code, text.as_str()), (0, "command/shop: the deletion is requested\ncommand/shop: gone\n"));
    let (code, text, _) = run(system, &["status", "-n", "command"]).await?;
    assert_eq!((code, text.as_str()), (0, "no Installations\n"));
    Ok(())
}

/// I-55, I-57: the command interrupts a job that no deployer works on, and removes a tree whose
/// items no deployer releases.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_ends_what_hangs() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "command-hangs").await?;
    case.begin_with("stuck", &nobody(), &json!({})).await?;
    case.until("it waits for its item", "stuck", |stuck: &Installation| {
        stuck.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Progressing"))
    })
    .await?;
    let (code, text, error) = run(system, &["interrupt", "command-hangs/stuck", "--wait"]).await?;
    assert_eq!(code, 0, "{text}{error}");
    assert_eq!(text, "command-hangs/stuck: the interruption is requested\ncommand-hangs/stuck: Failed\n");
    let (code, _, error) = run(system, &["interrupt", "command-hangs/stuck"]).await?;
    ensure!(code == 2 && error.contains("no job is running"), "{code} {error}");
    // The deletion of the item waits for a deployer that does not exist.
    let (code, text, _) =
        run(system, &["delete", "command-hangs/stuck", "--wait", "--timeout", "1s"]).await?;
    ensure!(code == 1 && text.contains("item"), "{code} {text}");
    let (code, text, _) = run(system, &["delete", "command-hangs/stuck", "--force-cleanup"]).await?;
    assert_eq!(code, 0);
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(kinds, ["DeployItem", "Execution", "Installation"], "{text}");
    case.gone::<Installation>("stuck").await?;
    assert!(case.list::<DeployItem>("").await?.is_empty() && case.list::<Execution>("").await?.is_empty());
    Ok(())
}

/// The command follows an Installation to its end. Each line of its JSON output is the tree at that
/// moment.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_follows() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "command-follows").await?;
    case.install("shop", &family(false)).await?;
    let mut command =
        groundwork(system.plane.kubeconfig(), &["status", "command-follows/shop", "--watch", "-o", "json"])?;
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("standard output is read")?).lines();
    let first = lines.next_line().await?.context("the tree is told at once")?;
    let before: Value = serde_json::from_str(&first)?;
    case.reconcile("shop").await?;
    case.delete::<Installation>("shop").await?;
    let mut trees = Vec::new();
    while let Some(line) = tokio::time::timeout(PATIENCE, lines.next_line()).await.context("it ends")?? {
        trees.push(serde_json::from_str::<Value>(&line)?);
    }
    ensure!(trees.iter().any(|tree| tree["jobID"] != before["jobID"]), "{trees:?}");
    ensure!(trees.last().is_some_and(|tree| tree["isDeleting"] == true), "{trees:?}");
    assert!(child.wait().await?.success());
    Ok(())
}

pub(crate) async fn watch(
    channel: Channel,
    namespace: &str,
    name: &str,
) -> Result<Streaming<WatchInstallationResponse>, tonic::Status> {
    let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
    let request = WatchInstallationRequest { installation: Some(name) };
    Ok(RendererClient::new(channel).watch_installation(request).await?.into_inner())
}

pub(crate) async fn next(trees: &mut Streaming<WatchInstallationResponse>) -> Result<StatusNode> {
    let tree = tokio::time::timeout(PATIENCE, trees.message()).await.context("a tree is told")??;
    tree.and_then(|response| response.tree).context("the stream goes on")
}

/// `WatchInstallation` returns the tree at once, then each change of it, and ends after the
/// deletion. Only a caller who may see the whole tree gets it.
#[tokio::test(flavor = "multi_thread")]
async fn programs_follow_an_installation() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "call-follows").await?;
    case.install("shop", &family(false)).await?;
    let all = ["installations", "executions", "deployitems"]
        .map(|kind| format!("{kind}.landscaper.gardener.cloud"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let viewer = account(&case, "viewer", &all).await?;
    let partial = account(&case, "partial", &all[..2]).await?;
    let refused = watch(channel(system, "renderer", Some(&partial))?, "call-follows", "shop").await;
    let refused = refused.err().context("the items are not theirs to see")?;
    assert_eq!(told(&refused), (Code::PermissionDenied, "ACCESS_DENIED".to_owned()));
    let missing = watch(channel(system, "renderer", Some(&viewer))?, "call-follows", "nothing").await;
    let missing = missing.err().context("there is no such Installation")?;
    assert_eq!(told(&missing), (Code::NotFound, "INSTALLATION_NOT_FOUND".to_owned()));

    let mut trees = watch(channel(system, "renderer", Some(&viewer))?, "call-follows", "shop").await?;
    let first = next(&mut trees).await?;
    assert_eq!(
        (first.kind.as_str(), first.phase.as_str(), first.running),
        ("Installation", "Succeeded", false)
    );
    let item = &first.nodes[0].nodes[0].nodes[0];
    assert_eq!(
        (item.kind.as_str(), item.template.as_str(), item.phase.as_str()),
        ("DeployItem", "server", "Succeeded")
    );
    assert!(item.finished_time.is_some());

    case.ask("shop", "reconcile").await?;
    let mut tree = first.clone();
    while tree.running || tree.job_id == first.job_id {
        tree = next(&mut trees).await?;
    }
    assert_eq!(tree.phase, "Succeeded");
    case.delete::<Installation>("shop").await?;
    let ended = loop {
        match tokio::time::timeout(Duration::from_secs(60), trees.message()).await? {
            Ok(Some(_)) => {}
            Ok(None) => bail!("the stream says why it ends"),
            Err(status) => break status,
        }
    };
    assert_eq!(told(&ended), (Code::NotFound, "INSTALLATION_NOT_FOUND".to_owned()));
    Ok(())
}
