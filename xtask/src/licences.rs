//! `cargo xtask licences`: checks the parts of `deny.toml` that need no network.
//!
//! Checks licences, banned crates and sources of every dependency. `cargo deny check` reads the
//! same file; `cargo xtask advisories` checks advisories.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// Fields of `deny.toml` that this command uses.
#[derive(Deserialize)]
struct Policy {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: Option<String>,
}

/// Checks every dependency of the workspace.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let file = workspace.join("deny.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let policy: Policy = toml::from_str(&text).with_context(|| format!("malformed {}", file.display()))?;
    let dependencies = dependencies(workspace)?;
    let problems: Vec<String> = dependencies.iter().flat_map(|package| problems(package, &policy)).collect();
    if !problems.is_empty() {
        bail!("dependencies against deny.toml:\n  {}", problems.join("\n  "));
    }
    println!("{} dependencies have allowed licences and sources", dependencies.len());
    Ok(())
}

/// Crate that is built on some platform.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// Origin of a crate that is not from crates.io.
    origin: Option<String>,
    licence: String,
}

/// Lists the dependencies with `cargo tree`, which, unlike `cargo metadata`, leaves out those of
/// unused features.
fn dependencies(workspace: &Path) -> Result<BTreeSet<Package>> {
    let arguments =
        ["tree", "--workspace", "--locked", "--target", "all", "--edges", "all", "--prefix", "none"];
    let output = Command::new("cargo")
        .args(arguments)
        .args(["--format", "{p}|{l}"])
        .current_dir(workspace)
        .output()
        .context("cannot run cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let own = format!("({}", workspace.canonicalize()?.display());
    Ok(text.lines().filter(|line| !line.contains(&own)).filter_map(package).collect())
}

/// Parses a line `name v1.2.3 (origin)|licence`.
fn package(line: &str) -> Option<Package> {
    let (id, licence) = line.split_once('|')?;
    let mut parts = id.split_whitespace();
    let (name, version) = (parts.next()?.to_owned(), parts.next()?.trim_start_matches('v').to_owned());
    let origin = parts
        .find(|part| part.starts_with('(') && !matches!(*part, "(proc-macro)" | "(*)"))
        .map(str::to_owned);
    Some(Package { name, version, origin, licence: licence.trim_end_matches(" (*)").to_owned() })
}

fn problems(package: &Package, policy: &Policy) -> Vec<String> {
    let name = format!("{} {}", package.name, package.version);
    let mut problems = Vec::new();
    if let Some(ban) = policy.bans.deny.iter().find(|ban| ban.name == package.name) {
        problems.push(format!("{name} is banned: {}", ban.reason.as_deref().unwrap_or("no reason given")));
    }
    if let Some(origin) = &package.origin {
        problems.push(format!("{name} does not come from crates.io but from {origin}"));
    }
    let exceptions = policy.licenses.exceptions.iter().filter(|exception| exception.name == package.name);
    let allowed: BTreeSet<&String> =
        policy.licenses.allow.iter().chain(exceptions.flat_map(|exception| &exception.allow)).collect();
    match spdx::Expression::parse_mode(&package.licence, spdx::ParseMode::LAX) {
        Err(error) => problems.push(format!("{name}: licence {:?}: {error}", package.licence)),
        Ok(expression) if expression.evaluate(|requirement| allowed.contains(&requirement.to_string())) => {}
        Ok(expression) => problems.push(format!("{name}: the licence {expression} is not allowed")),
    }
    problems
}
