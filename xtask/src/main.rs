//! Developer commands: `cargo xtask <command>`.

mod advisories;
mod bench;
mod book;
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
mod kinds;
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
    /// Write generated files: CRDs, JSON schemas, the chart's copies.
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
    /// Build the book of `docs`, with its pictures.
    Book {
        /// Compare the pictures instead of writing them.
        #[arg(long)]
        check: bool,
    },
    /// Check licences, bans and sources of all dependencies against deny.toml.
    Licences,
    /// Check dependencies for known vulnerabilities.
    ///
    /// Needs the database of advisories, and prints a note without it.
    Advisories,
    /// Run all tests, with the servers they need.
    Test,
    /// Test with generated inputs, and render examples a thousand times.
    ///
    /// The inputs are the same ones each time.
    Fuzz {
        /// Number of blueprints, of lines of `groundwork-judge template blueprint`, and of calls to
        /// each service that takes them.
        #[arg(long, default_value_t = 1_000_000)]
        cases: usize,
    },
    /// Kill processes in tests of crash safety.
    ///
    /// Runs random lives of Installations against the state machine, and kills services after each
    /// write in turn against real servers.
    Faults {
        /// Number of random lives.
        #[arg(long, default_value_t = 100_000)]
        sequences: usize,
    },
    /// Run rounds of user work with faults of servers and services.
    ///
    /// Servers and services die, freeze and come back without their files. A seed determines each
    /// round.
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
        /// Make all of them from the programs of this machine, where no image can be pulled.
        #[arg(long)]
        local: bool,
    },
    /// Run `docker compose up`, with advice if it fails.
    ComposeUp,
    /// Test compose.yaml: start, use, restart, end.
    ///
    /// Images that are missing are pulled or built.
    ComposeTest {
        /// Make all images anew from the programs of this machine.
        #[arg(long)]
        local: bool,
    },
    /// Check the names in compose.yaml and the Dockerfile, without Docker.
    ComposeCheck,
    /// Take pictures of the console's pages in a browser.
    ///
    /// Shows a larger landscape than the tests do.
    ConsolePictures,
    /// Run everything that has to pass before a change is merged.
    Ci,
}

#[derive(Subcommand)]
enum Subject {
    /// Measure services as processes, with a real API server and NATS.
    System {
        /// File for the figures as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<std::path::PathBuf>,
        /// Folder with programs built from another commit, to be measured with the scenarios of
        /// this one.
        #[arg(long, value_name = "FOLDER")]
        binaries: Option<std::path::PathBuf>,
        /// Let a client without any controller write the same objects as the load, in the same run.
        #[arg(long)]
        floor: bool,
        /// Use packages and a store with a few packages only, to see that the scenarios run.
        #[arg(long)]
        small: bool,
        /// Number of rounds of the load, whose figures are medians, and of the work beside
        /// strangers.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Number of Installations of strangers that run as long as they are allowed, for the
        /// scenario `hostile`.
        #[arg(long, default_value_t = 10)]
        strangers: usize,
        /// Scenarios: variants, plain, load, idle, reaction, restart, items, beside, hostile,
        /// growth, standing, packages, store, components, manifests, charts, console; all if none
        /// is named.
        #[arg(value_name = "SCENARIO")]
        scenarios: Vec<String>,
    },
    /// Compare the template engine with Go's, in turns.
    Templates {
        /// Number of runs of both.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Compare the expansion of a set with cel-go, in turns.
    Expressions {
        /// Number of runs of each side.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Compare the rendering of Helm charts with Helm's library, in turns.
    Charts {
        /// Number of runs of both.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Compare the spiff engine with a yardstick and known figures of spiff.
    Spiff {
        /// Number of runs of both.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Compare renderings of blueprints with a yardstick and known figures.
    Blueprints {
        /// Number of runs of both.
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
        Command::Book { check } => book::run(workspace(), check),
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

/// Returns the root folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
