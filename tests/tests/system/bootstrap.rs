//! Effects of `groundwork-bootstrap`, and of a user who applies its files by hand.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use groundwork_tests::{System, workspace};
use serde_json::{Value, json};

const SERVICES: [&str; 6] = ["watcher", "resolver", "renderer", "deployer", "variant", "console"];

/// Writes the state file that `groundwork-bootstrap credentials` would have left for this API
/// server.
fn credentials(plane: &ControlPlane, folder: &Path) -> Result<String> {
    let config: Value = serde_json::from_slice(&std::fs::read(plane.kubeconfig())?)?;
    let cluster = &config["clusters"][0]["cluster"];
    let chain = cluster["certificate-authority-data"].as_str().context("the kubeconfig has an authority")?;
    let chain = String::from_utf8(BASE64.decode(chain.as_bytes())?)?;
    // The certificate authority is the last certificate of the chain.
    let begin = chain.rfind("-----BEGIN").context("the authority is PEM")?;
    let state = json!({
        "version": 1, "authority": &chain[begin..], "authority_key": "", "server_names": [], "server": "",
        "accounts_key": "", "tokens": {"admin": config["users"][0]["user"]["token"]}, "passwords": {},
    });
    for name in SERVICES.iter().chain(&["authority"]) {
        std::fs::create_dir(folder.join(name))?;
    }
    std::fs::write(folder.join("authority/state.json"), state.to_string())?;
    Ok(cluster["server"].as_str().context("the kubeconfig has a server")?.to_owned())
}

fn bootstrap(folder: &Path, server: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let user = std::fs::metadata(folder)?.uid().to_string();
    let output = Command::new(System::program("groundwork-bootstrap")?)
        .args(["cluster", "--user", &user, "--api-server", server, "--folder"])
        .arg(folder)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Runs `kubectl apply --server-side` without `--force-conflicts`.
fn apply(plane: &ControlPlane, arguments: &[&str], input: &str) -> Result<()> {
    let mut command = plane.kubectl()?;
    command.args(["apply", "--server-side"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("standard input is a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the CRDs in a different version. A conflict then names every field that differs.
fn changed_kinds() -> Result<String> {
    let mut kinds = Vec::new();
    for kind in groundwork_api::crds() {
        let mut kind = serde_json::to_value(kind)?;
        let description = kind.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/description");
        *description.context("every kind has a description")? = json!("Another version of it.");
        kinds.push(kind);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": kinds}).to_string())
}

#[tokio::test]
async fn kinds_can_be_applied_by_hand_after_it() -> Result<()> {
    let needed = [Server::Etcd, Server::KubeApiserver, Server::Kubectl];
    if !servers_or_skip(&needed) {
        return Ok(());
    }
    let plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let folder = tempfile::tempdir()?;
    let server = credentials(&plane, folder.path())?;
    bootstrap(folder.path(), &server)?;
    for service in SERVICES {
        let token = std::fs::read_to_string(folder.path().join(service).join("token"))?;
        ensure!(token.split('.').count() == 3, "{service} has no token");
    }
    let files = workspace().join("k8s/crds").display().to_string();
    apply(&plane, &["-k", &files], "")?;
    apply(&plane, &["-f", "-"], &changed_kinds()?)?;
    // The next start restores its own version, even after another user applied a different one.
    bootstrap(folder.path(), &server)?;
    let mut get = plane.kubectl()?;
    let description = "-o=jsonpath={.items[*].spec.versions[0].schema.openAPIV3Schema.description}";
    let told = get.args(["get", "crds", description]).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    ensure!(!told.is_empty() && !told.contains("Another version of it."), "{told}");
    Ok(())
}
