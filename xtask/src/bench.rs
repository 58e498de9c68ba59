//! `cargo xtask bench`: measures the running system, and compares the template engine with Go's.

pub(crate) mod blueprints;
pub(crate) mod charts;
pub(crate) mod expressions;
pub(crate) mod spiff;
mod spiff_inputs;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{commands, servers};

/// Number of elements of the list that `range.tmpl` iterates over.
const RANGE: usize = 2_000;
/// Additional comparisons with another measurement of Go's engine. Its whole parse copies sprig's
/// table of functions, which `parse.Parse` leaves out.
const FURTHER: [(&str, &str); 1] = [("parse", "parse.Parse")];

/// Options for the load of the system.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) has_floor: bool,
    /// True if package stores have only a few packages.
    pub(crate) is_small: bool,
    pub(crate) rounds: usize,
    pub(crate) strangers: usize,
}

/// Builds everything as in a release, and runs the scenarios; all if none is named.
pub(crate) fn system(
    workspace: &Path,
    json: Option<&Path>,
    binaries: Option<&Path>,
    load: Load,
    scenarios: Vec<String>,
) -> Result<()> {
    servers::run(workspace)?;
    commands::build_all(workspace, &["--release"])?;
    let built = commands::target_folder(workspace)?.join("release");
    let mut arguments = vec![binaries.unwrap_or(&built).display().to_string()];
    arguments.extend(json.into_iter().flat_map(|path| ["--json".to_owned(), path.display().to_string()]));
    for (name, number) in [("--rounds", load.rounds), ("--strangers", load.strangers)] {
        arguments.extend([name.to_owned(), number.to_string()]);
    }
    arguments.extend(load.has_floor.then(|| "--floor".to_owned()));
    arguments.extend(load.is_small.then(|| "--small".to_owned()));
    arguments.extend(scenarios);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    commands::run(workspace, &built.join("bench-system").display().to_string(), &arguments)
}

/// Nanoseconds of each round, by the name of the measurement.
type Times = BTreeMap<String, Vec<f64>>;

/// Runs both sides in turns, so that other work on the machine affects both, and prints how many
/// times faster ours is.
pub(crate) fn templates(workspace: &Path, rounds: usize) -> Result<()> {
    let arguments = [
        "build",
        "--release",
        "--package",
        "groundwork-gotemplate",
        "--example",
        "bench-templates",
        "--locked",
    ];
    commands::run(workspace, "cargo", &arguments)?;
    let ours = commands::target_folder(workspace)?.join("release/examples/bench-templates");
    let folder = tempfile::tempdir()?;
    let theirs = folder.path().join("bench");
    build_go(&workspace.join("benches/go"), &theirs)?;
    let inputs = folder.path().join("inputs");
    write_inputs(&workspace.join("benches/gotemplate"), &inputs)?;
    let (mut our_times, mut their_times) = (Times::new(), Times::new());
    for _ in 0..rounds.max(1) {
        measure(&theirs, &inputs, &mut their_times)?;
        measure(&ours, &inputs, &mut our_times)?;
    }
    print_ratios(&our_times, &their_times);
    Ok(())
}

/// Builds the Go program of a folder.
fn build_go(folder: &Path, program: &Path) -> Result<()> {
    let status = Command::new("go")
        .current_dir(folder)
        .args(["build", "-trimpath", "-o"])
        .arg(program)
        .arg(".")
        .status()
        .context("cannot run `go`; it is needed for the other side (https://go.dev/doc/install)")?;
    if !status.success() {
        bail!("`go build` failed in {}: {status}", folder.display());
    }
    Ok(())
}

/// Writes the inputs in the repository, and generated data.
fn write_inputs(kept: &Path, inputs: &Path) -> Result<()> {
    const WORDS: [&str; 8] = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"];
    const TIERS: [&str; 4] = ["edge", "core", "batch", "data"];
    fs::create_dir(inputs)?;
    for entry in fs::read_dir(kept).with_context(|| format!("cannot read {}", kept.display()))? {
        let entry = entry?;
        fs::copy(entry.path(), inputs.join(entry.file_name()))?;
    }
    let items = (0..RANGE).map(|i| {
        serde_json::json!({
            "id": i,
            "name": format!("item-{i:05}"),
            "price": (i * 37 % 9_973) as f64 / 100.0,
            "tags": [WORDS[i % 8], TIERS[i % 4]],
            "enabled": i % 3 != 0,
        })
    });
    let data = serde_json::json!({"title": "inventory", "items": items.collect::<Vec<_>>()});
    Ok(fs::write(inputs.join("range.json"), data.to_string())?)
}

fn measure(program: &Path, inputs: &Path, times: &mut Times) -> Result<()> {
    let output = Command::new(program)
        .arg(inputs)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    record(&output.stdout, times)
}

/// Records the output of a program: lines with a name and a number, and remarks.
fn record(printed: &[u8], times: &mut Times) -> Result<()> {
    for line in std::str::from_utf8(printed)?.lines().filter(|line| !line.starts_with('#')) {
        let (name, nanoseconds) = line.split_once(' ').context("a line is a name and a number")?;
        times.entry(name.to_owned()).or_default().push(nanoseconds.parse()?);
    }
    Ok(())
}

fn print_ratios(ours: &Times, theirs: &Times) {
    println!(
        "{:<36} {:>12} {:>12} {:>8} {:>8}",
        "microseconds, minimum", "original", "ours", "ratio", "median"
    );
    for (name, our_times) in ours {
        let (kind, template) = name.split_once('/').unwrap_or((name, ""));
        let further = FURTHER.iter().filter(|(ours, _)| *ours == kind).map(|(_, theirs)| *theirs);
        for their_kind in further.chain([kind]) {
            let Some(their_times) = theirs.get(&format!("{their_kind}/{template}")) else { continue };
            let (theirs, ours) = (Summary::of(their_times), Summary::of(our_times));
            println!(
                "{:<36} {:>12.1} {:>12.1} {:>7.2}x {:>7.2}x",
                format!("{template}: {kind} ({their_kind})"),
                theirs.minimum / 1e3,
                ours.minimum / 1e3,
                theirs.minimum / ours.minimum,
                theirs.median / ours.median,
            );
        }
    }
}

struct Summary {
    minimum: f64,
    median: f64,
}

impl Summary {
    fn of(times: &[f64]) -> Summary {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Summary { minimum: at(0), median: at(sorted.len() / 2) }
    }
}
