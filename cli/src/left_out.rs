//! Commands that talk to servers, in a build that has none of what they need.

use std::ffi::OsString;

use clap::Args;

use crate::ending::Ending;

/// Taken as they are, and of no use.
#[derive(Debug, Args)]
pub(crate) struct LeftOut {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Says how to get a build that has the command.
pub(crate) fn run(command: &str) -> Ending {
    eprintln!(
        "error: `groundwork {command}` talks to servers, and this build works on files only\n\
         help: `cargo install --path cli --locked --features cluster` installs the whole command, and\n      \
         `cargo run --release -p groundwork --features cluster -- {command}` runs it from here"
    );
    Ending::Unusable
}
