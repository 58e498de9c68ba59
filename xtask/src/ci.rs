//! `cargo xtask ci`: runs everything that has to pass before a change is merged.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::chaos::Chaos;
use crate::{advisories, book, chaos, chart, commands, compose, crds, examples, licences, test};

/// Runs all checks; the first failure ends the run.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    step("format", || commands::run(workspace, "cargo", &["fmt", "--all", "--check"]))?;
    step("generated files", || crds::run(workspace, true).and_then(|()| chart::run(workspace, true)))?;
    step("examples", || examples::run(workspace, true))?;
    step("book", || book::run(workspace, true))?;
    step("licences", || licences::run(workspace))?;
    step("advisories", || advisories::run(workspace))?;
    step("lint", || {
        let lint = ["clippy", "--all-targets", "--locked", "--quiet", "--workspace", "--", "-D", "warnings"];
        commands::run(workspace, "cargo", &lint)
    })?;
    step("tests", || test::run(workspace))?;
    step("chaos", || chaos::run(workspace, &Chaos::of_a_build()))?;
    step("compose.yaml", || compose::check(workspace))?;
    step("commands of the README", || readme(workspace))
}

fn step(name: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    check().with_context(|| format!("step \"{name}\""))?;
    println!("== {name}: passed in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Runs the commands that the README shows behind a prompt in its `console` blocks.
fn readme(workspace: &Path) -> Result<()> {
    let text = fs::read_to_string(workspace.join("README.md")).context("cannot read README.md")?;
    let mut in_block = false;
    let mut count = 0;
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if in_block && let Some(command) = line.strip_prefix("$ ") {
            println!("$ {command}");
            commands::run(workspace, "sh", &["-c", command])?;
            count += 1;
        }
    }
    ensure!(count > 0, "README.md shows no commands in console blocks");
    Ok(())
}

#[cfg(test)]
mod tests {
    use toml::{Table, Value};

    /// A panic in a handler, a call or a template function is answered with an error, which is
    /// impossible if panics abort the process.
    #[test]
    fn release_builds_recover_from_panics() {
        let manifest: Table = include_str!("../../Cargo.toml").parse().unwrap();
        let profiles = manifest["profile"].as_table().unwrap();
        assert!(profiles.contains_key("release"));
        for (name, profile) in profiles {
            let panic = profile.get("panic").and_then(Value::as_str).unwrap_or("unwind");
            assert_eq!(panic, "unwind", "profile {name}");
        }
    }

    /// Symbols are a fifth of a program. Cargo ignores `strip` for packages with settings of their
    /// own, which the documents' measures forbid.
    #[test]
    fn release_programs_are_stripped() {
        let manifest: Table = include_str!("../../Cargo.toml").parse().unwrap();
        assert_eq!(manifest["profile"]["release"]["strip"].as_bool(), Some(true));
    }
}
