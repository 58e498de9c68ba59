//! `cargo xtask test`: all tests, with the servers they need.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// Gets the servers and runs every test. Where a server cannot be had, tests that need it say so and are skipped;
/// with `CI` set they fail.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    if let Err(error) = servers::run(workspace) {
        if std::env::var_os("CI").is_some() {
            return Err(error);
        }
        eprintln!("skipped: tests that need servers, because they could not be built: {error:#}");
    }
    let has_nextest = commands::exists("cargo", &["nextest", "--version"]);
    if has_nextest {
        commands::run(workspace, "cargo", &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"])?;
        commands::run(workspace, "cargo", &["test", "--workspace", "--locked", "--doc", "--quiet"])
    } else {
        commands::run(workspace, "cargo", &["test", "--workspace", "--locked", "--quiet"])
    }
}
