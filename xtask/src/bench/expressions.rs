//! `cargo xtask bench expressions`: compares the expansion of a set with cel-go's evaluation of its
//! expressions.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Summary, Times, build_go};
use crate::commands;

/// Number of targets of the PackageVariantSet in this benchmark.
const TARGETS: usize = 10_000;

/// Runs both sides in turns and prints ratios. Our side is the whole expansion, including objects
/// and names.
pub(crate) fn run(workspace: &Path, rounds: usize) -> Result<()> {
    let arguments =
        ["build", "--release", "--package", "groundwork-fleet", "--example", "bench-expressions", "--locked"];
    commands::run(workspace, "cargo", &arguments)?;
    let ours = commands::target_folder(workspace)?.join("release/examples/bench-expressions");
    let folder = tempfile::tempdir()?;
    let theirs = folder.path().join("bench");
    build_go(&workspace.join("benches/cel"), &theirs)?;
    let expressions = workspace.join("benches/cel/expressions.json");
    let mut times = Times::new();
    for _ in 0..rounds.max(1) {
        measure(&theirs, &expressions, &mut times)?;
        measure(&ours, &expressions, &mut times)?;
    }
    let median = |name: &str| Summary::of(times.get(name).map_or(&[], Vec::as_slice)).median / 1e3;
    let ours = median("expand");
    println!("microseconds for one target with ten expressions, medians");
    println!("{:<44} {ours:>12.1}", "ours, the whole expansion");
    for (name, what) in
        [("once", "cel-go, each compiled once"), ("per-use", "cel-go, each compiled for each use")]
    {
        println!("{what:<44} {:>12.1} {:>8.2}x", median(name), median(name) / ours);
    }
    Ok(())
}

fn measure(program: &Path, expressions: &Path, times: &mut Times) -> Result<()> {
    let output = Command::new(program)
        .arg(expressions)
        .arg(TARGETS.to_string())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    super::record(&output.stdout, times)
}
