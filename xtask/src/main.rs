//! Developer commands: `cargo xtask <command>`.

mod advisories;
mod bench;
mod browser;
mod chaos;
mod chart;
mod ci;
mod commands;
mod compose;
mod crds;
mod dev;
mod examples;
mod fuzz;
mod images;
mod licences;
mod servers;
mod test;

use std::path::Path;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the CRDs to k8s/, the JSON schemas to docs/schemas/, and copies of k8s/ to the chart.
    Crds {
        /// Write nothing, and fail if a file is not up to date.
        #[arg(long)]
        check: bool,
    },
    /// Find the servers that tests need, and build those that are missing.
    Servers,
    /// Write the component stores of the examples from their sources.
    Examples {
        /// Write nothing, and fail if a store is not up to date.
        #[arg(long)]
        check: bool,
    },
    /// Check licences, bans and sources of all dependencies against deny.toml.
    Licences,
    /// Look for known vulnerabilities of dependencies, where the database of advisories can be had.
    Advisories,
    /// Run all tests, with the servers they need.
    Test,
    /// Make up inputs for blueprints, the same ones each time, and see that all are answered; render examples a thousand times.
    Fuzz {
        /// How many blueprints, how many lines of `groundwork-judge template blueprint`, and how many calls to each service that takes them.
        #[arg(long, default_value_t = 1_000_000)]
        cases: usize,
    },
    /// Let processes die: in random lives of Installations against the state machine, and after each write in turn against real servers.
    Faults {
        /// How many random lives.
        #[arg(long, default_value_t = 100_000)]
        sequences: usize,
    },
    /// Let users work on a system whose servers and services die, freeze and come back without their files, in rounds that follow from a seed.
    Chaos(chaos::Chaos),
    /// Measure the running system, or an engine.
    Bench {
        #[command(subcommand)]
        subject: Subject,
    },
    /// Start a control plane of your own and all services, until Ctrl-C.
    Dev {
        /// Further arguments of `groundwork up`.
        #[arg(trailing_var_arg = true)]
        arguments: Vec<String>,
    },
    /// Build the images that compose.yaml names, and pull those of others.
    Images {
        /// Make all of them from what is built on this machine, where no image can be pulled.
        #[arg(long)]
        local: bool,
    },
    /// Run `docker compose up`, and say what is in its way.
    ComposeUp,
    /// Try compose.yaml: start, use, restart, end. Images that are missing are got or made.
    ComposeTest {
        /// Make all images anew from what is built on this machine.
        #[arg(long)]
        local: bool,
    },
    /// Check that compose.yaml and the Dockerfile name only what exists; needs no Docker.
    ComposeCheck,
    /// Open the console's pages in a browser, over a larger landscape than tests do, and keep pictures of them.
    ConsolePictures,
    /// Run everything that has to hold before a change lands.
    Ci,
}

#[derive(Subcommand)]
enum Subject {
    /// Services as processes, with a real API server and NATS on this machine.
    System {
        /// File for the figures as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<std::path::PathBuf>,
        /// Folder with the programs of another state, to be measured by the scenarios of this one.
        #[arg(long, value_name = "FOLDER")]
        binaries: Option<std::path::PathBuf>,
        /// Have a client without any controller write the same objects as the load, in the same run.
        #[arg(long)]
        floor: bool,
        /// Packages and store with a few packages only, to see that they run.
        #[arg(long)]
        small: bool,
        /// How often the load is repeated, whose figures are medians, and what is done beside strangers.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// How many Installations of strangers work as long as they may, for the scenario `hostile`.
        #[arg(long, default_value_t = 10)]
        strangers: usize,
        /// variants, plain, load, idle, reaction, restart, items, beside, hostile, growth, standing, packages, store, components, manifests, charts, console; all without a name.
        #[arg(value_name = "SCENARIO")]
        scenarios: Vec<String>,
    },
    /// The template engine beside the original, in turns.
    Templates {
        /// How often both are run.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// The expansion of a set beside the evaluation of its expressions by cel-go, in turns.
    Expressions {
        /// How often each side runs.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// The rendering of Helm charts beside Helm's library, in turns.
    Charts {
        /// How often both are run.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// The spiff engine and its yardstick in turns, and what is known of the original.
    Spiff {
        /// How often both are run.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Whole renderings of blueprints and a yardstick in turns, and what is known of the original.
    Blueprints {
        /// How often both are run.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Crds { check } => {
            crds::run(workspace(), check).and_then(|()| chart::run(workspace(), check))
        }
        Command::Servers => servers::run(workspace()),
        Command::ConsolePictures => browser::pictures(workspace()),
        Command::Examples { check } => examples::run(workspace(), check),
        Command::Licences => licences::run(workspace()),
        Command::Advisories => advisories::run(workspace()),
        Command::Test => test::run(workspace()),
        Command::Fuzz { cases } => fuzz::run(workspace(), cases),
        Command::Faults { sequences } => fuzz::faults(workspace(), sequences),
        Command::Chaos(chaos) => chaos::run(workspace(), &chaos),
        Command::Bench {
            subject: Subject::System { json, binaries, floor, small, rounds, strangers, scenarios },
        } => {
            let load = bench::Load { has_floor: floor, is_small: small, rounds, strangers };
            bench::system(workspace(), json.as_deref(), binaries.as_deref(), load, scenarios)
        }
        Command::Bench { subject: Subject::Templates { rounds } } => bench::templates(workspace(), rounds),
        Command::Bench { subject: Subject::Expressions { rounds } } => {
            bench::expressions::run(workspace(), rounds)
        }
        Command::Bench { subject: Subject::Charts { rounds } } => bench::charts::run(workspace(), rounds),
        Command::Bench { subject: Subject::Spiff { rounds } } => bench::spiff::run(workspace(), rounds),
        Command::Bench { subject: Subject::Blueprints { rounds } } => {
            bench::blueprints::run(workspace(), rounds)
        }
        Command::Dev { arguments } => dev::run(workspace(), &arguments),
        Command::Images { local } => images::run(workspace(), local),
        Command::ComposeUp => compose::up(workspace()),
        Command::ComposeTest { local } => compose::test(workspace(), local),
        Command::ComposeCheck => compose::check(workspace()),
        Command::Ci => ci::run(workspace()),
    }
}

/// Root folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
