//! Rendering: runs the functions of a package and its subpackages on its objects
//! (`packagevariants.md` 8.2 to 8.4).
//!
//! ```text
//! texts ──read──> items by package ──mutators, validators of each package──> items ──write──> texts, `Rendered`
//! ```
//!
//! The crate itself starts no process and sends no request: functions that are not built in need a
//! runner of the host.

mod function;
mod image;
mod input;
mod list;
mod output;
mod run;
#[cfg(test)]
mod tests;
mod wire;

use groundwork_api::{RenderStatus, ResultList};

pub use crate::functions::meter::NativeLimits;
use crate::ignore::Ignored;
use crate::package::{KPTFILE, Package};
use image::Image;
pub(crate) use image::Triple;
use run::{Renderer, Stop};

pub use list::{Item, Outcome, ResourceList};
pub(crate) use list::{Severity, joined};
pub(crate) use wire::on_tree;
pub use wire::{Answer, on_wire};

/// Default prefix for images of functions without a registry.
const CATALOG: &str = "ghcr.io/kptdev/krm-functions-catalog/";
/// Prefix for images in older packages.
const OLD_CATALOG: &str = "gcr.io/kpt-fn/";

/// Runner of functions that are not built in.
pub trait FunctionRunner {
    /// Reports whether the runner has a function, as far as it knows without running it. This is
    /// called before any function of the package runs.
    fn has(&self, target: &Target) -> bool;

    /// Runs a function on the items. If the exit code is not 0 or a result is an error, the caller
    /// discards the items.
    ///
    /// [`on_wire`] helps with programs that read and write documents.
    ///
    /// # Errors
    /// The function did not run, and the items are unchanged.
    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError>;
}

/// Reason why a function did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The runner does not have the function after all; the caller asks the next one.
    #[error("this runner does not have the function")]
    NotAvailable,
    /// The runner has the function and could not run it.
    #[error("{0}")]
    Failed(String),
}

/// Function to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Image with its full name and its tag or constraint.
    Image(String),
    /// Command line, and its words as a shell splits it. The first word is the path of a program
    /// that is allowed to run.
    Exec { line: String, words: Vec<String> },
}

impl Target {
    /// Returns the function as in the Kptfile, with the full name of an image.
    pub fn text(&self) -> &str {
        match self {
            Self::Image(text) | Self::Exec { line: text, .. } => text,
        }
    }
}

/// Treatment of a package with a missing function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// The rendering fails.
    #[default]
    Fail,
    /// The package stays unrendered, and a gate blocks its publication.
    Defer,
}

/// Options of a rendering.
#[derive(Clone)]
pub struct RenderOptions<'a> {
    /// Prefix for images without a registry.
    pub default_prefix: String,
    /// Prefixes of images whose functions are built in.
    pub native_prefixes: Vec<String>,
    pub on_missing: OnMissing,
    /// True if executables may run at all; `exec_allowed` lists them.
    pub allow_exec: bool,
    pub exec_allowed: Vec<String>,
    /// Limit for the output of a function, in bytes.
    pub max_output: Option<usize>,
    /// Limits for each built-in function.
    pub native_limits: NativeLimits,
    /// Runners to ask in order, after the built-in functions.
    pub runners: Vec<&'a dyn FunctionRunner>,
}

impl Default for RenderOptions<'_> {
    fn default() -> Self {
        Self {
            default_prefix: CATALOG.to_owned(),
            native_prefixes: vec![CATALOG.to_owned(), OLD_CATALOG.to_owned()],
            on_missing: OnMissing::Fail,
            allow_exec: false,
            exec_allowed: Vec::new(),
            max_output: None,
            native_limits: NativeLimits::default(),
            runners: Vec::new(),
        }
    }
}

impl std::fmt::Debug for RenderOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderOptions")
            .field("default_prefix", &self.default_prefix)
            .field("native_prefixes", &self.native_prefixes)
            .field("on_missing", &self.on_missing)
            .field("allow_exec", &self.allow_exec)
            .field("exec_allowed", &self.exec_allowed)
            .field("max_output", &self.max_output)
            .field("native_limits", &self.native_limits)
            .field("runners", &self.runners.len())
            .finish()
    }
}

/// Result of a rendering.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// Rendered files. After an error they are the input or, with `kpt.dev/save-on-render-failure`,
    /// the partial result.
    pub files: Package,
    /// Results up to the function that failed, and the error.
    pub status: RenderStatus,
    /// Reason why the rendering failed.
    pub error: Option<String>,
    /// Reason why the package was left unrendered on purpose ([`OnMissing::Defer`]).
    pub deferred: Option<String>,
}

/// Renders a package with its subpackages.
pub fn render(files: &Package, options: &RenderOptions<'_>) -> Rendered {
    let failed = |error: String| finish(files.clone(), Vec::new(), Some(error), None);
    if !files.contains_key(KPTFILE) {
        return failed("package must contain Kptfile at root".to_owned());
    }
    let ignored = Ignored::of(files);
    let read = match input::read(files, &ignored) {
        Ok(read) => read,
        Err(error) => return failed(format!("package \".\": {error}")),
    };
    let boundaries = input::boundaries(files, &ignored);
    let mut renderer = Renderer::new(files, options, &read, &boundaries);
    let stop = renderer.run();
    let Renderer { pools, steps, results, .. } = renderer;
    let items: Vec<Item> = pools.into_values().flatten().collect();
    match stop {
        None => match output::write(files, &read, items, true) {
            Ok(mut written) => {
                output::set_status(&mut written, Ok(()), &steps);
                finish(written, results, None, None)
            }
            Err(error) => finish(files.clone(), results, Some(error), None),
        },
        // A deferred package must not contain the results of some functions only, so it keeps its
        // input.
        Some(Stop::Deferred(cause)) => {
            let mut left = files.clone();
            output::defer(&mut left, &cause);
            finish(left, Vec::new(), None, Some(cause))
        }
        Some(Stop::Failed(error)) => {
            let partial = output::saves_failures(files)
                .then(|| output::write(files, &read, items, false).ok())
                .flatten()
                .map(|mut written| {
                    output::set_status(&mut written, Err(&error), &steps);
                    written
                });
            finish(partial.unwrap_or_else(|| files.clone()), results, Some(error), None)
        }
    }
}

fn finish(
    files: Package,
    results: Vec<groundwork_api::FunctionResult>,
    error: Option<String>,
    deferred: Option<String>,
) -> Rendered {
    let exit_code = i32::from(error.is_some());
    let result = ResultList { exit_code: Some(exit_code), items: results.into(), ..ResultList::default() };
    let status = RenderStatus {
        result: Some(result),
        error: Some(error.clone().unwrap_or_default()),
        ..RenderStatus::default()
    };
    Rendered { files, status, error, deferred }
}
