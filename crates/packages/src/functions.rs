//! How a store runs the functions of packages (`packagevariants.md` 8.4).

use std::sync::Arc;

use groundwork_krm::{FunctionRunner, OnMissing, Package, RenderOptions, Rendered, render};

/// A runner that operations of a store share.
pub type SharedRunner = Arc<dyn FunctionRunner + Send + Sync>;

/// What a store does about functions that are not built in. By default it has none of them.
#[derive(Clone, Default)]
pub struct Functions {
    pub on_missing: OnMissing,
    /// Paths of programs that packages may run; where there is none, no program runs.
    pub exec_allowed: Vec<String>,
    /// Asked in order, after the functions that are built in.
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
    /// Renders a package; a function may put out as many bytes as a package may have.
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
