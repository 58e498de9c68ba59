//! `cargo xtask compose-up`: `docker compose up`, with words about what is in its way.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::advice::{advice, look_ahead};
use super::docker_compose;

/// How long all may take to become healthy, in seconds.
const LIMIT: &str = "180";

/// Starts everything and waits until it is healthy.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    look_ahead(workspace)?;
    let time = start(|arguments| docker_compose(workspace, arguments))?;
    println!("all healthy after {:.1} s\n", time.as_secs_f64());
    println!("    export KUBECONFIG=.groundwork/kubeconfig");
    println!("    kubectl apply -f examples/echo-server");
    println!("    kubectl wait -n my-namespace --for=condition=Ready installation/server\n");
    println!("`docker compose down` ends it, with `--volumes` its data too.");
    Ok(())
}

/// `docker compose up`, with Compose as it is given; how long it took. An error says what to do about it.
pub(super) fn start(compose: impl Fn(&[&str]) -> Command) -> Result<Duration> {
    let start = Instant::now();
    let output = compose(&["up", "--detach", "--wait", "--wait-timeout", LIMIT])
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .context("cannot run `docker compose up`")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(start.elapsed());
    }
    eprintln!("{}", problem.trim());
    for service in ["bootstrap", "install", "ready"] {
        let log = compose(&["logs", "--no-log-prefix", "--tail", "5", service]).output()?;
        eprint!("{}", String::from_utf8_lossy(&log.stdout));
    }
    match advice(&problem) {
        Some(advice) => bail!("{advice}"),
        None => {
            bail!("`docker compose up` failed; `docker compose ps --all` and `docker compose logs` say more")
        }
    }
}
