//! `groundwork render`: a job of every Installation in the input, as far as it goes without a cluster.

mod given;
mod report;
mod tree;
mod world;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use groundwork_api::Time;
use groundwork_blueprint::Capabilities;
use groundwork_registry::{MapError, RepositoryMap};
use groundwork_yaml::Position;

use crate::arguments::RenderArguments;
use crate::diagnostic::{self, Diagnostic, Severity, Source};
use crate::ending::Ending;
use crate::input::{self, REPOSITORIES_FILE};
use crate::inventory::Inventory;
use crate::output::{self, Presentation};
use crate::rendering::Rendering;
pub(crate) use given::assignment;
use given::{ItemExports, StateFile};
use tree::Runner;
use world::World;

/// Reads, renders, prints.
pub(crate) fn run(arguments: &RenderArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.paths, &mut diagnostics);
    let inventory = Inventory::new(documents, &arguments.namespace, &mut diagnostics);
    let repositories = repositories(arguments, &mut diagnostics);
    if inventory.installations.is_empty() && diagnostics.is_empty() {
        diagnostics.push(Diagnostic::error("the input holds no Installation"));
    }
    let items = ItemExports::read(arguments.exports.as_deref()).map_err(|error| diagnostics.push(error));
    let states = StateFile::read(arguments.state.as_deref()).map_err(|error| diagnostics.push(error));
    let (Ok(items), Ok(states), false) = (items, states, has_errors(&diagnostics)) else {
        diagnostic::print(&diagnostics);
        return Ending::Unusable;
    };
    let mut runner = Runner {
        world: World::new(&inventory),
        repositories: &repositories,
        capabilities: Capabilities::system(),
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
        diff: arguments.diff.as_deref(),
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

/// What was given and nobody took: most likely a name that is misspelt.
fn unused(runner: &Runner<'_>, renderings: &[Rendering]) -> Vec<Diagnostic> {
    let takes = |rendering: &Rendering, name: &str| {
        // Without a rendering nobody knows what is imported.
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
    let exports = exports
        .iter()
        .map(|item| Diagnostic::warning(format!("--exports: there is no deploy item {item:?}")));
    set.chain(exports).collect()
}

/// What the repository map is called where none was found.
const NO_MAP: &str = "a repositories.yaml beside the input (none was found), or name one with --repositories";

/// The map that was named, or all that are found beside the input.
fn repositories(arguments: &RenderArguments, diagnostics: &mut Vec<Diagnostic>) -> RepositoryMap {
    let named = arguments.repositories.clone().filter(|file| !file.as_os_str().is_empty());
    let files = named.map_or_else(|| find_repositories(&arguments.paths), |file| vec![file]);
    let mut merged: Option<RepositoryMap> = None;
    for file in files {
        let map = match RepositoryMap::load(&file) {
            Ok(map) => map,
            Err(error) => {
                diagnostics.push(map_diagnostic(&file, &error));
                continue;
            }
        };
        match &mut merged {
            None => merged = Some(map),
            Some(merged) => {
                if let Err(context) = merged.merge(map) {
                    let file = file.display();
                    let message = format!(
                        "{file}: the repository context {context} is mapped to another directory already"
                    );
                    diagnostics.push(Diagnostic::error(message));
                }
            }
        }
    }
    merged.unwrap_or_else(|| RepositoryMap::empty(NO_MAP))
}

fn find_repositories(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        let directory = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let Some(directory) = directory else { continue };
        for file in [directory.join(REPOSITORIES_FILE), directory.join("components").join(REPOSITORIES_FILE)]
        {
            if file.is_file() && !found.contains(&file) {
                found.push(file);
            }
        }
    }
    found
}

fn map_diagnostic(file: &Path, error: &MapError) -> Diagnostic {
    let name = file.display().to_string();
    match error.position() {
        None => Diagnostic::error(format!("cannot read {name}: {}", error.problem())),
        Some((line, column)) => {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let source = Rc::new(Source::public(name, text));
            Diagnostic::error(error.problem()).at(&source, Position { line, column })
        }
    }
}
