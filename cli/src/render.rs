//! `groundwork render`: runs a job of every Installation in the input, as far as possible without a
//! cluster.

mod arguments;
mod overrides;
mod report;
mod tree;
mod world;

use groundwork_api::Time;
use groundwork_blueprint::Capabilities;

use crate::diagnostic::{self, Diagnostic, Severity};
use crate::ending::Ending;
use crate::input;
use crate::inventory::Inventory;
use crate::output::{self, Baseline, Presentation};
use crate::rendering::Rendering;
use crate::stores;
pub(crate) use arguments::RenderArguments;
use overrides::{ItemExports, StateFile};
use tree::Runner;
use world::World;

/// Reads the input, renders, and prints the result.
pub(crate) fn run(arguments: &RenderArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.paths, &mut diagnostics);
    let inventory = Inventory::new(documents, &arguments.namespace, &mut diagnostics);
    let repositories =
        stores::repositories(arguments.repositories.as_deref(), &arguments.paths, &mut diagnostics);
    if inventory.installations.is_empty() && diagnostics.is_empty() {
        diagnostics.push(Diagnostic::error("the input contains no Installation"));
    }
    let items = ItemExports::read(arguments.exports.as_deref()).map_err(|error| diagnostics.push(error));
    let states = StateFile::read(arguments.state.as_deref()).map_err(|error| diagnostics.push(error));
    let (Ok(items), Ok(states), false) = (items, states, has_errors(&diagnostics)) else {
        diagnostic::print(&diagnostics);
        return Ending::Unusable;
    };
    let baseline = match arguments.diff.as_ref().map(|target| Baseline::new(target, &inventory)).transpose() {
        Ok(baseline) => baseline,
        Err(ending) => return ending,
    };
    let mut runner = Runner {
        world: World::new(&inventory, baseline.as_ref().map(Baseline::uids).unwrap_or_default()),
        repositories: &repositories,
        capabilities: Capabilities::system().limited(arguments.limits).with_placeholders(),
        given: arguments.set.iter().cloned().collect(),
        items,
        states,
        show_values: arguments.show_values,
        diagnostics,
    };
    let renderings = runner.run();
    let unused = unused(&runner, &renderings);
    let Runner { states, mut diagnostics, .. } = runner;
    diagnostics.extend(unused);
    diagnostics.extend(states.write().err());
    let now = Time(jiff::Timestamp::now());
    let presentation = Presentation {
        output: &arguments.output,
        diff: baseline.as_ref(),
        explain: arguments.explain,
        set: arguments.set.iter().map(|(name, _)| name.clone()).collect(),
    };
    let written = output::print(&presentation, &renderings, &now);
    diagnostic::print(&diagnostics);
    let failed = has_errors(&diagnostics) || renderings.iter().any(Rendering::has_failed);
    if written == Ending::Rendered && failed { Ending::Failed } else { written }
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Warns about given values that no Installation used: most likely their name is misspelt.
fn unused(runner: &Runner<'_>, renderings: &[Rendering]) -> Vec<Diagnostic> {
    let takes = |rendering: &Rendering, name: &str| {
        // The imports of an Installation that was not rendered are not known, so it might use any
        // name.
        rendering.outcome.error.is_some()
            || rendering.waits_for.is_some()
            || rendering.outcome.imports.values.contains_key(name)
            || !rendering.installation.spec.import_data_mappings.is_empty()
    };
    let names = runner.given.keys().filter(|name| !renderings.iter().any(|rendering| takes(rendering, name)));
    let set = names.map(|name| {
        Diagnostic::warning(format!("--set {name}: no blueprint of an Installation in the input imports it"))
    });
    let exports = runner.items.unused();
    let exports = exports.iter().map(|item| {
        Diagnostic::warning(format!(
            "--exports: deploy item {item:?} does not exist in the rendered blueprint"
        ))
    });
    set.chain(exports).collect()
}
