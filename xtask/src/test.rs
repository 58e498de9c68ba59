//! `cargo xtask test`: runs all tests, with the servers that they need.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// Packages whose tests share the servers of their process; nextest would start the servers for
/// every single test.
const SHARING_SERVERS: [&str; 1] = ["groundwork-tests"];

/// Gets the servers and runs every test. If a server is missing, tests that need it print a note
/// and are skipped; with `CI` set they fail.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let outcome = test(workspace);
    // The notes of the skipped tests are far above in the output, so repeat the reason at the end.
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
    // nextest does not run doc tests.
    commands::run(workspace, "cargo", &["test", "--locked", "--doc", "--quiet", "--workspace"])
}
