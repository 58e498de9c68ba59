//! Project in Docker Compose's view: its configuration, its containers, and the folder from which
//! it was started.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Returns the name of a project and its services, as `docker compose config` reads them with the
/// environment and `.env`.
pub(super) fn configuration(compose: impl Fn(&[&str]) -> Command) -> Result<Value> {
    let output =
        compose(&["config", "--format", "json"]).output().context("cannot run `docker compose config`")?;
    if !output.status.success() {
        bail!("compose.yaml cannot be used: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("`docker compose config` printed no JSON")
}

/// Returns the containers of the project, including those that have ended.
pub(super) fn containers(compose: impl Fn(&[&str]) -> Command) -> Result<Vec<Value>> {
    let output =
        compose(&["ps", "--all", "--format", "json"]).output().context("cannot run `docker compose ps`")?;
    Ok(documents(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses one JSON document per line.
fn documents(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns an error if the project was started from another checkout that still exists: `up` would
/// replace its containers.
pub(super) fn is_of_this_checkout(name: &str, workspace: &Path) -> Result<()> {
    let filter = format!("label=com.docker.compose.project={name}");
    let format = "{{.Label \"com.docker.compose.project.working_dir\"}}";
    let output = Command::new("docker")
        .args(["ps", "--all", "--filter", &filter, "--format", format])
        .stderr(Stdio::null())
        .output()
        .context("cannot run `docker ps`")?;
    let Some(other) = other_checkout(&String::from_utf8_lossy(&output.stdout), workspace) else {
        return Ok(());
    };
    bail!(
        "the project {name} was started from {other}, and this start would take it over: to run a second one beside it, set \
         COMPOSE_PROJECT_NAME, GROUNDWORK_HOST_FOLDER and other ports, as \"A second one\" in docs/compose.md shows"
    )
}

/// Returns the other checkout, unless it has been moved or removed, or has only a few containers
/// because its `up` was refused.
fn other_checkout(folders: &str, workspace: &Path) -> Option<String> {
    let own = workspace.canonicalize().ok()?;
    let folders = folders.lines().map(str::trim).filter(|folder| !folder.is_empty());
    let there: Vec<_> =
        folders.filter_map(|folder| Some((folder, Path::new(folder).canonicalize().ok()?))).collect();
    let is_own = there.iter().any(|(_, folder)| *folder == own);
    there.first().filter(|_| !is_own).map(|(folder, _)| (*folder).to_owned())
}

/// Returns the services that did not come up, whose logs give the reason.
pub(super) fn troubled(containers: &[Value]) -> Vec<&str> {
    let is_troubled = |container: &&Value| {
        let text = |field: &str| container[field].as_str().unwrap_or_default();
        match text("State") {
            "exited" | "dead" => container["ExitCode"] != 0,
            "restarting" => true,
            "running" => matches!(text("Health"), "unhealthy" | "starting"),
            _ => false,
        }
    };
    containers.iter().filter(is_troubled).filter_map(|container| container["Service"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_come_up_is_found() {
        let lines = r#"{"Service":"bootstrap","State":"exited","Health":"","ExitCode":0}
{"Service":"install","State":"exited","Health":"","ExitCode":1}
{"Service":"etcd","State":"running","Health":"","ExitCode":0}
{"Service":"kube-apiserver","State":"restarting","Health":"","ExitCode":1}
{"Service":"resolver","State":"running","Health":"healthy","ExitCode":0}
{"Service":"renderer","State":"running","Health":"unhealthy","ExitCode":0}
{"Service":"watcher","State":"running","Health":"starting","ExitCode":0}
{"Service":"variant","State":"created","Health":"","ExitCode":0}
a warning between
"#;
        let containers = documents(lines);
        assert_eq!(containers.len(), 8);
        assert_eq!(troubled(&containers), ["install", "kube-apiserver", "renderer", "watcher"]);
    }

    #[test]
    fn another_checkout_is_known_by_its_folder() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, other) = (own.path(), other.path());
        let line = |folder: &Path| format!("{}\n", folder.display());
        assert_eq!(other_checkout("", own), None);
        assert_eq!(other_checkout(&line(own), own), None);
        assert_eq!(other_checkout(&format!("{}/.\n\n", own.display()), own), None);
        assert_eq!(other_checkout(&line(other), own), Some(other.display().to_string()));
        assert_eq!(other_checkout(&(line(other) + &line(own)), own), None, "the other one was refused");
        assert_eq!(other_checkout(&line(&other.join("gone")), own), None);
    }
}
