//! Rendering: the functions of a package and its subpackages run over its objects (`packagevariants.md` 8.2 to 8.4).
//!
//! ```text
//! texts ──read──> items by package ──mutators, validators of each package──> items ──write──> texts, `Rendered`
//! ```
//!
//! Pure: functions that are not built in run only if the host hands in somebody who runs them.

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
use run::{Renderer, Stop};

pub(crate) use list::Severity;
pub use list::{Item, Outcome, ResourceList};
pub use wire::{Answer, on_wire};

/// Where functions in images come from if their name does not say so.
const CATALOG: &str = "ghcr.io/kptdev/krm-functions-catalog/";
/// The same of older packages.
const OLD_CATALOG: &str = "gcr.io/kpt-fn/";

/// Runs functions that are not built in.
pub trait FunctionRunner {
    /// Whether it can run a function, as far as it knows without running it; it is asked before any function of the package runs.
    fn has(&self, target: &Target) -> bool;

    /// Changes the items as the function does. Where the exit code is not 0, or a result is an error, the items do not count.
    ///
    /// [`on_wire`] does it for programs that read and write documents.
    ///
    /// # Errors
    /// The function did not run at all, and the items are as they were.
    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError>;
}

/// Why a function did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The runner does not have it after all; the next one is asked.
    #[error("this runner does not have the function")]
    NotAvailable,
    /// The runner has it, and could not run it.
    #[error("{0}")]
    Failed(String),
}

/// What is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An image by its full name, with the tag or constraint that counts.
    Image(String),
    /// A command line, and its words, split as a shell does it. The first one is the path of a program that may run.
    Exec { line: String, words: Vec<String> },
}

impl Target {
    /// As it stands in the Kptfile, but for the parts of an image that were left to be added.
    pub fn text(&self) -> &str {
        match self {
            Self::Image(text) | Self::Exec { line: text, .. } => text,
        }
    }
}

/// What to do about a function that nobody can run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// Rendering fails.
    #[default]
    Fail,
    /// The package stays as it is, and a gate says so.
    Defer,
}

/// How packages are rendered.
#[derive(Clone)]
pub struct RenderOptions<'a> {
    /// Stands before the names of images without a registry.
    pub default_prefix: String,
    /// Prefixes of images whose functions are built in.
    pub native_prefixes: Vec<String>,
    pub on_missing: OnMissing,
    /// Whether executables may run at all, and which.
    pub allow_exec: bool,
    pub exec_allowed: Vec<String>,
    /// Bytes that a function may put out.
    pub max_output: Option<usize>,
    /// What each function may use that is built in.
    pub native_limits: NativeLimits,
    /// Asked in order, after the functions that are built in.
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

/// The package afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// After an error: as handed in, or with `kpt.dev/save-on-render-failure` as far as it was rendered.
    pub files: Package,
    /// Results up to and including the function that failed, and the error.
    pub status: RenderStatus,
    /// Why rendering failed.
    pub error: Option<String>,
    /// Why the package was left unrendered on purpose ([`OnMissing::Defer`]).
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
