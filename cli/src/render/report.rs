//! Turns warnings and errors of Installations into messages with places.

use groundwork_api::DEFAULT_CONTEXT;
use groundwork_lifecycle::{JobError, JobOutcome, Reason, Subject, Warning, assumed_context, validate};
use groundwork_yaml::Step;

use super::tree::Node;
use crate::diagnostic::Diagnostic;
use crate::inventory::Inventory;

/// Returns the messages of rendering an Installation.
pub(super) fn rendered(
    node: &Node<'_>,
    outcome: &JobOutcome,
    inventory: &Inventory,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let namespace = node.installation.metadata.namespace.clone().unwrap_or_default();
    let context = inventory.contexts.get(&(namespace.clone(), node.installation.spec.context().to_owned()));
    let is_assumed = context.is_none() && assumed_context(&node.installation).is_some();
    if is_assumed && node.is_root() && node.installation.spec.component_descriptor.is_some() {
        let message = format!(
            "the input contains no Context \"{DEFAULT_CONTEXT}\"; an empty one is assumed, as in a new namespace of a \
             cluster"
        );
        let position = node.root.document.node.locate([Step::Key("spec")]);
        diagnostics.push(
            Diagnostic::warning(format!("{}: {message}", title(node)))
                .at(&node.root.document.source, position),
        );
    }
    let overwrites = context
        .and_then(|context| context.object.overwrites())
        .and_then(|name| inventory.overwrites.get(&(namespace, name.to_owned())));
    for warning in &outcome.warnings {
        match (warning.about, overwrites) {
            (Subject::OverwriteRule(rule), Some(overwrites)) => {
                let path = [Step::Key("overwrites"), Step::Index(rule)];
                let position = overwrites.document.node.locate(path);
                let message = format!("{}: {}", title(node), warning.message);
                diagnostics.push(Diagnostic::warning(message).at(&overwrites.document.source, position));
            }
            _ => warnings(node, std::slice::from_ref(warning), diagnostics),
        }
    }
    if let Some(error) = &outcome.error {
        failed(node, error, diagnostics);
    }
}

/// Adds warnings about the Installation itself.
pub(super) fn warnings(node: &Node<'_>, warnings: &[Warning], diagnostics: &mut Vec<Diagnostic>) {
    for warning in warnings {
        let message = format!("{}: {}", title(node), warning.message);
        let position = locate(node, &["metadata", "name"]);
        diagnostics.push(Diagnostic::warning(message).at(&node.root.document.source, position));
    }
}

/// Adds the error of a job that fails.
pub(super) fn failed(node: &Node<'_>, error: &JobError, diagnostics: &mut Vec<Diagnostic>) {
    let (title, document) = (title(node), &node.root.document);
    let JobError { cause, excerpts } = error;
    let violations = if node.is_root() { validate(&node.installation) } else { Vec::new() };
    if !violations.is_empty() {
        diagnostics.extend(violations.iter().map(|violation| {
            let position = violation.path.locate(&document.node);
            Diagnostic::error(format!("{title}: {violation}")).at(&document.source, position)
        }));
        return;
    }
    if excerpts.is_empty() {
        // The dump of the templates' input is meant for the status of an object, where the user
        // does not have the files at hand.
        let message = cause.message.split("\ntemplate input:\n").next().unwrap_or_default();
        let message = format!("{title}: {}", message.trim_end());
        let field = if node.is_root() { field_of(&cause.reason) } else { &["metadata", "name"] };
        diagnostics.push(Diagnostic::error(message).at(&document.source, locate(node, field)));
        return;
    }
    for (problem, excerpt) in excerpts {
        let owner = format!("blueprint of {title}");
        diagnostics
            .push(Diagnostic::error(format!("{title}: {problem}")).in_blueprint(owner, excerpt.clone()));
    }
}

/// Returns the place of a field. Nested installations are in no file, so messages about them point
/// to their root.
fn locate(node: &Node<'_>, path: &[&'static str]) -> groundwork_yaml::Position {
    node.root.document.node.locate(path.iter().map(|key| Step::Key(key)))
}

fn title(node: &Node<'_>) -> String {
    let namespace = node.installation.metadata.namespace.as_deref().unwrap_or_default();
    format!("Installation {namespace}/{}", node.path.join("/"))
}

/// Returns the part of an Installation that an error is about.
fn field_of(reason: &Reason) -> &'static [&'static str] {
    match reason {
        Reason::CalculateContext => &["spec", "context"],
        Reason::InitInstallationOperation => &["spec", "componentDescriptor"],
        Reason::ResolveBlueprint => &["spec", "blueprint"],
        Reason::ImportsSatisfied => &["spec", "imports"],
        _ => &["metadata", "name"],
    }
}
