//! `cargo xtask test`: all tests, with the servers they need.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// Tests of these share the servers of their process; nextest would start them for every single test.
const SHARING_SERVERS: [&str; 1] = ["groundwork-tests"];

/// Gets the servers and runs every test. Where a server cannot be had, tests that need it say so and are skipped;
/// with `CI` set they fail.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let outcome = test(workspace);
    // What each of these tests says stands far above, where nobody reads it.
    if let Some(reason) = groundwork_testkit::without_fixtures() {
        eprintln!("skipped: tests that compare with files of other projects: {reason}");
    }
    outcome
}

fn test(workspace: &Path) -> Result<()> {
    if let Err(error) = servers::run(workspace) {
        if std::env::var_os("CI").is_some() {
            return Err(error);
        }
        eprintln!("skipped: tests that need servers, because they could not be built: {error:#}");
    }
    // The suites run the services as processes of their own.
    commands::build_all(workspace, &["--quiet"])?;
    if !commands::exists("cargo", &["nextest", "--version"]) {
        let arguments = ["test", "--locked", "--quiet", "--no-fail-fast", "--workspace"];
        return commands::run(workspace, "cargo", &arguments);
    }
    let mut arguments = vec!["nextest", "run", "--locked", "--no-fail-fast", "--workspace"];
    arguments.extend(SHARING_SERVERS.iter().flat_map(|package| ["--exclude", package]));
    commands::run(workspace, "cargo", &arguments)?;
    let mut arguments = vec!["test", "--locked", "--quiet"];
    arguments.extend(SHARING_SERVERS.iter().flat_map(|package| ["--package", package]));
    commands::run(workspace, "cargo", &arguments)?;
    commands::run(workspace, "cargo", &["test", "--locked", "--doc", "--quiet", "--workspace"])
}
