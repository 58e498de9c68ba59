//! The `groundwork` command. What talks to servers is in it with the feature `cluster`.
//!
//! ```text
//! paths --input--> documents --inventory--> typed objects --render--> renderings --output--> text, YAML, JSON
//!                      └────────────┴──── diagnostics: file, line, caret (standard error)
//! ```

mod answer;
mod arguments;
mod blueprint;
mod component;
mod diagnostic;
mod ending;
#[cfg(feature = "cluster")]
mod events;
mod explain;
mod folder;
mod input;
mod inventory;
#[cfg(not(feature = "cluster"))]
mod left_out;
mod lines;
#[cfg(feature = "cluster")]
mod live;
mod namespace;
#[cfg(feature = "cluster")]
mod operations;
mod output;
mod package_folder;
mod packages;
mod plan;
mod render;
mod rendering;
#[cfg(feature = "cluster")]
mod replay;
mod rules;
#[cfg(feature = "cluster")]
mod service;
#[cfg(feature = "cluster")]
mod status;
mod stores;
mod template;
mod terminal;
#[cfg(feature = "cluster")]
mod up;
mod variants;
#[cfg(feature = "cluster")]
mod wait;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    // What begins as a worker of a service ends as one.
    #[cfg(feature = "cluster")]
    if let Some(ending) = groundwork_sandbox::enter(&up::WORKERS) {
        return ending;
    }
    let ending = match Arguments::parse().command {
        Command::Render(arguments) => render::run(&arguments),
        Command::Variants(arguments) => variants::run(&arguments),
        Command::Packages(arguments) => packages::run(&arguments),
        Command::Blueprint(arguments) => blueprint::run(&arguments),
        Command::Template(arguments) => template::run(&arguments),
        Command::Component(arguments) => component::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        #[cfg(feature = "cluster")]
        Command::Status(arguments) => status::run(&arguments),
        #[cfg(feature = "cluster")]
        Command::Reconcile(arguments) => operations::reconcile(&arguments),
        #[cfg(feature = "cluster")]
        Command::Interrupt(arguments) => operations::interrupt(&arguments),
        #[cfg(feature = "cluster")]
        Command::Delete(arguments) => operations::delete(&arguments),
        #[cfg(feature = "cluster")]
        Command::Events(arguments) => events::run(&arguments),
        #[cfg(feature = "cluster")]
        Command::Replay(arguments) => replay::run(&arguments),
        #[cfg(feature = "cluster")]
        Command::Up(arguments) => return up::run(*arguments),
        #[cfg(feature = "cluster")]
        Command::Wait(arguments) => wait::run(&arguments),
        #[cfg(not(feature = "cluster"))]
        Command::Status(_) => left_out::run("status"),
        #[cfg(not(feature = "cluster"))]
        Command::Reconcile(_) => left_out::run("reconcile"),
        #[cfg(not(feature = "cluster"))]
        Command::Interrupt(_) => left_out::run("interrupt"),
        #[cfg(not(feature = "cluster"))]
        Command::Delete(_) => left_out::run("delete"),
        #[cfg(not(feature = "cluster"))]
        Command::Events(_) => left_out::run("events"),
        #[cfg(not(feature = "cluster"))]
        Command::Replay(_) => left_out::run("replay"),
        #[cfg(not(feature = "cluster"))]
        Command::Up(_) => left_out::run("up"),
        #[cfg(not(feature = "cluster"))]
        Command::Wait(_) => left_out::run("wait"),
        Command::Version => output::write(&format!("groundwork {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "groundwork", &mut script);
            output::write(&String::from_utf8_lossy(&script))
        }
    };
    ending.into()
}
