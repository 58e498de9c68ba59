//! `cargo xtask fuzz`: long runs of the tests that make their inputs up, or render the same thing over and over.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

/// A test that does more if it is asked for.
struct Run {
    /// Package and target.
    package: &'static [&'static str],
    test: &'static str,
    /// Says how much.
    variable: &'static str,
    /// Absent for as many as the command was given.
    times: Option<usize>,
}

const BLUEPRINT: &[&str] = &["groundwork-blueprint", "--lib"];
const CLI: &[&str] = &["groundwork", "--test", "cli"];

const RUNS: [Run; 4] = [
    Run {
        package: BLUEPRINT,
        test: "made_up_blueprints_are_answered",
        variable: "GROUNDWORK_MADE_UP_BLUEPRINTS",
        times: None,
    },
    Run {
        package: CLI,
        test: "made_up_lines_are_answered",
        variable: "GROUNDWORK_MADE_UP_LINES",
        times: None,
    },
    Run {
        package: BLUEPRINT,
        test: "renderings_are_the_same_each_time",
        variable: "GROUNDWORK_RENDERINGS",
        times: Some(1_000),
    },
    Run {
        package: CLI,
        test: "examples_give_what_they_show",
        variable: "GROUNDWORK_RENDERINGS",
        times: Some(1_000),
    },
];

pub(crate) fn run(workspace: &Path, cases: usize) -> Result<()> {
    for Run { package, test, variable, times } in RUNS {
        let times = times.unwrap_or(cases);
        println!("{test}: {times}");
        let mut command = Command::new("cargo");
        command.current_dir(workspace).args(["test", "--release", "--locked", "--package"]).args(package);
        if !command.arg(test).env(variable, times.to_string()).status()?.success() {
            bail!("{test} found something");
        }
    }
    Ok(())
}
