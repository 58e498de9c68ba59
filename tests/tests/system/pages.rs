//! Runs the commands of the pages in `docs/` and compares their output, since users will type them.
//!
//! All blocks of a page marked `sh` run in one shell, as `groundwork_testkit::page` describes.
//! `cargo xtask compose-test` runs the steps that need Docker. Commands that need a cluster with
//! nodes are not marked.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::page::{self, Step};
use groundwork_testkit::{Program, Server, find, servers_or_skip};
use groundwork_tests::{System, get, wait_for, workspace};

use crate::echo_server::options;
use crate::support::PATIENCE;

/// Returns the steps of a page that need no Docker.
fn steps(name: &str, page: &str) -> Vec<Step> {
    page::steps(name, page).into_iter().filter(|step| !step.needs_docker).collect()
}

/// Runs the steps of a page in one shell, and compares their output.
async fn run(name: &str, page: &str, folder: &Path, variables: &[(&str, String)]) -> Result<()> {
    let steps = steps(name, page);
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(page::script(&steps, folder))
        .current_dir(folder)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let mut command = tokio::process::Command::from(command);
    let limited = tokio::time::timeout(4 * PATIENCE, command.kill_on_drop(true).output());
    let output = limited.await.with_context(|| format!("{name} does not end"))??;
    let errors = String::from_utf8_lossy(&output.stderr);
    if let Some(difference) = page::difference(&steps, folder) {
        bail!("{difference}\nand of errors on the whole page:\n{errors}");
    }
    ensure!(output.status.success(), "{name}: {errors}");
    Ok(())
}

/// Creates a folder like the checkout of a reader, with the files of a running trial.
fn checkout(system: &System) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for part in ["examples", "k8s"] {
        std::os::unix::fs::symlink(workspace().join(part), folder.path().join(part))?;
    }
    let trial = folder.path().join(".groundwork");
    std::fs::create_dir(&trial)?;
    std::fs::copy(system.plane.kubeconfig(), trial.join("kubeconfig"))?;
    // The test's NATS server requires no password, so any text will do.
    std::fs::write(trial.join("nats-password"), "password")?;
    Ok(folder)
}

fn folder_of(program: &Path) -> Result<String> {
    Ok(program.parent().context("a program lies in a folder")?.display().to_string())
}

/// Ports in the pages, with the service of compose.yaml or `cargo xtask dev` that owns them. In the
/// test, one process with one port per purpose replaces all services.
const PORTS: [(&str, &[u16]); 6] = [
    ("admin", &[9440, 9451, 9452, 9453, 9454, 9455]),
    ("resolver", &[9441]),
    ("renderer", &[9442]),
    ("watcher", &[9443]),
    ("variant", &[9444]),
    ("console", &[9456]),
];
const NATS_PORT: u16 = 9448;

/// Starts `groundwork up` with a NATS server. Returns its ports by the numbers in the pages.
async fn up(system: &System, repositories: &Path) -> Result<(Program, Vec<(u16, u16)>)> {
    let mut command = Command::new(system.binary("groundwork")?);
    command.args(["up", "--console", "--nats", &system.nats.url(), "--repositories"]).arg(repositories);
    let mut ports = Vec::new();
    for (name, usual) in PORTS {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.args([format!("--{name}-address"), format!("127.0.0.1:{port}")]);
        ports.extend(usual.iter().map(|usual| (*usual, port)));
    }
    let nats = system.nats.url();
    let port = nats.rsplit(':').next().context("the URL of NATS has a port")?.parse()?;
    ports.push((NATS_PORT, port));
    command.env("KUBECONFIG", system.plane.kubeconfig());
    let program = Program::start("up", &command)?;
    let admin = ports[0].1;
    wait_for("groundwork up is ready", PATIENCE, async || match get(admin, "/readyz").await {
        Ok((200, _)) => Ok(()),
        Ok((_, problems)) => Err(problems),
        Err(error) => Err(error.to_string()),
    })
    .await
    .with_context(|| std::fs::read_to_string(program.log()).unwrap_or_default())?;
    Ok((program, ports))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_all_pages_work() -> Result<()> {
    let options = options();
    let repositories = options.repositories.clone().context("the example has a repository map")?;
    let Some(system) = System::servers(options).await? else { return Ok(()) };
    if !servers_or_skip(&[Server::Grpcurl]) {
        return Ok(());
    }
    let grpcurl = find(Server::Grpcurl)?.path;
    let (program, ports) = up(&system, &repositories).await?;
    let kubectl = PathBuf::from(system.plane.kubectl()?.get_program());
    let programs = [folder_of(&system.binary("groundwork")?)?, folder_of(&kubectl)?, folder_of(&grpcurl)?];
    let path = format!("{}:{}", programs.join(":"), std::env::var("PATH").unwrap_or_default());
    let variables = [
        ("PATH", path),
        ("KUBECONFIG", system.plane.kubeconfig().display().to_string()),
        ("GROUNDWORK_NATS_URL", system.nats.url()),
    ];
    let mut run_steps = 0;
    let mut pages: Vec<PathBuf> = Vec::new();
    for folder in ["docs", "docs/tutorial"] {
        for entry in std::fs::read_dir(workspace().join(folder))? {
            pages.push(entry?.path());
        }
    }
    pages.sort();
    for path in pages.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut page = std::fs::read_to_string(path)?;
        for (usual, port) in &ports {
            page = page.replace(&format!("127.0.0.1:{usual}"), &format!("127.0.0.1:{port}"));
        }
        run_steps += steps(&name, &page).len();
        let log = || std::fs::read_to_string(program.log()).unwrap_or_default();
        run(&name, &page, checkout(&system)?.path(), &variables).await.with_context(log)?;
    }
    ensure!(run_steps >= 12, "only {run_steps} blocks were run");
    Ok(())
}
