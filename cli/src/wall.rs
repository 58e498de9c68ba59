//! The wall around the evaluation of untrusted content: the command runs in a worker process with
//! limits of memory and processor time, as the services' workers have them.

use std::process::ExitCode;

use clap::{Args as _, FromArgMatches as _};
use groundwork_sandbox::{Invocation, WorkError, WorkerArguments};

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;

pub(crate) use groundwork_sandbox::{evaluate, outside};

/// Runs the command in a worker process. Returns `None` where this process does the work.
pub(crate) fn delegate(invocation: &Invocation) -> Option<ExitCode> {
    let ending = invocation.delegate(limits())?;
    Some(ending.unwrap_or_else(|error| {
        diagnostic::print(&[Diagnostic::error(explain(&error))]);
        Ending::Failed.into()
    }))
}

/// Reads the limits from the environment variables that services read. An invalid variable ends the
/// process.
fn limits() -> WorkerArguments {
    let command = WorkerArguments::augment_args(clap::Command::new("groundwork").no_binary_name(true));
    let matches = command.try_get_matches_from(std::iter::empty::<&str>());
    matches
        .and_then(|matches| WorkerArguments::from_arg_matches(&matches))
        .unwrap_or_else(|error| error.exit())
}

fn explain(error: &WorkError) -> String {
    match error {
        WorkError::CpuTime { limit } => format!(
            "the evaluation takes more than the {} s of processor time that it may use; reduce the work, divide it, or \
             raise GROUNDWORK_WORKER_CPU_SECONDS",
            limit.as_secs()
        ),
        WorkError::Memory { limit } => format!(
            "the evaluation needs more than the {} MiB of memory that it may use, or more than its stack; reduce the \
             work, divide it, or raise GROUNDWORK_WORKER_MEMORY",
            limit >> 20
        ),
        other => other.to_string(),
    }
}
