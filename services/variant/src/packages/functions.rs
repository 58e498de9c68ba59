//! Execution of package functions that are not built in (`packagevariants.md` 8.4).

use std::path::PathBuf;
use std::sync::Arc;

use groundwork_grpc::ClientError;
use groundwork_krm::RenderOptions;
use groundwork_packages::functions::{Executables, Kubeconform, Limits, RemoteRunner, Schemas, SchemasError};
use groundwork_packages::git::{Functions, MAX_PACKAGE_BYTES, OnMissing, SharedRunner};
use tokio::runtime::Handle;

/// Arguments for functions that are not built in.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Functions of packages")]
pub struct FunctionArguments {
    // These programs run with the rights of the service, and the author of a package chooses their
    // arguments.
    /// A program that packages may run as a function (`exec`), by its path; may be given several
    /// times, and by default there is none
    #[arg(
        long,
        env = "GROUNDWORK_FUNCTION_EXEC",
        value_name = "PATH",
        value_delimiter = ',',
        requires = "package_store"
    )]
    pub function_exec: Vec<String>,

    /// A function runner as a Porch server has one, such as http://function-runner:9445, for
    /// functions in images
    #[arg(long, env = "GROUNDWORK_FUNCTION_RUNNER", value_name = "URL", requires = "package_store")]
    pub function_runner: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https
    #[arg(
        long,
        env = "GROUNDWORK_FUNCTION_RUNNER_TLS_CA",
        value_name = "FILE",
        requires = "function_runner"
    )]
    pub function_runner_tls_ca: Option<PathBuf>,

    /// Schemas for `kubeconform`: a folder with JSON schemas, or a file with the output of `kubectl
    /// get --raw /openapi/v2`
    #[arg(long, env = "GROUNDWORK_FUNCTION_SCHEMAS", value_name = "PATH", requires = "package_store")]
    pub function_schemas: Option<PathBuf>,

    /// Treatment of a package with a function that the service cannot run: it is not drafted, or it
    /// is drafted unrendered and cannot be published
    #[arg(
        long,
        env = "GROUNDWORK_FUNCTION_ON_MISSING",
        value_name = "WHAT",
        default_value = "fail",
        requires = "package_store"
    )]
    pub function_on_missing: Missing,
}

/// Value of the option `functions.onMissing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Missing {
    #[default]
    Fail,
    Defer,
}

/// Reason why the function arguments cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FunctionsError {
    #[error("--function-runner: {0}")]
    Runner(#[from] ClientError),
    #[error("--function-schemas: {0}")]
    Schemas(#[from] SchemasError),
}

impl FunctionArguments {
    /// Returns the functions that the arguments configure. Calls to the function runner run on the
    /// current runtime.
    ///
    /// # Errors
    /// The address of the function runner, the file with certificates, or the schemas cannot be
    /// used.
    pub(super) fn functions(&self) -> Result<Functions, FunctionsError> {
        let limits = Limits { output: MAX_PACKAGE_BYTES, ..Limits::default() };
        let mut runners: Vec<SharedRunner> = Vec::new();
        if !self.function_exec.is_empty() {
            runners.push(Arc::new(Executables::new(limits)));
        }
        if let Some(path) = &self.function_schemas {
            let prefixes = RenderOptions::default().native_prefixes;
            runners.push(Arc::new(Kubeconform::new(Schemas::open(path)?, prefixes)));
        }
        if let Some(url) = &self.function_runner {
            let ca = self.function_runner_tls_ca.as_deref();
            runners.push(Arc::new(RemoteRunner::new(url, ca, limits, Handle::current())?));
        }
        let on_missing = match self.function_on_missing {
            Missing::Fail => OnMissing::Fail,
            Missing::Defer => OnMissing::Defer,
        };
        Ok(Functions { on_missing, exec_allowed: self.function_exec.clone(), runners })
    }
}
