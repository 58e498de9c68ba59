//! `groundwork explain`: why something is as it is.

mod change;
mod cluster;
mod overwrites;
mod references;

use clap::{Args, Subcommand};

use crate::ending::Ending;

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(subcommand)]
    command: ExplainCommand,
}

#[derive(Debug, Subcommand)]
enum ExplainCommand {
    /// Tell which component versions Installations use, and which overwrite rule had a say at each reference.
    ///
    /// From files with no server at all, or for an Installation of a cluster. Exit code 0: everything was found. 1: a reference leads nowhere,
    /// or with --lint a rule cannot do what its author wants. 2: the input cannot be used.
    Overwrites(overwrites::OverwritesArguments),
}

pub(crate) fn run(arguments: &ExplainArguments) -> Ending {
    match &arguments.command {
        ExplainCommand::Overwrites(arguments) => overwrites::run(arguments),
    }
}
