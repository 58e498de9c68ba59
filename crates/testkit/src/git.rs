//! Runs the program `git` as a user does.

use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

/// Runs `git` in a folder as the user Pat, without any user's settings, and returns its output.
///
/// # Errors
/// git is not installed, or fails; the error has its output.
pub fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=Pat",
        "-c",
        "user.email=pat@example.org",
        "-c",
        "init.defaultBranch=main",
    ]);
    let output =
        command.args(arguments).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(Error::other(format!("git {}: {error}", arguments.join(" "))))
}
