//! How the functions of packages run that are not built in (`packagevariants.md` 8.4).

use std::sync::Arc;

use groundwork_functions::{Executables, Limits};
use groundwork_packages::{Functions, MAX_PACKAGE_BYTES, OnMissing, SharedRunner};

/// What runs functions that are not built in.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Functions of packages")]
pub struct FunctionArguments {
    // They run as the service does, and whoever writes a package gives them their arguments.
    /// A program that packages may run as a function (`exec`), by its path; may be given several times, and by default there is none
    #[arg(
        long,
        env = "GROUNDWORK_FUNCTION_EXEC",
        value_name = "PATH",
        value_delimiter = ',',
        requires = "package_store"
    )]
    pub function_exec: Vec<String>,

    /// What becomes of a package with a function that nobody runs: it is not drafted, or it is drafted unrendered and cannot be published
    #[arg(
        long,
        env = "GROUNDWORK_FUNCTION_ON_MISSING",
        value_name = "WHAT",
        default_value = "fail",
        requires = "package_store"
    )]
    pub function_on_missing: Missing,
}

/// The option `functions.onMissing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Missing {
    #[default]
    Fail,
    Defer,
}

impl FunctionArguments {
    /// What they ask for.
    pub(super) fn functions(&self) -> Functions {
        let limits = Limits { output: MAX_PACKAGE_BYTES, ..Limits::default() };
        let mut runners: Vec<SharedRunner> = Vec::new();
        if !self.function_exec.is_empty() {
            runners.push(Arc::new(Executables::new(limits)));
        }
        let on_missing = match self.function_on_missing {
            Missing::Fail => OnMissing::Fail,
            Missing::Defer => OnMissing::Defer,
        };
        Functions { on_missing, exec_allowed: self.function_exec.clone(), runners }
    }
}
