//! Long runs of tests that do a little of their work in every run. `cargo xtask fuzz` runs those
//! that generate inputs, or render the same input repeatedly; `cargo xtask faults` runs those in
//! which processes die.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{commands, servers};

/// Test that does more work if a variable asks for it.
struct Run {
    /// Arguments of cargo that select the package and the test target.
    package: &'static [&'static str],
    test: &'static str,
    /// Environment variable for the amount of work.
    variable: &'static str,
    /// Fixed amount; `None` for the number given to the command.
    times: Option<usize>,
}

const BLUEPRINT: &[&str] = &["groundwork-blueprint", "--lib"];
const CLI: &[&str] = &["groundwork", "--test", "cli"];
const JUDGE: &[&str] = &["groundwork-tests", "--test", "judge"];

/// Returns the run of generated calls to one service, each of which carries all its input.
const fn calls(package: &'static [&'static str]) -> Run {
    Run { package, test: "made_up_calls_are_answered", variable: "GROUNDWORK_MADE_UP_CALLS", times: None }
}

const RUNS: [Run; 7] = [
    Run {
        package: BLUEPRINT,
        test: "made_up_blueprints_are_answered",
        variable: "GROUNDWORK_MADE_UP_BLUEPRINTS",
        times: None,
    },
    Run {
        package: JUDGE,
        test: "made_up_lines_are_answered",
        variable: "GROUNDWORK_MADE_UP_LINES",
        times: None,
    },
    calls(&["groundwork-renderer", "--lib"]),
    calls(&["groundwork-resolver", "--lib"]),
    calls(&["groundwork-variant-service", "--lib"]),
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

/// Random lives of Installations against the state machine alone, and then services against real
/// servers, killed after every write.
const FAULTS: [Run; 4] = [
    Run {
        package: &["groundwork-lifecycle", "--lib"],
        test: "random_lives_end_well",
        variable: "GROUNDWORK_MODEL_SEQUENCES",
        times: None,
    },
    Run {
        package: &["groundwork-tests", "--test", "system"],
        test: "every_write_may_be_the_last_of_a_process",
        variable: "GROUNDWORK_ALL_CUTS",
        times: Some(1),
    },
    Run {
        package: &["groundwork-tests", "--test", "system"],
        test: "every_write_may_be_the_last_of_a_deployer",
        variable: "GROUNDWORK_ALL_CUTS",
        times: Some(1),
    },
    Run {
        package: &["groundwork-tests", "--test", "system"],
        test: "every_write_and_push_may_be_the_last_of_a_process",
        variable: "GROUNDWORK_ALL_CUTS",
        times: Some(1),
    },
];

pub(crate) fn run(workspace: &Path, cases: usize) -> Result<()> {
    longer(workspace, &RUNS, cases)
}

pub(crate) fn faults(workspace: &Path, sequences: usize) -> Result<()> {
    servers::run(workspace)?;
    commands::build_all(workspace, &["--release"])?;
    longer(workspace, &FAULTS, sequences)
}

fn longer(workspace: &Path, runs: &[Run], cases: usize) -> Result<()> {
    for Run { package, test, variable, times } in runs {
        let times = times.unwrap_or(cases);
        println!("{test}: {times}");
        let mut command = Command::new("cargo");
        command.current_dir(workspace).args(["test", "--release", "--locked", "--package"]).args(*package);
        command.arg(test).args(["--", "--nocapture"]);
        if !command.env(variable, times.to_string()).status()?.success() {
            bail!("{test} found something");
        }
    }
    Ok(())
}
