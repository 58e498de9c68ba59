//! The `groundwork` command.
//!
//! ```text
//! paths --input--> documents --inventory--> typed objects --render--> renderings --output--> text, YAML, JSON
//!                      └────────────┴──── diagnostics: file, line, caret (standard error)
//! ```

mod arguments;
mod diagnostic;
mod input;
mod inventory;
mod output;
mod render;
mod rendering;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Render(arguments) => render::run(&arguments).into(),
        Command::Version => {
            anstream::println!("groundwork {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "groundwork", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}
