//! Program that runs the variant service in a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    // If this process was started as a sandbox worker, run that and exit.
    if let Some(ending) = groundwork_sandbox::enter(&[groundwork_variant_service::WORKER]) {
        return ending;
    }
    groundwork_controller::main::<groundwork_variant_service::Arguments>()
}
