//! Local control plane with all services, for `cargo xtask dev`, without Docker or any
//! installation.

use std::net::TcpListener;
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
    let chosen = addresses(&arguments, free_port)?;
    let mut services = Command::new(groundwork);
    services
        .args(["up", "--console", "--allow-operations"])
        .arg("--repositories")
        .arg(workspace().join("examples/echo-server/components/repositories.yaml"))
        .args(chosen.iter().flat_map(Address::arguments))
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
    for Address { name, usual, port } in &chosen {
        let why = if port == usual { String::new() } else { format!(", since {usual} is taken") };
        println!("{name:<8}  127.0.0.1:{port}{why}");
    }
    // The terminal sends the same signal to the services. Wait for them first, then end the
    // servers.
    tokio::select! {
        ended = services.wait() => bail!("the services have ended: {}", ended?),
        signal = tokio::signal::ctrl_c() => signal.context("no signals")?,
    }
    services.wait().await?;
    println!("stopping the servers");
    Ok(())
}

/// Listening address of a server.
#[derive(Debug, PartialEq)]
struct Address {
    name: &'static str,
    /// Port that the documentation names.
    usual: u16,
    port: u16,
}

impl Address {
    fn arguments(&self) -> [String; 2] {
        [flag(self.name), format!("127.0.0.1:{}", self.port)]
    }
}

fn flag(name: &str) -> String {
    format!("--{name}-address")
}

/// Returns the ports that the documentation names, unless the user gave others. A port that is in
/// use, for instance by a Compose trial, is replaced by a free one.
fn addresses(given: &[String], free: impl Fn(u16) -> Result<u16>) -> Result<Vec<Address>> {
    let all = [
        ("admin", 9440),
        ("resolver", 9441),
        ("renderer", 9442),
        ("watcher", 9443),
        ("variant", 9444),
        ("deployer", 9458),
        ("console", 9456),
    ];
    let is_given = |name: &str| given.iter().any(|argument| argument.starts_with(&flag(name)));
    let wanted = all.into_iter().filter(|(name, _)| !is_given(name));
    wanted.map(|(name, usual)| Ok(Address { name, usual, port: free(usual)? })).collect()
}

/// Returns this port, or another one if it is in use.
fn free_port(usual: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", usual)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)));
    Ok(listener.and_then(|listener| listener.local_addr()).context("no port is free")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_gives_way() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_ne!(free_port(port).unwrap(), port);
        drop(taken);
        assert_eq!(free_port(port).unwrap(), port);
        let given = ["--watcher-address=127.0.0.1:1".to_owned(), "--admin-address".to_owned()];
        let beside = |usual| Ok(if usual == 9441 { 5 } else { usual });
        let chosen = addresses(&given, beside).unwrap();
        let expected = [
            ("resolver", 9441, 5),
            ("renderer", 9442, 9442),
            ("variant", 9444, 9444),
            ("deployer", 9458, 9458),
            ("console", 9456, 9456),
        ];
        assert_eq!(chosen, expected.map(|(name, usual, port)| Address { name, usual, port }));
        assert_eq!(chosen[0].arguments(), ["--resolver-address", "127.0.0.1:5"]);
    }
}
