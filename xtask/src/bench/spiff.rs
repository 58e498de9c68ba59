//! `cargo xtask bench spiff`: compares the engine with a yardstick, and with known figures of
//! spiff. The yardstick is the time in which a Go program reads and writes the same files as YAML
//! on the same machine.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Times;
use super::spiff_inputs::{cascade, chain, collections, worst_order};
use crate::commands;

/// spiff's time as a multiple of the yardstick, measured with the same inputs; `None` if it did not
/// end.
const ORIGINAL: [(&str, Option<f64>); 9] = [
    ("data-mapping", Some(12.0)),
    ("chain", Some(41.0)),
    ("chain-10", Some(38.0)),
    ("collections", Some(7.6)),
    ("collections-10", Some(9.8)),
    ("cascade", Some(53.0)),
    ("cascade-10", None),
    ("worst-order", Some(350.0)),
    ("worst-order-10", Some(4_000.0)),
];

/// Runs yardstick and engine in turns and prints both as multiples.
pub(crate) fn run(workspace: &Path, rounds: usize) -> Result<()> {
    let arguments =
        ["build", "--release", "--package", "groundwork-spiff", "--example", "bench-spiff", "--locked"];
    commands::run(workspace, "cargo", &arguments)?;
    let engine = commands::target_folder(workspace)?.join("release/examples/bench-spiff");
    let folder = tempfile::tempdir()?;
    let yardstick = folder.path().join("yardstick");
    super::build_go(&workspace.join("benches/yardstick"), &yardstick)?;
    let inputs = Inputs::write(&workspace.join("benches/spiff"), folder.path())?;
    let (mut yardsticks, mut engines) = (Times::new(), Times::new());
    for _ in 0..rounds.max(1) {
        measure(&yardstick, &inputs.yardstick, &mut yardsticks)?;
        measure(&engine, &inputs.engine, &mut engines)?;
    }
    print(&yardsticks, &engines);
    Ok(())
}

/// Lines that tell each program which input to measure.
struct Inputs {
    yardstick: String,
    engine: String,
}

impl Inputs {
    fn write(kept: &Path, folder: &Path) -> Result<Self> {
        let mut inputs = Self { yardstick: String::new(), engine: String::new() };
        let (mapping, bindings) = (kept.join("data-mapping.yaml"), kept.join("bindings.yaml"));
        let (mapping, bindings) = (mapping.display(), bindings.display());
        inputs.add(
            &format!("data-mapping {mapping} {bindings}"),
            &format!("data-mapping {mapping} --bindings {bindings}"),
        );
        for (scale, suffix) in [(1, ""), (10, "-10")] {
            for (name, text) in [
                ("chain", chain(400 * scale)),
                ("collections", collections(5_000 * scale)),
                ("worst-order", worst_order(500 * scale)),
            ] {
                let file = folder.join(format!("{name}{suffix}.yaml"));
                fs::write(&file, text)?;
                let line = format!("{name}{suffix} {}", file.display());
                inputs.add(&line, &line);
            }
            let mut line = format!("cascade{suffix}");
            for (position, text) in cascade(1_000 * scale).into_iter().enumerate() {
                let file = folder.join(format!("cascade{suffix}-{position}.yaml"));
                fs::write(&file, text)?;
                line = format!("{line} {}", file.display());
            }
            inputs.add(&line, &line);
        }
        Ok(inputs)
    }

    fn add(&mut self, yardstick: &str, engine: &str) {
        self.yardstick.push_str(yardstick);
        self.yardstick.push('\n');
        self.engine.push_str(engine);
        self.engine.push('\n');
    }
}

pub(super) fn measure(program: &Path, lines: &str, times: &mut Times) -> Result<()> {
    let cannot = || format!("cannot run {}", program.display());
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(cannot)?;
    child.stdin.take().context("no standard input")?.write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{} failed ({})", program.display(), output.status);
    }
    super::record(&output.stdout, times)
}

fn print(yardsticks: &Times, engines: &Times) {
    println!("medians; original and ours as multiples of the yardstick");
    println!(
        "{:<16} {:>12} {:>12} {:>8} {:>9} {:>8}",
        "input", "yardstick us", "ours us", "ours", "original", "faster"
    );
    for (name, original) in ORIGINAL {
        let median = |times: &Times| super::Summary::of(times.get(name).map_or(&[], Vec::as_slice)).median;
        let (yardstick, ours) = (median(yardsticks), median(engines));
        let multiple = ours / yardstick;
        let known = original.map_or_else(|| "over 950".to_owned(), |original| format!("{original:.1}"));
        let faster = original.unwrap_or(950.0) / multiple;
        println!(
            "{name:<16} {:>12.0} {:>12.0} {multiple:>8.2} {known:>9} {faster:>7.1}x",
            yardstick / 1e3,
            ours / 1e3
        );
    }
    for name in ["chain", "cascade", "worst-order", "collections"] {
        let median = |name: &str| super::Summary::of(engines.get(name).map_or(&[], Vec::as_slice)).median;
        println!(
            "{name}: ten times the input takes {:.1} times as long",
            median(&format!("{name}-10")) / median(name)
        );
    }
}
