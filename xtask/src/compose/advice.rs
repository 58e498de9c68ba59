//! Advice for errors of Docker.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{port_variables, ports, project};

const NO_DOCKER: &str = "`cargo xtask dev` starts the same without Docker";

/// Returns an error before anything is started if the start cannot succeed. `compose` creates the
/// Compose commands.
pub(super) fn look_ahead(workspace: &Path, compose: impl Fn(&[&str]) -> Command) -> Result<()> {
    let version =
        Command::new("docker").args(["compose", "version", "--short"]).stderr(Stdio::null()).output();
    let version = version.with_context(|| format!("cannot run `docker`: install Docker; {NO_DOCKER}"))?;
    if !version.status.success() {
        bail!("`docker compose` is missing: install the Compose plugin, 2.24 or later; {NO_DOCKER}");
    }
    let daemon = Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]).output()?;
    if !daemon.status.success() {
        let problem = String::from_utf8_lossy(&daemon.stderr).into_owned();
        bail!("{}", advice(&problem).unwrap_or(problem.trim()));
    }
    let configuration = project::configuration(&compose)?;
    project::is_of_this_checkout(configuration["name"].as_str().unwrap_or_default(), workspace)?;
    let held = ports::held(&project::containers(&compose)?);
    ports::are_free(&ports::wanted(&configuration), &held, &port_variables(workspace)?)
}

/// Returns advice for an error message of Docker; `None` for an unknown error.
pub(super) fn advice(problem: &str) -> Option<&'static str> {
    const NO_IMAGES: &str =
        "images cannot be pulled: `cargo xtask images --local` makes them from what is built on this machine";
    const KNOWN: [(&[&str], &str); 6] = [
        (
            &["port is already allocated", "address already in use"],
            "a port of the host is in use: docs/compose.md lists the variables that choose others, such as \
             GROUNDWORK_API_PORT",
        ),
        (
            &["permission denied while trying to connect"],
            "you may not use Docker: become a member of the group `docker`, or use `sudo`",
        ),
        (
            &["Cannot connect to the Docker daemon", "failed to connect to the docker API"],
            "Docker does not run: start it (`sudo systemctl start docker`, or Docker Desktop); `cargo xtask dev` starts the \
             same without Docker",
        ),
        (
            &["non-overlapping IPv4 address pool", "all predefined address pools have been fully subnetted"],
            "Docker has no addresses left for a network: `docker network prune` removes those that nothing uses",
        ),
        (
            &["iptables", "nftables", "failed to create network", "operation not supported"],
            "Docker cannot make a network: its daemon needs iptables and the right to use it; restart the daemon after \
             installing it",
        ),
        (
            &[
                "no such host",
                "i/o timeout",
                "failed to resolve",
                "network is unreachable",
                "pull access denied",
            ],
            NO_IMAGES,
        ),
    ];
    const JAEGER: &str = "Jaeger's image cannot be pulled, and `cargo xtask images --local` does not make it: start without it, which \
                          is without COMPOSE_PROFILES in the environment and in .env";
    let known = KNOWN.iter().find(|(signs, _)| signs.iter().any(|sign| problem.contains(sign)));
    let advice = known.map(|(_, advice)| *advice)?;
    Some(if advice == NO_IMAGES && problem.contains("jaeger") { JAEGER } else { advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_as_docker_tells_them() {
        let check = |problem: &str, expected: &str| {
            let told = advice(problem).unwrap_or_else(|| panic!("nothing about {problem}"));
            assert!(told.contains(expected), "{problem}: {told}");
        };
        check(
            "Error response from daemon: driver failed programming external connectivity on endpoint groundwork-nats-1: Bind for \
             127.0.0.1:9448 failed: port is already allocated",
            "GROUNDWORK_API_PORT",
        );
        check("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "start it");
        check(
            "could not find an available, non-overlapping IPv4 address pool among the defaults",
            "network prune",
        );
        check(
            "failed to create network groundwork_etcd: Error response from daemon: Failed to Setup IP tables",
            "iptables",
        );
        check(
            "Error response from daemon: Get \"https://registry/v2/\": dial tcp: lookup x: no such host",
            "--local",
        );
        check(
            " jaeger Error Get \"https://registry/v2/\": dial tcp: lookup x: no such host",
            "start without it, which is without COMPOSE_PROFILES",
        );
        assert_eq!(advice("something else"), None);
    }
}
