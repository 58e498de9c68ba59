//! The `groundwork` command.
//!
//! ```text
//! paths --input--> documents --inventory--> typed objects --render--> renderings --output--> text, YAML, JSON
//!                      └────────────┴──── diagnostics: file, line, caret (standard error)
//! ```

mod arguments;
mod bootstrap;
mod diagnostic;
mod ending;
mod events;
mod input;
mod inventory;
mod output;
mod render;
mod rendering;
mod template;
mod terminal;
mod up;
mod variants;
mod wait;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let ending = match Arguments::parse().command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Variants(arguments) => variants::run(&arguments),
        Command::Template(arguments) => template::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Up(arguments) => return up::run(*arguments),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Bootstrap(arguments) => bootstrap::run(&arguments),
        Command::Version => output::write(&format!("groundwork {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "groundwork", &mut script);
            output::write(&String::from_utf8_lossy(&script))
        }
    };
    ending.into()
}
