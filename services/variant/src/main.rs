//! The variant service as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundwork_controller::main::<groundwork_variant_service::Arguments>()
}
