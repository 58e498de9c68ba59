//! Finds the repository map of a command: the one that the user named, or those beside the input.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use groundwork_registry::{MapError, RepositoryMap};
use groundwork_yaml::Position;

use crate::diagnostic::{Diagnostic, Source};
use crate::input::REPOSITORIES_FILE;

/// Name of the repository map in messages if there is none.
const NO_MAP: &str = "a repositories.yaml beside the input (none was found), or name one with --repositories";

/// Reads the map that the user named, or all maps beside the input.
pub(crate) fn repositories(
    named: Option<&Path>,
    beside: &[PathBuf],
    diagnostics: &mut Vec<Diagnostic>,
) -> RepositoryMap {
    let named = named.filter(|file| !file.as_os_str().is_empty());
    let files = named.map_or_else(|| find_repositories(beside), |file| vec![file.to_owned()]);
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
                        "{file}: another file already maps the repository context {context} to another directory"
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
