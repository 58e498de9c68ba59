//! A control plane of one's own with all services, for `cargo xtask dev`: no Docker, nothing installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{ControlPlane, ControlPlaneOptions};
use groundwork_tests::{install_crds, workspace};

#[tokio::main]
async fn main() -> Result<()> {
    let groundwork =
        std::env::args().nth(1).map(PathBuf::from).context("the first argument is the groundwork binary")?;
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    println!("starting etcd, kube-apiserver and kube-controller-manager");
    let mut plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    install_crds(plane.client().await?).await?;
    plane.start_controller_manager()?;
    let applied = plane
        .kubectl()?
        .args(["apply", "--server-side", "-k"])
        .arg(workspace().join("k8s/admission"))
        .output()?;
    ensure!(applied.status.success(), "k8s/admission: {}", String::from_utf8_lossy(&applied.stderr));
    let mut services = Command::new(groundwork);
    services
        .arg("up")
        .arg("--repositories")
        .arg(workspace().join("examples/echo-server/components/repositories.yaml"))
        .args(addresses(&arguments))
        .args(&arguments)
        .env("KUBECONFIG", plane.kubeconfig())
        .stdin(Stdio::null());
    let mut services =
        tokio::process::Command::from(services).kill_on_drop(true).spawn().context("groundwork up")?;
    let kubectl = plane.kubectl()?.get_program().to_string_lossy().into_owned();
    println!("\nThe cluster is yours until you press Ctrl-C. In another terminal:\n");
    println!("    export KUBECONFIG={}", plane.kubeconfig().display());
    println!("    {kubectl} apply -f examples/echo-server");
    println!("    {kubectl} get installations,executions,deployitems -A --watch\n");
    // The services get the same signal; they are waited for, then the servers end.
    tokio::select! {
        ended = services.wait() => bail!("the services have ended: {}", ended?),
        signal = tokio::signal::ctrl_c() => signal.context("no signals")?,
    }
    services.wait().await?;
    println!("stopping the servers");
    Ok(())
}

/// The ports that the README names, unless others are asked for.
fn addresses(given: &[String]) -> Vec<String> {
    let usual = [("admin", 9440), ("resolver", 9441), ("renderer", 9442), ("watcher", 9443)];
    let flags =
        usual.into_iter().map(|(name, port)| (format!("--{name}-address"), format!("127.0.0.1:{port}")));
    let wanted = flags.filter(|(flag, _)| !given.iter().any(|argument| argument.starts_with(flag)));
    wanted.flat_map(|(flag, address)| [flag, address]).collect()
}
