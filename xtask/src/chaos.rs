//! `cargo xtask chaos`: runs rounds of work and faults on a system of its own.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use crate::{commands, servers};

/// Number and kind of the rounds.
#[derive(Debug, Clone, Args)]
pub(crate) struct Chaos {
    /// Number of rounds; the seed of each is one more than that of the round before.
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// The seed of the first round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run one round, with the acts and the faults of this seed.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["rounds", "seed"])]
    replay: Option<u64>,
    /// Installations of a round.
    #[arg(long, default_value_t = 20)]
    installations: usize,
    /// PackageVariants of a round.
    #[arg(long, default_value_t = 10)]
    variants: usize,
    /// Maximum seconds of a fault.
    #[arg(long, default_value_t = 10)]
    longest: u64,
    /// Run the programs of the dev profile, which tests have built already.
    #[arg(long)]
    dev: bool,
}

impl Chaos {
    /// Returns the rounds of every build: few, and with short faults.
    pub(crate) fn of_a_build() -> Self {
        Self { rounds: 10, seed: 1, replay: None, installations: 15, variants: 5, longest: 5, dev: true }
    }
}

/// Builds everything and runs the rounds. The first round that fails ends the run.
pub(crate) fn run(workspace: &Path, chaos: &Chaos) -> Result<()> {
    servers::run(workspace)?;
    let (profile, further): (_, &[&str]) =
        if chaos.dev { ("debug", &[]) } else { ("release", &["--release"]) };
    commands::build_all(workspace, further)?;
    let built = commands::target_folder(workspace)?.join(profile);
    let (seed, rounds) = chaos.replay.map_or((chaos.seed, chaos.rounds), |seed| (seed, 1));
    let numbers = [
        ("--rounds", rounds.to_string()),
        ("--seed", seed.to_string()),
        ("--installations", chaos.installations.to_string()),
        ("--variants", chaos.variants.to_string()),
        ("--longest", chaos.longest.to_string()),
    ];
    let options = numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number]);
    let arguments: Vec<String> = std::iter::once(built.display().to_string()).chain(options).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    commands::run(workspace, &built.join("chaos").display().to_string(), &arguments)
}
