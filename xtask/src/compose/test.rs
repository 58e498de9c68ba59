//! `cargo xtask compose-test`: does what a new user does in the first ten minutes.
//!
//! Runs in a project of its own beside an existing one: other ports, another host folder, and
//! volumes that are removed at the end.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Server, find, page};
use serde_json::Value;

use super::advice::look_ahead;
use super::ports::PortVariable;
use super::{Model, docker_compose, port_variables, up};
use crate::{images, servers};

const PROJECT: [&str; 2] = ["--project-name", "groundwork-test"];
/// Pages in the order in which a user reads them.
const PAGES: [&str; 2] = ["compose.md", "observe.md"];
const EXAMPLE: &str = "examples/echo-server";
const PATIENCE: Duration = Duration::from_secs(60);
/// Time from `up` until all services are healthy, if the images exist.
const GOAL: Duration = Duration::from_secs(30);

/// Runs the whole test and cleans up.
pub(crate) fn run(workspace: &Path, local: bool) -> Result<()> {
    servers::run(workspace)?;
    if local {
        images::run(workspace, true)?;
    } else {
        images::ensure_all(workspace)?;
    }
    let host = tempfile::tempdir().context("no folder for the kubeconfig")?;
    let trial =
        Trial { workspace, host: host.path().to_owned(), variables: variables(workspace, host.path())? };
    // An interrupted run may have left its containers and volumes behind.
    trial.end();
    look_ahead(workspace, |arguments| trial.command(arguments))?;
    let outcome = trial.run();
    if outcome.is_err() {
        trial.show_logs();
    }
    trial.end();
    outcome
}

/// Returns the variables of the project, with ports that are free now.
fn variables(workspace: &Path, host: &Path) -> Result<Vec<(String, String)>> {
    let mut all = vec![("GROUNDWORK_HOST_FOLDER".to_owned(), host.display().to_string())];
    // All listeners stay open until the end, so that no port is chosen twice.
    let mut listeners = Vec::new();
    for PortVariable { name, .. } in port_variables(workspace)? {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        all.push((name, listener.local_addr()?.port().to_string()));
        listeners.push(listener);
    }
    Ok(all)
}

struct Trial<'a> {
    workspace: &'a Path,
    host: PathBuf,
    variables: Vec<(String, String)>,
}

