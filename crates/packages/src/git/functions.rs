//! Execution of package functions in a store (`packagevariants.md` 8.4).

use std::sync::Arc;

use groundwork_krm::{FunctionRunner, OnMissing, Package, RenderOptions, Rendered, render};

/// Function runner that the operations of a store share.
pub type SharedRunner = Arc<dyn FunctionRunner + Send + Sync>;

/// Configuration of functions that are not built in. The default has none.
#[derive(Clone, Default)]
pub struct Functions {
    pub on_missing: OnMissing,
    /// Paths of the programs that packages may run; by default none.
    pub exec_allowed: Vec<String>,
    /// Runners to ask in order, after the built-in functions.
    pub runners: Vec<SharedRunner>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions")
            .field("on_missing", &self.on_missing)
            .field("exec_allowed", &self.exec_allowed)
            .field("runners", &self.runners.len())
            .finish()
    }
}

impl Functions {
    /// Renders a package. The output of a function is limited to the size of a package.
    pub fn render(&self, files: &Package, max_bytes: u64) -> Rendered {
        let runners = self.runners.iter().map(|runner| -> &dyn FunctionRunner { &**runner });
        let options = RenderOptions {
            on_missing: self.on_missing,
            allow_exec: !self.exec_allowed.is_empty(),
            exec_allowed: self.exec_allowed.clone(),
            max_output: usize::try_from(max_bytes).ok(),
            runners: runners.collect(),
            ..RenderOptions::default()
        };
        render(files, &options)
    }
}
