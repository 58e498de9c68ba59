//! `cargo xtask compose-up`: runs `docker compose up`, with advice if it fails.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::advice::{advice, look_ahead};
use super::{docker_compose, project};

/// Seconds in which all services have to become healthy.
const LIMIT: &str = "180";
/// Lines of a log that are shown.
const LINES: &str = "10";

/// Starts everything and waits until it is healthy.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let compose = |arguments: &[&str]| docker_compose(workspace, arguments);
    look_ahead(workspace, compose)?;
    let time = start(compose)?;
    let folder = host_folder(&project::configuration(compose)?);
    println!("all healthy after {:.1} s\n", time.as_secs_f64());
    println!("    export KUBECONFIG={folder}/kubeconfig");
    println!("    kubectl apply -f examples/echo-server");
    println!("    kubectl wait -n my-namespace --for=condition=Ready installation/server\n");
    println!("`docker compose down` ends it, with `--volumes` its data too.");
    Ok(())
}

/// Returns the folder of the kubeconfig, from the mount of the program that writes it.
fn host_folder(configuration: &Value) -> String {
    let mounts = configuration.pointer("/services/bootstrap/volumes").and_then(Value::as_array);
    let host = mounts.into_iter().flatten().find(|mount| mount["target"] == "/host");
    host.and_then(|mount| mount["source"].as_str()).unwrap_or(".groundwork").to_owned()
}

/// Runs `docker compose up` with the commands of `compose`, and returns its duration. An error
/// includes advice.
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
    for service in project::troubled(&project::containers(&compose)?) {
        let log = compose(&["logs", "--no-log-prefix", "--tail", LINES, service]).output()?;
        eprint!("== the last lines of {service}\n{}", String::from_utf8_lossy(&log.stdout));
    }
    match advice(&problem) {
        Some(advice) => bail!("{advice}"),
        None => {
            bail!("`docker compose up` failed; `docker compose ps --all` and `docker compose logs` say more")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kubeconfig_is_where_the_folder_of_the_host_is() {
        let volumes = json!([
            {"type": "volume", "source": "authority", "target": "/credentials/authority"},
            {"type": "bind", "source": "/home/me/second", "target": "/host"},
        ]);
        let configuration = json!({"services": {"bootstrap": {"volumes": volumes}}});
        assert_eq!(host_folder(&configuration), "/home/me/second");
    }
}
