//! Program that runs the resolver in a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    // If this process was started as a sandbox worker, run that and exit.
    if let Some(ending) = groundwork_sandbox::enter(&[groundwork_resolver::WORKER]) {
        return ending;
    }
    groundwork_controller::main::<groundwork_resolver::Arguments>()
}
