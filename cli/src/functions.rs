//! Functions of packages that are not built in, for commands that render packages
//! (`packagevariants.md` 8.4).

use std::path::PathBuf;

use clap::Args;
use groundwork_krm::{FunctionRunner, Outcome, RenderOptions, ResourceList, RunError, Target};
use groundwork_packages::functions::{Containers, Executables, Kubeconform, Limits, RemoteRunner, Schemas};
use tokio::runtime::Runtime;

use crate::wall;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Functions")]
pub(crate) struct FunctionArguments {
    /// Schemas for `kubeconform`: a folder with JSON schemas, or a file with the output of `kubectl
    /// get --raw /openapi/v2`.
    #[arg(long, visible_alias = "function-schemas", value_name = "PATH")]
    schemas: Option<PathBuf>,

    /// A program that the package may run as a function (`exec`), by its path; may be given several
    /// times.
    #[arg(long, visible_alias = "function-exec", value_name = "PATH")]
    allow_exec: Vec<String>,

    /// Run functions in images with podman, docker or nerdctl, whichever is installed. Containers
    /// have no network, no mounts and a read-only file system.
    #[arg(long)]
    allow_images: bool,

    /// Address of a Porch function runner, such as http://127.0.0.1:9445, for functions in images.
    /// It is tried before containers.
    #[arg(long, value_name = "URL")]
    function_runner: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https.
    #[arg(long, value_name = "FILE", requires = "function_runner")]
    function_runner_tls_ca: Option<PathBuf>,
}

/// Runners of functions.
pub(crate) struct Functions {
    exec_allowed: Vec<String>,
    executables: Outside<Executables>,
    others: Vec<Box<dyn FunctionRunner>>,
    /// Runtime for calls to the function runner.
    _runtime: Option<Runtime>,
}

impl FunctionArguments {
    /// Opens what the arguments name.
    ///
    /// # Errors
    /// The flag that cannot be used, and the reason.
    pub(crate) fn open(&self) -> Result<Functions, String> {
        let mut others: Vec<Box<dyn FunctionRunner>> = Vec::new();
        if let Some(path) = &self.schemas {
            let schemas = Schemas::open(path).map_err(|error| format!("--schemas: {error}"))?;
            others.push(Box::new(Kubeconform::new(schemas, RenderOptions::default().native_prefixes)));
        }
        let mut runtime = None;
        if let Some(url) = &self.function_runner {
            let failed = |error: &dyn std::fmt::Display| format!("--function-runner: {error}");
            let own = Runtime::new().map_err(|error| failed(&error))?;
            let ca = self.function_runner_tls_ca.as_deref();
            let runner = RemoteRunner::new(url, ca, Limits::default(), own.handle().clone());
            others.push(Box::new(Outside(runner.map_err(|error| failed(&error))?)));
            runtime = Some(own);
        }
        if self.allow_images {
            let containers = Containers::find(Limits::default());
            others.push(Box::new(Outside(containers.map_err(|error| format!("--allow-images: {error}"))?)));
        }
        Ok(Functions {
            exec_allowed: self.allow_exec.clone(),
            executables: Outside(Executables::default()),
            others,
            _runtime: runtime,
        })
    }
}

impl Functions {
    /// Returns the options of a rendering with these functions.
    pub(crate) fn options(&self) -> RenderOptions<'_> {
        let others = self.others.iter().map(|runner| &**runner);
        RenderOptions {
            allow_exec: !self.exec_allowed.is_empty(),
            exec_allowed: self.exec_allowed.clone(),
            runners: std::iter::once::<&dyn FunctionRunner>(&self.executables).chain(others).collect(),
            ..RenderOptions::default()
        }
    }
}

/// A runner of other programs, which have limits of their own.
struct Outside<R>(R);

impl<R: FunctionRunner> FunctionRunner for Outside<R> {
    fn has(&self, target: &Target) -> bool {
        self.0.has(target)
    }

    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        wall::outside(|| self.0.run(target, list))
    }
}
