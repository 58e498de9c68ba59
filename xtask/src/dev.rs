//! `cargo xtask dev`: runs a control plane and all services.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// Builds everything and runs until Ctrl-C.
pub(crate) fn run(workspace: &Path, arguments: &[String]) -> Result<()> {
    servers::run(workspace)?;
    // Build the same packages as for tests, so that cargo does not build them twice with other
    // features.
    commands::build_all(workspace, &[])?;
    let binaries = commands::target_folder(workspace)?.join("debug");
    let groundwork = binaries.join("groundwork").display().to_string();
    let mut all = vec![groundwork.as_str()];
    all.extend(arguments.iter().map(String::as_str));
    commands::run(workspace, &binaries.join("dev").display().to_string(), &all)
}
