//! `cargo xtask bench`: figures of the running system.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// Builds everything as it is shipped, and runs the scenarios.
pub(crate) fn system(workspace: &Path, json: Option<&Path>) -> Result<()> {
    servers::run(workspace)?;
    commands::run(workspace, "cargo", &["build", "--release", "--workspace", "--bins", "--locked"])?;
    let target = commands::target_folder(workspace)?;
    let binaries = target.join("release");
    let bench = binaries.join("bench-system");
    let mut arguments = vec![binaries.display().to_string()];
    arguments.extend(json.map(|path| path.display().to_string()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    commands::run(workspace, &bench.display().to_string(), &arguments)
}
