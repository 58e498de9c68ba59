//! Runs the console as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundwork_controller::main::<groundwork_console::Arguments>()
}
