//! Runs the deployer as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The deployer starts its sandboxed workers by running its own executable again. If this
    // process is such a worker, it works and exits here.
    if let Some(ending) = groundwork_sandbox::enter(&[groundwork_deployer::WORKER]) {
        return ending;
    }
    groundwork_controller::main::<groundwork_deployer::Arguments>()
}
