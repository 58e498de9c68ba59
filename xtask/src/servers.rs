//! `cargo xtask servers`: finds the servers that tests need, and builds those that are missing.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use groundwork_testkit::{Binary, Server, build_folder, find};

use crate::browser;

/// Module with Kubernetes' version in `tools/testservers/go.mod`. The binaries do not know their
/// version unless the linker sets it.
const KUBERNETES_MODULE: &str = "k8s.io/kubernetes";
const GRPCURL_MODULE: &str = "github.com/fullstorydev/grpcurl ";

/// Prints where each server was found, and builds it first if necessary. Then does the same for the
/// browser, whose absence is not an error.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    servers(workspace)?;
    browser::run();
    Ok(())
}

fn servers(workspace: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for server in Server::ALL {
        find(server).map_or_else(|_| missing.push(server), |binary| report(&binary));
    }
    if missing.is_empty() {
        return Ok(());
    }
    for server in missing {
        let folder = build_folder(server)
            .context("set HOME or XDG_CACHE_HOME: the servers are built into the user's cache")?;
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        // Two builds at once would take twice the time of one after the other.
        let lock = File::create(folder.join(".lock")).context("cannot create the lock file of the build")?;
        if lock.try_lock().is_err() {
            println!("waiting for another build to end");
            lock.lock().context("cannot lock the build")?;
        }
        // The other build may have built this server in the meantime.
        if find(server).is_err() {
            build(&workspace.join(server.module()), &folder, server)?;
        }
        report(&find(server).with_context(|| format!("{server} was built but cannot be used"))?);
    }
    Ok(())
}

fn report(Binary { server, path, version }: &Binary) {
    println!("{server} {version}: {}", path.display());
}

/// Builds one server next to its place and moves it there, so that other processes never see half a
/// file.
fn build(module: &Path, folder: &Path, server: Server) -> Result<()> {
    println!("{server}: building; the first time this takes minutes");
    let start = Instant::now();
    let unfinished = tempfile::Builder::new().prefix(".build-").tempdir_in(folder)?;
    let file = unfinished.path().join(server.name());
    let status = Command::new("go")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-ldflags", &linker_flags(module, server)?, "-o"])
        .arg(&file)
        .arg(server.package())
        .status()
        .context("cannot run `go`; it is needed to build the servers (https://go.dev/doc/install)")?;
    if !status.success() {
        bail!("{server}: `go build {}` failed in {}: {status}", server.package(), module.display());
    }
    fs::rename(&file, folder.join(server.name()))?;
    println!("{server}: built in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Returns the linker flags that set the version of Kubernetes' binaries and of grpcurl. Without
/// them the former have `v0.0.0-master+$Format:%H$`, which clients cannot parse, and the latter has
/// none.
fn linker_flags(module: &Path, server: Server) -> Result<String> {
    if matches!(server, Server::GoTemplate | Server::GitServer | Server::Helm | Server::Cel) {
        return Ok("-s -w".to_owned());
    }
    let file = module.join("go.mod");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let required = |name: &str| {
        let mut lines =
            text.lines().filter_map(|line| line.trim().trim_start_matches("require ").strip_prefix(name));
        let version =
            lines.find_map(|rest| rest.split_whitespace().next().filter(|version| version.starts_with('v')));
        version.with_context(|| format!("{} does not require {name}", file.display()))
    };
    if server == Server::Grpcurl {
        return Ok(format!("-s -w -X main.version={}", required(GRPCURL_MODULE)?));
    }
    let version = required(KUBERNETES_MODULE)?;
    let (major, minor) = version
        .trim_start_matches('v')
        .split_once('.')
        .and_then(|(major, rest)| Some((major, rest.split_once('.')?.0)))
        .with_context(|| format!("{version:?} is not a version of Kubernetes"))?;
    let package = "k8s.io/component-base/version";
    let commit = "0".repeat(40);
    Ok(format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean -X {package}.gitCommit={commit}"
    ))
}
