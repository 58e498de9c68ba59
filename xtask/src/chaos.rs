//! `cargo xtask chaos`: rounds of work and faults on a system of its own.

use std::path::Path;

use anyhow::Result;

use crate::{commands, servers};

/// How many rounds, and of which kind.
pub(crate) struct Chaos {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) units: usize,
    /// Seconds.
    pub(crate) longest: u64,
    /// The programs are those of the dev profile.
    pub(crate) dev: bool,
}

/// Builds everything, and runs the rounds. The first one that does not end as it should ends the run.
pub(crate) fn run(workspace: &Path, chaos: &Chaos) -> Result<()> {
    servers::run(workspace)?;
    let (profile, further): (_, &[&str]) =
        if chaos.dev { ("debug", &[]) } else { ("release", &["--release"]) };
    commands::build_all(workspace, further)?;
    let built = commands::target_folder(workspace)?.join(profile);
    let numbers = [
        ("--rounds", chaos.rounds.to_string()),
        ("--seed", chaos.seed.to_string()),
        ("--units", chaos.units.to_string()),
        ("--longest", chaos.longest.to_string()),
    ];
    let options = numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number]);
    let arguments: Vec<String> = std::iter::once(built.display().to_string()).chain(options).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    commands::run(workspace, &built.join("chaos").display().to_string(), &arguments)
}
