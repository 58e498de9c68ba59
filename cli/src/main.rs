//! The `groundwork` command.
//!
//! ```text
//! paths --input--> documents --inventory--> objects --render--> renderings --output--> text,
//!                      └──────────┴─── diagnostics: file, line, caret (stderr)         YAML, JSON
//! ```

mod arguments;
mod backup;
mod blueprint;
mod component;
mod diagnostic;
mod ending;
mod events;
mod explain;
mod folder;
mod functions;
mod input;
mod inventory;
mod live;
mod migrate;
mod namespace;
mod operations;
mod output;
mod package_folder;
mod packages;
mod plan;
mod render;
mod rendering;
mod replay;
mod rules;
mod service;
mod status;
mod stdout;
mod stores;
mod template;
mod terminal;
mod up;
mod variants;
mod wait;
mod wall;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use groundwork_sandbox::Invocation;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    // A service's sandbox worker is this program, executed again. Run the worker before the
    // arguments are parsed.
    if let Some(ending) = groundwork_sandbox::enter(&up::WORKERS) {
        return ending;
    }
    let invocation = Invocation::of_process();
    let command = Arguments::parse_from(invocation.arguments()).command;
    if command.evaluates()
        && let Some(ending) = wall::delegate(&invocation)
    {
        return ending;
    }
    let ending = match command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Variants(arguments) => variants::run(&arguments),
        Command::Packages(arguments) => packages::run(&arguments),
        Command::Blueprint(arguments) => blueprint::run(&arguments),
        Command::Template(arguments) => template::run(&arguments),
        Command::Component(arguments) => component::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Reconcile(arguments) => operations::reconcile(&arguments),
        Command::Interrupt(arguments) => operations::interrupt(&arguments),
        Command::Delete(arguments) => operations::delete(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Up(arguments) => return up::run(*arguments),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Version => stdout::write(&format!("groundwork {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "groundwork", &mut script);
            stdout::write(&String::from_utf8_lossy(&script))
        }
    };
    ending.into()
}
