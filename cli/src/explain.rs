//! `groundwork explain`: shows which rules led to a result.

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
    /// Explain which overwrite rules choose the versions of Installations.
    ///
    /// Shows the component versions that Installations use, and each rule that matches at a
    /// reference: from files without a server, or for an Installation of a cluster. Exit code 0:
    /// everything was found. 1: the target of a reference does not exist, or with --lint a rule
    /// cannot do what its author wants. 2: the input cannot be used.
    Overwrites(overwrites::OverwritesArguments),
}

pub(crate) fn run(arguments: &ExplainArguments) -> Ending {
    match &arguments.command {
        ExplainCommand::Overwrites(arguments) => overwrites::run(arguments),
    }
}
