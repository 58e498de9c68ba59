//! What to do when Docker does not do what it should.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{docker_compose, port_variables};

const NO_DOCKER: &str = "`cargo xtask dev` starts the same without Docker";

/// Fails before anything is started, if it could not end well.
pub(super) fn look_ahead(workspace: &Path) -> Result<()> {
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
    let running = docker_compose(workspace, &["ps", "--quiet"]).output()?;
    if running.stdout.is_empty() {
        ports_are_free(&port_variables(workspace)?, |name| std::env::var(name).ok())?;
    }
    Ok(())
}

/// Ports of a cluster that runs are its own, so this is asked before it does.
fn ports_are_free(ports: &[(String, u16)], variable: impl Fn(&str) -> Option<String>) -> Result<()> {
    for (name, default) in ports {
        let given = variable(name).filter(|text| !text.is_empty());
        let port = match &given {
            Some(text) => text.parse().with_context(|| format!("{name}={text:?} is not a port"))?,
            None => *default,
        };
        if let Err(error) = TcpListener::bind(("127.0.0.1", port)) {
            bail!(
                "port {port} cannot be used ({error}): choose another with {name}=PORT, or end what listens there"
            );
        }
    }
    Ok(())
}

/// What to do about an error that Docker told; `None` if that is not known.
pub(super) fn advice(problem: &str) -> Option<&'static str> {
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
            "images cannot be pulled: `cargo xtask images --local` makes them from what is built on this machine",
        ),
    ];
    let known = KNOWN.iter().find(|(signs, _)| signs.iter().any(|sign| problem.contains(sign)));
    known.map(|(_, advice)| *advice)
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
        assert_eq!(advice("something else"), None);
    }

    #[test]
    fn a_port_in_use_is_named_with_its_variable() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = [("GROUNDWORK_API_PORT".to_owned(), port)];
        let error = ports_are_free(&ports, |_| None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {port} cannot be used")), "{error}");
        assert!(error.contains("GROUNDWORK_API_PORT=PORT"), "{error}");
        assert!(ports_are_free(&ports, |_| Some("0".to_owned())).is_ok());
        assert!(ports_are_free(&ports, |_| Some("http".to_owned())).is_err());
    }
}
