//! `cargo xtask bench blueprints`: compares whole renderings with a yardstick, and with known
//! figures of Landscaper. The yardstick is the time in which a Go program reads and writes the same
//! files as YAML on the same machine.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Times;
use super::spiff::measure;
use crate::commands;

/// Landscaper's time as a multiple of the yardstick, measured with the same inputs, with everything
/// read and parsed each time.
const ORIGINAL: [(&str, f64); 3] = [("echo", 3.4), ("large", 14.0), ("aggregate", 6.5)];

/// Runs yardstick and renderings in turns and prints both as multiples.
pub(crate) fn run(workspace: &Path, rounds: usize) -> Result<()> {
    let arguments = [
        "build",
        "--release",
        "--package",
        "groundwork-blueprint",
        "--example",
        "bench-blueprints",
        "--example",
        "count-blueprints",
        "--locked",
    ];
    commands::run(workspace, "cargo", &arguments)?;
    let examples = commands::target_folder(workspace)?.join("release/examples");
    let engine = examples.join("bench-blueprints");
    let folder = tempfile::tempdir()?;
    let yardstick = folder.path().join("yardstick");
    super::build_go(&workspace.join("benches/yardstick"), &yardstick)?;
    let inputs = workspace.join("benches/blueprints");
    let (mut yardstick_lines, mut engine_lines) = (String::new(), String::new());
    for (name, _) in ORIGINAL {
        let input = inputs.join(name);
        let mut files = Vec::new();
        documents(&input, &mut files)?;
        files.sort();
        yardstick_lines.push_str(&format!("{name} {}\n", files.join(" ")));
        engine_lines.push_str(&format!("{name} {}\n", input.display()));
    }
    let (mut yardsticks, mut engines) = (Times::new(), Times::new());
    for _ in 0..rounds.max(1) {
        measure(&yardstick, &yardstick_lines, &mut yardsticks)?;
        measure(&engine, &engine_lines, &mut engines)?;
    }
    // One run is enough, because the counted allocations are the same every time.
    measure(&examples.join("count-blueprints"), &engine_lines, &mut engines)?;
    print(&yardsticks, &engines);
    Ok(())
}

/// Collects the YAML and JSON files below a folder.
fn documents(folder: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_document = path.extension().is_some_and(|ending| ending == "yaml" || ending == "json");
        if path.is_dir() {
            documents(&path, files)?;
        } else if is_document {
            files.push(path.display().to_string());
        }
    }
    Ok(())
}

fn print(yardsticks: &Times, engines: &Times) {
    println!(
        "medians; cold: everything read and parsed anew, as the original was measured; warm: a blueprint used before"
    );
    println!(
        "{:<12} {:>12} {:>9} {:>9} {:>10} {:>8} {:>10} {:>9} {:>11} {:>11}",
        "input",
        "yardstick us",
        "cold us",
        "warm us",
        "warm/s",
        "cold",
        "original",
        "faster",
        "cold bytes",
        "warm bytes"
    );
    for (name, original) in ORIGINAL {
        let median =
            |times: &Times, name: &str| super::Summary::of(times.get(name).map_or(&[], Vec::as_slice)).median;
        let yardstick = median(yardsticks, name);
        let (cold, warm) =
            (median(engines, &format!("{name}-cold")), median(engines, &format!("{name}-warm")));
        let bytes = |kind: &str| median(engines, &format!("{name}-{kind}-bytes"));
        let multiple = cold / yardstick;
        println!(
            "{name:<12} {:>12.0} {:>9.0} {:>9.0} {:>10.0} {multiple:>8.2} {original:>10.1} {:>8.1}x {:>11.0} {:>11.0}",
            yardstick / 1e3,
            cold / 1e3,
            warm / 1e3,
            1e9 / warm,
            original / multiple,
            bytes("cold"),
            bytes("warm"),
        );
    }
}
