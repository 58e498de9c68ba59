//! The resolver as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    // What begins as a worker ends as one.
    if let Some(ending) = groundwork_sandbox::enter(&[groundwork_resolver::WORKER]) {
        return ending;
    }
    groundwork_controller::main::<groundwork_resolver::Arguments>()
}
