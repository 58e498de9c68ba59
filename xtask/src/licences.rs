//! `cargo xtask licences`: the part of `deny.toml` that can be checked without fetching anything.
//!
//! Licences, banned crates and sources of every dependency. `cargo deny check` reads the same file and knows
//! advisories too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package};
use serde::Deserialize;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The members of `deny.toml` that are looked at.
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
    let metadata = MetadataCommand::new()
        .manifest_path(workspace.join("Cargo.toml"))
        .other_options(vec!["--locked".to_owned()])
        .exec()?;
    let resolved: BTreeSet<_> =
        metadata.resolve.iter().flat_map(|graph| &graph.nodes).map(|node| &node.id).collect();
    let dependencies: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some() && resolved.contains(&package.id))
        .collect();
    let problems: Vec<String> = dependencies.iter().flat_map(|package| problems(package, &policy)).collect();
    if !problems.is_empty() {
        bail!("dependencies against deny.toml:\n  {}", problems.join("\n  "));
    }
    println!("{} dependencies have allowed licences and sources", dependencies.len());
    Ok(())
}

fn problems(package: &Package, policy: &Policy) -> Vec<String> {
    let name = format!("{} {}", package.name, package.version);
    let mut problems = Vec::new();
    if let Some(ban) = policy.bans.deny.iter().find(|ban| *ban.name == **package.name) {
        problems.push(format!("{name} is banned: {}", ban.reason.as_deref().unwrap_or("no reason given")));
    }
    if package.source.as_ref().is_some_and(|source| source.repr != REGISTRY) {
        problems.push(format!("{name} does not come from crates.io"));
    }
    let exceptions = policy.licenses.exceptions.iter().filter(|exception| *exception.name == **package.name);
    let allowed: Vec<&String> =
        policy.licenses.allow.iter().chain(exceptions.flat_map(|exception| &exception.allow)).collect();
    match package.license.as_deref().map(|text| spdx::Expression::parse_mode(text, spdx::ParseMode::LAX)) {
        None => problems.push(format!("{name} declares no licence")),
        Some(Err(error)) => problems.push(format!("{name}: {error}")),
        Some(Ok(expression)) => {
            let is_allowed = |requirement: &spdx::LicenseReq| {
                let text = requirement.to_string();
                allowed.iter().any(|licence| **licence == text)
            };
            if !expression.evaluate(is_allowed) {
                problems.push(format!("{name}: the licence {expression} is not allowed"));
            }
        }
    }
    problems
}
