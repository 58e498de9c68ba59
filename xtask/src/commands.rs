//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program in the workspace, and returns an error if it fails.
pub(crate) fn run(workspace: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    let shown = format!("{program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .current_dir(workspace)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Builds the programs of all packages.
pub(crate) fn build_all(workspace: &Path, further: &[&str]) -> Result<()> {
    run(workspace, "cargo", &[&["build", "--bins", "--locked", "--workspace"], further].concat())
}

/// Reports whether a program can be run with these arguments.
pub(crate) fn exists(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the target folder of the workspace's builds, from the path of this program, which is in
/// it.
pub(crate) fn target_folder(workspace: &Path) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Ok(program.parent().and_then(Path::parent).map_or_else(|| workspace.join("target"), Path::to_owned))
}
