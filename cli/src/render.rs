//! `groundwork render`: a job of every Installation in the input, as far as it goes without a cluster.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use groundwork_api::{ComponentVersionOverwrites, Context, DEFAULT_CONTEXT, Installation, ObjectMeta, Time};
use groundwork_lifecycle::{Inputs, Outcome, Problem, Subject, render, validate};
use groundwork_registry::{MapError, RepositoryMap};
use groundwork_yaml::{Position, Step};

use crate::arguments::RenderArguments;
use crate::diagnostic::{self, Diagnostic, Severity, Source};
use crate::ending::Ending;
use crate::input::{self, REPOSITORIES_FILE};
use crate::inventory::{Inventory, Loaded};
use crate::output;
use crate::rendering::Rendering;

/// Reads, renders, prints.
pub(crate) fn run(arguments: &RenderArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.paths, &mut diagnostics);
    let inventory = Inventory::new(documents, &arguments.namespace, &mut diagnostics);
    let repositories = repositories(arguments, &mut diagnostics);
    if inventory.installations.is_empty() && diagnostics.is_empty() {
        diagnostics.push(Diagnostic::error("the input holds no Installation"));
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        diagnostic::print(&diagnostics);
        return Ending::Unusable;
    }
    let renderings = render_all(&inventory, &repositories, &mut diagnostics);
    let now = Time(jiff::Timestamp::now());
    let written = output::print(arguments.output, &renderings, &now);
    diagnostic::print(&diagnostics);
    let failed = renderings.iter().any(|rendering| rendering.outcome.failure.is_some());
    if written == Ending::Rendered && failed { Ending::Failed } else { written }
}

fn render_all<'a>(
    inventory: &'a Inventory,
    repositories: &RepositoryMap,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Rendering<'a>> {
    let mut renderings = Vec::new();
    for ((namespace, _), loaded) in &inventory.installations {
        let in_namespace = |name: &str| (namespace.clone(), name.to_owned());
        let context = inventory.contexts.get(&in_namespace(loaded.object.spec.context()));
        let overwrites = context
            .and_then(|context| context.object.overwrites())
            .and_then(|name| inventory.overwrites.get(&in_namespace(name)));
        let objects = inventory.imported(namespace);
        let assumed = match context {
            None => assumed_context(loaded, diagnostics),
            Some(_) => None,
        };
        let outcome = render(&Inputs {
            installation: &loaded.object,
            context: context.map(|context| &context.object).or(assumed.as_ref()),
            overwrites: overwrites.map(|overwrites| &overwrites.object),
            objects: &objects,
            repositories,
            blueprint: None,
        });
        report(loaded, overwrites, &outcome, diagnostics);
        renderings.push(Rendering { installation: &loaded.object, outcome });
    }
    renderings
}

/// The Context `default` that a cluster makes in every namespace (`components.md` 1.2).
fn assumed_context(loaded: &Loaded<Installation>, diagnostics: &mut Vec<Diagnostic>) -> Option<Context> {
    let installation = &loaded.object;
    if installation.spec.context() != DEFAULT_CONTEXT {
        return None;
    }
    if installation.spec.component_descriptor.is_some() {
        let message = format!(
            "{}: the input holds no Context \"{DEFAULT_CONTEXT}\"; an empty one is assumed, as in a new namespace of a cluster",
            title(installation)
        );
        let position = loaded.document.node.locate([Step::Key("spec")]);
        diagnostics.push(Diagnostic::warning(message).at(&loaded.document.source, position));
    }
    let metadata = ObjectMeta {
        name: Some(DEFAULT_CONTEXT.to_owned()),
        namespace: installation.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    Some(Context { metadata, ..Context::default() })
}

/// Warnings and the failure of one Installation as messages with places.
fn report(
    loaded: &Loaded<Installation>,
    overwrites: Option<&Loaded<ComponentVersionOverwrites>>,
    outcome: &Outcome,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let title = title(&loaded.object);
    let at = |path: &[&'static str]| loaded.document.node.locate(path.iter().map(|key| Step::Key(key)));
    for warning in &outcome.warnings {
        let (document, position) = match (warning.about, overwrites) {
            (Subject::OverwriteRule(rule), Some(overwrites)) => {
                let path = [Step::Key("overwrites"), Step::Index(rule)];
                (&overwrites.document, overwrites.document.node.locate(path))
            }
            _ => (&loaded.document, at(&["metadata", "name"])),
        };
        let diagnostic = Diagnostic::warning(format!("{title}: {}", warning.message));
        diagnostics.push(diagnostic.at(&document.source, position));
    }
    let Some(Problem { failure, excerpts }) = &outcome.failure else { return };
    let violations = validate(&loaded.object);
    if !violations.is_empty() {
        diagnostics.extend(violations.iter().map(|violation| {
            let position = violation.path.locate(&loaded.document.node);
            Diagnostic::error(format!("{title}: {violation}")).at(&loaded.document.source, position)
        }));
        return;
    }
    if excerpts.is_empty() {
        // The dump of the input belongs into the status, where nobody has the files at hand.
        let message = failure.message.split("\ntemplate input:\n").next().unwrap_or_default();
        let message = format!("{title}: {}", message.trim_end());
        diagnostics
            .push(Diagnostic::error(message).at(&loaded.document.source, at(field_of(&failure.reason))));
        return;
    }
    for (problem, excerpt) in excerpts {
        let owner = format!("blueprint of {title}");
        diagnostics
            .push(Diagnostic::error(format!("{title}: {problem}")).in_blueprint(owner, excerpt.clone()));
    }
}

fn title(installation: &Installation) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("Installation {}/{}", part(&installation.metadata.namespace), part(&installation.metadata.name))
}

/// The part of an Installation that a failure is about.
fn field_of(reason: &str) -> &'static [&'static str] {
    match reason {
        "CalculateContext" => &["spec", "context"],
        "InitInstallationOperation" => &["spec", "componentDescriptor"],
        "ResolveBlueprint" => &["spec", "blueprint"],
        "ImportsSatisfied" => &["spec", "imports"],
        _ => &["metadata", "name"],
    }
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