impl Trial<'_> {
    fn run(&self) -> Result<()> {
        let time = self.up()?;
        println!("== all healthy after {:.1} s (goal: {} s)", time.as_secs_f64(), GOAL.as_secs());
        self.pages()?;
        let before = self.installation()?;
        println!("== the commands of {} work", PAGES.join(" and "));

        self.compose(&["restart"])?;
        self.until_healthy()?;
        ensure!(self.installation()?["metadata"]["uid"] == before["metadata"]["uid"], "another Installation");
        self.another_job(&before)?;
        println!("== it was still there after a restart, and another job has ended");

        let time = self.up()?;
        ensure!(self.installation()?["metadata"]["uid"] == before["metadata"]["uid"], "another Installation");
        println!("== a second `up` changed nothing ({:.1} s)", time.as_secs_f64());

        self.compose(&["down"])?;
        self.up()?;
        self.until_ready()?;
        ensure!(self.installation()?["metadata"]["uid"] == before["metadata"]["uid"], "another Installation");
        println!("== it was still there after `down` and `up`");

        self.second_checkout()?;
        ensure!(self.installation()?["metadata"]["uid"] == before["metadata"]["uid"], "another Installation");
        println!("== another checkout does not get it");

        // Delete as the README of the pages' example says: while the permissions still exist, so
        // that deployers can remove the objects.
        self.kubectl(&["delete", "-n", "deploy", "installation", "monitor", "shop", "--timeout", "90s"])?;
        let deployed = self.kubectl(&["get", "services", "-n", "deploy", "-o", "name"])?;
        ensure!(deployed.trim().is_empty(), "left over: {deployed}");
        // The command waits for the finalizers of the Installation, and for the end of the
        // namespace.
        self.kubectl(&["delete", "-f", EXAMPLE, "--timeout", "90s"])?;
        let left = self.kubectl(&["get", "deployitems,executions,installations", "-A", "-o", "name"])?;
        ensure!(left.trim().is_empty(), "left over: {left}");
        println!("== deleted");
        self.taken_port()?;
        println!("== a port in use is named");
        self.stale_volume()?;
        println!("== a volume of another version is named");
        Ok(())
    }

    /// Returns the command `docker compose` for this project.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = docker_compose(self.workspace, &[&PROJECT, arguments].concat());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn compose(&self, arguments: &[&str]) -> Result<()> {
        let output = self.command(arguments).output().context("cannot run `docker compose`")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`docker compose {}`: {problem}", arguments.join(" "));
        Ok(())
    }

    fn up(&self) -> Result<Duration> {
        up::start(|arguments| self.command(arguments))
    }

    fn end(&self) {
        let ended = self.compose(&["down", "--volumes", "--remove-orphans", "--timeout", "15"]);
        if let Err(error) = ended {
            eprintln!("{error:#}");
        }
    }

    fn show_logs(&self) {
        let _ = self.command(&["ps", "--all"]).status();
        let _ = self.command(&["logs", "--tail", "15"]).status();
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(find(Server::Kubectl)?.path)
            .arg("--kubeconfig")
            .arg(self.host.join("kubeconfig"))
            .arg("--cache-dir")
            .arg(self.host.join("cache"))
            .args(arguments)
            .current_dir(self.workspace)
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {problem}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn installation(&self) -> Result<Value> {
        let text = self.kubectl(&["get", "installation", "server", "-n", "my-namespace", "-o", "json"])?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    fn until_ready(&self) -> Result<()> {
        let condition = "--for=condition=Ready";
        self.kubectl(&["wait", "-n", "my-namespace", condition, "installation/server", "--timeout", "60s"])
            .map(drop)
    }

    /// Polls until all services are healthy, because Compose does not wait after a restart.
    fn until_healthy(&self) -> Result<()> {
        let model = Model::read(self.workspace)?;
        let ours = model.services().filter(|service| service.value.get("healthcheck").is_some()).count();
        wait_for("all services are healthy again", || {
            let output = self.command(&["ps", "--format", "json"]).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let healthy = text.lines().filter(|line| line.contains("\"Health\":\"healthy\"")).count();
            ensure!(healthy == ours, "{healthy} of {ours} are healthy");
            self.installation().map(drop)
        })
    }

    fn another_job(&self, before: &Value) -> Result<()> {
        let job = before["status"]["jobIDFinished"].clone();
        let operation = "landscaper.gardener.cloud/operation=reconcile";
        self.kubectl(&["annotate", "installation", "server", "-n", "my-namespace", operation])?;
        wait_for("the job has ended", || {
            let status = self.installation()?["status"].clone();
            let has_ended = status["jobIDFinished"] != job && status["jobIDFinished"] == status["jobID"];
            ensure!(has_ended && status["phase"] == "Succeeded", "{status}");
            Ok(())
        })
    }

    /// Runs the commands of the pages in one shell, like a user without Rust who follows them. Only
    /// ports and folder differ from the pages.
    fn pages(&self) -> Result<()> {
        let mut steps = Vec::new();
        for name in PAGES {
            let text = fs::read_to_string(self.workspace.join("docs").join(name)).context(name)?;
            steps.extend(page::steps(name, &self.placed(&text)?));
        }
        let printed = tempfile::tempdir()?;
        let kubectl = find(Server::Kubectl)?.path;
        let folder = kubectl.parent().context("a program lies in a folder")?.display().to_string();
        let output = Command::new("bash")
            .args(["-c", &page::script(&steps, printed.path())])
            .current_dir(self.workspace)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("COMPOSE_PROJECT_NAME", PROJECT[1])
            .env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap_or_default()))
            .env("KUBECACHEDIR", self.host.join("cache"))
            .stdin(Stdio::null())
            .output()
            .context("cannot run bash")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        if let Some(difference) = page::difference(&steps, printed.path()) {
            bail!("{difference}\nand of errors on all pages:\n{problem}");
        }
        ensure!(output.status.success(), "{problem}");
        Ok(())
    }

    /// Returns a page with the ports and the folder of this test.
    fn placed(&self, page: &str) -> Result<String> {
        let mut text = page.replace(".groundwork/", &format!("{}/", self.host.display()));
        for PortVariable { name, default, .. } in port_variables(self.workspace)? {
            let chosen = self.variables.iter().find(|(variable, _)| *variable == name);
            let (_, chosen) = chosen.with_context(|| format!("{name} was not chosen"))?;
            text = text.replace(&format!("127.0.0.1:{default}"), &format!("127.0.0.1:{chosen}"));
        }
        Ok(text)
    }

    /// Starts a second checkout under the same name, with a folder of its own.
    fn second_checkout(&self) -> Result<()> {
        let other = tempfile::tempdir()?;
        let start = |arguments: &[&str]| {
            let mut command = self.command(arguments);
            command.env("GROUNDWORK_HOST_FOLDER", other.path());
            command
        };
        ensure!(up::start(start).is_err(), "another checkout got the volumes");
        let log = start(&["logs", "bootstrap"]).output()?;
        let log = String::from_utf8_lossy(&log.stdout).into_owned();
        ensure!(log.contains("contain the trial cluster of another checkout"), "{log}");
        ensure!(fs::read_dir(other.path())?.next().is_none(), "something was written");
        self.up().map(drop)
    }

    /// Checks the error for a port that is in use.
    fn taken_port(&self) -> Result<()> {
        self.compose(&["down"])?;
        let (name, port) =
            self.variables.iter().find(|(name, _)| name == "GROUNDWORK_API_PORT").context("no port")?;
        let _taken = TcpListener::bind(format!("127.0.0.1:{port}"))?;
        let Err(error) = self.up() else { bail!("{name}={port} was taken, and all started") };
        ensure!(error.to_string().contains("GROUNDWORK_API_PORT"), "{error:#}");
        Ok(())
    }

    /// Checks the error for a volume of another version.
    fn stale_volume(&self) -> Result<()> {
        let model = Model::read(self.workspace)?;
        let bootstrap =
            model.services().find(|service| service.name == "bootstrap").context("no bootstrap")?;
        let authority = self.host.join("authority");
        fs::create_dir_all(&authority)?;
        fs::write(authority.join("state.json"), r#"{"version": 0}"#)?;
        let output = Command::new("docker")
            .args(["run", "--rm", "--network", "none", "--user", "0:0", "--volume"])
            .arg(format!("{}:/credentials/authority", authority.display()))
            .args([bootstrap.image(), "cluster", "--folder", "/credentials"])
            .output()
            .context("cannot run `docker run`")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "a volume of another version was used");
        ensure!(problem.contains("docker compose down --volumes"), "{problem}");
        Ok(())
    }
}

/// Checks twice a second until `ask` succeeds.
fn wait_for(what: &str, ask: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > PATIENCE => {
                bail!("not so after {} s: {what}: {error:#}", PATIENCE.as_secs())
            }
            Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}
